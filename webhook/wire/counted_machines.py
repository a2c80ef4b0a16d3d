"""A machine built from counts, where no source tells each CPU: ids are made up, numbers per NUMA node are not.

Verdicts depend on how many CPUs and devices a NUMA node has and who holds how many, not on what they are called; only
whole-core rules need the cores, and those are told by a machine class or by koordlet.
"""

from collections.abc import Sequence
from typing import Final

from webhook.core.machine import CpuLayout, DeviceLayout, Machine
from webhook.core.masks import HIGHEST_CPU_ID, members

MOST_DEVICES: Final = 512
"""Devices of one resource; more is a slip or an attack: each is a bit in every mask."""


def contiguous_cpus(counts: Sequence[int]) -> CpuLayout | None:
    """Return a layout with ``counts[n]`` CPUs on NUMA node *n*, each a core of its own, a socket per NUMA node.

    None where they are none or more than Linux can number.
    """
    masks: list[int] = []
    start = 0
    for count in counts:
        masks.append(((1 << count) - 1) << start if start + count <= HIGHEST_CPU_ID else 0)
        start += count
    if not 0 < start <= HIGHEST_CPU_ID:
        return None
    return CpuLayout(tuple(masks), tuple(mask for mask in masks if mask), tuple(1 << cpu for cpu in range(start)))


def reserved_by_count(cpus: CpuLayout, counts: Sequence[int]) -> int:
    """Return a mask with ``counts[n]`` CPUs of NUMA node *n*: whole cores of low number first, as admins choose."""
    reserved = 0
    for numa, count in zip(cpus.numa_cpus, counts, strict=True):
        left = count
        for core in cpus.core_cpus:
            if core & numa and core.bit_count() <= left:
                reserved |= core
                left -= core.bit_count()
        for cpu in members(numa & ~reserved):
            if not left:
                break
            reserved |= 1 << cpu
            left -= 1
    return reserved


def counted_devices(resource: str, counts: Sequence[int], total: int) -> DeviceLayout | None:
    """Return ``counts[n]`` devices on NUMA node *n*, then those of ``total`` that are on none; None where too many."""
    numa = [1 << position for position, count in enumerate(counts) for _ in range(min(count, MOST_DEVICES + 1))]
    numa += [0] * min(max(0, total - len(numa)), MOST_DEVICES + 1)
    return DeviceLayout(resource, tuple(numa)) if 0 < len(numa) <= MOST_DEVICES else None


def cpu_counts(machine: Machine) -> tuple[int, ...]:
    """Return the number of CPUs of each NUMA node."""
    return tuple(cpus.bit_count() for cpus in machine.cpus.numa_cpus)
