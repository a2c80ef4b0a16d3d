"""The index against a plain scan: a walk over all nodes, written as the rules read, finds the same nodes."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_world import GPU, KUBELET, ledger, random_demand, random_eligibility, random_machines, random_node

from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger import events
from webhook.core.ledger.columns import KEPT_AMOUNTS, Column, LabelColumn
from webhook.core.ledger.records import PodRecord
from webhook.core.ledger.verdicts import Outcome, judge, replicas_that_fit
from webhook.core.machine import NodeState
from webhook.core.node_selection import KUBELET_EFFECTS, SCHEDULER_EFFECTS, matches_terms, tolerates_cordon, untolerated
from webhook.core.placement import Placement

NAMES = [f"n{at}" for at in range(7)]


def crowded(seed: int):
    """Return a ledger of random nodes with pods on them, bound by a scheduler that knows nothing."""
    random = Random(seed)
    machines = random_machines(random)
    made = ledger()
    for name in NAMES:
        made.apply(events.NodeSeen(random_node(random, name, machines)), 0.0)
    for at in range(random.choice([0, 5, 20])):
        pod = random_pod(random, f"uid-{at}")
        where = random.choice([*NAMES, ""])
        made.apply(events.PodSeen(replace(pod, node_name=where)), 1.0)
    for name in random.sample(NAMES, 3):  # changed nodes move in the columns
        made.apply(events.NodeSeen(random_node(random, name, machines)), 2.0)
    if random.random() < 0.3:
        made.apply(events.NodeGone(random.choice(NAMES)), 2.0)
    return random, made


def random_pod(random: Random, uid: str) -> PodRecord:
    """Return a pod that is asked for or stored."""
    return PodRecord(
        uid=uid,
        namespace="team",
        name=uid,
        demand=random_demand(random),
        eligibility=random_eligibility(random, NAMES),
        resource_version=1,
    )


# --- the plain scan ---


def scan_eligible(made, pod: PodRecord) -> set[str]:
    """Return the nodes that a scheduler may bind ``pod`` to, room aside."""
    wish, result = pod.eligibility, set()
    for name, view in made.views.items():
        facts = view.record.facts
        effects = KUBELET_EFFECTS if wish.node_name else SCHEDULER_EFFECTS
        if (
            facts.ready
            and (wish.node_name in {"", name})
            and (not facts.unschedulable or wish.node_name or tolerates_cordon(wish.tolerations))
            and all(facts.labels.get(key) == value for key, value in wish.node_selector)
            and (wish.required_terms is None or matches_terms(wish.required_terms, facts.labels, name))
            and untolerated(wish.tolerations, facts.taints, effects) is None
        ):
            result.add(name)
    return result


def scan_plain(made, pod: PodRecord, nodes: set[str]) -> set[str]:
    """Return those of ``nodes`` whose plain counts leave room."""
    result = set()
    for name in nodes:
        view = made.views[name]
        offers = view.record.allocatable
        left = {resource: total - view.full_totals.get(resource, 0) for resource, total in offers.items()}
        wants = {resource: amount for resource, amount in pod.demand.totals.items() if amount > 0}
        if left.get("pods", 1) >= 1 and all(left.get(resource, 0) >= amount for resource, amount in wants.items()):
            result.add(name)
    return result


def scan_fits(made, pod: PodRecord, nodes: set[str]) -> set[str]:
    """Return those of ``nodes`` whose kubelet says yes."""
    result = set()
    for name in nodes:
        view = made.views[name]
        if view.record.allocator is KUBELET and view.record.machine is not None:
            answer = KubeletAllocator().place(view.record.machine, view.full_state, pod.demand)
            if isinstance(answer, Placement):
                result.add(name)
    return result


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_the_index_finds_what_a_scan_finds(seed):
    """Eligible nodes, those with plain room, and whether and where the pod fits are those of the plain scan."""
    random, made = crowded(seed)
    for at in range(6):
        pod = random_pod(random, f"new-{at}")
        eligible = scan_eligible(made, pod)
        plain = scan_plain(made, pod, eligible)
        fits = scan_fits(made, pod, plain)
        found = made.find(pod)
        assert set(made.index.names(found.eligible)) == eligible
        assert set(made.index.names(found.plain)) == plain
        assert fits <= set(made.index.names(found.numa)), "the index ruled out a node that takes the pod"
        assert bool(fits) is (found.placement is not None)
        assert not found.node or found.node in fits
        spared = made.find(pod, avoid=frozenset(fits))
        assert spared.placement is None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_the_outcome_is_that_of_a_scan(seed):
    """The five outcomes, in their order, as their definitions read."""
    random, made = crowded(seed)
    for at in range(6):
        pod = random_pod(random, f"new-{at}")
        assert judge(made, pod).outcome is scan_outcome(made, pod)


def scan_outcome(made, pod: PodRecord) -> Outcome:
    """Return the outcome by walking all nodes, one definition after the other."""
    eligible = scan_eligible(made, pod)
    plain = scan_plain(made, pod, eligible)
    if scan_fits(made, pod, plain):
        return Outcome.FITS
    open_to = {name for name in made.views if name in scan_eligible(_opened(made, name), pod)}
    blank = {name for name in open_to if not _is_known(made, name) and _could_hold(made, name, pod)}
    if blank & eligible:
        return Outcome.UNKNOWN
    known = {name for name in open_to if _is_known(made, name)}
    if not blank and not any(_could_hold(made, name, pod) and _takes_empty(made, name, pod) for name in known):
        return Outcome.NEVER if known else Outcome.UNKNOWN
    if not eligible:
        return Outcome.UNKNOWN
    return Outcome.WOULD_FAIL if (eligible if pod.eligibility.node_name else plain) else Outcome.WOULD_WAIT


def _opened(made, name: str):
    """Return a ledger of the one node, ready and uncordoned."""
    record = made.views[name].record
    return ledger(replace(record, facts=replace(record.facts, ready=True, unschedulable=False)))


def _is_known(made, name: str) -> bool:
    record = made.views[name].record
    return record.machine is not None and record.allocator is KUBELET


def _could_hold(made, name: str, pod: PodRecord) -> bool:
    offers = made.views[name].record.allocatable
    return all(offers.get(resource, 0) >= amount for resource, amount in pod.demand.totals.items() if amount > 0)


def _takes_empty(made, name: str, pod: PodRecord) -> bool:
    on = made.views[name].record.machine
    return isinstance(KubeletAllocator().place(on, NodeState.empty(on), pod.demand), Placement)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 30))
def test_replicas_are_counted_as_if_they_were_placed(seed, replicas):
    """Equal pods that are counted are those that could be placed one after the other, node by node."""
    random, made = crowded(seed)
    pod = random_pod(random, "new")
    total = 0
    for name in scan_plain(made, pod, scan_eligible(made, pod)):
        view = made.views[name]
        state, totals = view.full_state, dict(view.full_totals)
        while _is_known(made, name) and total < 1000 and view.record.has_plain_room(totals, pod.demand):
            answer = KubeletAllocator().place(view.record.machine, state, pod.demand)
            if not isinstance(answer, Placement):
                break
            state, total = answer.state, total + 1
            for resource, amount in {**pod.demand.totals, "pods": 1}.items():
                totals[resource] = totals.get(resource, 0) + amount
    count = replicas_that_fit(made, pod, replicas)
    assert count.pods == min(total, replicas)


# --- columns ---


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-3, 9)), max_size=60), st.integers(-2, 10))
def test_a_column_answers_like_a_list(changes, amount):
    """Kept masks follow every change."""
    column, values = Column(21), [0] * 21
    for slot, value in changes:
        column.at_least(amount)
        column.set(slot, value)
        values[slot] = value
    assert column.at_least(amount) == sum(1 << slot for slot, value in enumerate(values) if value >= amount)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 199), st.integers(0, 9), st.integers(-2, 12)), max_size=60))
def test_a_column_answers_between_the_masks_that_it_keeps(steps):
    """In a wide column a new amount is answered from its neighbours' masks: the answer is that of a scan."""
    column, values = Column(200), [0] * 200
    for slot, value, amount in steps:
        column.set(slot, value)
        values[slot] = value
        assert column.at_least(amount) == sum(1 << at for at, number in enumerate(values) if number >= amount)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.booleans())
def test_nodes_come_by_their_free_devices(seed, most_first):
    """Sets of equally many free devices, in order; nodes with none are left out."""
    _, made = crowded(seed)
    free: dict[int, set[str]] = {}
    for name, view in made.views.items():
        on, state = view.record.machine, view.full_state
        index = on.device_index(GPU) if on is not None and _is_known(made, name) else None
        if index is not None and (count := state.free_devices(on, index).bit_count()):
            free.setdefault(count, set()).add(name)
    found = made.index.by_free_devices(GPU, made.index.known, most_first=most_first)
    assert [set(made.index.names(nodes)) for nodes in found] == [
        free[count] for count in sorted(free, reverse=most_first)
    ]


def test_a_column_keeps_a_bounded_number_of_masks():
    """However many amounts are asked for, the answers stay right and the memory bounded."""
    column = Column(3)
    column.set(1, 500)
    for amount in range(1, 5 * KEPT_AMOUNTS):
        assert column.at_least(amount) == (0b10 if amount <= 500 else 0)
    assert len(column._at_least) == KEPT_AMOUNTS


@pytest.mark.parametrize(
    ("changes", "present", "of_a"),
    [
        pytest.param([(0, None, "a")], 0b1, 0b1, id="a label is set"),
        pytest.param([(0, None, "a"), (0, "a", None)], 0, 0, id="a label is taken away"),
        pytest.param([(0, None, "a"), (0, "a", "b"), (3, None, "a")], 0b1001, 0b1000, id="a label changes"),
    ],
)
def test_a_label_column_follows_changes(changes, present, of_a):
    """Each value's mask and the mask of all that carry the key."""
    column = LabelColumn({})
    for slot, old, new in changes:
        column.set(slot, old, new)
    assert (column.present, column.any_of(["a", "c"])) == (present, of_a)
