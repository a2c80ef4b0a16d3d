"""Bindings that are held until the kubelet has answered, or until the watch shows the pod; and what is committed."""

import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest
from core.ledger.ledger_world import demand, ledger, machine, node, pod

from webhook.core.capacity import CapacityRules
from webhook.core.decisions import Ask, Operation
from webhook.core.ledger.events import PodGone, PodSeen
from webhook.core.ledger.records import Eligibility, EntryState
from webhook.core.pod import Binding
from webhook.service.book import Book

PATIENT = 20.0
"""A deadline, on a clock that stands at 0, that no test reaches."""

ASKS = {"a": demand((2, 2)), "b": demand((2, 3)), "c": demand((2, 4)), "d": demand((3, 4))}
"""On four NUMA nodes with four GPUs each: of any two the first takes the lower NUMA node, so the order counts."""


class Follower:
    """Keeps what it hears."""

    def __init__(self, shunned=frozenset()):
        self.refusals = []
        self.nodes = shunned
        self.waits = ()
        self.found_places = []

    def shunned(self, uid, tried, now_seconds):
        return self.nodes

    def refused(self, pod, node, steer_to, now_seconds):
        self.refusals.append((pod.uid, node, steer_to))

    def heard(self, event, now_seconds):
        pass

    def waiting(self, node, now_seconds):
        return self.waits

    def found(self, uid, node, now_seconds):
        self.found_places.append((uid, node))


def book_of(*nodes, **options):
    """A book of these nodes whose clocks stand still."""
    return Book(ledger(*nodes), CapacityRules(), lambda: 100.0, lambda: "", monotonic_seconds=lambda: 0.0, **options)


def binding(uid, to="n1", *, dry_run=False):
    """The question whether pod ``uid`` may be bound."""
    subject = Binding("team", uid, uid, to)
    return Ask(Operation.CREATE, "team", uid, subject, subresource="binding", dry_run=dry_run, resource="pods/binding")


def codes(decision):
    """The codes that a decision says."""
    return [finding.code for finding in decision.findings]


def held(book, count):
    """Return once so many calls are held."""
    deadline = time.monotonic() + 10
    while book._turns.waiting != count:
        assert time.monotonic() < deadline


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def follower():
    return Follower()


@pytest.fixture
def book(follower):
    """One node; pod a is bound to it and its kubelet has not answered; b, c and d are pending."""
    made = book_of(node("n1", machine(numa=4)), follower=follower)
    made.apply([PodSeen(pod(uid, asks)) for uid, asks in ASKS.items()])
    assert made.decide_bind(binding("a")).allowed
    return made


def answer(uid):
    """The kubelet's news that a pod runs."""
    return PodSeen(pod(uid, ASKS[uid], version=5, node_name="n1", phase="Running", is_answered=True))


class TestOutOfTurn:
    """The node's kubelet has not answered for the pod before."""

    def test_without_a_deadline_it_is_refused_at_once(self, book):
        assert codes(book.decide_bind(binding("b"))) == ["BINDING_OUT_OF_TURN"]

    def test_after_the_deadline_it_is_refused(self, book, follower):
        assert codes(book.decide_bind(binding("b"), -1.0)) == ["BINDING_OUT_OF_TURN"]
        assert follower.refusals == [("b", "n1", "")]

    def test_it_is_let_through_once_the_kubelet_has_answered(self, book, pool, follower):
        call = pool.submit(book.decide_bind, binding("b"), PATIENT)
        held(book, 1)
        book.apply([answer("a")])
        assert call.result(timeout=10).allowed
        assert book.entry("b").is_assumed
        assert follower.refusals == []

    def test_news_of_another_pod_does_not_end_the_waiting(self, book, pool):
        call = pool.submit(book.decide_bind, binding("b"), PATIENT)
        held(book, 1)
        book.apply([PodSeen(pod("z", demand((1, None)), node_name="n1", version=9))])
        held(book, 1)
        assert not call.done()
        book.apply([PodGone("a", 9)])
        assert call.result(timeout=10).allowed

    def test_of_several_that_wait_one_passes_at_a_time(self, book, pool):
        calls = {uid: pool.submit(book.decide_bind, binding(uid), PATIENT) for uid in "bcd"}
        held(book, 3)
        passed = []
        book.apply([answer("a")])
        while len(passed) < 3:
            left = [calls[uid] for uid in calls if uid not in passed]
            done, _ = wait(left, timeout=10, return_when=FIRST_COMPLETED)
            held(book, len(left) - 1)
            (uid,) = [uid for uid in calls if calls[uid] in done]
            passed.append(uid)
            assert calls[uid].result().allowed
            book.apply([answer(uid)])
        assert {book.entry(uid).state for uid in "abcd"} == {EntryState.BOUND}

    def test_no_more_are_held_than_threads_can_be_spared(self, pool):
        book = book_of(node("n1", machine(numa=4)), most_held_bindings=1)
        book.apply([PodSeen(pod(uid, asks)) for uid, asks in ASKS.items()])
        book.decide_bind(binding("a"))
        call = pool.submit(book.decide_bind, binding("b"), PATIENT)
        held(book, 1)
        assert codes(book.decide_bind(binding("c"), PATIENT)) == ["BINDING_OUT_OF_TURN"]
        book.apply([answer("a")])
        assert call.result(timeout=10).allowed


class TestNotShownYet:
    """The scheduler was quicker than our watch."""

    def test_it_is_judged_once_the_watch_shows_the_pod(self, pool):
        book = book_of(node("n1", machine()))
        call = pool.submit(book.decide_bind, binding("late"), PATIENT)
        held(book, 1)
        book.apply([PodSeen(pod("other"))])
        book.apply([PodSeen(pod("late", demand((2, 6))))])
        assert codes(call.result(timeout=10)) == ["BINDING_WOULD_FAIL"]

    def test_after_the_deadline_it_is_let_through(self):
        assert book_of(node("n1", machine())).decide_bind(binding("never"), -1.0).allowed

    def test_nothing_is_waited_for_on_a_node_that_is_not_known(self):
        assert book_of().decide_bind(binding("any", "unknown"), PATIENT).allowed


class TestCommit:
    """What a decision leaves behind."""

    def test_a_refusal_is_told_with_the_node_that_fits(self, follower):
        book = book_of(node("n1", machine(gpus=1)), node("n2", machine()), follower=follower)
        book.apply([PodSeen(pod("b", demand((2, 2))))])
        assert codes(book.decide_bind(binding("b", "n1"))) == ["BINDING_WOULD_FAIL"]
        assert follower.refusals == [("b", "n1", "n2")]

    def test_a_shunned_node_is_not_steered_to(self):
        follower = Follower(frozenset({"n2"}))
        nodes = [node("n1", machine(gpus=1)), node("n2", machine()), node("n3", machine())]
        book = book_of(*nodes, follower=follower)
        book.apply([PodSeen(pod("b", demand((2, 2))))])
        book.decide_bind(binding("b", "n1"))
        assert follower.refusals == [("b", "n1", "n3")]

    @pytest.mark.parametrize(
        "leads, dry_run",
        [pytest.param(False, False, id="a standby"), pytest.param(True, True, id="a dry run")],
    )
    @pytest.mark.parametrize("to, code", [("n1", ["BINDING_WOULD_FAIL"]), ("n2", [])])
    def test_it_decides_and_commits_nothing(self, follower, leads, dry_run, to, code):
        nodes = [node("n1", machine(gpus=1)), node("n2", machine())]
        book = book_of(*nodes, follower=follower, may_commit=lambda: leads)
        book.apply([PodSeen(pod("b", demand((2, 2))))])
        before = book.entry("b")
        assert codes(book.decide_bind(binding("b", to, dry_run=dry_run))) == code
        assert book.entry("b") == before
        assert follower.refusals == []


class TestRoomFreed:
    """Something ended: pods that were turned back and wait are steered there at once."""

    @pytest.fixture
    def crowded(self, follower):
        """A node of which NUMA node 0 is full and 1 half; b and c want four GPUs each and were turned back."""
        made = book_of(node("n1", machine()), node("n2", machine(gpus=1)), follower=follower)
        for uid, gpus in (("a", 4), ("x", 2)):
            made.apply([PodSeen(pod(uid, demand((1, gpus)), node_name="n1", phase="Running", is_answered=True))])
        for uid in ("b", "c"):
            made.apply([PodSeen(pod(uid, demand((1, 4))))])
            assert codes(made.decide_bind(binding(uid))) == ["BINDING_WOULD_FAIL"]
        follower.waits = ("b", "c")
        return made

    @pytest.mark.parametrize("end", [PodGone("a", 9), PodSeen(pod("a", version=9, node_name="n1", phase="Succeeded"))])
    def test_who_fits_gets_a_place_and_the_others_wait_on(self, crowded, follower, end):
        crowded.apply([end])
        assert follower.found_places == [("b", "n1")]
        assert (crowded.entry("b").node, crowded.entry("c").node) == ("n1", "")

    def test_not_where_too_little_was_freed(self, crowded, follower):
        crowded.apply([PodSeen(pod("y", demand((1, 1)), node_name="n1", version=2)), PodGone("y", 3)])
        assert follower.found_places == []

    def test_not_where_the_pod_may_not_go(self, follower):
        book = book_of(node("n1", machine(), labels={"zone": "a"}), follower=follower)
        book.apply([PodSeen(pod("a", demand((1, 4)), node_name="n1", phase="Running", is_answered=True))])
        book.apply([PodSeen(pod("b", demand((1, 8)), eligibility=Eligibility((("zone", "b"),))))])
        follower.waits = ("b",)
        book.apply([PodGone("a", 9)])
        assert follower.found_places == []

    def test_not_by_a_standby(self, follower):
        book = book_of(node("n1", machine()), follower=follower, may_commit=lambda: False)
        book.apply([PodSeen(pod("a", demand((1, 4)), node_name="n1", phase="Running", is_answered=True))])
        book.apply([PodSeen(pod("x", demand((1, 4)), node_name="n1", phase="Running", is_answered=True))])
        book.apply([PodSeen(pod("b", demand((1, 4)), is_unschedulable=False))])
        follower.waits = ("b",)
        book.apply([PodGone("a", 9)])
        assert follower.found_places == []
