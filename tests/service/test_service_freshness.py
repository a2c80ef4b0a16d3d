"""When the ledger's picture can be trusted."""

import pytest

from webhook.cluster.errors import Unavailable
from webhook.cluster.pulse import Pulse
from webhook.service.freshness import Freshness, FreshnessLimits


class World:
    """Two needed feeds, one optional, and a clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0
        self.nodes, self.pods, self.extra = (Pulse(name, lambda: self.now) for name in ("nodes", "pods", "extra"))
        limits = FreshnessLimits(silent_seconds=100.0, lost_seconds=20.0)
        self.fresh = Freshness((self.nodes, self.pods), (self.extra,), lambda: self.now, limits)

    def all_listed(self):
        for pulse in (self.nodes, self.pods, self.extra):
            pulse.listed()


def wait(seconds):
    def step(world):
        world.now += seconds

    return step


STEPS = {
    "nothing yet": ([], "not-synced"),
    "one is missing": ([lambda w: w.nodes.listed(), lambda w: w.extra.listed()], "not-synced"),
    "heard is not listed": (
        [lambda w: w.nodes.listed(), lambda w: w.extra.listed(), lambda w: w.pods.heard()],
        "not-synced",
    ),
    "all": ([World.all_listed], ""),
    "an optional one is absent": (
        [lambda w: w.nodes.listed(), lambda w: w.pods.listed(), lambda w: w.extra.absent("no CRD")],
        "",
    ),
    "an optional one is not known yet": ([lambda w: w.nodes.listed(), lambda w: w.pods.listed()], "not-synced"),
    "silent up to the limit": ([World.all_listed, wait(100)], ""),
    "silent for longer": ([World.all_listed, wait(101)], "stale"),
    "one of two is silent": ([World.all_listed, wait(60), lambda w: w.nodes.heard(), wait(60)], "stale"),
    "bookmarks are heard": (
        [World.all_listed, wait(60), lambda w: w.nodes.heard(), lambda w: w.pods.heard(), wait(60)],
        "",
    ),
    "lost for a moment": ([World.all_listed, lambda w: w.pods.lost(Unavailable("refused")), wait(20)], ""),
    "lost for longer": ([World.all_listed, lambda w: w.pods.lost(Unavailable("refused")), wait(21)], "stale"),
    "lost again and again is lost since the first time": (
        [World.all_listed, *[lambda w: w.pods.lost(Unavailable("refused")), wait(11)] * 2],
        "stale",
    ),
    "back again": ([World.all_listed, lambda w: w.pods.lost(Unavailable("x")), wait(30), lambda w: w.pods.heard()], ""),
    "an optional one is silent": ([World.all_listed, wait(99), World.all_listed, wait(2)], ""),
    "an optional one is lost": ([World.all_listed, lambda w: w.extra.lost(Unavailable("403")), wait(50)], ""),
}


@pytest.mark.parametrize(("steps", "word"), STEPS.values(), ids=STEPS.keys())
def test_trust(steps, word):
    world = World()
    for step in steps:
        step(world)
    assert world.fresh.trust() == word


def test_readiness_names_the_feed_and_why_and_does_not_end_when_the_picture_gets_old():
    world = World()
    world.pods.lost(Unavailable("GET /api/v1/pods: 403 forbidden"))
    world.nodes.listed()
    assert world.fresh.why_not_ready() == ("The feed of pods has not been read yet: GET /api/v1/pods: 403 forbidden.")
    world.all_listed()
    world.now += 10_000
    assert (world.fresh.trust(), world.fresh.why_not_ready()) == ("stale", "")
