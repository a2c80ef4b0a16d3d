"""The ledger: nodes, pods and who holds what, changed by events alone; in any order, doubled, late or missing."""

import heapq
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from webhook.core.ledger import events
from webhook.core.ledger.charges import Allocators, Charges
from webhook.core.ledger.index import NodeIndex
from webhook.core.ledger.records import AllocatorKind, Entry, EntryState, NodeRecord, NodeView, PodRecord
from webhook.core.ledger.search import Search, find_place

# UIDs of pods that are gone, so that a late event cannot bring one back. Events are late by seconds; at 200 a second
# this many cover more than five minutes, at about 150 bytes each.
REMEMBERED_GONE = 65536

ADMISSION_ERRORS = frozenset({"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"})
"""``status.reason`` of a pod that its kubelet refused for good (``DESIGN.md`` 1)."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the service should log and count."""

    kind: str
    """``refused-though-allowed``, ``runs-though-refused``, ``claim-expired``, ``binding-expired``, ``place-lost``."""
    uid: str
    namespace: str
    name: str
    node: str
    detail: str = ""


class Ledger:
    """All state of the cluster that decisions need. Not thread-safe: one lock around it, held by ``service.book``."""

    def __init__(self, allocators: Allocators) -> None:
        """Start empty, with one allocator model per kind of node."""
        self._charges = Charges(allocators)
        self._index = NodeIndex()
        self._views: dict[str, NodeView] = {}
        self._entries: dict[str, Entry] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._strays: dict[str, dict[str, Entry]] = {}
        """Bound pods whose node is not known (yet, or any more), by node name."""
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._deadlines: list[tuple[float, str]] = []
        self._notices: list[Notice] = []

    # --- reading ---

    @property
    def views(self) -> Mapping[str, NodeView]:
        """Every node by name. The values are immutable; copy the mapping to keep it."""
        return self._views

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every pod by UID."""
        return self._entries

    @property
    def index(self) -> NodeIndex:
        """The index of the nodes, for verdicts."""
        return self._index

    @property
    def charges(self) -> Charges:
        """The account rules, for verdicts."""
        return self._charges

    @property
    def tracked_resources(self) -> frozenset[str]:
        """Device resources that a known machine has: a pod that asks for one is the ledger's business."""
        return frozenset(
            layout.resource
            for _, machine, _ in self._index.groups(self._index.known)
            if machine
            for layout in machine.devices
        )

    def entry(self, uid: str, namespace: str = "", name: str = "") -> Entry | None:
        """Return the entry of ``uid``; with an empty or unknown UID the one of that name."""
        found = self._entries.get(uid)
        if found is None and name:
            found = self._entries.get(self._by_name.get((namespace, name), ""))
        return found

    def find(self, pod: PodRecord, *, avoid: frozenset[str] = frozenset()) -> Search:
        """Return where ``pod`` would go now."""
        return find_place(self._charges, self._index, self._views, pod.demand, pod.eligibility, avoid=avoid)

    def take_notices(self) -> tuple[Notice, ...]:
        """Return what has happened since the last call, and forget it."""
        notices = tuple(self._notices)
        self._notices.clear()
        return notices

    def content(self) -> tuple[object, ...]:
        """Return everything that an answer depends on, as one comparable value: equal ledgers have equal content."""
        return (
            {name: (view.record, view.bound, view.virtual) for name, view in self._views.items()},
            dict(self._entries),
        )

    # --- writing ---

    def apply(self, event: events.LedgerEvent, now_seconds: float) -> None:
        """Take one event. What cannot be (a claim on a node that is gone) is dropped, never raised."""
        match event:
            case events.PodSeen():
                self._pod_seen(event, now_seconds)
            case events.PodGone():
                self._forget(event.uid, event.resource_version, now_seconds)
            case events.NodeSeen():
                self._node_seen(event.record, now_seconds)
            case events.NodeGone():
                self._node_gone(event.name, now_seconds)
            case events.Claimed():
                self._claimed(event, now_seconds)
            case events.BindingAdmitted():
                self._binding_admitted(event, now_seconds)
            case events.BindingRefused():
                self._binding_refused(event, now_seconds)
            case events.PodsListed():
                self._pods_listed(event, now_seconds)
            case events.NodesListed():
                for name in [name for name in self._views if name not in event.names]:
                    self._node_gone(name, now_seconds)
            case events.Diverged():
                view = self._views.get(event.node)
                if view is not None:
                    self._store(self._charges.doubt(view))
            case events.Recalled():
                view = self._views.get(event.node)
                if view is not None:
                    self._settle(self._charges.recall(view, event.uid, event.cpus, event.devices), now_seconds)
            case events.Elapsed():
                pass
        self._expire(now_seconds)

    # --- pods ---

    def _pod_seen(self, event: events.PodSeen, now_seconds: float) -> None:
        pod = event.pod
        gone_at = self._gone.get(pod.uid)
        old = self._entries.get(pod.uid)
        if gone_at is not None or (old is not None and pod.resource_version < old.pod.resource_version):
            return
        if pod.has_ended:
            self._note_failure(pod, old)
            self._forget(pod.uid, pod.resource_version, now_seconds)
            return
        self._by_name[pod.namespace, pod.name] = pod.uid
        if pod.node_name:
            self._pod_bound(pod, old, event.is_history, now_seconds)
        else:
            self._pod_pending(pod, old, now_seconds)

    def _pod_bound(self, pod: PodRecord, old: Entry | None, is_history: bool, now_seconds: float) -> None:
        if old is not None and old.state is EntryState.BOUND and old.node == pod.node_name:
            self._pod_changed(pod, old, now_seconds)
            return
        if old is not None:
            self._release(old, now_seconds)
        view = self._views.get(pod.node_name)
        if view is None:
            entry = Entry(pod, EntryState.BOUND, pod.node_name)
            self._strays.setdefault(pod.node_name, {})[pod.uid] = entry
            self._entries[pod.uid] = entry
            return
        self._settle(self._charges.bind(view, pod, now_seconds, is_history=is_history), now_seconds)

    def _pod_changed(self, pod: PodRecord, old: Entry, now_seconds: float) -> None:
        """Take news of a pod that is bound where we thought."""
        entry = replace(old, pod=pod, is_assumed=False, until_seconds=None)
        view = self._views.get(old.node)
        if view is None:
            self._strays[old.node][pod.uid] = entry
            self._entries[pod.uid] = entry
            return
        if pod.demand != old.pod.demand or (pod.confirmed is not None and pod.confirmed != old.pod.confirmed):
            bound = tuple(entry if other.uid == entry.uid else other for other in view.bound)
            self._settle(self._charges.rebuild(view, view.record, now_seconds, bound), now_seconds)
            return
        view = self._charges.amend(view, entry)
        if pod.phase == "Running" and not old.pod.is_answered and old.holding is None and self._is_modelled(view):
            self._note("runs-though-refused", pod, old.node)
            view = self._charges.doubt(view)
        self._store(view)

    def _pod_pending(self, pod: PodRecord, old: Entry | None, now_seconds: float) -> None:
        if old is not None and old.state is EntryState.BOUND:
            if old.is_assumed:
                # A binding was let through and the watch is behind it: the record is news, the place stands.
                self._store(self._charges.amend(self._views[old.node], replace(old, pod=pod)))
                return
            self._release(old, now_seconds)
            old = None
        holds = (
            not pod.is_gated and not pod.is_deleting and not (pod.is_unschedulable and not pod.is_refused_at_binding)
        )
        if old is not None and old.node and holds and old.pod.demand == pod.demand:
            until = old.until_seconds if pod.is_refused_at_binding else None
            entry = replace(old, pod=pod, state=EntryState.PENDING, until_seconds=until)
            self._settle(self._charges.reserve(self._views[old.node], entry), now_seconds)
            return
        if old is not None:
            self._release(old, now_seconds)
        entry = Entry(pod, EntryState.PENDING, tries=old.tries if old is not None else 0)
        self._entries[pod.uid] = entry
        if holds:
            self._plan(entry, now_seconds)

    def _forget(self, uid: str, resource_version: int, now_seconds: float) -> None:
        self._gone[uid] = resource_version
        self._gone.move_to_end(uid)
        if len(self._gone) > REMEMBERED_GONE:
            self._gone.popitem(last=False)
        entry = self._entries.get(uid)
        if entry is not None:
            self._release(entry, now_seconds)

    def _pods_listed(self, event: events.PodsListed, now_seconds: float) -> None:
        for uid, entry in list(self._entries.items()):
            # A claim, or a binding just let through, may be younger than the list.
            if uid not in event.uids and entry.until_seconds is None:
                self._forget(uid, 0, now_seconds)

    def _release(self, entry: Entry, now_seconds: float) -> None:
        """Take ``entry`` out of the ledger and free what it holds."""
        self._entries.pop(entry.uid, None)
        if self._by_name.get((entry.pod.namespace, entry.pod.name)) == entry.uid:
            del self._by_name[entry.pod.namespace, entry.pod.name]
        view = self._views.get(entry.node)
        if view is None:
            strays = self._strays.get(entry.node)
            if strays is not None:
                strays.pop(entry.uid, None)
                if not strays:
                    del self._strays[entry.node]
            return
        if entry.state is EntryState.BOUND:
            self._settle(self._charges.unbind(view, entry.uid, now_seconds), now_seconds)
        else:
            self._settle(self._charges.free_virtual(view, entry.uid), now_seconds)

    # --- claims and bindings ---

    def _claimed(self, event: events.Claimed, now_seconds: float) -> None:
        if not event.pod.uid or event.pod.uid in self._entries or event.pod.uid in self._gone:
            return
        view = self._views.get(event.node)
        if view is None:
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
        self._settle(self._charges.reserve(view, entry), now_seconds)

    def _binding_admitted(self, event: events.BindingAdmitted, now_seconds: float) -> None:
        old = self._entries.get(event.uid)
        view = self._views.get(event.node)
        if old is None or view is None or old.state is EntryState.BOUND:
            return
        self._release(old, now_seconds)
        self._by_name[old.pod.namespace, old.pod.name] = event.uid
        bound = self._charges.bind(
            self._views[event.node], old.pod, now_seconds, assumed_until_seconds=event.until_seconds
        )
        heapq.heappush(self._deadlines, (event.until_seconds, event.uid))
        self._settle(bound, now_seconds)

    def _binding_refused(self, event: events.BindingRefused, now_seconds: float) -> None:
        old = self._entries.get(event.uid)
        if old is None or old.state is EntryState.BOUND:
            return
        self._release(old, now_seconds)
        self._by_name[old.pod.namespace, old.pod.name] = event.uid
        entry = Entry(old.pod, EntryState.PENDING, until_seconds=event.until_seconds, tries=old.tries + 1)
        self._entries[entry.uid] = entry
        view = self._views.get(event.steer_to)
        if view is None or view.full_state is None:
            self._entries[entry.uid] = replace(entry, until_seconds=None)
            return
        placement = self._charges.place(view, view.full_state, old.pod.demand)
        if placement is not None:
            entry = replace(entry, node=event.steer_to, holding=placement.holding, places=placement.containers)
            self._until(entry)
            self._settle(self._charges.reserve(view, entry), now_seconds)

    def _until(self, entry: Entry) -> None:
        if entry.until_seconds is not None:
            heapq.heappush(self._deadlines, (entry.until_seconds, entry.uid))

    def _expire(self, now_seconds: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now_seconds:
            _, uid = heapq.heappop(self._deadlines)
            entry = self._entries.get(uid)
            if entry is None or entry.until_seconds is None or entry.until_seconds > now_seconds:
                continue
            self._release(entry, now_seconds)
            if entry.state is EntryState.CLAIMED:
                self._note("claim-expired", entry.pod, entry.node)
                continue
            # The pod exists, only its place was on time: keep the entry, hold nothing.
            if entry.is_assumed:
                self._note("binding-expired", entry.pod, entry.node)
            self._by_name[entry.pod.namespace, entry.pod.name] = uid
            self._entries[uid] = Entry(entry.pod, EntryState.PENDING, tries=entry.tries)

    # --- nodes ---

    def _node_seen(self, record: NodeRecord, now_seconds: float) -> None:
        view = self._views.get(record.name)
        if view is None:
            view = self._charges.open(record, now_seconds)
            for entry in self._strays.pop(record.name, {}).values():
                view = self._charges.bind(view, entry.pod, now_seconds, is_history=True)
        elif view.record == record:
            return
        elif view.record.machine == record.machine and view.record.unhealthy == record.unhealthy:
            view = replace(view, record=record)
        else:
            view = self._charges.rebuild(view, record, now_seconds)
        self._settle(view, now_seconds, is_new_record=True)

    def _node_gone(self, name: str, now_seconds: float) -> None:
        view = self._views.pop(name, None)
        if view is None:
            return
        self._index.drop(name)
        for entry in view.bound:
            stray = replace(entry, holding=None, places=())
            self._strays.setdefault(name, {})[entry.uid] = stray
            self._entries[entry.uid] = stray
        for entry in view.virtual:
            self._lose(entry, now_seconds)

    # --- keeping everything in step ---

    def _settle(self, view: NodeView, now_seconds: float, *, is_new_record: bool = False) -> None:
        """Store ``view`` with its virtual places computed anew; those that lost theirs are planned elsewhere."""
        view, lost = self._charges.settle(view)
        self._store(view, is_new_record=is_new_record)
        for entry in lost:
            self._lose(entry, now_seconds)

    def _store(self, view: NodeView, *, is_new_record: bool = False) -> None:
        name = view.record.name
        before = self._views.get(name)
        self._views[name] = view
        for entry in (*view.bound, *view.virtual):
            self._entries[entry.uid] = entry
        if before is None or is_new_record:
            self._index.put(view)
        elif before.full_state != view.full_state or before.full_totals != view.full_totals:
            self._index.put_room(view)
        self._index.mark(view)

    def _lose(self, entry: Entry, now_seconds: float) -> None:
        """Reality took the virtual place of ``entry``: find another, or hold nothing."""
        self._note("place-lost", entry.pod, entry.node)
        homeless = replace(entry, node="", holding=None, places=())
        self._entries[entry.uid] = homeless
        self._plan(homeless, now_seconds)

    def _plan(self, entry: Entry, now_seconds: float) -> None:
        """Give an unbound pod a virtual place, if its kind of demand holds anything and there is room."""
        demand = entry.pod.demand
        if not any(container.devices or demand.exclusive_cpus(container) for container in demand.containers):
            return
        found = self.find(entry.pod)
        if found.placement is None:
            return
        placed = replace(entry, node=found.node, holding=found.placement.holding, places=found.placement.containers)
        self._settle(self._charges.reserve(self._views[found.node], placed), now_seconds)

    def _is_modelled(self, view: NodeView) -> bool:
        return view.record.machine is not None and view.record.allocator is AllocatorKind.KUBELET

    def _note_failure(self, pod: PodRecord, old: Entry | None) -> None:
        if pod.failure_reason not in ADMISSION_ERRORS or not pod.node_name:
            return
        view = self._views.get(pod.node_name)
        if view is None or not self._is_modelled(view):
            return
        if old is not None and old.node == pod.node_name and old.holding is None:
            return  # the model had expected the refusal
        self._note("refused-though-allowed", pod, pod.node_name, pod.failure_reason)
        self._store(self._charges.doubt(view))

    def _note(self, kind: str, pod: PodRecord, node: str, detail: str = "") -> None:
        self._notices.append(Notice(kind, pod.uid, pod.namespace, pod.name, node, detail))
