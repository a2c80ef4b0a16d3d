"""Random walks over all events: a cluster, a ledger that hears of it badly, and what must hold after each event."""

from dataclasses import replace
from random import Random

from ledger_world import (
    GPU,
    ledger,
    random_confirmed,
    random_demand,
    random_eligibility,
    random_machines,
    random_node,
)

from webhook.core.ledger import events
from webhook.core.ledger.charges import with_pod
from webhook.core.ledger.holdings import told
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import Certainty, EntryState, PodRecord, Report

NAMES = [f"n{at}" for at in range(4)]


class Walk:
    """A cluster as the API server holds it, and a ledger that hears of it badly."""

    def __init__(self, seed: int) -> None:
        """Start with nothing known."""
        self.random = Random(seed)
        self.machines = random_machines(self.random)
        self.ledger = ledger()
        self.now = 1000.0
        self.version = 10
        self.nodes: dict = {}
        self.pods: dict[str, PodRecord] = {}
        self.heard: list = []
        self.unheard: list = []
        self.made = 0

    def apply(self, event) -> None:
        """Tell the ledger, and check what must always hold."""
        self.ledger.apply(event, self.now)
        check_books(self.ledger, self.now)

    def tell(self, event) -> None:
        """Tell the ledger now, later, twice or never."""
        fate = self.random.random()
        if fate < 0.65:
            self.apply(event)
        elif fate < 0.75:
            self.apply(event)
            self.apply(event)
        elif fate < 0.9:
            self.unheard.append(event)
        self.heard.append(event)

    def step(self) -> None:
        """Let one thing happen."""
        random = self.random
        self.now += random.choice([0.0, 0.1, 1.0, 4.0])
        actions = [self.create, self.create, self.claim, self.bind, self.bind, self.change, self.change, self.end]
        actions += [self.refuse, self.assume, self.nodes_change, self.late, self.surprise, self.recall, self.report]
        random.choice(actions)()

    def _stored(self, pod: PodRecord, **changes) -> PodRecord:
        self.version += 1
        pod = replace(pod, resource_version=self.version, **changes)
        self.pods[pod.uid] = pod
        return pod

    def create(self) -> None:
        """A pod is stored."""
        self.tell(events.PodSeen(self._stored(self.new_pod())))

    def new_pod(self) -> PodRecord:
        """Return a pod that is asked for."""
        self.made += 1
        return PodRecord(
            uid=f"uid-{self.made}",
            namespace="team",
            name=f"pod-{self.made % 7}",
            demand=random_demand(self.random),
            eligibility=random_eligibility(self.random, NAMES),
            is_gated=self.random.random() < 0.05,
            created_seconds=float(int(self.now)),
        )

    def claim(self) -> None:
        """A create is admitted; it is stored, or refused by somebody after us."""
        asked = self.new_pod()
        found = self.ledger.find(asked)
        if found.placement is not None:
            event = events.Claimed(asked, found.node, found.placement, self.now + 5)
            self.apply(event)
            if self.random.random() < 0.3:
                self.apply(event)
        if self.random.random() < 0.7:
            self.tell(events.PodSeen(self._stored(asked)))

    def unbound(self) -> list[PodRecord]:
        """Return the pods that no node has."""
        return [pod for pod in self.pods.values() if not pod.node_name]

    def bind(self) -> None:
        """The API server stores a binding, heeding nobody."""
        waiting = self.unbound()
        if waiting:
            where = self.random.choice([*NAMES, "n9"])
            pod = self._stored(self.random.choice(waiting), node_name=where)
            self.tell(events.PodSeen(pod, is_history=self.random.random() < 0.1))

    def assume(self) -> None:
        """A binding is let through; often nothing comes of it."""
        if self.ledger.entries:
            uid = self.random.choice(sorted(self.ledger.entries))
            self.apply(events.BindingAdmitted(uid, self.random.choice(NAMES), self.now + 10))

    def refuse(self) -> None:
        """A binding is turned back."""
        if self.ledger.entries:
            uid = self.random.choice(sorted(self.ledger.entries))
            self.apply(events.BindingRefused(uid, self.random.choice([*NAMES, ""]), self.now + 60))

    def change(self) -> None:
        """A pod's status, annotations or resources change."""
        if not self.pods:
            return
        random = self.random
        pod = self.pods[random.choice(sorted(self.pods))]
        changes = random.choice(
            [
                {"is_deleting": True},
                {"is_unschedulable": not pod.is_unschedulable, "is_refused_at_binding": random.random() < 0.5},
                {"is_gated": False},
                {"phase": "Running", "is_answered": True} if pod.node_name else {},
                {"confirmed": random_confirmed(random, pod.demand)} if pod.node_name else {},
                {"confirmed": random_confirmed(random, pod.demand)} if pod.node_name else {},
                {"demand": random_demand(random)},
                {"nominated_node": random.choice(["", *NAMES])},
            ]
        )
        self.tell(events.PodSeen(self._stored(pod, **changes)))

    def end(self) -> None:
        """A pod ends by itself, is refused by its kubelet, or is deleted."""
        if not self.pods:
            return
        random = self.random
        uid = random.choice(sorted(self.pods))
        if random.random() < 0.5:
            pod = self._stored(self.pods[uid], phase=random.choice(["Succeeded", "Failed"]))
            reason = "TopologyAffinityError" if pod.phase == "Failed" and random.random() < 0.5 else ""
            self.tell(events.PodSeen(replace(pod, failure_reason=reason)))
            del self.pods[uid]
        else:
            del self.pods[uid]
            self.version += 1
            self.tell(events.PodGone(uid, self.version))

    def nodes_change(self) -> None:
        """A node comes, goes, is rebuilt, relabelled, cordoned, or loses a device."""
        name = self.random.choice(NAMES)
        if self.random.random() < 0.25:
            self.nodes.pop(name, None)
            self.tell(events.NodeGone(name))
            return
        machines = self.machines
        old = self.nodes.get(name)
        if old is not None and old.machine is not None and self.random.random() < 0.6:
            machines = [old.machine]
        self.nodes[name] = random_node(self.random, name, machines)
        self.tell(events.NodeSeen(self.nodes[name]))

    def late(self) -> None:
        """Something comes late, or a second time."""
        random = self.random
        if self.unheard and random.random() < 0.7:
            self.apply(self.unheard.pop(random.randrange(len(self.unheard))))
        elif self.heard:
            self.apply(random.choice(self.heard))

    def surprise(self) -> None:
        """The kubelet did what was not expected, or time passes."""
        self.now += self.random.choice([0.0, 30.0])
        self.apply(self.random.choice([events.Diverged(self.random.choice(NAMES)), events.Elapsed()]))

    def recall(self) -> None:
        """A checkpoint speaks."""
        if self.pods:
            node = self.pods[self.random.choice(sorted(self.pods))].node_name or "n0"
            places = [
                events.RecalledPlace(pod.uid, place.cpus or 0, place.devices)
                for pod in self.pods.values()
                if pod.node_name in {node, ""} and (place := random_confirmed(self.random, pod.demand)) is not None
            ]
            self.apply(events.Recalled(node, tuple(places)))

    def report(self) -> None:
        """A node counts what it gave out, or somebody says that it did."""
        name = self.random.choice(NAMES)
        view = self.ledger.views.get(name)
        numa = len(view.record.machine.numa_ids) if view and view.record.machine else 2
        busy = {resource: tuple(self.random.choice([0, 0, 1, 2, 3]) for _ in range(numa)) for resource in ("cpu", GPU)}
        self.apply(events.Reported(name, Report(float(int(self.now)), busy)))

    def list_all(self) -> None:
        """A fresh list, in the order in which a reflector tells it."""
        for record in self.nodes.values():
            self.apply(events.NodeSeen(record))
        self.apply(events.NodesListed(frozenset(self.nodes)))
        for pod in self.pods.values():
            self.apply(events.PodSeen(pod, is_history=True))
        self.apply(events.PodsListed(frozenset(self.pods), self.now, self.version))

    def fresh(self) -> Ledger:
        """Return a ledger that knows nothing but the list, in another order."""
        made = ledger()
        for record in reversed(self.nodes.values()):
            made.apply(events.NodeSeen(record), self.now)
        for pod in reversed(self.pods.values()):
            made.apply(events.PodSeen(pod, is_history=True), self.now)
        return made


def check_books(ledger: Ledger, now: float) -> None:
    """Check conservation, and that every account, entry and column says the same."""
    seen = {}
    for name, view in ledger.views.items():
        assert view.record.name == name
        totals: dict[str, int] = {}
        for entry in view.bound:
            assert entry.state is EntryState.BOUND
            totals = with_pod(totals, entry.pod.demand)
        assert {k: v for k, v in view.bound_totals.items() if v} == {k: v for k, v in totals.items() if v}
        assert all(amount >= 0 for amount in view.bound_totals.values())
        for entry in view.virtual:
            assert entry.state is not EntryState.BOUND
            assert entry.certainty is Certainty.VIRTUAL
            totals = with_pod(totals, entry.pod.demand)
        assert {k: v for k, v in view.full_totals.items() if v} == {k: v for k, v in totals.items() if v}
        for entry in (*view.bound, *view.virtual):
            assert entry.node == name
            seen[entry.uid] = entry
        check_room(view)
        for other in ledger.alternatives(name):
            assert [entry.uid for entry in other.bound] == [entry.uid for entry in view.bound]
            assert other.record == view.record
            check_room(replace(other, full_state=other.bound_state, virtual=()))
    for uid, entry in ledger.entries.items():
        assert entry.uid == uid
        if entry.node in ledger.views:
            assert seen.pop(uid) is entry
        else:
            assert not entry.node or entry.state is EntryState.BOUND
        assert entry.until_seconds is None or entry.until_seconds > now, "outlived its moment"
        assert entry.is_stored or entry.until_seconds is not None, "a claim without an end"
    assert not seen, "an account holds what no entry tells"


def check_room(view) -> None:
    """Check free + reserved + held = total for each NUMA node and resource, and that nothing is given twice."""
    machine = view.record.machine
    if machine is None:
        assert view.bound_state is None
        return
    for state, entries in ((view.bound_state, view.bound), (view.full_state, (*view.bound, *view.virtual))):
        cpus, devices = 0, [0] * len(machine.devices)
        for entry in entries:
            if entry.holding is None:
                continue
            is_told = told(view.record, entry.pod) is not None and entry.state is EntryState.BOUND
            twice = cpus & entry.holding.cpus, [a & b for a, b in zip(devices, entry.holding.devices, strict=True)]
            if twice[0] or any(twice[1]):
                assert is_told or any(told(view.record, other.pod) for other in entries), "given twice by the model"
            cpus |= entry.holding.cpus
            devices = [a | b for a, b in zip(devices, entry.holding.devices, strict=True)]
        assert list(state.busy_devices) == devices
        assert state.unhealthy_devices == (view.record.unhealthy or (0,) * len(devices))
        for position, of_numa in enumerate(machine.cpus.numa_cpus):
            free, reserved = state.free_cpus & of_numa, machine.reserved_cpus & of_numa
            held = cpus & of_numa & ~reserved
            assert free.bit_count() + reserved.bit_count() + held.bit_count() == of_numa.bit_count()
            assert not free & held
            for index, layout in enumerate(machine.devices):
                there = layout.touching(1 << position)
                healthy_free = state.free_devices(machine, index) & there
                broken_free = there & state.unhealthy_devices[index] & ~devices[index]
                assert (healthy_free | broken_free | devices[index] & there) == there
                assert not healthy_free & devices[index]
