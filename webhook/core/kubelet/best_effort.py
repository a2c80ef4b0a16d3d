"""best-effort's choice when no preferred hint exists, without listing all hints.

What a resource holds stays held in a larger set of NUMA nodes, so a mask is an intersection of one hint of each
resource iff the rest of the nodes can be shared out among the resources such that each can do without its part. Masks
are tried in the order in which the merge prefers them; what this cannot answer quickly is left to ``merge``.
"""

from collections.abc import Iterator, Sequence

from webhook.core.kubelet.hints import AnyAsk, Ask, Hint
from webhook.core.kubelet.merge import MaskOrder, merge
from webhook.core.kubelet.tables import WIDEST_ENUMERATED, can_walk, masks_of_width
from webhook.core.machine import TopologyPolicy


def best_effort_hint(asks: Sequence[AnyAsk], all_numa: int, order: MaskOrder) -> Hint:
    """Return the merged hint for ``asks``, of which it is known that they have no preferred mask in common."""
    mask = _quickly(asks, all_numa, order)
    if mask is not None:
        return mask, False
    if any(ask.universe.bit_count() > WIDEST_ENUMERATED for ask in asks):
        return all_numa, False
    return merge([ask.hints() for ask in asks], all_numa, TopologyPolicy.BEST_EFFORT, order)[0]


def _quickly(asks: Sequence[AnyAsk], all_numa: int, order: MaskOrder) -> int | None:
    """Return the best merged mask, or None where the quick way does not tell."""
    active: list[Ask] = []
    within, wanted = all_numa, 0
    for ask in asks:
        if not isinstance(ask, Ask):
            return None
        # What cannot be satisfied at all has no mask, and so does not narrow the others'.
        if ask.is_possible and ask.holds(ask.universe):
            active.append(ask)
            within &= ask.universe
            wanted = max(wanted, _narrowest(ask))
    if not active or not can_walk(within, wanted):
        return all_numa
    masks: Sequence[int] = masks_of_width(within, wanted)
    if order.distances:
        masks = sorted(masks, key=order.key)
    for mask in masks:
        rest = within & ~mask
        if any(ask.holds(ask.universe & ~rest) for ask in active):
            return mask
        if len(active) > 2:
            return None
        if len(active) == 2 and _can_share_out(active[0], active[1], rest):
            return mask
    return None


def _narrowest(ask: Ask) -> int:
    """Return the width of the narrowest hint of ``ask``, which has one."""
    width = 1
    while can_walk(ask.universe, width) and not any(map(ask.holds, masks_of_width(ask.universe, width))):
        width += 1
    return width


def _can_share_out(one: Ask, other: Ask, rest: int) -> bool:
    return any(
        one.holds(one.universe & ~part) and other.holds(other.universe & ~(rest & ~part)) for part in _parts(rest)
    )


def _parts(mask: int) -> Iterator[int]:
    """Yield every subset of ``mask``."""
    part = mask
    while True:
        yield part
        if not part:
            return
        part = (part - 1) & mask
