"""The reduced rules (``domain/kubelet-topology.md`` 1.8): is there one set of NUMA nodes that every resource prefers?

A merged hint is preferred iff all resources prefer the same mask (see ``merge``), and restricted and single-numa-node
admit iff the merged hint is preferred. So neither needs the hints that are not preferred, nor any combination: only
masks of one width are looked at, and the first that every resource holds is the lowest, hence the kubelet's choice.
This is exact, also for devices of several NUMA nodes, for reuse, ``align-by-socket`` and the memory manager.
"""

from collections.abc import Callable, Iterable, Sequence

from webhook.core.kubelet.hints import AnyAsk
from webhook.core.kubelet.merge import MaskOrder
from webhook.core.kubelet.tables import can_walk


def preferred_mask(asks: Sequence[AnyAsk], all_numa: int, order: MaskOrder, *, only_single: bool) -> int | None:
    """Return the preferred merged mask for ``asks``; None: there is none.

    ``only_single``: under single-numa-node, hints of one NUMA node only.
    """
    within = all_numa
    for ask in asks:
        if not ask.is_possible:
            return None
        within &= ask.universe
    if not asks:
        return all_numa
    first, *others = asks
    for width in _widths(first, others, only_single=only_single):
        if not can_walk(within, width):
            return all_numa
        found = filter(_preferred_by_all(others), first.preferred_masks(width, within))
        mask = min(found, key=order.key, default=None) if order.distances else next(found, None)
        if mask is not None:
            return mask
    return None


def _preferred_by_all(asks: Sequence[AnyAsk]) -> Callable[[int], bool] | None:
    if len(asks) < 2:
        return asks[0].prefers if asks else None
    return lambda mask: all(ask.prefers(mask) for ask in asks)


def _widths(first: AnyAsk, others: Iterable[AnyAsk], *, only_single: bool) -> Sequence[int]:
    """Return the widths that every resource can prefer, ascending."""
    widths: Sequence[int] = first.preferred_widths()
    for ask in others:
        theirs = ask.preferred_widths()
        widths = [width for width in widths if width in theirs]
    return [width for width in widths if width == 1] if only_single else widths
