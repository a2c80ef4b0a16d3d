module controlplane.test/koordinator

go 1.26.0

require github.com/koordinator-sh/koordinator v1.8.0
