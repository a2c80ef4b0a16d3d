"""From a set of NUMA nodes to amounts on each of them, and to the CPUs (2.6)."""

from collections.abc import Mapping, Sequence

from webhook.core.kubelet.cpu_packed import CpuPickError, take_packed
from webhook.core.kubelet.tables import CpuTable
from webhook.core.masks import members


def split_evenly(asked: int, free: Sequence[int], numa_mask: int, unit: int) -> Mapping[int, int] | None:
    """Return how much each NUMA position of ``numa_mask`` gives; None where they cannot give ``asked`` together.

    The node with the least is asked first, for its even share of what is left in whole ``unit``; all that a node has is
    taken where that is less.
    """
    shares: dict[int, int] = {}
    left = asked
    nodes = sorted(members(numa_mask), key=lambda position: free[position])
    for at, position in enumerate(nodes):
        share = min(free[position], left // unit // (len(nodes) - at) * unit)
        if share > 0:
            shares[position] = share
            left -= share
    return None if left else shares


def bound_cpus(table: CpuTable, free_cpus: int, millicores: Mapping[int, int]) -> int | None:
    """Return the CPUs that a pod is bound to, given its millicores (whole CPUs) on each NUMA position.

    None where they cannot be picked. On each node whole cores first, from the lowest on, as the kubelet packs.
    """
    taken = 0
    for position in sorted(millicores):
        try:
            taken |= take_packed(table, free_cpus & table.numa_cpus[position], millicores[position] // 1000)
        except CpuPickError:
            return None
    return taken


def owed_cpus(table: CpuTable, free_cpus: int, millicores: Mapping[int, int]) -> int:
    """Return CPUs that stand for what a pod without bound CPUs is counted for, given its millicores by NUMA position.

    The scheduler only subtracts the amount. Holding as many CPUs, a started one as a whole, keeps the account in one
    place; it errs by less than one CPU per pod and NUMA node. Broken cores go first, then the highest, so that the
    whole cores that a bound pod would get stay free.
    """
    taken = 0
    for position, amount in millicores.items():
        wanted = -(-amount // 1000)
        free = free_cpus & table.numa_cpus[position]
        broken = 0
        for core in table.cores_of_numa[position]:
            if core & free != core:
                broken |= core & free
        taken |= _highest(broken, wanted) | _highest(free & ~broken, wanted - broken.bit_count())
    return taken


def _highest(cpus: int, count: int) -> int:
    found = 0
    while count > 0 and cpus:
        highest = 1 << (cpus.bit_length() - 1)
        cpus ^= highest
        found |= highest
        count -= 1
    return found
