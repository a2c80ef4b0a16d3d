"""The ledger: nodes, pods and who holds what, changed by events alone; in any order, doubled, late or missing."""

import heapq
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from webhook.core.demand import PodDemand
from webhook.core.ledger import events
from webhook.core.ledger.accounts import Accounts, Notice
from webhook.core.ledger.charges import Allocators, Charges
from webhook.core.ledger.index import NodeIndex
from webhook.core.ledger.records import Entry, EntryState, NodeView, PodRecord, Report
from webhook.core.ledger.reports import reconciled
from webhook.core.ledger.search import Search

__all__ = ["ADMISSION_ERRORS", "REMEMBERED_GONE", "Ledger", "Notice"]

# UIDs of pods that are gone, so that a late event cannot bring one back. Events are late by seconds; at 200 a second
# this many cover more than five minutes, at about 150 bytes each.
REMEMBERED_GONE: Final = 65536
_FOR_GOOD: Final = 1 << 64
"""Above every resource version: a pod that was deleted or has ended never comes back."""

ADMISSION_ERRORS: Final = frozenset({"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"})
"""``status.reason`` of a pod that its kubelet refused for good (``DESIGN.md`` 1)."""


class Ledger:
    """All state of the cluster that decisions need. Not thread-safe: one lock around it, held by ``service.book``."""

    def __init__(self, allocators: Allocators) -> None:
        """Start empty, with one allocator model per kind of node."""
        self._accounts = Accounts(allocators)
        self._gone: OrderedDict[str, int] = OrderedDict()
        """UID -> the resource version up to which a record of it is old news."""
        self._deadlines: list[tuple[float, str]] = []

    # --- reading: whoever waits for a virtual place gets it before anybody looks ---

    @property
    def views(self) -> Mapping[str, NodeView]:
        """Every node by name. The values are immutable; copy the mapping to keep it."""
        self._accounts.plan_waiting()
        return self._accounts.views

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every pod by UID."""
        self._accounts.plan_waiting()
        return self._accounts.entries

    @property
    def index(self) -> NodeIndex:
        """The index of the nodes, for verdicts."""
        self._accounts.plan_waiting()
        return self._accounts.index

    @property
    def charges(self) -> Charges:
        """The account rules, for verdicts."""
        return self._accounts.charges

    @property
    def tracked_resources(self) -> frozenset[str]:
        """Device resources that a known machine has: a pod that asks for one is the ledger's business."""
        return self._accounts.index.tracked_resources

    def entry(self, uid: str, namespace: str = "", name: str = "") -> Entry | None:
        """Return the entry of ``uid``; with an empty or unknown UID the one of that name."""
        found = self.entries.get(uid)
        return self._accounts.named(namespace, name) if found is None and name else found

    def find(self, pod: PodRecord, *, avoid: frozenset[str] = frozenset()) -> Search:
        """Return where ``pod`` would go now."""
        self._accounts.plan_waiting()
        return self._accounts.find(pod, avoid=avoid)

    def find_among(self, demand: PodDemand, eligible: int) -> Search:
        """Return where a pod of ``demand`` would go now that may go to the ``eligible`` slots of the index."""
        self._accounts.plan_waiting()
        return self._accounts.find_among(demand, eligible)

    def alternatives(self, node: str) -> tuple[NodeView, ...]:
        """Return the other accounts of ``node`` that may be the true one (``alternatives``); mostly none."""
        return self._accounts.alternatives.of(node)

    def open_nodes(self) -> tuple[str, ...]:
        """Return the nodes that have other accounts."""
        return self._accounts.alternatives.nodes()

    def has_refused(self, node: str, demand: PodDemand) -> bool:
        """Return whether the kubelet of ``node`` refused an equal pod to our surprise and has freed nothing since."""
        return demand in self._accounts.refused.get(node, ())

    def take_notices(self) -> tuple[Notice, ...]:
        """Return what has happened since the last call, and forget it."""
        self._accounts.plan_waiting()
        notices = tuple(self._accounts.notices)
        self._accounts.notices.clear()
        return notices

    def content(self) -> tuple[object, ...]:
        """Return everything that an answer depends on, as one comparable value: equal ledgers have equal content."""
        return (
            {name: (view.record, view.bound, view.virtual) for name, view in self.views.items()},
            dict(self.entries),
        )

    # --- writing ---

    def apply(self, event: events.LedgerEvent, now_seconds: float) -> None:
        """Take one event. What cannot be (a claim on a node that is gone) is dropped, never raised.

        A pod that needs a virtual place is placed by ``plan_next``, by whoever looks first, or before the next event
        that may change a node: each time with the same result.
        """
        if not self._only_adds_a_pod(event, now_seconds):
            self._accounts.plan_waiting()
        match event:
            case events.PodSeen():
                self._pod_seen(event, now_seconds)
            case events.PodGone():
                self._forget(event.uid, _FOR_GOOD, now_seconds)
            case events.NodeSeen():
                self._accounts.open_node(event.record, now_seconds)
            case events.NodeGone():
                self._accounts.close_node(event.name)
            case events.Claimed():
                self._claimed(event)
            case events.BindingAdmitted():
                self._binding_admitted(event, now_seconds)
            case events.BindingRefused():
                self._binding_refused(event, now_seconds)
            case events.RoomFreed():
                self._room_freed(event)
            case events.PodsListed():
                self._pods_listed(event, now_seconds)
            case events.NodesListed():
                for name in [name for name in self._accounts.views if name not in event.names]:
                    self._accounts.close_node(name)
            case events.Diverged():
                self._doubt(event.node)
            case events.Recalled():
                view = self._accounts.views.get(event.node)
                if view is not None:
                    recalled = self.charges.recall(self._accounts.single(view), event.places)
                    self._accounts.settle(recalled)
            case events.Reported():
                view = self._accounts.views.get(event.node)
                if view is not None:
                    self._reported(view, event.report, now_seconds)
            case events.Elapsed():
                pass
        self._expire(now_seconds)

    @property
    def has_waiting(self) -> bool:
        """Whether a pod is still to get its virtual place."""
        return self._accounts.has_waiting

    def plan_next(self) -> bool:
        """Place the pod that waits longest for its virtual place; return whether another waits.

        A step of its own, so that a lock around events is not held for a search; whoever reads need not call it.
        """
        return self._accounts.plan_next()

    def _only_adds_a_pod(self, event: events.LedgerEvent, now_seconds: float) -> bool:
        """Return whether ``event`` leaves every node as it is, so that those who wait may be placed after it."""
        if not isinstance(event, events.PodSeen) or event.pod.node_name or event.pod.has_ended:
            return False
        is_due = bool(self._deadlines) and self._deadlines[0][0] <= now_seconds
        return not is_due and event.pod.uid not in self._accounts.entries

    # --- pods ---

    def _pod_seen(self, event: events.PodSeen, now_seconds: float) -> None:
        pod = event.pod
        old = self._accounts.entries.get(pod.uid)
        if pod.resource_version <= self._gone.get(pod.uid, -1):
            return
        if old is not None and pod.resource_version < old.pod.resource_version:
            return
        if pod.has_ended:
            surprised = self._note_failure(pod, old)
            self._forget(pod.uid, _FOR_GOOD, now_seconds)
            if surprised:  # after its own release, which frees nothing in truth
                self._accounts.refused.setdefault(pod.node_name, set()).add(pod.demand)
        elif not pod.node_name:
            self._pod_pending(pod, old, now_seconds)
        elif old is not None and old.state is EntryState.BOUND and old.node == pod.node_name:
            self._pod_changed(pod, old, now_seconds)
        else:
            self._accounts.bind(pod, pod.node_name, now_seconds, old=old, is_history=event.is_history)

    def _pod_changed(self, pod: PodRecord, old: Entry, now_seconds: float) -> None:
        """Take news of a pod that is bound where we thought."""
        entry = replace(old, pod=pod, is_assumed=False, until_seconds=None)
        view = self._accounts.views.get(old.node)
        if view is not None and (pod.demand != old.pod.demand or pod.confirmed != old.pod.confirmed):
            elsewhere = self._accounts.told_elsewhere(view, pod) if pod.demand == old.pod.demand else ""
            view = self._accounts.single(view)
            bound = self.charges.amend(view, entry).bound
            self._accounts.settle(self.charges.rebuild(view, view.record, now_seconds, bound))
            if elsewhere:
                self._accounts.note("placed-elsewhere", pod, old.node, elsewhere)
                self._doubt(old.node)
            return
        self._accounts.amend(entry)
        is_first_answer = pod.phase == "Running" and not old.pod.is_answered
        if not is_first_answer or view is None or not self._accounts.is_modelled(view):
            return
        if not self._accounts.answered(pod.uid, old.node, runs=True):
            self._accounts.note("runs-though-refused", pod, old.node)
            self._doubt(old.node)

    def _pod_pending(self, pod: PodRecord, old: Entry | None, now_seconds: float) -> None:
        if old is not None and old.is_assumed and old.pod.demand == pod.demand:
            # A binding was let through and the watch is behind it: the record is news, the place stands.
            self._accounts.amend(replace(old, pod=pod))
            return
        is_waiting = pod.is_unschedulable and not pod.is_refused_at_binding
        holds = not pod.is_gated and not pod.is_deleting and not is_waiting
        if old is not None and holds and _has_virtual_place(old) and _wants_the_same(old.pod, pod):
            # The place of a pod that was turned back stays on time; a claim's does not, now that the pod is stored.
            until = old.until_seconds if old.state is EntryState.PENDING else None
            self._accounts.renew(replace(old, pod=pod, state=EntryState.PENDING, until_seconds=until))
            return
        if old is not None:
            self._accounts.release(old, now_seconds)
        entry = Entry(pod, EntryState.PENDING, tries=old.tries if old is not None else 0)
        if holds:
            self._accounts.plan(entry)
        else:
            self._accounts.keep(entry)

    def _forget(self, uid: str, resource_version: int, now_seconds: float) -> None:
        self._gone[uid] = max(resource_version, self._gone.get(uid, 0))
        self._gone.move_to_end(uid)
        if len(self._gone) > REMEMBERED_GONE:
            self._gone.popitem(last=False)
        entry = self._accounts.entries.get(uid)
        if entry is not None:
            self._accounts.release(entry, now_seconds)

    def _pods_listed(self, event: events.PodsListed, now_seconds: float) -> None:
        for uid, entry in list(self._accounts.entries.items()):
            # A claim may be younger than the list, and ends by itself.
            if uid not in event.uids and entry.is_stored:
                # Without the list's version a record as young as ours counts as news: a lagging API server may have
                # answered the list, and then its watch brings the pod again.
                self._forget(uid, event.resource_version or entry.pod.resource_version - 1, now_seconds)

    # --- claims and bindings ---

    def _claimed(self, event: events.Claimed) -> None:
        uid = event.pod.uid
        if not uid or uid in self._accounts.entries or uid in self._gone or event.node not in self._accounts.views:
            return
        entry = Entry(
            event.pod,
            EntryState.CLAIMED,
            event.node,
            holding=event.placement.holding,
            places=event.placement.containers,
            until_seconds=event.until_seconds,
        )
        self._until(entry)
        self._accounts.reserve(entry)

    def _binding_admitted(self, event: events.BindingAdmitted, now_seconds: float) -> None:
        old = self._accounts.entries.get(event.uid)
        if old is None or event.node not in self._accounts.views:
            return
        if old.state is EntryState.BOUND and (not old.is_assumed or old.node == event.node):
            return
        self._accounts.bind(
            old.pod, event.node, now_seconds, old=old, is_history=False, until_seconds=event.until_seconds
        )
        heapq.heappush(self._deadlines, (event.until_seconds, event.uid))

    def _binding_refused(self, event: events.BindingRefused, now_seconds: float) -> None:
        old = self._accounts.entries.get(event.uid)
        if old is None or (old.state is EntryState.BOUND and not old.is_assumed):
            return
        self._accounts.release(old, now_seconds)
        # A pod that the watch has not shown yet may be a claim that comes to nothing: its entry must end, too.
        entry = Entry(old.pod, EntryState.PENDING, until_seconds=event.until_seconds, tries=old.tries + 1)
        self._until(entry)
        if not self._accounts.reserve_on(entry, event.steer_to):
            self._accounts.keep(replace(entry, until_seconds=None) if entry.is_stored else entry)

    def _room_freed(self, event: events.RoomFreed) -> None:
        old, slot = self._accounts.entries.get(event.uid), self._accounts.index.slot(event.node)
        if old is None or slot is None or old.state is not EntryState.PENDING or old.node:
            return
        if not self._accounts.index.eligible(old.pod.eligibility) >> slot & 1:
            return
        entry = replace(old, until_seconds=event.until_seconds)
        if self._accounts.reserve_on(entry, event.node):
            self._until(entry)

    def _until(self, entry: Entry) -> None:
        if entry.until_seconds is not None:
            heapq.heappush(self._deadlines, (entry.until_seconds, entry.uid))

    def _expire(self, now_seconds: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now_seconds:
            _, uid = heapq.heappop(self._deadlines)
            entry = self._accounts.entries.get(uid)
            if entry is None or entry.until_seconds is None or entry.until_seconds > now_seconds:
                continue
            self._accounts.release(entry, now_seconds)
            if entry.is_assumed:
                self._accounts.note("binding-expired", entry.pod, entry.node)
            if entry.is_stored:
                # The pod exists, only its place was on time: keep the entry, hold nothing.
                self._accounts.keep(Entry(entry.pod, EntryState.PENDING, tries=entry.tries))
            elif not entry.is_assumed:
                self._accounts.note("claim-expired", entry.pod, entry.node)

    # --- surprises ---

    def _reported(self, view: NodeView, report: Report, now_seconds: float) -> None:
        name = view.record.name
        # Which of several accounts is the true one is not known, so places that differ in them are guesses.
        asked = self.charges.doubt(view) if self._accounts.alternatives.of(name) else view
        freed_seconds = self._accounts.freed_seconds.get(name, 0.0)
        found = reconciled(self.charges, asked, report, now_seconds=now_seconds, freed_seconds=freed_seconds)
        if found.view is asked:
            return
        for entry, words in found.elsewhere:
            self._accounts.note("placed-elsewhere", entry.pod, name, words)
        self._accounts.single(view)
        self._accounts.settle(found.view)

    def _doubt(self, node: str) -> None:
        view = self._accounts.views.get(node)
        if view is not None:
            self._accounts.store(self.charges.doubt(self._accounts.single(view)))

    def _note_failure(self, pod: PodRecord, old: Entry | None) -> bool:
        """Note that a kubelet refused a pod, and return whether that tells that it refuses equal ones.

        It does so where we had let the pod through and it had not run: one that ran was refused for what a reboot did
        to its devices. One that we never knew tells nothing.
        """
        if pod.failure_reason not in ADMISSION_ERRORS or old is None:
            return False
        view = self._accounts.views.get(old.node)
        is_charged = old.state is EntryState.BOUND and old.node == pod.node_name
        if (
            not is_charged
            or view is None
            or not self._accounts.is_modelled(view)
            or self._accounts.answered(pod.uid, old.node, runs=False)
        ):
            self._accounts.note("refused-not-prevented", pod, pod.node_name, pod.failure_reason)
            return False
        self._accounts.note("refused-though-allowed", pod, pod.node_name, pod.failure_reason)
        self._doubt(old.node)
        return not old.pod.is_answered


def _has_virtual_place(entry: Entry) -> bool:
    return bool(entry.node) and entry.state is not EntryState.BOUND


def _wants_the_same(one: PodRecord, other: PodRecord) -> bool:
    return one.demand == other.demand and one.eligibility == other.eligibility
