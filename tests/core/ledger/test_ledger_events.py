"""One thing after another: claims, bindings, nodes, result annotations, checkpoints, surprises."""

import threading
from dataclasses import replace

import pytest
from ledger_world import GPU, demand, ledger, machine, node, pod, recalled

from webhook.core.ledger import events
from webhook.core.ledger.records import AllocatorKind, Certainty, Confirmed, Eligibility, EntryState
from webhook.core.machine import TopologyPolicy
from webhook.core.masks import mask_of

TWO_BY_FOUR = machine(2, 8, 4)
FOUR_GPUS = demand((2, 4))


def claim(made, asked, now=0.0, seconds=5.0):
    """Let the ledger place ``asked``, as a create that is admitted does, and return the event."""
    found = made.find(asked)
    assert found.placement is not None
    event = events.Claimed(asked, found.node, found.placement, now + seconds)
    made.apply(event, now)
    return event


def seen(made, record, now=0.0, **more):
    """Tell of a pod."""
    made.apply(events.PodSeen(record, **more), now)


def kinds(made):
    """Return the kinds of the notices since the last call."""
    return [notice.kind for notice in made.take_notices()]


# --- claims ---


def test_a_claim_ends_by_itself():
    """A create that was admitted and never stored gives its place back."""
    made = ledger(node("n1", TWO_BY_FOUR))
    claim(made, pod("p1", FOUR_GPUS, version=0))
    made.apply(events.Elapsed(), 4.9)
    assert made.views["n1"].free(GPU) == 4
    made.apply(events.Elapsed(), 5.0)
    assert (made.views["n1"].free(GPU), dict(made.entries), kinds(made)) == (8, {}, ["claim-expired"])


def test_a_claim_that_shows_in_the_watch_lives_on_in_its_place():
    """The pod that was claimed is stored: its place is no longer on time."""
    made = ledger(node("n1", TWO_BY_FOUR))
    claim(made, pod("p1", FOUR_GPUS, version=0))
    place = made.entries["p1"].holding
    seen(made, pod("p1", FOUR_GPUS), 1.0)
    made.apply(events.Elapsed(), 100.0)
    assert (made.entries["p1"].state, made.entries["p1"].holding) == (EntryState.PENDING, place)


def test_the_same_claim_twice_is_one():
    """Idempotent by UID."""
    made = ledger(node("n1", TWO_BY_FOUR))
    event = claim(made, pod("p1", FOUR_GPUS, version=0))
    before = made.content()
    made.apply(event, 0.0)
    assert made.content() == before


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(events.PodGone("p1"), id="deleted"),
        pytest.param(events.PodSeen(pod("p1", version=3, phase="Succeeded")), id="ended"),
    ],
)
def test_a_late_claim_does_not_bring_a_pod_back(before):
    """What is gone is gone."""
    made = ledger(node("n1", TWO_BY_FOUR))
    found = made.find(pod("p1", FOUR_GPUS))
    made.apply(before, 0.0)
    made.apply(events.Claimed(pod("p1", FOUR_GPUS, version=0), "n1", found.placement, 5.0), 0.0)
    assert not made.entries


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(events.PodSeen(pod("p1", version=2)), id="an older record"),
        pytest.param(events.PodSeen(pod("p1", version=9)), id="the last one again"),
    ],
)
def test_a_deleted_pod_stays_away(event):
    """Late events after a delete change nothing."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", version=9, node_name="n1"))
    made.apply(events.PodGone("p1", 10), 1.0)
    made.apply(event, 2.0)
    assert not made.entries


def test_a_name_leads_to_the_pod_that_has_it_now():
    """A StatefulSet's pod comes again under its name; the old one's end does not take the name away."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("old", name="web-0", node_name="n1"))
    seen(made, pod("new", name="web-0"))
    made.apply(events.PodGone("old"), 1.0)
    assert made.entry("", "team", "web-0").uid == "new"
    seen(made, pod("new", name="web-0", version=2, node_name="n1"), 2.0)
    assert made.entry("unknown", "team", "web-0").uid == "new"


def test_threads_that_book_the_last_slot_get_it_once():
    """Decide and commit under one lock, as the book does: as many claims as fit, however many threads ask."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR))
    lock, start, won = threading.Lock(), threading.Barrier(16), []

    def ask(at: int) -> None:
        start.wait()
        asked = pod(f"p{at}", FOUR_GPUS, version=0)
        with lock:
            found = made.find(asked)
            if found.placement is not None:
                made.apply(events.Claimed(asked, found.node, found.placement, 5.0), 0.0)
                won.append(at)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 4
    assert [view.full_state.busy_devices for view in made.views.values()] == [(0xFF,), (0xFF,)]


# --- bindings ---


def test_an_admitted_binding_counts_until_its_moment():
    """The pod is charged to the node at once; if the binding comes to nothing the room is free again."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS))
    made.apply(events.BindingAdmitted("p1", "n1", 10.0), 0.0)
    assert (made.entries["p1"].state, made.views["n1"].bound_totals[GPU]) == (EntryState.BOUND, 4)
    seen(made, pod("p1", FOUR_GPUS, version=2), 1.0)  # the watch is behind
    assert made.entries["p1"].state is EntryState.BOUND
    made.apply(events.Elapsed(), 10.0)
    assert (made.entries["p1"].state, made.views["n1"].free(GPU)) == (EntryState.PENDING, 8)
    assert kinds(made) == ["binding-expired"]


def test_a_second_binding_moves_the_assumption():
    """The first binding came to nothing after us and the scheduler tries another node."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS))
    made.apply(events.BindingAdmitted("p1", "n1", 10.0), 0.0)
    made.apply(events.BindingAdmitted("p1", "n2", 12.0), 2.0)
    assert [view.free(GPU) for view in made.views.values()] == [8, 4]
    seen(made, pod("p1", FOUR_GPUS, version=2, node_name="n1"), 3.0)
    assert [view.free(GPU) for view in made.views.values()] == [4, 8]


def test_a_binding_of_a_claim_that_is_never_stored_leaves_nothing():
    """Neither the claim nor the binding was shown: nothing stays."""
    made = ledger(node("n1", TWO_BY_FOUR))
    claim(made, pod("p1", FOUR_GPUS, version=0))
    made.apply(events.BindingAdmitted("p1", "n1", 10.0), 1.0)
    made.apply(events.Elapsed(), 10.0)
    assert (dict(made.entries), made.views["n1"].free(GPU)) == ({}, 8)


def test_a_refused_binding_keeps_a_place_elsewhere_for_a_time():
    """The pod is steered; news of it do not make the place endless."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS))
    made.apply(events.BindingRefused("p1", "n2", 60.0), 0.0)
    seen(made, pod("p1", FOUR_GPUS, version=2), 1.0)
    seen(made, pod("p1", FOUR_GPUS, version=3, is_unschedulable=True, is_refused_at_binding=True), 2.0)
    assert (made.entries["p1"].node, made.entries["p1"].tries) == ("n2", 1)
    made.apply(events.Elapsed(), 60.0)
    assert (made.entries["p1"].node, made.entries["p1"].tries) == ("", 1)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        pytest.param({}, True, id="a pending pod holds a virtual place"),
        pytest.param({"is_gated": True}, False, id="a gated pod holds nothing"),
        pytest.param({"is_unschedulable": True}, False, id="a pod found unschedulable holds nothing"),
        pytest.param({"is_deleting": True}, False, id="a pending pod that is terminating holds nothing"),
        pytest.param({"is_unschedulable": True, "is_refused_at_binding": True}, True, id="a refused pod holds one"),
        pytest.param({"node_name": "n1", "is_deleting": True}, True, id="a bound pod that is terminating still holds"),
        pytest.param({"node_name": "n1", "phase": "Failed"}, False, id="a failed pod holds nothing"),
        pytest.param({"node_name": "n1", "phase": "Succeeded"}, False, id="a pod that succeeded holds nothing"),
    ],
)
def test_who_holds(change, holds):
    """What a pod holds follows from what the watch shows of it."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS))
    seen(made, pod("p1", FOUR_GPUS, version=2, **change), 1.0)
    assert made.views["n1"].free(GPU) == (4 if holds else 8)


def test_a_nominated_pod_is_planned_on_its_node():
    """The scheduler tries the nominated node first, so the place is kept there."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, nominated_node="n2"))
    assert made.entries["p1"].node == "n2"


# --- nodes ---


def test_a_virtual_place_moves_when_reality_takes_it():
    """A pod bound by others takes the room of a pending one, which finds another place."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR))
    seen(made, pod("p1", demand((2, 4), (2, 4))))
    where = made.entries["p1"].node
    seen(made, pod("p2", FOUR_GPUS, node_name=where), 1.0)
    assert made.entries["p1"].node not in {"", where}
    assert kinds(made) == ["place-lost"]


def test_a_node_that_comes_back_has_its_pods():
    """Bound pods wait for their node: charged again, their places only guessed."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, pod("p2", FOUR_GPUS), 1.0)
    made.apply(events.NodeGone("n1"), 2.0)
    assert (made.entries["p1"].node, made.entries["p2"].node, dict(made.views)) == ("n1", "", {})
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR)), 3.0)
    assert (made.views["n1"].free(GPU), made.entries["p1"].certainty) == (4, Certainty.GUESSED)
    made.apply(events.PodGone("p1"), 4.0)
    assert made.views["n1"].free(GPU) == 8


def test_an_assumed_binding_survives_its_node_no_longer_than_its_moment():
    """The node goes and comes; an admitted binding that nobody saw still ends."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS))
    made.apply(events.BindingAdmitted("p1", "n1", 10.0), 0.0)
    made.apply(events.NodeGone("n1"), 1.0)
    seen(made, pod("p1", FOUR_GPUS, version=2), 2.0)
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR)), 3.0)
    assert made.views["n1"].free(GPU) == 4
    made.apply(events.Elapsed(), 10.0)
    assert made.views["n1"].free(GPU) == 8


def test_a_rebuilt_machine_guesses_anew():
    """A node of the same name with another layout: totals stay, places become guesses on the new layout."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, pod("p2", demand((1, 1))))
    made.apply(events.NodeSeen(node("n1", machine(4, 8, 2))), 1.0)
    view = made.views["n1"]
    assert (view.bound_totals[GPU], made.entries["p1"].holding, view.is_guessed) == (4, None, True)
    assert made.entries["p2"].holding.devices[0].bit_count() == 1


def test_a_device_that_breaks_keeps_its_holder_and_loses_virtual_ones():
    """Health changes what may be given out, not who holds what: free is never healthy minus held by count."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, pod("p2", demand((2, 3))))
    held = made.entries["p1"].holding.devices[0]
    assert held == 0b1111
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR, unhealthy=(0b00110001,))), 1.0)
    view = made.views["n1"]
    assert (made.entries["p1"].holding.devices[0], made.entries["p1"].certainty) == (held, Certainty.REPLAYED)
    assert view.bound_state.free_devices(TWO_BY_FOUR, 0) == 0b11000000
    assert made.entries["p2"].node == ""


def test_a_list_ends_what_the_watch_missed():
    """Pods and nodes that a fresh list does not hold are gone; a claim younger than the list stays."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    claim(made, pod("p2", FOUR_GPUS, version=0))
    made.apply(events.PodsListed(frozenset(), 1.0, 50), 1.0)
    made.apply(events.NodesListed(frozenset({"n1"})), 1.0)
    assert (set(made.entries), set(made.views)) == ({"p2"}, {"n1"})


def test_a_list_from_a_lagging_server_does_not_bury_a_pod():
    """The list was older than what we knew; its watch brings the pod again."""
    made = ledger(node("n1", TWO_BY_FOUR))
    late = pod("p1", FOUR_GPUS, version=60, node_name="n1")
    seen(made, late)
    made.apply(events.PodsListed(frozenset(), 1.0, 50), 1.0)
    seen(made, late, 2.0)
    assert made.views["n1"].free(GPU) == 4


# --- places: replayed, guessed, confirmed, recalled ---


def test_what_was_seen_from_the_beginning_is_replayed():
    """On a node seen empty the model's place is as good as the kubelet's own."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, pod("p2", FOUR_GPUS, node_name="n1"))
    assert [entry.certainty for entry in made.views["n1"].bound] == [Certainty.REPLAYED] * 2
    assert [entry.holding.devices for entry in made.views["n1"].bound] == [(0x0F,), (0xF0,)]


def test_what_ran_before_we_looked_is_guessed_and_so_is_what_follows():
    """A replay from a guess is a guess, until the node has drained."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"), is_history=True)
    seen(made, pod("p2", FOUR_GPUS, node_name="n1"))
    assert [entry.certainty for entry in made.views["n1"].bound] == [Certainty.GUESSED] * 2
    made.apply(events.PodGone("p1"), 1.0)
    made.apply(events.PodGone("p2"), 1.0)
    seen(made, pod("p3", FOUR_GPUS, node_name="n1"), 2.0)
    assert made.entries["p3"].certainty is Certainty.REPLAYED


def test_confirmed_beats_guessed():
    """A result annotation moves the guess out of its way."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"), is_history=True)
    told = Confirmed(0b110, ((GPU, 0x0F),))
    seen(made, pod("p2", FOUR_GPUS, node_name="n1", confirmed=told), 1.0)
    first, second = made.views["n1"].bound
    assert (second.certainty, second.holding.devices) == (Certainty.CONFIRMED, (0x0F,))
    assert (first.certainty, first.holding.devices) == (Certainty.GUESSED, (0xF0,))


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(Confirmed(None, ((GPU, 0x1F),)), id="more devices than it asks for"),
        pytest.param(Confirmed(mask_of(range(3)), ()), id="more CPUs than it asks for"),
        pytest.param(Confirmed(None, ((GPU, 1 << 40),)), id="a device that the machine does not have"),
        pytest.param(Confirmed(None, (("example.com/other", 1),)), id="a resource that the machine does not have"),
        pytest.param(Confirmed(1 << 99, ()), id="a CPU that the machine does not have"),
    ],
)
def test_a_forged_result_counts_for_nothing(told):
    """A result annotation that claims what the pod cannot have is not believed."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", confirmed=told))
    assert made.entries["p1"].certainty is Certainty.REPLAYED


def test_two_results_that_tell_the_same_device_hold_it_both():
    """Either may end first; the device is free when both have."""
    made = ledger(node("n1", TWO_BY_FOUR))
    for uid in ("p1", "p2"):
        told = Confirmed(0b10, ((GPU, 0b1),))
        seen(made, pod(uid, demand((1, 1)), node_name="n1", confirmed=told))
    made.apply(events.PodGone("p1"), 1.0)
    state = made.views["n1"].bound_state
    assert (state.busy_devices, state.free_cpus & 0b10) == ((0b1,), 0)
    made.apply(events.PodGone("p2"), 1.0)
    state = made.views["n1"].bound_state
    assert (state.busy_devices, state.free_cpus & 0b10) == ((0,), 0b10)


def test_a_result_without_cpus_leaves_the_cpus_guessed_beside_the_devices():
    """GPUs on NUMA 1 are told; the pinned CPUs are guessed there, too, and the place as a whole stays a guess."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", confirmed=Confirmed(None, ((GPU, 0xF0),))))
    entry = made.entries["p1"]
    assert (entry.holding.devices, entry.certainty) == ((0xF0,), Certainty.GUESSED)
    assert entry.holding.cpus & ~TWO_BY_FOUR.cpus.numa_cpus[1] == 0
    assert entry.holding.cpus.bit_count() == 2


def test_a_result_that_is_taken_back_leaves_a_guess():
    """The annotation is gone: the place stays, as a guess."""
    made = ledger(node("n1", TWO_BY_FOUR))
    told = Confirmed(0b110, ((GPU, 0x0F),))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", confirmed=told))
    seen(made, pod("p1", FOUR_GPUS, version=2, node_name="n1"), 1.0)
    assert (made.entries["p1"].certainty, made.entries["p1"].holding.devices) == (Certainty.GUESSED, (0x0F,))


def test_a_checkpoint_recalls_places_whatever_was_guessed_there():
    """After a restart both pods' places are guessed the wrong way round; the checkpoint knows."""
    made = ledger(node("n1", TWO_BY_FOUR))
    for uid in ("p1", "p2"):
        seen(made, pod(uid, FOUR_GPUS, node_name="n1"), is_history=True)
    assert [entry.holding.devices for entry in made.views["n1"].bound] == [(0x0F,), (0xF0,)]
    made.apply(recalled("n1", ("p1", 0b11 << 9, ((GPU, 0xF0),)), ("p2", 0b11 << 1, ((GPU, 0x0F),))), 1.0)
    assert [entry.holding.devices for entry in made.views["n1"].bound] == [(0xF0,), (0x0F,)]
    assert [entry.certainty for entry in made.views["n1"].bound] == [Certainty.REPLAYED] * 2
    assert not made.views["n1"].is_guessed


def test_of_two_places_of_a_checkpoint_that_overlap_the_first_stands():
    """Parts of two moments of a node; the other pod stays a guess beside it."""
    made = ledger(node("n1", TWO_BY_FOUR))
    for uid in ("p1", "p2"):
        seen(made, pod(uid, FOUR_GPUS, node_name="n1"), is_history=True)
    made.apply(recalled("n1", *((uid, 0b11 << 9, ((GPU, 0xF0),)) for uid in ("p1", "p2"))), 1.0)
    first, second = made.views["n1"].bound
    assert (first.certainty, first.holding.devices) == (Certainty.REPLAYED, (0xF0,))
    assert (second.certainty, second.holding.devices) == (Certainty.GUESSED, (0x0F,))


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(recalled("n1", ("p1", 0, ((GPU, 0xFF),))), id="more than the pod asks for"),
        pytest.param(recalled("n1", ("p1", 0, ((GPU, 0x0F),))), id="what is confirmed of another"),
        pytest.param(recalled("n1", ("p9", 0, ((GPU, 0xF0),))), id="a pod that is not there"),
        pytest.param(recalled("n9", ("p1", 0, ((GPU, 0xF0),))), id="a node that is not there"),
        pytest.param(recalled("n1", ("p2", 0, ((GPU, 0xF0),))), id="a pod whose place is confirmed"),
    ],
)
def test_a_checkpoint_that_cannot_be_right_is_not_believed(event):
    """A checkpoint may be older than the cluster."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"), is_history=True)
    seen(made, pod("p2", FOUR_GPUS, node_name="n1", confirmed=Confirmed(0b110, ((GPU, 0x0F),))))
    before = made.content()
    made.apply(event, 1.0)
    assert made.content() == before


# --- surprises ---


def test_a_refusal_that_was_not_foreseen_makes_the_node_doubtful():
    """The kubelet refused what we had let through."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, pod("p2", FOUR_GPUS, node_name="n1"))
    failed = pod("p2", FOUR_GPUS, version=2, node_name="n1", phase="Failed", failure_reason="TopologyAffinityError")
    seen(made, failed, 1.0)
    assert (made.views["n1"].is_guessed, kinds(made)) == (True, ["refused-though-allowed"])


def test_failed_pods_of_the_past_say_nothing_of_a_node():
    """A list holds thousands of Failed pods that were never charged."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    past = pod("p0", FOUR_GPUS, node_name="n1", phase="Failed", failure_reason="TopologyAffinityError")
    seen(made, past, is_history=True)
    assert (made.views["n1"].is_guessed, kinds(made)) == (False, [])


def test_a_pod_that_runs_though_the_model_refused_it_makes_the_node_doubtful():
    """Its totals count, its place is not known, and nothing there proves anything until it is gone."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", demand((2, 5)), node_name="n1"))
    assert made.entries["p1"].holding is None
    assert not made.views["n1"].is_guessed
    seen(made, pod("p1", demand((2, 5)), version=2, node_name="n1", phase="Running", is_answered=True), 1.0)
    assert (made.views["n1"].is_guessed, kinds(made)) == (True, ["runs-though-refused"])
    made.apply(events.PodGone("p1"), 2.0)
    assert not made.views["n1"].is_guessed


def test_doubt_lasts_until_the_node_drains():
    """Replayed places become guesses, and stay so while one of them stands."""
    made = ledger(node("n1", TWO_BY_FOUR))
    for uid in ("p1", "p2"):
        seen(made, pod(uid, node_name="n1"))
    made.apply(events.Diverged("n1"), 1.0)
    made.apply(events.PodGone("p1"), 2.0)
    assert made.views["n1"].is_guessed
    made.apply(events.PodGone("p2"), 3.0)
    assert not made.views["n1"].is_guessed


# --- what is not known is not zero ---


@pytest.mark.parametrize(
    ("record", "fits"),
    [
        pytest.param(node("n1", None), False, id="a node without topology offers no place"),
        pytest.param(node("n1", TWO_BY_FOUR, kind=AllocatorKind.UNKNOWN), False, id="nor one of an unknown allocator"),
        pytest.param(node("n1", TWO_BY_FOUR, kind=AllocatorKind.SCHEDULER), False, id="nor one without a model"),
        pytest.param(node("n1", machine(2, 8, 0), **{GPU: 8}), True, id="devices that no layout lists are not nought"),
        pytest.param(node("n1", TWO_BY_FOUR, pods=None), True, id="a node that lists no pods has no limit of them"),
        pytest.param(node("n1", TWO_BY_FOUR, pods=0), False, id="a node that lists none takes none"),
        pytest.param(node("n1", TWO_BY_FOUR, **{GPU: None}), False, id="what a node does not offer nobody binds to it"),
    ],
)
def test_what_is_not_listed(record, fits):
    """Sources that say nothing of a resource."""
    made = ledger(record)
    assert (made.find(pod("p1")).placement is not None) is fits


def test_pods_on_a_node_without_topology_are_counted():
    """Totals count where places cannot; the topology comes later and places are guessed."""
    made = ledger(node("n1", None))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    assert (made.views["n1"].free(GPU), made.entries["p1"].holding) == (4, None)
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR)), 1.0)
    assert (made.entries["p1"].holding.devices, made.entries["p1"].certainty) == ((0x0F,), Certainty.GUESSED)


def test_a_node_that_changes_hands_is_accounted_anew():
    """The same machine, but another allocator: its rules count from now on."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR, kind=AllocatorKind.UNKNOWN)), 1.0)
    assert (made.entries["p1"].holding, made.views["n1"].bound_totals[GPU]) == (None, 4)


def test_the_tightest_node_is_filled_first():
    """Whole machines are kept for the pods that need one."""
    made = ledger(*[node(f"n{at}", TWO_BY_FOUR) for at in range(3)])
    seen(made, pod("p1", demand((1, 1)), node_name="n2"))
    assert made.find(pod("p2", demand((1, 1)))).node == "n2"
    assert made.find(pod("p3", demand((1, 4), (1, 4)))).node in {"n0", "n1"}


def test_a_preset_node_is_the_only_one():
    """``spec.nodeName`` at creation."""
    made = ledger(node("n1", TWO_BY_FOUR), node("n2", TWO_BY_FOUR, cordoned=True))
    asked = pod("p1", eligibility=Eligibility(node_name="n2"))
    assert made.find(asked).node == "n2"


def test_equal_ledgers_have_equal_content():
    """The hash of a dry run: asking changes nothing."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    before = made.content()
    made.find(pod("p2", FOUR_GPUS))
    assert made.content() == before
    made.apply(events.NodeSeen(replace(node("n1", TWO_BY_FOUR), unhealthy=(1,))), 1.0)
    assert made.content() != before


@pytest.mark.parametrize("policy", list(TopologyPolicy))
def test_the_last_slot_is_given_once_under_every_policy(policy):
    """Claims follow one another: the last place is not promised twice."""
    made = ledger(node("n1", machine(2, 8, 4, policy=policy)))
    for at in range(2):
        claim(made, pod(f"p{at}", FOUR_GPUS, version=0))
    assert made.find(pod("p9", FOUR_GPUS)).placement is None
