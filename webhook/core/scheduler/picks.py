"""From a set of NUMA nodes to amounts on each of them, and to the CPUs (2.6)."""

from collections.abc import Mapping, Sequence
from typing import Final

from webhook.core.kubelet.tables import CpuTable
from webhook.core.masks import members
from webhook.core.scheduler.accumulator import pick_cpus
from webhook.core.scheduler.scoring import Scoring

_MOST_SORTED_IN_PLACE: Final = 12
"""Go's ``sort.Slice`` sorts up to so many by insertion; a longer list's order is not followed."""


def split_evenly(asked: int, free: Sequence[int], numa_mask: int, unit: int) -> Mapping[int, int] | None:
    """Return how much each NUMA position of ``numa_mask`` gives; None where the scheduler finds no split.

    Each in turn is asked for its even share of what is left in whole ``unit``; all that a node has is taken where that
    is less. A turn that comes too early is not made up for, so a sum that suffices may still not be found.
    """
    shares: dict[int, int] = {}
    left = asked
    nodes = turns(free, numa_mask)
    for at, position in enumerate(nodes):
        share = min(free[position], left // unit // (len(nodes) - at) * unit)
        if share > 0:
            shares[position] = share
            left -= share
    return None if left else shares


def turns(free: Sequence[int], numa_mask: int) -> list[int]:
    """Return the NUMA positions of ``numa_mask`` in the order in which the scheduler asks them.

    The node with the least is meant to come first, and does for 0, for 0 and 1, and for as many as are in order. But
    the comparison takes places in the list for NUMA nodes: the second and the third in the list are compared by what is
    free on NUMA nodes 1 and 2, whichever they are and whatever was swapped before (``tryBestToDistributeEvenly`` in
    koordinator-sh/koordinator:pkg/scheduler/plugins/nodenumaresource/resource_manager.go of v1.8.0).
    """
    nodes = list(members(numa_mask))
    if len(nodes) > _MOST_SORTED_IN_PLACE:
        return sorted(nodes, key=lambda position: free[position])
    for end in range(1, len(nodes)):
        at = end
        while at > 0 and free[at] < free[at - 1]:
            nodes[at], nodes[at - 1] = nodes[at - 1], nodes[at]
            at -= 1
    return nodes


def bound_cpus(table: CpuTable, free_cpus: int, millicores: Mapping[int, int], scoring: Scoring) -> int | None:
    """Return the CPUs that a pod is bound to, given its millicores (whole CPUs) on each NUMA position.

    None where they cannot be picked.
    """
    taken = 0
    for position in sorted(millicores):
        picked = pick_cpus(table, free_cpus & table.numa_cpus[position], millicores[position] // 1000, scoring)
        if picked is None:
            return None
        taken |= picked
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
