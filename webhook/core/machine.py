"""A machine: NUMA nodes, CPUs, devices and the kubelet's settings, as one immutable value that equal nodes share."""

import enum
from dataclasses import dataclass, field

from webhook.core.kept_hash import KeptHash
from webhook.core.masks import members


class TopologyPolicy(enum.Enum):
    """The kubelet's topology manager policies (kubernetes/kubernetes:pkg/kubelet/cm/topologymanager)."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(enum.Enum):
    """Whether the kubelet aligns each container by itself or the pod as a whole."""

    CONTAINER = "container"
    POD = "pod"


class MachineError(ValueError):
    """A machine that contradicts itself; the message names the field, what was found and what is wanted."""


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The kubelet settings that decide about admission (``domain/kubelet-topology.md`` 1.3-1.10)."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    static_cpus: bool = True
    """CPU manager policy ``static`` (else ``none``: no exclusive CPUs, no CPU hints)."""
    full_pcpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncore_cache: bool = False
    prefer_closest_numa_nodes: bool = False
    max_allowable_numa_nodes: int = 8
    static_memory: bool = False
    """Memory manager policy ``Static`` (else ``None``)."""
    minor_version: int = 37
    """Minor version of Kubernetes 1.x that the kubelet runs; version differences are data keyed by it."""


@dataclass(frozen=True, slots=True)
class CpuLayout:
    """Logical CPUs as masks of CPU ids; index in ``numa_cpus`` is the NUMA node's position in ``Machine.numa_ids``."""

    numa_cpus: tuple[int, ...]
    socket_cpus: tuple[int, ...]
    core_cpus: tuple[int, ...]
    uncore_cpus: tuple[int, ...] = ()
    """CPUs by uncore (L3) cache, for ``prefer-align-cpus-by-uncorecache``; empty: as the kubelet, by socket."""

    @property
    def all_cpus(self) -> int:
        """Mask of every logical CPU."""
        mask = 0
        for cpus in self.numa_cpus:
            mask |= cpus
        return mask

    @property
    def threads_per_core(self) -> int:
        """Logical CPUs per physical core, as cadvisor counts them: CPUs divided by cores."""
        return self.all_cpus.bit_count() // len(self.core_cpus) if self.core_cpus else 1


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """Devices of one resource on a machine. Device *i* is bit *i* of every device mask (``minor`` for GPUs)."""

    resource: str
    numa_of_device: tuple[int, ...]
    """For each device the mask of NUMA positions it reports; 0 where it reports none."""
    ids: tuple[str, ...] = ()
    """The plugin's device ids, index as above; empty where they are not known."""
    reports_numa: bool = True
    """Whether the device plugin tells the kubelet NUMA ids at all. False: no hints, whatever ``numa_of_device`` says
    (the ledger still draws the map by it). For ``aliyun.com/gpu`` this is not established
    (``domain/kubelet-topology.md`` 1.5)."""
    foreign_numa: int = 0
    """Mask of devices that report only NUMA ids which the machine does not have: they count as having topology
    (``domain/kubelet-code-as-oracle.md`` 4)."""

    @property
    def count(self) -> int:
        """Number of devices, healthy or not."""
        return len(self.numa_of_device)

    @property
    def all_devices(self) -> int:
        """Mask of every device."""
        return (1 << len(self.numa_of_device)) - 1

    def touching(self, numa_mask: int) -> int:
        """Return the mask of devices that report at least one NUMA node of ``numa_mask``."""
        mask = 0
        for device, numa in enumerate(self.numa_of_device):
            if numa & numa_mask:
                mask |= 1 << device
        return mask


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """Memory of one type (``memory``, ``hugepages-2Mi``...) per NUMA position, for the memory manager's hints."""

    resource: str
    total_bytes: tuple[int, ...]
    """As Linux reports it: ``memory`` includes what huge pages take, which the kubelet subtracts."""
    reserved_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Machine(KeptHash):
    """What a node is made of; equal nodes share one value. Occupancy is ``NodeState``."""

    numa_ids: tuple[int, ...]
    """Linux NUMA ids by position, ascending. Masks of NUMA nodes everywhere are masks of positions."""
    cpus: CpuLayout
    reserved_cpus: int = 0
    """Mask of CPUs that are never given out exclusively."""
    devices: tuple[DeviceLayout, ...] = ()
    memory: tuple[MemoryLayout, ...] = ()
    distances: tuple[tuple[int, ...], ...] = ()
    """Square by NUMA position; empty where not known (then only ``prefer-closest-numa-nodes`` misses it)."""
    kubelet: KubeletConfig = field(default_factory=KubeletConfig)
    name: str = ""
    """The machine class's name where it comes from one, for proofs."""
    node_policy: str = ""
    """The NUMA policy that a NUMA-aware scheduler reads from the node, in its spelling (``SingleNUMANode``): its label,
    else its topology report (``domain/koordinator-ack.md`` 2.1). Kubelet models do not look at it."""

    def __post_init__(self) -> None:
        """Refuse a machine that contradicts itself."""
        count = len(self.numa_ids)
        if len(self.cpus.numa_cpus) != count:
            raise MachineError(f"numa_cpus lists {len(self.cpus.numa_cpus)} NUMA nodes, numa_ids {count}.")
        if list(self.numa_ids) != sorted(set(self.numa_ids)):
            raise MachineError(f"numa_ids {self.numa_ids} are not ascending and distinct.")
        seen = 0
        for position, cpus in enumerate(self.cpus.numa_cpus):
            if cpus & seen:
                raise MachineError(
                    f"CPUs {sorted(members(cpus & seen))} stand in NUMA node {self.numa_ids[position]} and in another."
                )
            seen |= cpus
        if self.reserved_cpus & ~seen:
            raise MachineError(f"reserved CPUs {sorted(members(self.reserved_cpus & ~seen))} are in no NUMA node.")
        for name, parts in (("core_cpus", self.cpus.core_cpus), ("socket_cpus", self.cpus.socket_cpus)):
            if sum(part.bit_count() for part in parts) != seen.bit_count():
                raise MachineError(f"{name} does not hold every CPU exactly once.")
        if self.distances and (len(self.distances) != count or any(len(row) != count for row in self.distances)):
            raise MachineError(f"distances are not {count} by {count}.")

    __hash__ = KeptHash.__hash__  # else the decorator would make one

    def _key(self) -> tuple[object, ...]:
        return self.name, self.numa_ids, self.cpus.numa_cpus, self.reserved_cpus, self.kubelet.policy

    @property
    def all_numa(self) -> int:
        """Mask of every NUMA position."""
        return (1 << len(self.numa_ids)) - 1

    def device_index(self, resource: str) -> int | None:
        """Return the position of ``resource`` in ``devices``, or None."""
        for index, layout in enumerate(self.devices):
            if layout.resource == resource:
                return index
        return None


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is free on a machine right now, replaced whole by each event."""

    free_cpus: int
    """CPUs that may be given out exclusively: not reserved, not held."""
    busy_devices: tuple[int, ...]
    """Held devices, one mask per ``Machine.devices``; a held device may be unhealthy, and an unhealthy one held."""
    unhealthy_devices: tuple[int, ...]
    busy_memory: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Memory manager groups: per ``Machine.memory`` the pairs (NUMA mask, bytes) that are held."""
    memory_by_numa: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """For each NUMA position the group that the memory manager counts it to, and the bytes held there per
    ``Machine.memory``; empty: as ``busy_memory`` implies, which is so unless groups and single nodes were mixed."""
    cpusets: tuple[int, ...] = ()
    """The CPU mask of every pod that a scheduler bound to CPUs: a NUMA node is single, shared or idle by these
    (``domain/koordinator-ack.md`` 2.5). Kubelet models leave it empty."""

    @staticmethod
    def empty(machine: Machine) -> "NodeState":
        """Return the state of ``machine`` with nothing held and every device healthy."""
        nothing = (0,) * len(machine.devices)
        return NodeState(machine.cpus.all_cpus & ~machine.reserved_cpus, nothing, nothing, ((),) * len(machine.memory))

    def free_devices(self, machine: Machine, index: int) -> int:
        """Return the mask of devices of ``machine.devices[index]`` that are healthy and not held."""
        return machine.devices[index].all_devices & ~self.busy_devices[index] & ~self.unhealthy_devices[index]
