"""All accounts together: nodes, entries, names and index are kept in step here, whatever event asks for the change."""

from dataclasses import dataclass, replace
from itertools import chain

from webhook.core.demand import CpuBinding, PodDemand
from webhook.core.ledger.alternatives import Alternatives, entry_of
from webhook.core.ledger.charges import Allocators, Charges
from webhook.core.ledger.holdings import elsewhere
from webhook.core.ledger.index import NodeIndex
from webhook.core.ledger.records import AllocatorKind, Certainty, Entry, EntryState, NodeRecord, NodeView, PodRecord
from webhook.core.ledger.search import Search, find_place, place_among
from webhook.core.ledger.virtual_places import VirtualPlaces
from webhook.core.occupancy import holds_nothing


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the service should log and count."""

    kind: str
    """``refused-though-allowed``, ``refused-not-prevented`` (as the model says, or where there is none: the binding
    passed unjudged, by a setting, or because the guard gave way), ``runs-though-refused``, ``placed-elsewhere`` (a
    source tells of another place than was replayed), ``claim-expired``, ``binding-expired``, ``place-lost``."""
    uid: str
    namespace: str
    name: str
    node: str
    detail: str = ""


class Accounts:
    """Every node's account and every pod's entry. An entry stands in ``entries`` and, if it has a node, there too."""

    def __init__(self, allocators: Allocators) -> None:
        """Start empty."""
        self.charges = Charges(allocators)
        self._virtual = VirtualPlaces(self.charges)
        self.alternatives = Alternatives(self.charges)
        self.index = NodeIndex(frozenset(allocators))
        self.views: dict[str, NodeView] = {}
        self.refused: dict[str, set[PodDemand]] = {}
        """Demands that a node's kubelet refused against our expectation, until something is freed there."""
        self.freed_seconds: dict[str, float] = {}
        """When a pod that held something was last heard to end on a node."""
        self.entries: dict[str, Entry] = {}
        self.notices: list[Notice] = []
        self._waiting: dict[str, Entry] = {}
        """Unbound pods that are to get a virtual place, in the order in which they came (``plan``)."""
        # Namespace -> name -> UID. Not keyed by pairs: the garbage collector walks a dict of 100,000 tuples whenever
        # one was added (6 to 20 ms), and dicts of texts never.
        self._by_name: dict[str, dict[str, str]] = {}
        self._strays: dict[str, dict[str, Entry]] = {}
        """Bound pods whose node is not known (yet, or any more), by node name."""

    def named(self, namespace: str, name: str) -> Entry | None:
        """Return the entry of the pod that was seen last under a name; one that is stored goes before one asked for."""
        return self.entries.get(self._by_name.get(namespace, {}).get(name, ""))

    def find(self, pod: PodRecord, *, avoid: frozenset[str] = frozenset()) -> Search:
        """Return where ``pod`` would go now."""
        return find_place(self.charges, self.index, self.views, pod.demand, pod.eligibility, avoid=avoid)

    def find_among(self, demand: PodDemand, eligible: int) -> Search:
        """Return where a pod of ``demand`` would go now that may go to the ``eligible`` slots."""
        return place_among(self.charges, self.index, self.views, demand, eligible)

    def note(self, kind: str, pod: PodRecord, node: str, detail: str = "") -> None:
        """Keep a notice for the service."""
        self.notices.append(Notice(kind, pod.uid, pod.namespace, pod.name, node, detail))

    # --- entries ---

    def bind(
        self,
        pod: PodRecord,
        node: str,
        now_seconds: float,
        *,
        old: Entry | None,
        is_history: bool,
        until_seconds: float | None = None,
    ) -> None:
        """Charge ``pod`` to a node, in place of its ``old`` entry if it has one.

        ``until_seconds``: bound by a binding that the watch has not shown. A node that is not known (yet) has no
        account; its pods wait for it.
        """
        view = self.views.get(node)
        if old is not None and (view is None or old.node != node or old.state is EntryState.BOUND):
            self.release(old, now_seconds)
            view, old = self.views.get(node), None
        if view is None:
            entry = Entry(
                pod,
                EntryState.BOUND,
                node,
                until_seconds=until_seconds,
                is_assumed=until_seconds is not None,
            )
            self._strays.setdefault(node, {})[pod.uid] = entry
            self._remember(entry)
            return
        if old is not None:  # bound where it had its virtual place: one change of the account
            view = self._virtual.free(view, pod.uid)
        self.alternatives.bound(node, pod, now_seconds, is_history=is_history, until_seconds=until_seconds)
        self.settle(
            self.charges.bind(view, pod, now_seconds, is_history=is_history, assumed_until_seconds=until_seconds)
        )

    def amend(self, entry: Entry) -> None:
        """Replace the record of a bound pod; its place stays."""
        view = self.views.get(entry.node)
        if view is not None:
            self.alternatives.amended(entry)
            self.store(self.charges.amend(view, entry))
            return
        self._strays[entry.node][entry.uid] = entry
        self._remember(entry)

    def reserve(self, entry: Entry) -> None:
        """Give an unbound pod its virtual place on ``entry.node``, which is known."""
        self._remember(entry)
        view = self._virtual.reserve(self.views[entry.node], entry)
        self.store(view)
        if not view.virtual or view.virtual[-1].uid != entry.uid:
            self._lose(entry)

    def renew(self, entry: Entry) -> None:
        """Replace the record of an unbound pod that has a virtual place; the place stays."""
        self.store(self._virtual.renew(self.views[entry.node], entry))

    def keep(self, entry: Entry) -> None:
        """Keep an unbound pod that has no place."""
        self._remember(entry)

    def release(self, entry: Entry, now_seconds: float) -> None:
        """Take ``entry`` out and free what it holds."""
        del self.entries[entry.uid]
        self._waiting.pop(entry.uid, None)
        self._forget_name(entry)
        view = self.views.get(entry.node)
        if view is None:
            strays = self._strays.get(entry.node)
            if strays is not None:
                strays.pop(entry.uid, None)
                if not strays:
                    del self._strays[entry.node]
        elif entry.state is EntryState.BOUND:
            self.refused.pop(entry.node, None)
            if entry.holding is None or not holds_nothing(entry.holding):
                self.freed_seconds[entry.node] = now_seconds
            after = self.charges.unbind(view, entry.uid, now_seconds)
            if not self.alternatives.released(view, after, entry, now_seconds):
                after = self.charges.doubt(after)
            self.settle(after)
        else:
            self.settle(self._virtual.free(view, entry.uid))

    # --- virtual places ---

    def plan(self, entry: Entry) -> None:
        """Keep an unbound pod; it gets a virtual place if its kind of demand holds anything and there is room.

        The place is searched by ``plan_next``: a search costs as much as a decision, an event must cost less. Whoever
        looks at places, or changes a node, calls ``plan_waiting`` first; so it is the place that the pod would have got
        at once.
        """
        self._remember(entry)
        demand = entry.pod.demand
        if demand.cpu_binding is not CpuBinding.NONE or any(
            container.devices or demand.exclusive_cpus(container) for container in demand.containers
        ):
            self._waiting[entry.uid] = entry

    @property
    def has_waiting(self) -> bool:
        """Whether a pod is still to get its virtual place."""
        return bool(self._waiting)

    def plan_next(self) -> bool:
        """Place the pod that waits longest for its virtual place, if there is room; return whether another waits."""
        if self._waiting:
            entry = self._waiting.pop(next(iter(self._waiting)))
            node = entry.pod.nominated_node
            if not node or not self.reserve_on(entry, node):
                found = self.find(entry.pod)
                if found.placement is not None:
                    place = found.placement
                    self.reserve(replace(entry, node=found.node, holding=place.holding, places=place.containers))
        return self.has_waiting

    def plan_waiting(self) -> None:
        """Place all pods that wait for their virtual place."""
        while self._waiting:
            self.plan_next()

    def reserve_on(self, entry: Entry, node: str) -> bool:
        """Give an unbound pod a virtual place on ``node`` if the node takes it; return whether it does."""
        view = self.views.get(node)
        if view is None or view.full_state is None:
            return False
        if not view.record.has_plain_room(view.full_totals, entry.pod.demand):
            return False
        placement = self.charges.place(view, view.full_state, entry.pod.demand)
        if placement is None:
            return False
        self.reserve(replace(entry, node=node, holding=placement.holding, places=placement.containers))
        return True

    # --- names ---

    def _remember(self, entry: Entry) -> None:
        before = self.entries.get(entry.uid)
        self.entries[entry.uid] = entry
        pod = entry.pod
        if before is not None and before.pod.name != pod.name:
            self._forget_name(before)
            before = None
        if before is None or before.is_stored is not entry.is_stored:
            holder = self.named(pod.namespace, pod.name)
            # A create of a name that exists comes to nothing: the name stays with the pod that is stored.
            if holder is None or entry.is_stored or not holder.is_stored:
                self._by_name.setdefault(pod.namespace, {})[pod.name] = pod.uid

    def _forget_name(self, entry: Entry) -> None:
        pod = entry.pod
        names = self._by_name.get(pod.namespace)
        if names is not None and names.get(pod.name) == pod.uid:
            del names[pod.name]
            if not names:
                del self._by_name[pod.namespace]

    # --- nodes ---

    def open_node(self, record: NodeRecord, now_seconds: float) -> None:
        """Add a node or take over its new record."""
        view = self.views.get(record.name)
        if view is None:
            view = self.charges.open(record, now_seconds)
            for entry in self._strays.pop(record.name, {}).values():
                until = entry.until_seconds if entry.is_assumed else None
                view = self.charges.bind(view, entry.pod, now_seconds, is_history=True, assumed_until_seconds=until)
        else:
            old = view.record
            if old == record:
                return
            if old.allocatable != record.allocatable:  # such as a device plugin that has come
                self.refused.pop(record.name, None)
            if (old.machine, old.unhealthy, old.allocator) == (record.machine, record.unhealthy, record.allocator):
                view = replace(view, record=record)
                self.alternatives.recorded(view)
            else:
                view = self.charges.rebuild(self.single(view), record, now_seconds)
        self.settle(view, is_new_record=True)

    def close_node(self, name: str) -> None:
        """Forget a node; its bound pods wait for it or for their end, its virtual places move elsewhere."""
        view = self.views.pop(name, None)
        if view is None:
            return
        self.index.drop(name)
        self.alternatives.drop(name)
        self.refused.pop(name, None)
        self.freed_seconds.pop(name, None)
        for entry in view.bound:
            stray = replace(entry, holding=None, places=())
            self._strays.setdefault(name, {})[entry.uid] = stray
            self.entries[entry.uid] = stray
        for entry in view.virtual:
            self._lose(entry)

    def single(self, view: NodeView) -> NodeView:
        """Return the account as the only one of its node, doubted if there were others: for what they cannot follow."""
        self.refused.pop(view.record.name, None)
        return self.charges.doubt(view) if self.alternatives.drop(view.record.name) else view

    def answered(self, uid: str, node: str, *, runs: bool) -> bool:
        """Keep the accounts of ``node`` that expected the kubelet's answer for a pod; return whether any did."""
        view = self.views.get(node)
        if view is None:
            return True
        agreed = self.alternatives.answered(view, uid, runs=runs)
        if agreed is not None and agreed is not view:
            self.settle(replace(agreed, virtual=view.virtual))
        return agreed is not None

    def told_elsewhere(self, view: NodeView, pod: PodRecord) -> str:
        """Return in words how sources tell of another place of a bound pod than was replayed; empty where none does."""
        if not self.is_modelled(view) or view.is_doubted:
            return ""
        words = ""
        for account in (view, *self.alternatives.of(view.record.name)):
            entry = entry_of(account, pod.uid)
            if entry is None or entry.certainty is not Certainty.REPLAYED or entry.holding is None:
                return ""
            words = elsewhere(view.record, pod, entry.holding)
            if not words:
                return ""
        return words

    def is_modelled(self, view: NodeView) -> bool:
        """Return whether the kubelet model answers for the node, so that a surprise there means something."""
        return view.record.machine is not None and view.record.allocator is AllocatorKind.KUBELET

    # --- keeping everything in step ---

    def settle(self, view: NodeView, *, is_new_record: bool = False) -> None:
        """Store ``view`` with its virtual places computed anew; those that lost theirs are planned elsewhere."""
        view, lost = self._virtual.settle(view)
        self.store(view, is_new_record=is_new_record)
        for entry in lost:
            self._lose(entry)

    def store(self, view: NodeView, *, is_new_record: bool = False) -> None:
        """Take over a settled account."""
        name = view.record.name
        before = self.views.get(name)
        self.views[name] = view
        entries = self.entries
        for entry in chain(view.bound, view.virtual):
            if entries.get(entry.pod.uid) is not entry:
                self._remember(entry)
        if before is None or is_new_record:
            self.index.put(view)
        else:
            is_same_state = before.full_state == view.full_state
            if not is_same_state or before.full_totals != view.full_totals:
                self.index.put_room(view, is_same_state=is_same_state)
        self.index.mark(view, is_open=bool(self.alternatives.of(name)))

    def _lose(self, entry: Entry) -> None:
        """Reality took the virtual place of ``entry``: find another, or hold nothing."""
        self.note("place-lost", entry.pod, entry.node)
        self.plan(replace(entry, node="", holding=None, places=()))
