"""A real Kubernetes control plane for tests: programs built from Go modules, started on loopback, stopped surely.

`./build` (make controlplane) makes the programs; `controlplane.plane.start` runs them.
"""
