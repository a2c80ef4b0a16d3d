"""Single, shared and idle NUMA nodes, and what ``singleNUMANodeExclusive: Required`` forbids of them (2.5)."""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook.core.masks import members
from webhook.core.scheduler.policies import REQUIRED


class NumaStatus(enum.Enum):
    """What the bound pods make of a NUMA node."""

    IDLE = "idle"
    SINGLE = "single"
    """Only pods whose CPUs all lie on it."""
    SHARED = "shared"
    """A pod whose CPUs lie on several NUMA nodes, whatever else."""


@dataclass(frozen=True, slots=True)
class Occupants:
    """The NUMA nodes that are single and those that are shared, as masks of positions; the others are idle."""

    single: int = 0
    shared: int = 0

    @staticmethod
    def of(cpusets: Iterable[int], numa_cpus: Sequence[int]) -> "Occupants":
        """Return what pods that are bound to ``cpusets`` make of the NUMA nodes whose CPUs are ``numa_cpus``."""
        single = shared = 0
        for cpuset in cpusets:
            used = 0
            for position, cpus in enumerate(numa_cpus):
                if cpus & cpuset:
                    used |= 1 << position
            if used & (used - 1):
                shared |= used
            else:
                single |= used
        return Occupants(single & ~shared, shared)

    def status(self, position: int) -> NumaStatus:
        """Return the status of one NUMA node."""
        if self.shared >> position & 1:
            return NumaStatus.SHARED
        return NumaStatus.SINGLE if self.single >> position & 1 else NumaStatus.IDLE

    def admit(self, numa_mask: int, exclusive: str) -> bool:
        """Return whether a pod of that exclusivity may sit on ``numa_mask`` (at least one NUMA node)."""
        if exclusive != REQUIRED:
            return True
        return not numa_mask & (self.single if numa_mask & (numa_mask - 1) else self.shared)

    def in_words(self, numa_ids: Sequence[int]) -> str:
        """Return the nodes that are not idle: ``NUMA 0 shared, NUMA 3 single``; empty where all are idle."""
        return ", ".join(
            f"NUMA {numa_ids[position]} {self.status(position).value}"
            for position in members(self.single | self.shared)
        )
