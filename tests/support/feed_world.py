"""Pods, nodes and topologies as JSON, and a watch beside a test."""

import json
import threading
from contextlib import contextmanager

from webhook.cluster.client import Client
from webhook.cluster.pulse import Pulse
from webhook.cluster.watch import Watch, WatchLimits

QUICK = WatchLimits(
    page_items=3,
    page_seconds=5.0,
    silence_seconds=5.0,
    first_pause_seconds=0.01,
    longest_pause_seconds=0.02,
    absent_pause_seconds=0.02,
)


def raw_pod(name, *, node="", cpu="2", gpu="2", phase="Pending", uid=None, annotations=None, **status):
    """Return a stored pod of one container."""
    amounts = {"cpu": cpu, "memory": "1Gi", "aliyun.com/gpu": gpu}
    spec = {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-{name}",
            "annotations": annotations or {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
        "status": {"phase": phase, **status},
    }


def raw_node(name, *, cpu="16", gpu="8", labels=None, ready=True):
    """Return a node of 16 CPUs and 8 GPUs."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110", "aliyun.com/gpu": gpu}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "nodeInfo": {"kubeletVersion": "v1.34.1"},
        },
    }


def amount(name, capacity, allocatable=None, available=None):
    """Return one resource of a zone."""
    allocatable = capacity if allocatable is None else allocatable
    available = allocatable if available is None else available
    return {
        "name": name,
        "capacity": str(capacity),
        "allocatable": str(allocatable),
        "available": str(available),
    }


def raw_topology(name, *, free_gpus=(4, 4), free_cpus=(7, 7), time="2026-01-02T00:00:00Z", policy="single-numa-node"):
    """Return a topology of two NUMA nodes with 8 CPUs (one reserved) and 4 GPUs each, in NFD's shape."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "managedFields": [{"manager": "nfd-topology-updater", "time": time}]},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": [
            {
                "name": f"node-{at}",
                "type": "Node",
                "resources": [amount("cpu", 8, 7, free_cpus[at]), amount("aliyun.com/gpu", 4, 4, free_gpus[at])],
            }
            for at in range(2)
        ],
    }


def raw_koordlet_topology(name, *, allocs=None, policy="SingleNUMANodePodLevel", time="2026-01-02T00:00:00Z"):
    """Return the topology of the same machine in koordlet's shape: available always equals allocatable.

    ``allocs``: CPU lists that the kubelet has given out, by pod UID.
    """
    raw = raw_topology(name, time=time)
    raw["apiVersion"] = "topology.node.k8s.io/v1alpha1"
    del raw["attributes"]
    raw["topologyPolicies"] = [policy]
    cpus = [{"id": cpu, "core": cpu, "socket": cpu // 8, "node": cpu // 8} for cpu in range(16)]
    told = [{"uid": uid, "cpuset": cpuset, "managedByKubelet": True} for uid, cpuset in (allocs or {}).items()]
    raw["metadata"] |= {
        "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
        "annotations": {
            "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"static","reservedCPUs":"0,8"}',
            "node.koordinator.sh/cpu-topology": json.dumps({"detail": cpus}),
            "node.koordinator.sh/pod-cpu-allocs": json.dumps(told or None),
        },
    }
    return raw


def raw_rte_topology(name, **more):
    """Return the topology of the same machine in the shape of resource-topology-exporter."""
    raw = raw_topology(name, **more)
    raw["metadata"]["annotations"] = {"k8stopoawareschedwg/rte-update": "periodic"}
    return raw


class Kept:
    """A receiver that keeps objects by name, as a feed's reader would."""

    def __init__(self, api):
        """Wake ``api``'s waiters at each change."""
        self._api = api
        self.items = {}
        self.lists = 0
        self.kinds = []
        self._listing = {}
        self.fail_next = False

    def list_begins(self):
        self._listing = {}

    def listed(self, items):
        for item in items:
            self._listing[item["metadata"]["name"]] = item

    def list_ends(self):
        with self._api.changed:
            self.items = self._listing
            self.lists += 1
            self._api.changed.notify_all()

    def changed(self, kind, item):
        with self._api.changed:
            if self.fail_next:
                self.fail_next = False
                raise ValueError("a fault of ours")
            self.kinds.append(kind)
            if kind == "DELETED":
                self.items.pop(item["metadata"]["name"], None)
            else:
                self.items[item["metadata"]["name"]] = item
            self._api.changed.notify_all()

    def names(self):
        return sorted(self.items)


@contextmanager
def watching(api, url, path, *, limits=QUICK, receiver=None, clock=lambda: 0.0, **more):
    """Run a watch beside the block; yield its receiver and its pulse."""
    kept = receiver or Kept(api)
    pulse = Pulse("things", clock)
    watch = Watch(Client.of_server(url), path, kept, pulse, limits=limits, **more)
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    try:
        yield kept, pulse
    finally:
        watch.stop()
        thread.join(10)
        assert not thread.is_alive(), "a stopped watch ends"
