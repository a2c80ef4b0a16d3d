"""A pod ends just as another comes: every account that may be true is kept, and all of them must take the next pod."""

from dataclasses import replace

import pytest
from core.ledger.ledger_world import GPU, demand, ledger, machine, node, pod

from webhook.core.capacity import CapacityRules
from webhook.core.capacity_bind import decide_bind
from webhook.core.decisions import Ask, Operation
from webhook.core.ledger import alternatives
from webhook.core.ledger.events import BindingAdmitted, Diverged, NodeGone, NodeSeen, PodGone, PodSeen, Reported
from webhook.core.ledger.records import Certainty, Report
from webhook.core.pod import Binding

NOW = 100.0
OLD, YOUNG, NEXT = demand((2, 4)), demand((2, 3)), demand((3, 4))
"""Two NUMA nodes with four GPUs each. OLD fills the first, so YOUNG sits on the second if it came before OLD ended, and
on the first if it came after; NEXT fits only on the one that is left empty."""


def world():
    """OLD runs, and YOUNG is bound and not answered yet."""
    made = ledger(node("n1", machine()), node("n2", machine()))
    made.apply(PodSeen(pod("old", OLD, node_name="n1", phase="Running", is_answered=True)), NOW)
    made.apply(PodSeen(pod("young", YOUNG)), NOW)
    made.apply(BindingAdmitted("young", "n1", NOW + 10), NOW)
    return made


def gpus(view, uid):
    """The devices of a pod in an account; None: it was refused."""
    held = next(entry.holding for entry in view.bound if entry.uid == uid)
    return None if held is None else held.devices[0]


def answer(uid, asks, **more):
    """News of the kubelet about a pod."""
    fields = {"node_name": "n1", "version": 5, "phase": "Running", "is_answered": True} | more
    return PodSeen(pod(uid, asks, **fields))


def bind(made, uid, to="n1"):
    """The verdict on a binding."""
    ask = Ask(Operation.CREATE, "team", uid, Binding("team", uid, uid, to), subresource="binding")
    return decide_bind(ask, made, CapacityRules(), NOW)


def met():
    """OLD has ended while YOUNG was on its way."""
    made = world()
    made.apply(PodGone("old"), NOW)
    return made


def test_both_orders_are_kept():
    made = met()
    (other,) = made.alternatives("n1")
    assert {gpus(made.views["n1"], "young"), gpus(other, "young")} == {0b01110000, 0b00000111}


@pytest.mark.parametrize(
    "young, answered",
    [
        pytest.param(YOUNG, True, id="the kubelet had answered for the young pod"),
        pytest.param(demand((2, None)), False, id="the young pod holds only CPUs that are free in both"),
        pytest.param(demand((0.5, None)), False, id="the young pod holds nothing"),
    ],
)
def test_where_the_order_is_known_or_makes_no_odds_there_is_one_account(young, answered):
    made = ledger(node("n1", machine()))
    gone = OLD if answered else demand((2, 1))
    made.apply(PodSeen(pod("old", gone, node_name="n1", phase="Running", is_answered=True)), NOW)
    made.apply(PodSeen(pod("young", young, node_name="n1")), NOW)
    if answered:
        made.apply(answer("young", young), NOW)
    made.apply(PodGone("old"), NOW)
    assert made.alternatives("n1") == ()


@pytest.mark.parametrize("uid, asks, passes", [("next", NEXT, False), ("small", demand((1, 1)), True)])
def test_a_binding_passes_only_where_every_account_takes_it(uid, asks, passes):
    made = met()
    made.apply(answer("young", YOUNG), NOW)
    filler = demand((1, 2))
    made.apply(PodSeen(pod("filler", filler, node_name="n1", version=6, phase="Running", is_answered=True)), NOW)
    made.apply(PodSeen(pod(uid, asks)), NOW)
    assert bind(made, uid).allowed is passes


def test_the_end_of_the_young_pod_leaves_one_account():
    made = met()
    made.apply(answer("young", YOUNG), NOW)
    made.apply(PodGone("young"), NOW)
    assert made.alternatives("n1") == ()
    assert made.views["n1"].bound_state == ledger(node("n1", machine())).views["n1"].bound_state


def test_every_account_is_charged_and_hears_the_news():
    made = met()
    made.apply(answer("young", YOUNG), NOW)
    made.apply(PodSeen(pod("more", demand((1, 1)), node_name="n1")), NOW)
    (other,) = made.alternatives("n1")
    for view in (made.views["n1"], other):
        assert {entry.uid for entry in view.bound} == {"young", "more"}
        assert next(entry for entry in view.bound if entry.uid == "young").pod.is_answered
        assert {entry.certainty for entry in view.bound} == {Certainty.REPLAYED}


class TestAnswers:
    """A pod that fits in one account only was let through: its kubelet's answer decides."""

    def let_through(self):
        made = met()
        made.apply(answer("young", YOUNG), NOW)
        made.apply(PodSeen(pod("filler", demand((1, 1)), node_name="n1", version=6)), NOW)
        made.apply(answer("filler", demand((1, 1)), version=7), NOW)
        made.apply(PodSeen(pod("third", demand((1, 4)), node_name="n1", version=8)), NOW)
        return made

    @pytest.mark.parametrize("runs", [True, False], ids=["it runs", "it is refused"])
    def test_the_accounts_that_expected_another_answer_are_dropped(self, runs):
        made = self.let_through()
        accounts = (made.views["n1"], *made.alternatives("n1"))
        expected = [view for view in accounts if (gpus(view, "third") is not None) is runs]
        if runs:
            made.apply(answer("third", demand((1, 4)), version=9), NOW)
        else:
            failed = {"phase": "Failed", "failure_reason": "TopologyAffinityError"}
            made.apply(answer("third", demand((1, 4)), version=9, **failed), NOW)
        assert len(expected) == 1
        assert gpus(made.views["n1"], "young") == gpus(expected[0], "young")
        assert made.alternatives("n1") == ()
        # Every AdmissionError is told of, this one as foreseen by an account.
        assert [notice.kind for notice in made.take_notices()] == ([] if runs else ["refused-not-prevented"])


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(Diverged("n1"), id="a divergence"),
        pytest.param(NodeGone("n1"), id="the node went"),
    ],
)
def test_what_the_other_accounts_cannot_follow_ends_them(event):
    made = met()
    made.apply(event, NOW)
    assert made.alternatives("n1") == ()


@pytest.mark.parametrize(
    ("counts", "young"),
    [
        pytest.param({"cpu": (2, 0), GPU: (3, 0)}, 0b00000111, id="the young pod came after the old one had gone"),
        pytest.param({"cpu": (0, 2), GPU: (0, 3)}, 0b01110000, id="it came before"),
    ],
)
def test_a_report_tells_which_account_is_the_true_one(counts, young):
    made = met()
    made.apply(answer("young", YOUNG), NOW)
    made.apply(Reported("n1", Report(NOW + 60, counts)), NOW + 60)
    assert made.alternatives("n1") == ()
    assert (gpus(made.views["n1"], "young"), made.views["n1"].is_guessed) == (young, False)
    assert made.take_notices() == ()


def test_a_report_about_other_pods_leaves_the_accounts_alone():
    made = met()
    made.apply(answer("young", YOUNG), NOW)
    before = made.content(), made.alternatives("n1")
    made.apply(Reported("n1", Report(NOW + 60, {"cpu": (4, 0), GPU: (4, 3)})), NOW + 60)
    assert (made.content(), made.alternatives("n1")) == before


def test_too_many_accounts_are_given_up_and_the_node_is_doubted(monkeypatch):
    monkeypatch.setattr(alternatives, "MOST_ACCOUNTS", 1)
    made = met()
    assert made.alternatives("n1") == ()
    assert made.views["n1"].is_doubted


class TestRefusedBefore:
    """A kubelet refused a pod against our expectation: an equal one is not sent after it."""

    def refused(self):
        made = ledger(node("n1", machine()), node("n2", machine()))
        made.apply(PodSeen(pod("other", demand((1, 1)), node_name="n1", phase="Running", is_answered=True)), NOW)
        made.apply(PodSeen(pod("one", YOUNG, node_name="n1", version=2)), NOW)
        failed = {"phase": "Failed", "failure_reason": "TopologyAffinityError", "is_answered": True}
        made.apply(PodSeen(replace(pod("one", YOUNG, node_name="n1", version=3), **failed)), NOW)
        return made

    def test_an_equal_pod_is_turned_back_and_steered_elsewhere(self):
        made = self.refused()
        made.apply(PodSeen(pod("two", YOUNG)), NOW)
        decision = bind(made, "two")
        assert not decision.allowed
        assert decision.event.steer_to == "n2"

    def test_once_something_was_freed_it_is_tried_again(self):
        made = self.refused()
        made.apply(PodGone("other"), NOW)
        made.apply(PodSeen(pod("two", YOUNG)), NOW)
        assert bind(made, "two").allowed

    def test_once_its_devices_have_come_it_is_tried_again(self):
        """Booted, the node offered none until its plugin came, and refused whoever was bound to it."""
        made = self.refused()
        made.apply(NodeSeen(node("n1", machine(), **{GPU: 0})), NOW)
        made.apply(NodeSeen(node("n1", machine())), NOW)
        made.apply(PodSeen(pod("two", YOUNG)), NOW)
        assert bind(made, "two").allowed

    def test_the_refusal_of_one_that_had_run_tells_of_a_boot_and_nothing_of_equal_ones(self):
        made = ledger(node("n1", machine()))
        made.apply(answer("one", YOUNG, version=2), NOW)
        failed = {"phase": "Failed", "failure_reason": "UnexpectedAdmissionError"}
        made.apply(answer("one", YOUNG, version=3, **failed), NOW)
        made.apply(PodSeen(pod("two", YOUNG)), NOW)
        assert bind(made, "two").allowed

    def test_another_demand_is_judged_by_the_model(self):
        made = self.refused()
        made.apply(PodSeen(pod("two", demand((1, 1)))), NOW)
        assert bind(made, "two").allowed
