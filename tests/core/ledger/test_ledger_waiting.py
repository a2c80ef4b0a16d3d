"""Pods that wait for their virtual place get the one that they would have got at once, whenever somebody looks."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_walk import NAMES, Walk
from ledger_world import demand, ledger, machine, node, pod, random_demand, random_eligibility

from webhook.core.ledger import events
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import PodRecord


def observed(made: Ledger, looked_for: PodRecord) -> tuple[object, ...]:
    """Return everything that can be read of a ledger."""
    index, asks = made.index, looked_for.demand
    plain = index.with_plain_room(asks.totals, index.eligible(looked_for.eligibility))
    return (
        made.content(),
        dict(made.views),
        {name: made.alternatives(name) for name in made.open_nodes()},
        (index.present, index.ready, index.cordoned, index.known, index.guessed, index.freeing),
        (plain, index.with_numa_room(asks, plain)),
        made.find(looked_for),
        made.take_notices(),
    )


class TwoLedgers(Walk):
    """A walk on a ledger that places every pod at once, and one that is looked at only now and then."""

    def __init__(self, seed: int, looks: float) -> None:
        """Look at the second ledger after that part of the events."""
        super().__init__(seed)
        self.unlooked = ledger()
        self.looks = looks
        self.other_random = Random(seed)

    def apply(self, event) -> None:
        """Tell both."""
        self.ledger.apply(event, self.now)
        while self.ledger.plan_next():
            pass
        self.unlooked.apply(event, self.now)
        if self.other_random.random() < self.looks:
            self.compare()

    def compare(self) -> None:
        """Look at both."""
        random = self.other_random
        asked = pod("looked-for", random_demand(random), eligibility=random_eligibility(random, NAMES))
        assert observed(self.unlooked, asked) == observed(self.ledger, asked)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(5, 80), st.sampled_from([0.0, 0.1, 0.5]))
def test_a_place_found_late_is_the_place_found_at_once(seed, steps, looks):
    """Whether each pod is placed in its event or when somebody looks, everything that can be read is the same."""
    walk = TwoLedgers(seed, looks)
    for _ in range(steps):
        walk.step()
    walk.compare()


def test_an_event_that_adds_a_pod_searches_nothing():
    """Pods that come one after the other wait in their order; the next look places them all."""
    made = ledger(node("n1", machine()), node("n2", machine()))
    for uid in ("p1", "p2", "p3"):
        made.apply(events.PodSeen(pod(uid, demand((2, 4)))), 1.0)
        assert made.has_waiting
    assert made.plan_next(), "two wait still"
    assert [made.entries[uid].node for uid in ("p1", "p2", "p3")] == ["n1", "n1", "n2"]
    assert not made.has_waiting
    assert not made.plan_next()


def test_a_node_changes_only_after_those_who_wait():
    """A pod that came before a binding has its place before it, and loses it to reality."""
    made = ledger(node("n1", machine(numa=1, gpus=2)))
    made.apply(events.PodSeen(pod("waits", demand((1, 2)))), 1.0)
    made.apply(events.PodSeen(pod("bound", demand((1, 2)), node_name="n1")), 2.0)
    assert [(notice.kind, notice.uid) for notice in made.take_notices()] == [("place-lost", "waits")]
    assert not made.entries["waits"].node
