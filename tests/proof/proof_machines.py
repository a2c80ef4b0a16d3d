"""The machines of the proof: usual 8-GPU servers, told to the hollow kubelets and to our settings from one table."""

from dataclasses import dataclass
from typing import Any

GPU = "aliyun.com/gpu"
CLASS_LABEL = "hollow.numa-admission/class"
GIB = 1 << 30


@dataclass(frozen=True)
class Kind:
    """One kind of server with eight GPUs, two threads a core."""

    name: str
    share: int
    """Of ten nodes, so many."""
    numa_nodes: int
    sockets: int
    cores: int
    """Of each NUMA node."""
    policy: str
    scope: str
    full_cores: bool
    reserved: str

    def layout(self, style: str) -> dict[str, Any]:
        """The layout in the words of the hollow kubelets (``hollow``) or of our settings (``settings``)."""
        gpus, memory = 8 // self.numa_nodes, 1024 * GIB // self.numa_nodes
        if style == "hollow":
            return {
                "numa_nodes": self.numa_nodes,
                "sockets": self.sockets,
                "cores_per_numa": self.cores,
                "threads_per_core": 2,
                "memory_bytes_per_numa": memory,
                "devices": {GPU: {"per_numa": gpus}},
            }
        return {
            "numaNodes": self.numa_nodes,
            "sockets": self.sockets,
            "coresPerNUMANode": self.cores,
            "threadsPerCore": 2,
            "memoryPerNUMANode": memory,
            "devices": {GPU: gpus},
        }


KINDS = (
    Kind("single", 6, 2, 2, 32, "single-numa-node", "pod", full_cores=False, reserved="0,64,32,96"),
    Kind("restricted", 3, 2, 2, 32, "restricted", "container", full_cores=True, reserved="0,64,32,96"),
    Kind("numa8", 1, 8, 2, 8, "restricted", "container", full_cores=False, reserved="0,64"),
)


def hollow_classes() -> dict[str, Any]:
    """The classes file of ``kubelet-oracle hollow``."""
    classes = []
    for kind in KINDS:
        kubelet = {
            "topology_manager_policy": kind.policy,
            "topology_manager_scope": kind.scope,
            "cpu_manager_policy": "static",
            "reserved_system_cpu_ids": [int(cpu) for cpu in kind.reserved.split(",")],
            "memory_manager_policy": "None",
        }
        if kind.full_cores:
            kubelet["cpu_manager_policy_options"] = {"full-pcpus-only": "true"}
        classes.append({"name": kind.name, "count": kind.share, "layout": kind.layout("hollow"), "kubelet": kubelet})
    return {"classes": classes}


def settings_classes() -> list[dict[str, Any]]:
    """``capacity.machineClasses`` of our settings."""
    classes = []
    for kind in KINDS:
        kubelet: dict[str, Any] = {
            "topologyManagerPolicy": kind.policy,
            "topologyManagerScope": kind.scope,
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": kind.reserved,
        }
        if kind.full_cores:
            kubelet["cpuManagerPolicyOptions"] = {"full-pcpus-only": "true"}
        labels = {CLASS_LABEL: kind.name}
        classes.append(
            {"name": kind.name, "matchLabels": labels, "layout": kind.layout("settings"), "kubelet": kubelet}
        )
    return classes
