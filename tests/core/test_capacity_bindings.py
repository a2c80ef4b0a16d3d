"""``decide_bind``: what a node's kubelet would refuse is turned back; what is in flight comes in every order."""

from dataclasses import replace
from itertools import permutations

import pytest
from capacity_world import MACHINE, SPLIT, TOPOLOGY, binding, cluster, commit, pending
from ledger_world import GPU, demand, ledger, machine, node, pod

from webhook.core.capacity import CapacityRules, Mode
from webhook.core.ledger import events
from webhook.core.ledger.orders import every_order_works, signature_of
from webhook.core.ledger.records import AllocatorKind, EntryState
from webhook.core.ledger.verdicts import Outcome
from webhook.core.placement import Holding

BOTH = node("gpu-2", MACHINE, labels=TOPOLOGY)


def stored(made, uid, *asks, **more):
    """Let the watch show a pending pod."""
    made.apply(events.PodSeen(pending(uid, *asks, **more)), 110.0)


def word(decision) -> str:
    """Return ``let through``, ``nothing`` (no event) or the code of the refusal."""
    if decision.allowed:
        return "let through" if isinstance(decision.event, events.BindingAdmitted) else "nothing"
    assert isinstance(decision.event, events.BindingRefused)
    return decision.findings[0].code


def test_a_binding_that_the_kubelet_takes_is_let_through_and_counts():
    """The room is charged at once."""
    made = cluster()
    stored(made, "p1")
    decision = binding(made, "p1", "gpu-1")
    assert word(decision) == "let through"
    commit(made, decision)
    assert made.views["gpu-1"].bound_totals[GPU] == 4


def test_a_binding_that_the_kubelet_refuses_is_steered():
    """Turned back, with a place kept on the node that fits."""
    made = cluster(BOTH, bound=SPLIT)
    stored(made, "p1", (4, 3))
    decision = binding(made, "p1", "gpu-1")
    assert (word(decision), decision.event.steer_to) == ("BINDING_WOULD_FAIL", "gpu-2")
    commit(made, decision)
    assert (made.entries["p1"].node, made.entries["p1"].tries) == ("gpu-2", 1)


def test_shunned_nodes_are_not_steered_to():
    """The scheduler passed them over for reasons of its own."""
    made = cluster(BOTH, bound=SPLIT)
    stored(made, "p1", (4, 3))
    decision = binding(made, "p1", "gpu-1", shunned=frozenset({"gpu-2"}))
    assert (word(decision), decision.event.steer_to) == ("BINDING_WOULD_FAIL", "")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(None, "nothing", id="a node that is not known"),
        pytest.param(node("gpu-9", None), "let through", id="a node without topology"),
        pytest.param(
            node("gpu-9", machine(2, 16, 2), kind=AllocatorKind.SCHEDULER), "let through", id="a scheduler's node"
        ),
        pytest.param(node("gpu-9", machine(2, 16, 2)), "BINDING_WOULD_FAIL", id="a kubelet's node"),
    ],
)
def test_which_nodes_are_guarded(record, expected):
    """Only where the kubelet hands out the NUMA nodes, and only where they are known."""
    made = cluster(*([record] if record else []))
    stored(made, "p1", (4, 3))
    assert word(binding(made, "p1", "gpu-9")) == expected


@pytest.mark.parametrize(
    ("seconds", "answered", "expected"),
    [
        pytest.param(0.0, False, "BINDING_OUT_OF_TURN", id="at once"),
        pytest.param(59.9, False, "BINDING_OUT_OF_TURN", id="just before the end"),
        pytest.param(60.0, False, "let through", id="the kubelet has had its time"),
        pytest.param(1.0, True, "let through", id="it has answered"),
    ],
)
def test_a_kubelet_that_never_answers_holds_nobody_up_for_ever(seconds, answered, expected):
    """An equal pod waits for the first one's answer, but not longer than ``answer_seconds``; room still counts."""
    made = cluster()
    for uid in ("p1", "p2", "p3"):
        stored(made, uid)
    commit(made, binding(made, "p1", "gpu-1", now=130.0))
    bound = pending(
        "p1", version=2, node_name="gpu-1", is_answered=answered, phase="Running" if answered else "Pending"
    )
    made.apply(events.PodSeen(bound), 131.0)
    decision = binding(made, "p2", "gpu-1", now=130.0 + seconds)
    assert word(decision) == expected
    if expected == "let through":
        commit(made, decision, now=130.0 + seconds)
        assert word(binding(made, "p3", "gpu-1", now=500.0)) == "BINDING_WOULD_FAIL"


def test_the_time_of_an_answer_is_a_rule():
    """``answer_seconds`` counts from the moment at which the pod was charged to its node."""
    made, rules = cluster(), CapacityRules(answer_seconds=5.0)
    for uid in ("p1", "p2"):
        stored(made, uid)
    commit(made, binding(made, "p1", "gpu-1", now=130.0, rules=rules))
    assert word(binding(made, "p2", "gpu-1", now=134.0, rules=rules)) == "BINDING_OUT_OF_TURN"
    assert word(binding(made, "p2", "gpu-1", now=135.0, rules=rules)) == "let through"


@pytest.mark.parametrize("mode", [Mode.WARN, Mode.OFF])
def test_a_namespace_that_only_warns_is_not_guarded(mode):
    """Its bindings are counted all the same."""
    made = cluster(bound=SPLIT)
    stored(made, "p1", (4, 3))
    rules = CapacityRules(namespace_modes={"team": {Outcome.WOULD_FAIL: mode}})
    assert word(binding(made, "p1", "gpu-1", rules=rules)) == "let through"


def test_a_pod_that_nobody_knows_is_let_be():
    """A Binding does not say what the pod asks for."""
    assert word(binding(cluster(bound=SPLIT), "stranger", "gpu-1")) == "nothing"


def test_a_pod_that_holds_nothing_is_let_through():
    """Shared CPUs and no devices: nothing to align, whatever is in flight."""
    made = cluster(bound=SPLIT)
    stored(made, "p1", (0.5, None))
    assert word(binding(made, "p1", "gpu-1")) == "let through"


def test_the_guard_gives_way_on_a_guess_after_some_tries():
    """A wrong guess must not hold a pod for ever; a proof may."""
    made = cluster(bound=SPLIT)
    made.apply(events.Diverged("gpu-1"), 110.0)
    stored(made, "p1", (4, 3))
    words = []
    for _ in range(CapacityRules().most_tries_on_guess + 1):
        decision = binding(made, "p1", "gpu-1")
        words.append(word(decision))
        commit(made, decision)
    assert words == ["BINDING_WOULD_FAIL"] * 3 + ["let through"]


def test_the_guard_does_not_give_way_on_proof():
    """Replayed places prove the refusal."""
    made = cluster(bound=SPLIT)
    stored(made, "p1", (4, 3))
    for _ in range(9):
        decision = binding(made, "p1", "gpu-1")
        assert word(decision) == "BINDING_WOULD_FAIL"
        commit(made, decision)


def test_a_binding_asked_twice_is_one():
    """The API server calls again for the same binding; the scheduler later tries another node."""
    made = cluster(BOTH)
    stored(made, "p1")
    commit(made, binding(made, "p1", "gpu-1"))
    assert word(binding(made, "p1", "gpu-1")) == "nothing"
    again = binding(made, "p1", "gpu-2")
    assert word(again) == "let through"
    commit(made, again)
    assert [made.views[name].free(GPU) for name in ("gpu-1", "gpu-2")] == [8, 4]


def test_a_rebound_pod_is_judged_on_its_new_node():
    """The first binding failed after us; the second goes where the kubelet would refuse."""
    made = cluster(BOTH, bound=SPLIT)
    stored(made, "p1", (4, 3))
    commit(made, binding(made, "p1", "gpu-2"))
    decision = binding(made, "p1", "gpu-1")
    assert word(decision) == "BINDING_WOULD_FAIL"
    commit(made, decision)
    assert made.entries["p1"].state is EntryState.PENDING


# --- in flight ---


def in_flight(asks, *, created=(), answered=(), on=MACHINE):
    """Return the word for the last of ``asks`` when those before it were just bound to the node."""
    made = ledger(node("gpu-1", on))
    for at, ask in enumerate(asks):
        more = {"created_seconds": float(created[at])} if created else {}
        made.apply(events.PodSeen(pod(f"p{at}", demand(ask), **more)), 110.0)
    for at in range(len(asks) - 1):
        made.apply(events.BindingAdmitted(f"p{at}", "gpu-1", 200.0), 110.0)
        if at in answered:
            seen = made.entries[f"p{at}"].pod
            made.apply(events.PodSeen(replace(seen, resource_version=9, node_name="gpu-1", is_answered=True)), 111.0)
    return word(binding(made, f"p{len(asks) - 1}", "gpu-1"))


@pytest.mark.parametrize(
    ("asks", "more", "expected"),
    [
        pytest.param([(4, 4), (4, 4)], {}, "BINDING_OUT_OF_TURN", id="equal pods that would swap NUMA nodes"),
        pytest.param([(4, 4), (4, 4)], {"answered": [0]}, "let through", id="the first is answered"),
        pytest.param([(4, 4), (4, 4)], {"created": [100, 101]}, "let through", id="the first is older: it stays first"),
        pytest.param([(4, 4), (4, 4)], {"created": [100, 100]}, "BINDING_OUT_OF_TURN", id="created in one second"),
        pytest.param([(4, 4), (4, 4)], {"created": [101, 100]}, "BINDING_OUT_OF_TURN", id="the first is younger"),
        pytest.param([(1, 1), (1, 1)], {}, "let through", id="equal pods on one NUMA node: which GPU makes no odds"),
        pytest.param([(1, 1)] * 4, {}, "let through", id="four of them fill the NUMA node"),
        pytest.param([(1, 1)] * 5, {}, "BINDING_OUT_OF_TURN", id="the fifth goes to the other"),
        pytest.param([(4, 1), (4, 2)], {}, "let through", id="different pods that share a NUMA node in any order"),
        pytest.param([(4, 1), (4, 4)], {}, "BINDING_OUT_OF_TURN", id="the big one would take the small one's place"),
        pytest.param(
            [(4, 1), (4, 4)], {"created": [100, 200]}, "let through", id="unless the small one comes first for sure"
        ),
        pytest.param(
            [(1, 1), (2, 1), (1, 1), (2, 1), (1, 1)], {}, "BINDING_OUT_OF_TURN", id="too many to try every order"
        ),
        pytest.param([(0.5, None), (4, 4), (4, 1)], {"answered": [1]}, "let through", id="shared CPUs do not count"),
    ],
)
def test_in_flight(asks, more, expected):
    """The next binding is let through only if every order in which the kubelet may take them works."""
    assert in_flight(asks, **more) == expected


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param([(4, 1), (4, 2), (4, 3)], id="1, 2 and 3 GPUs"),
        pytest.param([(4, 1), (4, 1), (4, 2), (4, 4)], id="two of 1, one of 2, one of 4 GPUs"),
        pytest.param([(7, 0), (8, 2), (3, 1), (1, 1)], id="CPUs and GPUs"),
        pytest.param([(2, 1), (3, 1), (4, 1), (5, 1)], id="four that share a NUMA node"),
        pytest.param([(14, 1), (14, 2)], id="one for each NUMA node"),
    ],
)
def test_every_order_is_every_order(asks):
    """The walk that shares beginnings says what trying all permutations says."""
    made = ledger(node("gpu-1", MACHINE))
    for at, ask in enumerate(asks):
        made.apply(events.PodSeen(pod(f"p{at}", demand(ask))), 110.0)
        if at < len(asks) - 1:
            made.apply(events.BindingAdmitted(f"p{at}", "gpu-1", 200.0), 110.0)
    view = made.views["gpu-1"]
    last = made.entries[f"p{len(asks) - 1}"]
    empty = ledger(node("gpu-1", MACHINE))
    seen, works = {}, True
    for order in permutations(range(len(asks))):
        state = empty.views["gpu-1"].bound_state
        for at in order:
            placement = made.charges.place(view, state, demand(asks[at]))
            if placement is None:
                works = False
                break
            state = placement.state
            signature = signature_of(MACHINE, placement.holding)
            works = works and seen.setdefault(at, signature) == signature
    assert every_order_works(made.charges, view, list(view.bound), last) is works


def test_a_signature_tells_numa_nodes_and_not_which_of_equal_devices():
    """Two holdings on one NUMA node are alike; on two they are not."""
    one, same, other = (Holding(0b10, (0b1,)), Holding(0b100, (0b10,)), Holding(0b10, (0b10000,)))
    assert signature_of(MACHINE, one) == signature_of(MACHINE, same)
    assert signature_of(MACHINE, one) != signature_of(MACHINE, other)
