"""The memory manager's policy Static (``memorymanager/policy_static.go``): hints, the rule of groups, allocation.

A NUMA node is either used alone or in one group of NUMA nodes. Which group a node stands in is worked out from the
blocks that pods hold, as the kubelet itself does when it starts; ``NodeState.memory_by_numa`` says it where a kubelet
that ran on differs: what was taken and given back in a group need not have come from and gone to the same node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from webhook.core.kubelet.hints import Hint, ListedAsk
from webhook.core.kubelet.refusal import Refused
from webhook.core.kubelet.tables import WIDEST_ENUMERATED, masks_of_width
from webhook.core.machine import Machine, NodeState
from webhook.core.masks import members

MEMORY: Final = "memory"

Wanted = Sequence[tuple[str, int]]
"""(resource, bytes)."""


@dataclass(slots=True)
class MemoryUse:
    """What is free of each kind of memory per NUMA position, and which nodes stand in a group."""

    index: Mapping[str, int]
    allocatable: list[list[int]]
    free: list[list[int]]
    assignments: list[int]
    cells: list[int]
    """For each NUMA position the mask of its group; itself where it is used alone or not at all."""
    reusable: dict[tuple[int, int], int] = field(default_factory=dict)
    """Bytes that finished init containers of this pod left, by (mask, kind)."""

    @classmethod
    def of(cls, machine: Machine, state: NodeState) -> "MemoryUse":
        """Return the use of ``machine`` in ``state``."""
        count = len(machine.numa_ids)
        huge = [0] * count
        for layout in machine.memory:
            if layout.resource != MEMORY:
                huge = [total + more for total, more in zip(huge, layout.total_bytes, strict=True)]
        allocatable = [
            [
                max(total - reserved - (taken if layout.resource == MEMORY else 0), 0)
                for total, reserved, taken in zip(layout.total_bytes, layout.reserved_bytes, huge, strict=True)
            ]
            for layout in machine.memory
        ]
        use = cls(
            {layout.resource: index for index, layout in enumerate(machine.memory)},
            allocatable,
            [list(row) for row in allocatable],
            [0] * count,
            [1 << position for position in range(count)],
        )
        for index, blocks in enumerate(state.busy_memory):
            for mask, size in blocks:
                use.hold(mask, index, size)
        for position, (group, held) in enumerate(state.memory_by_numa):
            use.cells[position] = group
            for index, size in enumerate(held):
                use.free[index][position] = use.allocatable[index][position] - size
        return use

    def hold(self, mask: int, index: int, size: int) -> None:
        """Book a block of ``size`` bytes on the nodes of ``mask``: lowest first, each as far as it goes."""
        for position in members(mask):
            self.assignments[position] += 1
            self.cells[position] = mask
            part = min(size, self.free[index][position])
            self.free[index][position] -= part
            size -= part

    def give_back(self, mask: int, index: int, size: int) -> None:
        """Undo a block: from the lowest node first, whichever it was taken from; a node without any stands alone."""
        for position in members(mask):
            self.assignments[position] -= 1
            if not self.assignments[position]:
                self.cells[position] = 1 << position
            part = min(size, self.allocatable[index][position] - self.free[index][position])
            self.free[index][position] += part
            size -= part

    def in_state(self, machine: Machine, state: NodeState) -> NodeState:
        """Return ``state``, whose ``busy_memory`` is up to date, with what else must be known of this use.

        That is left out where the blocks imply it, so that equal states are equal values.
        """
        plain = replace(state, memory_by_numa=()) if state.memory_by_numa else state
        implied = MemoryUse.of(machine, plain)
        if implied.cells == self.cells and implied.free == self.free:
            return plain
        held = (
            tuple(total[position] - free[position] for total, free in zip(self.allocatable, self.free, strict=True))
            for position in range(len(self.cells))
        )
        return replace(plain, memory_by_numa=tuple(zip(self.cells, held, strict=True)))

    def hints(self, wanted: Wanted, *, only_preferred: bool = False) -> tuple[Hint, ...]:
        """Return the hints for ``wanted``; all kinds share them. Empty: no set of nodes can take it (no opinion).

        ``only_preferred``: leave out the rest where there is a preferred one.
        """
        pairs = [(self.index.get(resource, -1), size) for resource, size in wanted]
        count = len(self.cells)
        everything = (1 << count) - 1
        if count > WIDEST_ENUMERATED or any(index < 0 for index, _ in pairs):
            return ()
        width = 0
        found: list[Hint] = []
        for size in range(1, count + 1):
            for mask in masks_of_width(everything, size):
                nodes = tuple(members(mask))
                if any(sum(self.allocatable[index][node] for node in nodes) < need for index, need in pairs):
                    continue
                width = width or size
                if self._may_use(mask, nodes) and self._has_room(mask, nodes, pairs):
                    found.append((mask, size == width))
            if only_preferred and found:
                break
        return tuple(found)

    def _may_use(self, mask: int, nodes: tuple[int, ...]) -> bool:
        """Return whether the rule of groups lets ``mask`` be used."""
        if len(nodes) == 1:
            return self.cells[nodes[0]] & (self.cells[nodes[0]] - 1) == 0
        return all(not self.assignments[node] or self.cells[node] == mask for node in nodes)

    def _has_room(self, mask: int, nodes: tuple[int, ...], pairs: Iterable[tuple[int, int]]) -> bool:
        return all(
            sum(self.free[index][node] for node in nodes) + self.reusable.get((mask, index), 0) >= need
            for index, need in pairs
        )

    def asks(self, wanted: Wanted, *, only_preferred: bool) -> Iterator[ListedAsk]:
        """Yield one ask per kind; none where no set of nodes can take it, which the kubelet reads as no opinion."""
        hints = self.hints(wanted, only_preferred=only_preferred)
        if hints:
            universe = (1 << len(self.cells)) - 1
            width = min((mask.bit_count() for mask, preferred in hints if preferred and mask is not None), default=0)
            for resource, _ in wanted:
                yield ListedAsk(resource, universe, hints, width)

    def place(self, wanted: Wanted, hint: Hint, *, checks_groups: bool) -> int:
        """Return the NUMA nodes that ``wanted`` is booked on, starting from the topology manager's ``hint``.

        Raises:
            Refused: with the memory manager's words.
        """
        mask, is_preferred = hint
        if mask is None:
            hints = self.hints(wanted)
            if not hints:
                raise _refused("failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
            mask, found_preferred = _best(hints)
            if is_preferred and not found_preferred:
                raise _refused("failed to find the default preferred hint")
            is_preferred = found_preferred
        if not self._satisfies(mask, wanted):
            wider = [one for one in self.hints(wanted) if one[0] is not None and not mask & ~one[0]]
            if not wider:
                raise _refused("failed to find NUMA nodes to extend the current topology hint")
            mask, found_preferred = _best(wider)
            if is_preferred and not found_preferred:
                raise _refused("failed to find the extended preferred hint")
        if checks_groups and mask & (mask - 1):
            nodes = tuple(members(mask))
            if any(self.assignments[node] and self.cells[node] != mask for node in nodes):
                raise _refused("preferred hint violates NUMA node allocation")
        for resource, size in wanted:
            index = self.index[resource]
            self.hold(mask, index, max(size - self.reusable.get((mask, index), 0), 0))
        return mask

    def _satisfies(self, mask: int, wanted: Wanted) -> bool:
        """Return whether ``mask`` has the bytes free, what could be reused left aside."""
        nodes = tuple(members(mask))
        return all(
            resource in self.index and sum(self.free[self.index[resource]][node] for node in nodes) >= size
            for resource, size in wanted
        )

    def leave(self, mask: int, wanted: Wanted, *, for_reuse: bool) -> None:
        """Put what an init container holds up for reuse, or take off what another container has reused."""
        for resource, size in wanted:
            key = mask, self.index[resource]
            held = self.reusable.get(key, 0)
            if for_reuse:
                self.reusable[key] = max(held, size)
            elif held:
                self.reusable[key] = max(held - size, 0)


@dataclass(slots=True)
class Block:
    """What one container holds of one kind of memory."""

    mask: int
    index: int
    size: int


def shrink_reused(init_blocks: Iterable[Block], blocks: Iterable[Block]) -> None:
    """Take from the blocks of earlier init containers what ``blocks`` reuse, so that the sum is what is held."""
    earlier = list(init_blocks)
    for block in blocks:
        left = block.size
        for init in earlier:
            if init.index == block.index and init.mask == block.mask:
                part = min(init.size, left)
                init.size -= part
                left -= part


def _best(hints: Iterable[Hint]) -> tuple[int, bool]:
    """Return the preferred hint of the fewest nodes, lowest first (``findBestHint``)."""
    return min(
        ((mask, preferred) for mask, preferred in hints if mask is not None),
        key=lambda hint: (not hint[1], hint[0].bit_count(), hint[0]),
    )


def _refused(text: str) -> Refused:
    return Refused.unexpectedly(f"[memorymanager] {text}", MEMORY)
