"""How the topology manager merges hints into one (topologymanager/policy.go), without walking all combinations.

The original tries every combination of one hint per resource. Two facts make that needless, and
``tests/core/kubelet/test_kubelet_merge.py`` compares the outcome with the combinations themselves:

1. A combination is preferred iff all its hints are preferred and all real masks are the same. So the preferred merged
   masks are the intersection of the resources' preferred masks.
2. The choice among merged hints is the best of a total order. So only the set of merged masks matters, and whether a
   mask is the intersection of one mask of each resource is counted by a transform over subsets (Möbius inversion).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from webhook.core.kubelet.hints import Hint
from webhook.core.machine import TopologyPolicy
from webhook.core.masks import members

Distances = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class MaskOrder:
    """Which of two merged masks is better: narrower, else (where asked) closer together, else the lower one."""

    distances: Distances = ()
    """Empty: distances do not count."""

    def key(self, mask: int) -> tuple[int, int, int]:
        """Return what the better mask has less of."""
        distance = 0
        if self.distances:
            nodes = tuple(members(mask))
            distance = sum(self.distances[a][b] for a in nodes for b in nodes)
        return mask.bit_count(), distance, mask


def merge(
    hints: Sequence[Sequence[Hint]], all_numa: int, policy: TopologyPolicy, order: MaskOrder
) -> tuple[Hint, bool]:
    """Return the merged hint and whether it admits; ``hints`` has one list per resource (empty: impossible)."""
    lists: list[tuple[Hint, ...]] = [tuple(one) or ((None, False),) for one in hints]
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        order = MaskOrder()
        lists = [tuple(hint for hint in one if _is_single(hint)) for one in lists]
    best = _best(lists, all_numa, order)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE and best[0] == all_numa:
        best = (None, best[1])
    return best, best[1] or policy is TopologyPolicy.BEST_EFFORT


def _is_single(hint: Hint) -> bool:
    mask, is_preferred = hint
    return is_preferred and (mask is None or mask.bit_count() == 1)


def _best(lists: list[tuple[Hint, ...]], all_numa: int, order: MaskOrder) -> Hint:
    if not all(lists):
        return all_numa, False
    common = _common_preferred(lists)
    if common:
        return min((all_numa if mask is None else mask for mask in common), key=order.key), True
    merged = intersections([[all_numa if mask is None else mask for mask, _ in one] for one in lists], all_numa) - {0}
    if not merged:
        return all_numa, False
    narrowest = [min((mask.bit_count() for mask, _ in one if mask is not None), default=0) for one in lists]
    return min(merged, key=_not_preferred_key(max(narrowest, default=0), order)), False


def _common_preferred(lists: Iterable[Sequence[Hint]]) -> set[int | None]:
    """Return the masks that every resource prefers; None where none of them has one."""
    common: set[int | None] = {None}
    for one in lists:
        preferred = {mask for mask, is_preferred in one if is_preferred}
        kept = common & preferred
        if None in common:
            kept |= preferred
        if None in preferred:
            kept |= common
        common = kept
    return common


def _not_preferred_key(wanted: int, order: MaskOrder) -> Callable[[int], tuple[int, int, tuple[int, int, int]]]:
    """Return the order of masks that are not preferred: as wide as ``wanted``, else below it the widest, else above."""

    def key(mask: int) -> tuple[int, int, tuple[int, int, int]]:
        width = mask.bit_count()
        if width == wanted:
            return 0, 0, order.key(mask)
        if width < wanted:
            return 1, -width, order.key(mask)
        return 2, 0, order.key(mask)

    return key


def intersections(lists: Sequence[Sequence[int]], all_numa: int) -> set[int]:
    """Return every mask that is the intersection of ``all_numa`` and one mask of each of ``lists``."""
    # All nodes change nothing, so what has no mask is left out.
    sets = [kept for one in lists if (kept := {mask & all_numa for mask in one}) != {all_numa}]
    if len(sets) <= 1:
        return sets[0] if sets else {all_numa}
    places = tuple(members(_union(sets)))
    size = 1 << len(places)
    product = [1] * size
    for one in sets:
        supersets = [0] * size
        for mask in one:
            supersets[_compact(mask, places)] = 1
        for bit in range(len(places)):
            step = 1 << bit
            for mask in range(size):
                if not mask & step:
                    supersets[mask] += supersets[mask | step]
        product = [a * b for a, b in zip(product, supersets, strict=True)]
    for bit in range(len(places)):
        step = 1 << bit
        for mask in range(size):
            if not mask & step:
                product[mask] -= product[mask | step]
    return {_expand(mask, places) for mask, count in enumerate(product) if count}


def _union(sets: Iterable[Iterable[int]]) -> int:
    union = 0
    for one in sets:
        for mask in one:
            union |= mask
    return union


def _compact(mask: int, places: tuple[int, ...]) -> int:
    return sum(1 << index for index, place in enumerate(places) if mask >> place & 1)


def _expand(mask: int, places: tuple[int, ...]) -> int:
    return sum(1 << place for index, place in enumerate(places) if mask >> index & 1)
