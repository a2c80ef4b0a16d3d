"""What of a machine never changes, worked out once: which CPUs and devices lie in a set of NUMA nodes, and the widths.

*Width* is the kubelet's ``minAffinitySize``: the smallest number of NUMA nodes whose total, busy and unhealthy members
included, reaches a request (``domain/kubelet-topology.md`` 1.4, 1.5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations
from math import comb
from typing import Final

from webhook.core.kubelet.versions import VersionRules, rules_of
from webhook.core.machine import CpuLayout, DeviceLayout, Machine, NodeState
from webhook.core.masks import mask_of, members

MACHINES_REMEMBERED: Final = 1024
"""More machine classes than any cluster has; each costs some tens of kilobytes."""


WIDEST_ENUMERATED: Final = 16
"""NUMA nodes up to which all their sets are walked. A kubelet starts with at most 8 unless told otherwise, and would
not answer in time with many more (kubernetes/kubernetes#135541); beyond, we never refuse what we have not walked."""
MOST_MASKS: Final = comb(WIDEST_ENUMERATED, WIDEST_ENUMERATED // 2)


class MembersIn(dict[int, int]):
    """Members (CPUs, devices) by mask of NUMA nodes, filled as it is asked."""

    __slots__ = ("by_numa",)

    def __init__(self, by_numa: Sequence[int]) -> None:
        """Take the mask of members of each NUMA position."""
        super().__init__()
        self.by_numa = tuple(by_numa)

    def __missing__(self, numa_mask: int) -> int:
        """Return the members that lie in at least one NUMA node of ``numa_mask``."""
        found = 0
        for position in members(numa_mask):
            found |= self.by_numa[position]
        self[numa_mask] = found
        return found


def can_walk(universe: int, width: int) -> bool:
    """Return whether the sets of ``width`` NUMA nodes of ``universe`` are few enough to be walked."""
    return comb(universe.bit_count(), width) <= MOST_MASKS


@lru_cache(maxsize=4096)
def masks_of_width(universe: int, width: int) -> tuple[int, ...]:
    """Return the masks of exactly ``width`` NUMA nodes of ``universe``, lowest first: ties go to the lowest mask."""
    return tuple(sorted(mask_of(combination) for combination in combinations(members(universe), width)))


@dataclass(frozen=True, slots=True, eq=False)
class ResourceTable:
    """One resource that is spread over NUMA nodes."""

    name: str
    members_in: MembersIn
    universe: int
    """The NUMA nodes that are enumerated for hints."""
    most: tuple[int, ...]
    """The most members in any ``index + 1`` NUMA nodes of the universe."""

    def width(self, request: int) -> int:
        """Return the preferred number of NUMA nodes for ``request``; all of the universe where no number suffices."""
        for index, most in enumerate(self.most):
            if most >= request:
                return index + 1
        return len(self.most)


@dataclass(frozen=True, slots=True, eq=False)
class CpuTable(ResourceTable):
    """The CPUs, their sockets and cores, with the numbers that the kubelet derives from them."""

    numa_cpus: tuple[int, ...]
    socket_cpus: tuple[int, ...]
    uncore_cpus: tuple[int, ...]
    cores_of_numa: tuple[tuple[int, ...], ...]
    """For each NUMA position its cores as CPU masks, by core id, which is the core's lowest CPU."""
    cores_of_socket: tuple[tuple[int, ...], ...]
    cores_of_uncore: tuple[tuple[int, ...], ...]
    cpu_count: int
    cpus_per_core: int
    cpus_per_socket: int
    cpus_per_uncore: int
    is_numa_first: bool
    """At least as many sockets as NUMA nodes, so a NUMA node is the larger thing."""
    smallest_numa: int
    smallest_socket: int
    smallest_core: int
    numa_per_socket: int
    reserved_cores: int
    """Reserved CPUs with every sibling of theirs."""
    is_regular: bool
    """Cores are of one size, sockets too, and each smaller thing lies inside one larger: no oddity can show."""

    def socket_count(self, numa_mask: int) -> int:
        """Return how many sockets the NUMA nodes of ``numa_mask`` span."""
        cpus = self.members_in[numa_mask]
        return sum(1 for socket in self.socket_cpus if socket & cpus)

    def cpus_of_sockets(self, numa_mask: int) -> int:
        """Return the CPUs of the sockets that the NUMA nodes of ``numa_mask`` span."""
        cpus = self.members_in[numa_mask]
        found = 0
        for socket in self.socket_cpus:
            if socket & cpus:
                found |= socket
        return found


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTable(ResourceTable):
    """The devices of one resource."""

    all_members: int
    gives_hints: bool
    """At least one device reports a NUMA id; else the resource has no opinion."""
    with_topology: int
    """Devices that report a NUMA id, known to the machine or not."""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Everything about a machine that the model looks up."""

    rules: VersionRules
    all_numa: int
    cpus: CpuTable
    devices: tuple[DeviceTable, ...]
    device_index: dict[str, int]
    empty: NodeState


@lru_cache(maxsize=MACHINES_REMEMBERED)
def tables_of(machine: Machine) -> Tables:
    """Return the tables of ``machine``."""
    rules = rules_of(machine.kubelet.minor_version)
    return Tables(
        rules,
        machine.all_numa,
        _cpu_table(machine.cpus, machine.reserved_cpus),
        tuple(_device_table(layout, machine, rules) for layout in machine.devices),
        {layout.resource: index for index, layout in enumerate(machine.devices)},
        NodeState.empty(machine),
    )


def _cpu_table(layout: CpuLayout, reserved: int) -> CpuTable:
    cores = sorted(layout.core_cpus, key=lambda core: core & -core)
    sizes = sorted((cpus.bit_count() for cpus in layout.numa_cpus if cpus), reverse=True)
    sockets = len(layout.socket_cpus)
    cpu_count = layout.all_cpus.bit_count()
    uncores = layout.uncore_cpus or layout.socket_cpus
    reserved_cores = 0
    for core in cores:
        if core & reserved:
            reserved_cores |= core
    return CpuTable(
        name="cpu",
        members_in=MembersIn(layout.numa_cpus),
        universe=mask_of(position for position, cpus in enumerate(layout.numa_cpus) if cpus),
        most=tuple(sum(sizes[: count + 1]) for count in range(len(sizes))),
        numa_cpus=layout.numa_cpus,
        socket_cpus=layout.socket_cpus,
        uncore_cpus=uncores,
        cores_of_numa=tuple(tuple(core for core in cores if core & cpus) for cpus in layout.numa_cpus),
        cores_of_socket=tuple(tuple(core for core in cores if core & cpus) for cpus in layout.socket_cpus),
        cores_of_uncore=tuple(tuple(core for core in cores if core & cpus) for cpus in uncores),
        cpu_count=cpu_count,
        cpus_per_core=layout.threads_per_core,
        cpus_per_socket=cpu_count // sockets if sockets else 0,
        cpus_per_uncore=cpu_count // len(uncores) if uncores else 0,
        is_numa_first=sockets >= len(sizes),
        smallest_numa=sizes[-1] if sizes else 0,
        smallest_socket=min((cpus.bit_count() for cpus in layout.socket_cpus), default=0),
        smallest_core=min((core.bit_count() for core in cores), default=1),
        numa_per_socket=len(sizes) // sockets if sockets else 0,
        reserved_cores=reserved_cores,
        is_regular=_is_regular(layout, is_numa_first=sockets >= len(sizes)),
    )


def _is_regular(layout: CpuLayout, *, is_numa_first: bool) -> bool:
    nested = [
        (layout.socket_cpus, layout.numa_cpus) if is_numa_first else (layout.numa_cpus, layout.socket_cpus),
        (layout.core_cpus, layout.numa_cpus),
        (layout.core_cpus, layout.socket_cpus),
    ]
    return (
        len({core.bit_count() for core in layout.core_cpus}) <= 1
        and len({socket.bit_count() for socket in layout.socket_cpus}) <= 1
        and all(sum(1 for outer in larger if outer & inner) <= 1 for smaller, larger in nested for inner in smaller)
    )


def _device_table(layout: DeviceLayout, machine: Machine, rules: VersionRules) -> DeviceTable:
    numa = layout.numa_of_device if layout.reports_numa else (0,) * layout.count
    foreign = layout.foreign_numa if layout.reports_numa else 0
    by_numa = [
        mask_of(device for device, mask in enumerate(numa) if mask >> position & 1)
        for position in range(len(machine.numa_ids))
    ]
    hosts = mask_of(position for position, devices in enumerate(by_numa) if devices)
    universe = hosts if hosts and rules.narrows_device_masks else machine.all_numa
    members_in = MembersIn(by_numa)
    with_topology = mask_of(device for device, mask in enumerate(numa) if mask) | foreign
    return DeviceTable(
        name=layout.resource,
        members_in=members_in,
        universe=universe,
        most=_most(members_in, hosts, universe.bit_count(), has_shared=any(mask & (mask - 1) for mask in numa)),
        all_members=layout.all_devices,
        gives_hints=bool(with_topology),
        with_topology=with_topology,
    )


def _most(members_in: MembersIn, hosts: int, count: int, *, has_shared: bool) -> tuple[int, ...]:
    """Return the most members in any one, two... ``count`` NUMA nodes; a device of several counts once in a set.

    Nodes that host none add nothing, so the hosts alone are looked at.
    """
    found: list[int] = []
    if has_shared and hosts.bit_count() <= WIDEST_ENUMERATED:
        found += [
            max(members_in[mask].bit_count() for mask in masks_of_width(hosts, width))
            for width in range(1, hosts.bit_count() + 1)
        ]
    else:
        sizes = sorted((members_in[1 << position].bit_count() for position in members(hosts)), reverse=True)
        found += accumulate(sizes)
    last = found[-1] if found else 0
    return tuple(found + [last] * (count - len(found)))
