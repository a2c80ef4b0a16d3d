"""Nodes where two things met and nobody tells which came first: every account that may be the true one is kept.

A kubelet frees what an ended pod held, and admits a pod bound a moment ago, in an order that we cannot see: both are
told to us milliseconds later. Where the order decides on which NUMA nodes the young pod sits, one account would be a
guess, and every pod placed after it another. So the node has several accounts for a while; a binding passes only if
all of them take it, and whatever the kubelet then says, or the end of the pods concerned, leaves one.
"""

from collections.abc import Iterator
from dataclasses import replace

from webhook.core.ledger.charges import Charges
from webhook.core.ledger.orders import signature_of
from webhook.core.ledger.records import AllocatorKind, Entry, EntryState, NodeView, PodRecord
from webhook.core.occupancy import holds_nothing

MOST_ACCOUNTS = 8
"""Of one node. Two meetings on one node at the same time make three or four; with more the node is doubted."""

Account = tuple[object, ...]


class Alternatives:
    """The other accounts of each node that may be the true one; the first is in ``Accounts.views``."""

    def __init__(self, charges: Charges) -> None:
        """Begin without any."""
        self._charges = charges
        self._others: dict[str, tuple[NodeView, ...]] = {}

    def of(self, node: str) -> tuple[NodeView, ...]:
        """Return the other accounts of ``node``; mostly none."""
        return self._others.get(node, ())

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that have other accounts."""
        return tuple(self._others)

    def drop(self, node: str) -> bool:
        """Forget the other accounts of ``node``; return whether there were any."""
        return self._others.pop(node, None) is not None

    def _keep(self, node: str, others: tuple[NodeView, ...]) -> None:
        if others:
            self._others[node] = others
        else:
            self._others.pop(node, None)

    def recorded(self, view: NodeView) -> None:
        """Take over the new record of a node whose places it does not touch."""
        name = view.record.name
        self._keep(name, tuple(replace(other, record=view.record) for other in self.of(name)))

    def bound(
        self, node: str, pod: PodRecord, now_seconds: float, *, is_history: bool, until_seconds: float | None
    ) -> None:
        """Charge ``pod`` in the other accounts as well."""
        if node not in self._others:
            return
        others = tuple(
            self._charges.bind(other, pod, now_seconds, is_history=is_history, assumed_until_seconds=until_seconds)
            for other in self.of(node)
        )
        self._keep(node, others)

    def amended(self, entry: Entry) -> None:
        """Take over the news of a bound pod; its places stay."""
        if entry.node not in self._others:
            return
        others = tuple(
            self._charges.amend(
                other,
                replace(held, pod=entry.pod, is_assumed=entry.is_assumed, until_seconds=entry.until_seconds),
            )
            if (held := entry_of(other, entry.uid)) is not None
            else other
            for other in self.of(entry.node)
        )
        self._keep(entry.node, others)

    def released(self, before: NodeView, after: NodeView, entry: Entry, now_seconds: float) -> bool:
        """Take ``entry`` out of the other accounts, and open new ones where it may have gone before others came.

        ``before`` and ``after`` are the node's first account with and without it. Return False where there are more
        accounts than are kept: the node must be doubted.
        """
        node = before.record.name
        if not self.of(node) and not any(not each.pod.is_answered and _holds(each) for each in before.bound):
            return True  # as nearly always: nothing young to have met
        kept: dict[Account, NodeView] = {}
        for view in (before, *self.of(node)):
            gone = entry_of(view, entry.uid)  # each account has its own place for the pod
            if gone is None:
                continue
            for other in (self._charges.unbind(view, gone.uid, now_seconds), *self._gone_earlier(view, gone)):
                kept.setdefault(_account(other), other)
        kept.pop(_account(after), None)
        fits = len(kept) < MOST_ACCOUNTS
        self._keep(node, tuple(kept.values()) if fits else ())
        return fits

    def _gone_earlier(self, view: NodeView, gone: Entry) -> Iterator[NodeView]:
        """Yield the accounts in which ``gone`` had been freed before some of the unanswered pods were admitted."""
        if view.bound_state is None or view.record.allocator is not AllocatorKind.KUBELET or not _holds(gone):
            return
        young = [each for each in view.bound if each is not gone and not each.pod.is_answered]
        if not any(_holds(each) for each in young):
            return
        for first in range(len(young)):
            state = self._charges.given_back(view.record, view.bound_state, gone.holding)
            for each in young[first:]:
                state = self._charges.given_back(view.record, state, each.holding)
            moved: dict[str, Entry] = {}
            for each in young[first:]:
                placement = self._charges.place(view, state, each.pod.demand)
                if placement is None:
                    moved[each.uid] = replace(each, holding=None, places=())
                    continue
                state = placement.state
                moved[each.uid] = replace(each, holding=placement.holding, places=placement.containers)
            bound = tuple(moved.get(each.uid, each) for each in view.bound if each is not gone)
            without = self._charges.unbind(view, gone.uid, view.since_seconds)
            yield replace(without, bound=bound, bound_state=state)

    def answered(self, first: NodeView, uid: str, *, runs: bool) -> NodeView | None:
        """Keep the accounts that agree with the kubelet's answer for a pod; return the first of them.

        None: no account agrees; then they are left as they are.
        """
        node = first.record.name
        agreeing = [
            view
            for view in (first, *self.of(node))
            if (entry := entry_of(view, uid)) is not None and (entry.holding is not None) is runs
        ]
        if not agreeing:
            return None
        self._keep(node, tuple(agreeing[1:]))
        return agreeing[0]


def entry_of(view: NodeView, uid: str) -> Entry | None:
    """Return the bound pod ``uid`` of an account."""
    return next((entry for entry in view.bound if entry.uid == uid), None)


def _holds(entry: Entry) -> bool:
    return entry.state is EntryState.BOUND and entry.holding is not None and not holds_nothing(entry.holding)


def _account(view: NodeView) -> Account:
    """Return what of an account a later admission can tell apart: who has how much of which NUMA node."""
    machine = view.record.machine
    if machine is None:
        return ()
    return tuple(
        (entry.uid, None if entry.holding is None else signature_of(machine, entry.holding)) for entry in view.bound
    )
