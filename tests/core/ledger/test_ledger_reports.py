"""Live reports against the ledger: places move, nothing is debited twice, nothing is forgotten."""

from random import Random

import pytest
from ledger_world import GPU, demand, ledger, machine, node, pod

from webhook.core.capacity import CapacityRules
from webhook.core.capacity_bind import decide_bind
from webhook.core.decisions import Ask, Operation
from webhook.core.ledger.events import Diverged, PodGone, PodSeen, Reported
from webhook.core.ledger.records import Certainty, Confirmed, Report
from webhook.core.machine import TopologyPolicy
from webhook.core.pod import Binding

ON = machine(2, 8, 4)
EARLY, LATE = 100.0, 1000.0


def bound(uid, asks=None, *, at=EARLY, version=1):
    return pod(uid, asks or demand((2, 2)), node_name="n1", bound_seconds=at, version=version, phase="Running")


def restarted(*pods):
    """A ledger that finds these pods running."""
    made = ledger(node("n1", ON))
    for each in pods:
        made.apply(PodSeen(each, is_history=True), 0.0)
    return made


def busy(made, name="n1"):
    """What the account has given out on each NUMA node, as a report counts."""
    view = made.views[name]
    state, on = view.bound_state, view.record.machine
    cpus = on.cpus.all_cpus & ~on.reserved_cpus & ~state.free_cpus
    return {
        "cpu": tuple((cpus & numa).bit_count() for numa in on.cpus.numa_cpus),
        GPU: tuple(
            (state.busy_devices[0] & on.devices[0].touching(1 << at)).bit_count() for at in range(len(on.numa_ids))
        ),
    }


def report(cpu, gpu, as_of=LATE):
    return Reported("n1", Report(as_of, {"cpu": cpu, GPU: gpu}))


def test_a_guessed_pod_moves_to_where_the_node_counts_it():
    made = restarted(bound("a"))
    assert busy(made) == {"cpu": (2, 0), GPU: (2, 0)}
    made.apply(report((0, 2), (0, 2)), 0.0)
    assert busy(made) == {"cpu": (0, 2), GPU: (0, 2)}
    assert not made.views["n1"].is_guessed


def test_a_guessed_pod_that_is_younger_than_the_report_stays_a_guess():
    """The report moves the older one; where the kubelet put the young one, found after a restart, is not in it."""
    made = restarted(bound("a"), bound("b", at=LATE + 20))
    made.apply(report((0, 2), (0, 2)), 0.0)
    assert busy(made)[GPU] == (2, 2)
    assert made.views["n1"].is_guessed
    made.apply(report((2, 2), (2, 2), as_of=LATE + 60), 0.0)
    assert not made.views["n1"].is_guessed


@pytest.mark.parametrize(
    ("counts", "is_guessed"),
    [({"cpu": (2, 0), GPU: (2, 0)}, False), ({GPU: (2, 0)}, True), ({"cpu": (2, 0)}, True)],
    ids=["both", "devices alone", "CPUs alone"],
)
def test_what_the_report_does_not_count_stays_a_guess(counts, is_guessed):
    made = restarted(bound("a"))
    made.apply(Reported("n1", Report(LATE, counts)), 0.0)
    assert made.views["n1"].is_guessed is is_guessed


def test_a_pod_younger_than_the_report_keeps_its_own_place_and_is_replayed_on_what_is_known():
    made = restarted(bound("a"))
    made.apply(report((0, 2), (0, 2)), 0.0)
    made.apply(PodSeen(bound("b", demand((2, 4)), at=LATE + 20)), 0.0)
    assert busy(made) == {"cpu": (2, 2), GPU: (4, 2)}
    assert made.entry("b").certainty is Certainty.REPLAYED


def test_the_same_report_again_with_a_younger_pod_debits_nobody_twice():
    made = restarted(bound("a"))
    for _ in range(3):
        made.apply(report((0, 2), (0, 2)), 0.0)
        made.apply(PodSeen(bound("b", at=LATE + 20)), 0.0)
    assert sum(busy(made)[GPU]) == 4


@pytest.mark.parametrize(
    "counted",
    [
        ((2, 2), (2, 2)),  # a pod more: it has ended since, or the feed of pods is behind
        ((0, 0), (0, 0)),
        ((3, 0), (2, 0)),
    ],
    ids=["counts a pod more", "counts a pod less", "counts a CPU more"],
)
def test_a_report_about_other_pods_is_left_alone(counted):
    made = restarted(bound("a"))
    before = made.content()
    made.apply(report(*counted), 0.0)
    assert made.content() == before
    assert made.views["n1"].is_guessed


@pytest.mark.parametrize("is_in_it", [True, False])
def test_a_pod_bound_just_before_the_report_counts_by_the_totals(is_in_it):
    made = restarted(bound("a"), bound("b", at=LATE - 1))
    counts = ((2, 2), (2, 2)) if is_in_it else ((0, 2), (0, 2))
    made.apply(report(*counts), 0.0)
    held = busy(made)
    assert sum(held[GPU]) == 4
    assert held[GPU][1] >= 2


@pytest.mark.parametrize(
    ("ended_at", "held"),
    [(LATE - 4, (2, 0)), (LATE + 1, (2, 0)), (LATE - 6, (0, 2))],
    ids=["just before the report", "after it", "long before it"],
)
def test_a_young_pod_is_not_taken_for_one_that_has_just_ended(ended_at, held):
    """The report may count the one that has ended, which sat on the other NUMA node."""
    made = ledger(node("n1", ON))
    made.apply(PodSeen(bound("gone", demand((2, 3))), is_history=True), 0.0)
    made.apply(PodGone("gone"), ended_at)
    made.apply(PodSeen(bound("young", at=LATE - 2), is_history=True), 0.0)
    made.apply(report((0, 2), (0, 2)), LATE + 60)
    assert busy(made)[GPU] == held
    assert made.views["n1"].is_guessed is (held == (2, 0))


def test_an_unchanged_report_is_not_stored_again_and_the_pod_after_it_stays_a_guess():
    """B took the room of A within the writer's period, so the last report is older than B. The guess is bounded."""
    made = restarted(bound("b", demand((2, 4)), at=LATE + 20))
    made.apply(report((2, 0), (4, 0)), LATE + 1000)
    assert made.views["n1"].is_guessed
    made.apply(PodSeen(pod("next", demand((2, 4)))), LATE + 1000)
    made.apply(PodSeen(pod("over", demand((2, 5)))), LATE + 1000)
    ask = Ask(Operation.CREATE, "team", "over", Binding("team", "over", "over", "n1"), subresource="binding")
    tries = 0
    while not (decision := decide_bind(ask, made, CapacityRules(), LATE + 1000)).allowed:
        made.apply(decision.event, LATE + 1000)
        tries += 1
    assert tries == CapacityRules().most_tries_on_guess
    made.apply(PodSeen(bound("next", demand((2, 4)), at=LATE + 1010, version=2)), LATE + 1010)
    made.apply(report((2, 2), (4, 4), as_of=LATE + 1060), LATE + 1060)
    assert not made.views["n1"].is_guessed, "whatever comes to the node or leaves it ends the guess"


def test_two_equal_pods_are_known_until_one_of_them_goes():
    """Which of them sits where is not reported, so once one has gone nobody knows which room it left."""
    made = restarted(bound("a", demand((2, 4))), bound("b", demand((2, 4))))
    made.apply(report((2, 2), (4, 4)), 0.0)
    assert not made.views["n1"].is_guessed
    made.apply(PodGone("a"), 0.0)
    assert made.views["n1"].is_guessed
    made.apply(report((0, 2), (0, 4), as_of=LATE + 60), 0.0)
    assert not made.views["n1"].is_guessed
    assert busy(made)[GPU] == (0, 4)


def test_a_report_ends_a_doubt_and_beats_what_was_replayed():
    made = ledger(node("n1", ON))
    made.apply(PodSeen(bound("a")), 0.0)
    assert made.entry("a").certainty is Certainty.REPLAYED
    made.apply(Diverged("n1"), 0.0)
    made.apply(report((0, 2), (0, 2)), 0.0)
    assert not made.views["n1"].is_guessed
    assert busy(made)[GPU] == (0, 2)


class TestContradictions:
    """What a node counts against what is known otherwise: told with both views."""

    def replayed(self, *pods):
        made = ledger(node("n1", ON))
        for each in pods or (bound("a"),):
            made.apply(PodSeen(each), 0.0)
        return made

    def notices(self, made):
        return [(notice.kind, notice.uid) for notice in made.take_notices()]

    def test_the_node_is_believed_and_the_difference_is_told(self):
        made = self.replayed()
        made.apply(report((0, 2), (0, 2)), LATE + 5)
        (notice,) = made.take_notices()
        assert (notice.kind, notice.uid, notice.node) == ("placed-elsewhere", "a", "n1")
        assert notice.detail == (
            f"the node counts cpu 0+2, {GPU} 0+2 in use by NUMA node; of the pod cpu 2+0, {GPU} 2+0 was replayed"
        )
        assert (busy(made)[GPU], made.views["n1"].is_guessed) == ((0, 2), False)
        made.apply(report((0, 2), (0, 2)), LATE + 10)
        assert self.notices(made) == [], "once"

    @pytest.mark.parametrize(
        ("young", "now"),
        [
            pytest.param((), LATE + 4, id="a report so young that the feed of pods may be behind it"),
            pytest.param((bound("b", at=LATE - 1),), LATE + 60, id="a report that may count one of two pods"),
        ],
    )
    def test_what_may_be_about_other_pods_is_left_alone(self, young, now):
        made = self.replayed(bound("a"), *young)
        before = made.content()
        made.apply(report((0, 2), (0, 2)), now)
        assert (made.content(), self.notices(made)) == (before, [])

    def test_an_annotation_against_the_nodes_count_makes_the_node_a_guess(self):
        """Which of the two is wrong cannot be told."""
        told = pod("a", node_name="n1", bound_seconds=EARLY, confirmed=Confirmed(0b110, ((GPU, 0b11),)))
        made = self.replayed(told)
        assert not made.views["n1"].is_guessed
        for _ in range(2):
            made.apply(report((0, 2), (0, 2)), LATE + 60)
        assert made.views["n1"].is_guessed
        assert busy(made)[GPU] == (2, 0)
        assert self.notices(made) == [("placed-elsewhere", "a")]

    def test_of_a_guess_nothing_is_told(self):
        made = restarted(bound("a"))
        made.apply(report((0, 2), (0, 2)), LATE + 60)
        assert self.notices(made) == []


def test_a_report_of_a_scheduler_allocated_or_unknown_node_says_nothing():
    made = ledger(node("n1"))
    made.apply(PodSeen(bound("a"), is_history=True), 0.0)
    before = made.content()
    made.apply(report((0, 2), (0, 2)), 0.0)
    made.apply(Reported("n2", Report(LATE, {})), 0.0)
    assert made.content() == before


@pytest.mark.parametrize("seed", range(60))
def test_a_restarted_ledger_with_a_report_has_the_same_room_as_one_that_saw_everything(seed):
    random = Random(seed)
    on = machine(
        random.choice([1, 2, 4]),
        random.choice([4, 6]),
        random.choice([2, 4]),
        policy=random.choice([TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED, TopologyPolicy.BEST_EFFORT]),
    )
    witness = ledger(node("n1", on))
    alive = []
    for at in range(random.randint(3, 25)):
        if alive and random.random() < 0.4:
            gone = alive.pop(random.randrange(len(alive)))
            witness.apply(PodGone(gone.uid), 0.0)
            continue
        each = bound(f"p{at}", demand((random.randint(0, 4), random.randint(0, 4))))
        witness.apply(PodSeen(each), 0.0)
        if witness.entry(each.uid).holding is None:  # the kubelet refuses it: it fails and is gone
            witness.apply(PodGone(each.uid), 0.0)
        else:
            alive.append(each)
    random.shuffle(alive)
    late = ledger(node("n1", on))
    for each in alive:
        late.apply(PodSeen(each, is_history=True), 0.0)
    late.apply(Reported("n1", Report(LATE, busy(witness))), 0.0)
    assert busy(late) == busy(witness)
    amounts, wanted = (made.views["n1"].bound_totals for made in (late, witness))
    assert {name: amount for name, amount in amounts.items() if amount} == {
        name: amount for name, amount in wanted.items() if amount
    }
    assert not late.views["n1"].is_guessed
