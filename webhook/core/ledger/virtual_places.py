"""Places of pods that are not bound, on one node's account: taken beside the bound pods, and lost to them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from webhook.core.ledger.charges import Charges, with_pod
from webhook.core.ledger.records import Entry, NodeView
from webhook.core.machine import NodeState
from webhook.core.occupancy import holds_unhealthy, is_free, take


@dataclass(frozen=True, slots=True)
class VirtualPlaces:
    """The rules of virtual places, as functions from ``NodeView`` to ``NodeView``; holds nothing but the account's."""

    _charges: Charges

    def reserve(self, view: NodeView, entry: Entry) -> NodeView:
        """Return the account, settled as it was, with a virtual place added, last in order.

        A place that is not free there any more is lost when the account is settled next.
        """
        virtual = (*(other for other in view.virtual if other.uid != entry.uid), entry)
        state, holding = view.full_state, entry.holding
        is_new = len(virtual) > len(view.virtual)
        if state is None or holding is None or holding.memory or not is_new or not is_free(state, holding):
            return self.settle(replace(view, virtual=virtual))[0]
        return _settled(view, virtual, take(state, holding), with_pod(view.full_totals, entry.pod.demand))

    def renew(self, view: NodeView, entry: Entry) -> NodeView:
        """Return the account with news of a pod that has a virtual place; the place stays."""
        virtual = tuple(entry if other.uid == entry.uid else other for other in view.virtual)
        return _settled(view, virtual, view.full_state, view.full_totals)

    def free(self, view: NodeView, uid: str) -> NodeView:
        """Return the account without the virtual place of ``uid``; ``settle`` must follow."""
        virtual = tuple(entry for entry in view.virtual if entry.uid != uid)
        return _settled(view, virtual, view.full_state, view.full_totals)

    def settle(self, view: NodeView) -> tuple[NodeView, tuple[Entry, ...]]:
        """Return the account with its full state computed anew, and the virtual places that reality has taken."""
        state, totals = view.bound_state, view.bound_totals
        if not view.virtual:
            if view.full_state is state and view.full_totals is totals:
                return view, ()
            return _settled(view, (), state, totals), ()
        kept: list[Entry] = []
        lost: list[Entry] = []
        for entry in view.virtual:
            demand = entry.pod.demand
            if state is None or not view.record.has_plain_room(totals, demand):
                lost.append(entry)
                continue
            holding, places = entry.holding, entry.places
            if holding is None or holding.memory or not is_free(state, holding) or holds_unhealthy(state, holding):
                placement = self._charges.place(view, state, demand)
                if placement is None:
                    lost.append(entry)
                    continue
                holding, places, state = placement.holding, placement.containers, placement.state
            else:
                state = take(state, holding)
            totals = with_pod(totals, demand)
            kept.append(entry if holding is entry.holding else replace(entry, holding=holding, places=places))
        return _settled(view, tuple(kept), state, totals), tuple(lost)


def _settled(
    view: NodeView, virtual: tuple[Entry, ...], state: NodeState | None, totals: Mapping[str, int]
) -> NodeView:
    return NodeView(
        view.record,
        view.bound,
        virtual,
        view.bound_state,
        state,
        view.bound_totals,
        totals,
        view.since_seconds,
        view.is_doubted,
        view.is_reported,
    )
