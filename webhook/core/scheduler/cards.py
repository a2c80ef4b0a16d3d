"""GPUs and other devices: which sets of NUMA nodes can give the asked count, and which devices are picked (2.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from webhook.core.kubelet.tables import MembersIn
from webhook.core.machine import DeviceLayout, Machine, NodeState
from webhook.core.masks import members
from webhook.core.scheduler.hints import MOST_TOLD, Hint, ResourceHints, sets_of_width, sets_within, walked_widths
from webhook.core.scheduler.policies import BEST_EFFORT
from webhook.core.scheduler.request import Request

SAME_CARDS_SCORE: Final = 500
"""The score of a set from which the same GPUs are picked as from the whole machine; above any of the CPU side's."""


@dataclass(frozen=True, slots=True, eq=False)
class CardTable:
    """The devices of one resource by NUMA node; the scheduler knows them from ``Device``, whatever a plugin reports."""

    kind: str
    """As the scheduler names it in its texts: ``gpu``, ``rdma``."""
    members_in: MembersIn
    unplaced: int
    """Devices whose NUMA node is not known (``nodeID: -1``): they may be given beside any set, but hint none."""
    everything: int

    @property
    def shortage(self) -> str:
        """The scheduler's words where the devices are too few."""
        return "Insufficient GPU Devices" if self.kind == "gpu" else f"Insufficient {self.kind} devices"


@dataclass(frozen=True, slots=True, eq=False)
class AskedCards:
    """One resource of a request."""

    index: int
    """In ``Machine.devices``."""
    table: CardTable
    count: int
    free: int
    busy: int

    def usable(self, numa_mask: int | None) -> int:
        """Return the free devices that may be given with ``numa_mask`` (None: with any)."""
        return self.free if numa_mask is None else self.free & (self.table.members_in[numa_mask] | self.table.unplaced)

    def holds(self, numa_mask: int) -> bool:
        """Return whether ``numa_mask`` can give the count."""
        inside = self.table.members_in[numa_mask]
        if inside and inside.bit_count() < self.count:
            return False
        return (self.free & (inside | self.table.unplaced)).bit_count() >= self.count

    def pick(self, numa_mask: int | None) -> int | None:
        """Return the devices that are given from ``numa_mask``; None where they are too few.

        GPUs come from one NUMA node where one has enough, rather from one that is begun; those of which it is not known
        count as one more NUMA node, the first. Else, and for other devices, from the lowest minor on.
        """
        usable = self.usable(numa_mask)
        if usable.bit_count() < self.count:
            return None
        if self.table.kind == "gpu":
            usable = self._from_one_node(usable) or usable
        return lowest(usable, self.count)

    def _from_one_node(self, usable: int) -> int:
        best = 0
        for devices in (self.table.unplaced, *self.table.members_in.by_numa):
            if (devices & usable).bit_count() >= self.count:
                if devices & self.busy:
                    return devices & usable
                best = best or devices & usable
        return best


@dataclass(frozen=True, slots=True, eq=False)
class Cards:
    """Every device resource of a request: a set of NUMA nodes must give all of them at once."""

    asked: tuple[AskedCards, ...]
    universe: int
    """The NUMA nodes that have devices; 0 where none is known, which is no opinion."""
    from_all: tuple[int | None, ...] = ()
    """What is picked of each where any NUMA node will do."""

    @property
    def have_opinion(self) -> bool:
        """Whether the pod asks for devices that sit on known NUMA nodes."""
        return bool(self.asked) and bool(self.universe)

    def hint(self, numa_mask: int) -> bool:
        """Return whether ``numa_mask`` is hinted."""
        return not numa_mask & ~self.universe and all(one.holds(numa_mask) for one in self.asked)

    def width(self) -> int | None:
        """Return the preferred width: the smallest that is free now."""
        for width in walked_widths(self.universe):
            if any(self.hint(mask) for mask in sets_of_width(self.universe, width)):
                return width
        return None

    def score(self, numa_mask: int) -> int:
        """Return the score of ``numa_mask``, each device resource's hint together."""
        return len(self.asked) * self._score(numa_mask)

    def hints(self, *, with_scores: bool = True) -> list[ResourceHints]:
        """Return the hints of each resource, the same sets for all; without scores as many as a text names."""
        every_mask = (mask for mask in sets_within(self.universe) if self.hint(mask))
        masks = list(every_mask if with_scores else islice(every_mask, MOST_TOLD + 1))
        width = masks[0].bit_count() if masks else 0
        hints = [Hint(mask, mask.bit_count() == width, self._score(mask) if with_scores else 0) for mask in masks]
        return [(one.table.kind, hints) for one in self.asked]

    def shortage(self, policy: str) -> str:
        """Return the scheduler's words where the node cannot give the devices; else empty.

        Under a policy the devices of which no NUMA node is known do not make up the count.
        """
        few = next((one.table.shortage for one in self.asked if one.free.bit_count() < one.count), "")
        if policy and self._lacks_placed() and not (few and policy == BEST_EFFORT):
            return "Insufficient NUMA Scoped Devices"
        return few

    def _lacks_placed(self) -> bool:
        if not self.universe:
            return False
        return any(0 < one.table.members_in[self.universe].bit_count() < one.count for one in self.asked)

    def _score(self, numa_mask: int) -> int:
        same = all(
            one.table.kind != "gpu" or one.pick(numa_mask) == picked
            for one, picked in zip(self.asked, self.from_all, strict=True)
        )
        return SAME_CARDS_SCORE if same else 0


def cards_of(machine: Machine, state: NodeState, request: Request) -> Cards:
    """Return the device side of ``request`` on ``machine`` in ``state``."""
    if not request.devices:
        return Cards((), 0)
    tables, universe = card_tables(machine)
    asked = tuple(
        AskedCards(index, tables[index], count, state.free_devices(machine, index), state.busy_devices[index])
        for index, count in request.devices
    )
    return Cards(asked, universe, tuple(one.pick(universe) for one in asked))


@lru_cache(maxsize=1024)
def card_tables(machine: Machine) -> tuple[Sequence[CardTable], int]:
    """Return the device tables of ``machine``, and the NUMA nodes that have devices of any resource."""
    tables = [_card_table(layout, len(machine.numa_ids)) for layout in machine.devices]
    universe = 0
    for layout in machine.devices:
        for numa in layout.numa_of_device:
            universe |= numa
    return tables, universe & machine.all_numa


def _card_table(layout: DeviceLayout, numa_nodes: int) -> CardTable:
    by_numa = tuple(layout.touching(1 << position) for position in range(numa_nodes))
    placed = 0
    for devices in by_numa:
        placed |= devices
    return CardTable(
        layout.resource.rpartition("/")[2], MembersIn(by_numa), layout.all_devices & ~placed, layout.all_devices
    )


def lowest(devices: int, count: int) -> int:
    """Return the ``count`` lowest members of ``devices``."""
    found = 0
    for taken, device in enumerate(members(devices)):
        if taken == count:
            break
        found |= 1 << device
    return found
