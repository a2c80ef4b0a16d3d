"""Finding a place for a pod without walking all nodes: index first, then the allocator on the most promising."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from webhook.core.demand import PodDemand
from webhook.core.ledger.charges import Charges
from webhook.core.ledger.index import NodeIndex
from webhook.core.ledger.records import Eligibility, NodeView
from webhook.core.masks import members
from webhook.core.placement import Placement

# Different free states on which the allocator is asked before the search gives up. The index leaves out nearly every
# node that would refuse, so the first candidate mostly fits; 64 evaluations of about 40 us bound the worst case. What
# was refused is remembered, so that the next pod of the shape is judged by the nodes that are left.
MOST_EVALUATIONS: Final = 64
_TIGHT_FIRST: Final = 8
"""Tries on the fullest nodes before the emptiest have their turn."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found: nodes as masks of index slots, and a place if there is one."""

    eligible: int
    plain: int
    """Eligible nodes where the plain counts leave room."""
    numa: int
    """Those of ``plain`` with known machines that the index could not rule out."""
    node: str = ""
    placement: Placement | None = None
    is_exhausted: bool = False
    """The search gave up before it had asked the allocator everywhere."""


def find_place(
    charges: Charges,
    index: NodeIndex,
    views: Mapping[str, NodeView],
    demand: PodDemand,
    eligibility: Eligibility,
    *,
    avoid: frozenset[str] = frozenset(),
) -> Search:
    """Return where ``demand`` would go now, counting bound pods and virtual places, ``avoid``'s nodes left out."""
    eligible = index.eligible(eligibility)
    for name in avoid:
        slot = index.slot(name)
        if slot is not None:
            eligible &= ~(1 << slot)
    return place_among(charges, index, views, demand, eligible)


def place_among(
    charges: Charges, index: NodeIndex, views: Mapping[str, NodeView], demand: PodDemand, eligible: int
) -> Search:
    """Return where ``demand`` would go now on one of the ``eligible`` slots: for who has several demands for them."""
    plain = index.with_plain_room(demand.totals, eligible)
    numa = index.with_numa_room(demand, plain & index.known) & ~index.refused(demand)
    if not numa:
        return Search(eligible, plain, numa)
    refusals = 0
    states: set[tuple[object, object]] = set()
    for slot in _promising_first(index, demand, numa):
        view = views[index.name(slot)]
        if view.full_state is None or view.record.machine is None:
            continue
        # By identity of the machine: equal nodes share one value, and hashing it for each node would cost more.
        key = (id(view.record.machine), view.full_state)
        if key not in states:
            if len(states) >= MOST_EVALUATIONS:
                index.note_refused(demand, refusals)
                return Search(eligible, plain, numa, is_exhausted=True)
            placement = charges.place(view, view.full_state, demand)
            if placement is not None:
                if refusals:
                    index.note_refused(demand, refusals)
                return Search(eligible, plain, numa, view.record.name, placement)
            states.add(key)
        refusals |= 1 << slot
    if refusals:
        index.note_refused(demand, refusals)
    return Search(eligible, plain, numa)


def _promising_first(index: NodeIndex, demand: PodDemand, nodes: int) -> Iterator[int]:
    """Yield the slots of ``nodes``, those with the fewest free devices of the first asked resource first.

    Filling up nodes that are begun keeps whole machines free for the pods that need one. Where the fullest refuse, the
    emptiest are most likely to take the pod.
    """
    asked = next((resource for container in demand.containers for resource, count in container.devices if count), None)
    if asked is not None:
        yield from islice(_tightest_first(index, asked, nodes), _TIGHT_FIRST)
        for slots in index.by_free_devices(asked, nodes, most_first=True):
            yield from members(slots)
            nodes &= ~slots
    yield from members(nodes)


def _tightest_first(index: NodeIndex, resource: str, nodes: int) -> Iterator[int]:
    for slots in index.by_free_devices(resource, nodes):
        yield from members(slots)
