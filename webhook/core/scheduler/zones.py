"""CPU and memory of the NUMA nodes: what is free of them, and which sets of nodes can take a pod (2.3, 2.6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from webhook.core.machine import Machine, NodeState
from webhook.core.masks import members
from webhook.core.scheduler.hints import MOST_TOLD, Hint, ResourceHints, sets_of_width, sets_within, walked_widths
from webhook.core.scheduler.picks import split_evenly
from webhook.core.scheduler.policies import RESTRICTED
from webhook.core.scheduler.request import Request
from webhook.core.scheduler.scoring import Scoring


class Sums(dict[int, int]):
    """The sum of an amount over the NUMA nodes of a mask, filled as it is asked."""

    __slots__ = ("by_numa",)

    def __init__(self, by_numa: Sequence[int]) -> None:
        """Take the amount on each NUMA position."""
        super().__init__({0: 0})
        self.by_numa = tuple(by_numa)

    def __missing__(self, numa_mask: int) -> int:
        """Return the sum over ``numa_mask``."""
        rest = numa_mask & (numa_mask - 1)
        found = self[rest] + self.by_numa[(numa_mask ^ rest).bit_length() - 1]
        self[numa_mask] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Zone:
    """One resource that every NUMA node has its own share of."""

    resource: str
    asked: int
    """In millicores or bytes."""
    free: Sums
    total: Sums
    lacking: int
    """NUMA nodes with none left of it: no set with one of them is hinted for this resource."""
    unit: int = 1
    """What it is split in over the NUMA nodes."""

    @staticmethod
    def of(resource: str, asked: int, free: Sequence[int], total: Sequence[int], unit: int = 1) -> "Zone":
        """Return the zone of ``resource`` with what is free and what there is on each NUMA position."""
        lacking = 0
        for position, amount in enumerate(free):
            if amount <= 0:
                lacking |= 1 << position
        return Zone(resource, asked, Sums(free), Sums(total), lacking, unit)

    def split(self, numa_mask: int) -> Mapping[int, int] | None:
        """Return how much each NUMA position of ``numa_mask`` gives; None where the scheduler finds no split."""
        return split_evenly(self.asked, self.free.by_numa, numa_mask, self.unit)

    def holds(self, numa_mask: int) -> bool:
        """Return whether the scheduler finds a split over ``numa_mask``: the sum must suffice, and is not enough."""
        if self.free[numa_mask] < self.asked:
            return False
        count = numa_mask.bit_count()
        most = -(-self.asked // self.unit // count) * self.unit  # the largest of the even shares
        return all(self.free.by_numa[position] >= most for position in members(numa_mask)) or bool(
            self.split(numa_mask)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Everything that the CPU side looks at; empty where the pod asks for none of it, which is no opinion."""

    zones: tuple[Zone, ...]
    all_numa: int
    scored: tuple[Zone, ...] = ()
    """CPU and memory, asked for or not: how full they are decides between sets."""
    lacking: int = field(init=False)

    def __post_init__(self) -> None:
        """Join the NUMA nodes that lack something."""
        lacking = 0
        for zone in self.zones:
            lacking |= zone.lacking
        object.__setattr__(self, "lacking", lacking)

    def hold(self, numa_mask: int) -> bool:
        """Return whether the scheduler finds a split of the whole request over the NUMA nodes of ``numa_mask``."""
        return all(zone.holds(numa_mask) for zone in self.zones)

    def hint(self, numa_mask: int) -> bool:
        """Return whether every resource hints ``numa_mask``."""
        return not numa_mask & self.lacking and self.hold(numa_mask)

    def score(self, numa_mask: int, scoring: Scoring) -> int:
        """Return the score of ``numa_mask``: each resource's hint carries it, so all of them together."""
        return len(self.zones) * self._score(numa_mask, scoring)

    def common_width(self) -> int | None:
        """Return the width that every resource prefers; None where they differ or one has no hint at all."""
        widths = {self._width(zone) for zone in self.zones}
        return widths.pop() if len(widths) == 1 else None

    def hints(self, policy: str, scoring: Scoring | None) -> list[ResourceHints]:
        """Return the hints of each resource: preferred is the smallest width that is free now.

        Under Restricted every one of them is preferred. Without ``scoring``: as many as a text names, all scores 0.
        """
        result: list[ResourceHints] = []
        for zone in self.zones:
            holding = (mask for mask in sets_within(self.all_numa) if not mask & zone.lacking and self.hold(mask))
            masks = list(holding if scoring else islice(holding, MOST_TOLD + 1))
            width = masks[0].bit_count() if masks else 0
            hints = [
                Hint(
                    mask,
                    policy == RESTRICTED or mask.bit_count() == width,
                    self._score(mask, scoring) if scoring else 0,
                )
                for mask in masks
            ]
            result.append((zone.resource, hints))
        return result

    def _width(self, zone: Zone) -> int | None:
        for width in walked_widths(self.all_numa):
            if any(not mask & zone.lacking and self.hold(mask) for mask in sets_of_width(self.all_numa, width)):
                return width
        return None

    def _score(self, numa_mask: int, scoring: Scoring) -> int:
        return scoring.score((zone.free[numa_mask], zone.total[numa_mask], zone.asked) for zone in self.scored)


def zones_of(machine: Machine, state: NodeState, request: Request) -> Zones:
    """Return the CPU side of ``request`` on ``machine`` in ``state``."""
    usable = whole_free_cores(machine, state.free_cpus) if request.in_whole_cores else state.free_cpus
    free = [(usable & cpus).bit_count() * 1000 for cpus in machine.cpus.numa_cpus]
    total = [(cpus & ~machine.reserved_cpus).bit_count() * 1000 for cpus in machine.cpus.numa_cpus]
    asked_memory = dict(request.memory)
    every = [Zone.of("cpu", request.millicores, free, total, request.cpu_unit(machine))]
    every += (
        Zone.of(layout.resource, asked_memory.get(index, 0), free_memory(machine, state, index), totals)
        for index, (layout, totals) in enumerate(zip(machine.memory, _memory_of(machine), strict=True))
        if index in asked_memory or layout.resource == "memory"
    )
    return Zones(
        tuple(zone for zone in every if zone.asked),
        machine.all_numa,
        tuple(zone for zone in every if zone.resource in {"cpu", "memory"}),
    )


def whole_free_cores(machine: Machine, free_cpus: int) -> int:
    """Return the CPUs of ``free_cpus`` whose siblings are all in it."""
    usable = 0
    for core in machine.cpus.core_cpus:
        if core & free_cpus == core:
            usable |= core
    return usable


def free_memory(machine: Machine, state: NodeState, index: int) -> list[int]:
    """Return the free bytes of ``machine.memory[index]`` on each NUMA position."""
    held = [0] * len(machine.numa_ids)
    for mask, size in state.busy_memory[index] if state.busy_memory else ():
        nodes = tuple(members(mask))
        for position in nodes:  # this model holds memory by single nodes; of a group each is taken to hold its share
            held[position] += -(-size // len(nodes))
    return [total - busy for total, busy in zip(_memory_of(machine)[index], held, strict=True)]


@lru_cache(maxsize=1024)
def _memory_of(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Return what can be given out per kind of memory and NUMA position; ``memory`` without what huge pages take."""
    huge = [0] * len(machine.numa_ids)
    for layout in machine.memory:
        if layout.resource != "memory":
            huge = [so_far + more for so_far, more in zip(huge, layout.total_bytes, strict=True)]
    return tuple(
        tuple(
            max(0, total - reserved - (taken if layout.resource == "memory" else 0))
            for total, reserved, taken in zip(layout.total_bytes, layout.reserved_bytes, huge, strict=True)
        )
        for layout in machine.memory
    )
