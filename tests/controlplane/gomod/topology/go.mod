module controlplane.test/topology

go 1.26.0

require github.com/k8stopologyawareschedwg/noderesourcetopology-api v0.1.2
