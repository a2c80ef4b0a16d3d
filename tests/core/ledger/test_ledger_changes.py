"""What changes under the pods: a node that boots, what tells of it, a name that is used twice; their places stand."""

from dataclasses import replace

import pytest
from ledger_world import GPU, demand, ledger, machine, node, pod

from webhook.core.ledger import events
from webhook.core.ledger.records import AllocatorKind, Certainty
from webhook.core.machine import TopologyPolicy

TWO_BY_FOUR = machine(2, 8, 4)
THREE_GPUS, FOUR_GPUS = demand((2, 3)), demand((2, 4))


def seen(made, record, now=0.0, **more):
    """Tell of a pod."""
    made.apply(events.PodSeen(record, **more), now)


def refused(uid, asks, **more):
    """A pod that the kubelet of n1 has refused."""
    ended = {"phase": "Failed", "failure_reason": "UnexpectedAdmissionError", "is_answered": True}
    return pod(uid, asks, node_name="n1", **ended, **more)


# --- a node that boots ---


def test_a_pod_that_ran_and_is_refused_after_a_reboot_says_nothing_of_equal_ones():
    """Its devices were not there yet: an equal pod is taken once they are."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", phase="Running", is_answered=True))
    seen(made, refused("p1", FOUR_GPUS, version=2), 1.0)
    assert not made.has_refused("n1", FOUR_GPUS)
    assert [notice.kind for notice in made.take_notices()] == ["refused-though-allowed"]


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        pytest.param({"labels": {"a": "b"}}, True, id="a label changes nothing"),
        pytest.param({GPU: 7}, False, id="other amounts do: a device plugin has come or gone"),
    ],
)
def test_a_surprising_refusal_stands_until_the_node_has_something_else_to_give(change, keeps):
    """What was refused before we could expect it is not tried again in vain."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, refused("p1", FOUR_GPUS, version=2), 1.0)
    assert made.has_refused("n1", FOUR_GPUS)
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR, **change)), 2.0)
    assert made.has_refused("n1", FOUR_GPUS) is keeps


def test_what_a_rebooted_node_cannot_give_yet_is_negative_nowhere_but_in_what_is_free():
    """Its pods stay charged while it offers no device; nobody else is let in."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR, **{GPU: 0})), 1.0)
    assert (made.views["n1"].bound_totals[GPU], made.views["n1"].free(GPU)) == (4, -4)
    assert made.find(pod("p2", demand((2, 1)))).placement is None
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR)), 2.0)
    assert made.find(pod("p2", FOUR_GPUS)).placement is not None


# --- what tells of a node ---


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(
            replace(TWO_BY_FOUR, devices=tuple(replace(each, ids=tuple("abcdefgh")) for each in TWO_BY_FOUR.devices)),
            id="a Device tells the devices' ids",
        ),
        pytest.param(replace(TWO_BY_FOUR, node_policy="BestEffort"), id="a label asks the scheduler for a policy"),
        pytest.param(replace(TWO_BY_FOUR, distances=((10, 21), (21, 10))), id="a topology tells distances"),
        pytest.param(
            replace(TWO_BY_FOUR, kubelet=replace(TWO_BY_FOUR.kubelet, policy=TopologyPolicy.RESTRICTED)),
            id="another policy counts for those who come",
        ),
    ],
)
def test_a_source_that_comes_and_goes_moves_nobody(told):
    """What a kubelet has given out stays where it is, and known, whatever else is told of its machine."""
    made = ledger(node("n1", TWO_BY_FOUR))
    for uid in ("p1", "p2"):
        seen(made, pod(uid, THREE_GPUS, node_name="n1"))
    before = [(entry.uid, entry.holding, entry.certainty) for entry in made.views["n1"].bound]
    for machine_now in (told, TWO_BY_FOUR):
        made.apply(events.NodeSeen(node("n1", machine_now)), 1.0)
        assert [(entry.uid, entry.holding, entry.certainty) for entry in made.views["n1"].bound] == before
        assert not made.views["n1"].is_guessed


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(node("n1", machine(2, 8, 3)), id="other devices"),
        pytest.param(node("n1", machine(4, 4, 2)), id="other NUMA nodes"),
        pytest.param(node("n1", TWO_BY_FOUR, kind=AllocatorKind.SCHEDULER), id="another allocator"),
        pytest.param(node("n1", None), id="no machine at all"),
    ],
)
def test_places_on_another_machine_are_guessed(record):
    """A number names another CPU or device there."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", THREE_GPUS, node_name="n1"))
    made.apply(events.NodeSeen(record), 1.0)
    assert made.views["n1"].bound[0].certainty is Certainty.GUESSED
    assert made.views["n1"].bound_totals[GPU] == 3


# --- a name that is used twice ---


def claim(made, asked, now=0.0):
    """Let the ledger place ``asked``, as a create that is admitted does."""
    found = made.find(asked)
    made.apply(events.Claimed(asked, found.node, found.placement, now + 5.0), now)


def test_a_create_of_a_name_that_exists_does_not_take_the_name():
    """The API server refuses it after us; a binding without UID means the pod that is stored."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, name="a", node_name="n1"))
    claim(made, pod("p2", FOUR_GPUS, name="a", version=0))
    assert made.entry("", "team", "a").uid == "p1"
    made.apply(events.Elapsed(), 6.0)
    assert "p2" not in made.entries
    assert made.entry("", "team", "a").uid == "p1"


def test_the_successor_under_a_name_has_it_once_it_is_stored():
    """Deleted by force and created anew: the watch tells of both, in this order or the other."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, name="a", node_name="n1"))
    claim(made, pod("p2", FOUR_GPUS, name="a", version=0))
    seen(made, pod("p2", FOUR_GPUS, name="a", version=3), 1.0)
    made.apply(events.PodGone("p1"), 1.0)
    assert made.entry("", "team", "a").uid == "p2"


def test_a_claim_is_found_by_its_name_where_nothing_is_stored_under_it():
    """A quick scheduler binds before the watch has shown the pod."""
    made = ledger(node("n1", TWO_BY_FOUR))
    claim(made, pod("p1", FOUR_GPUS, name="a", version=0))
    assert made.entry("", "team", "a").uid == "p1"
    claim(made, pod("p2", FOUR_GPUS, name="a", version=0))
    assert made.entry("", "team", "a").uid == "p2"
