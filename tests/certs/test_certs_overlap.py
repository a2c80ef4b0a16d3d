"""Rotation under a simulated clock: no replica ever serves a leaf that some API server's bundle does not verify."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

import pytest
from certs_world import NAMES, START, MemoryConfigurations, MemorySecrets, MovingClock, policy, seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.holdings import holdings_of
from certs.pki import Certificate, mint_authority, mint_leaf, read_certificates
from certs.plan import Action
from certs.rotate import Rotator
from certs.store import UnavailableError

TEN_YEARS_SECONDS = 10 * 365 * 86400


@dataclass(frozen=True)
class Version:
    """Something that was current from ``begin`` until ``end``, and may be held for the delay after that."""

    begin: datetime
    end: datetime
    certificates: tuple[Certificate, ...]


def failures(leaves: Sequence[Version], bundles: Sequence[Version], delay: timedelta) -> Iterator[str]:
    """Yield each way in which a call could fail, for replicas and API servers that are late by up to ``delay``.

    Not one draw of delays, but all at once: whatever was current at some moment of the last ``delay`` may be held by
    some replica or some API server, so that every such leaf must verify against every such bundle.
    """
    for leaf in leaves:
        certificate = leaf.certificates[0]
        if certificate.not_before > leaf.begin:
            yield f"served {leaf.begin - certificate.not_before} before it was valid"
        if certificate.not_after < leaf.end + delay:
            yield f"served {leaf.end + delay - certificate.not_after} after it expired"
        for bundle in bundles:
            meet = max(leaf.begin, bundle.begin) < min(leaf.end + delay, bundle.end + delay)
            if meet and not any(_issued(certificate, authority) for authority in bundle.certificates):
                yield f"the leaf of {leaf.begin} is not trusted by the bundle of {bundle.begin}"


@cache
def _issued(leaf: Certificate, authority: Certificate) -> bool:
    return leaf.issued_by(authority)


class Killed(BaseException):
    """The rotator's process ends here."""


LONGEST_WRITE = seconds(30)
"""The client gives up after 10 s; nothing is promised where a write lands after the wait that begins with it."""


@dataclass
class Troubles:
    """Bad luck, drawn: late looks, slow writes, kills in the middle of a step, stores that fail."""

    dice: random.Random
    clock: MovingClock
    longest: timedelta
    """The longest lateness of a look, duration of a write, and absence after a kill."""
    in_a_row: int = 0

    def late(self) -> timedelta:
        """Return how long something takes."""
        return self.longest * self.dice.random()

    def before_write(self, _name: str = "") -> None:
        """Take some time, and now and then do not come back."""
        self.clock.now += min(self.late() / 4, LONGEST_WRITE)
        if self.longest and self.in_a_row < 2 and self.dice.random() < 0.15:
            self.in_a_row += 1
            raise self.dice.choice([Killed(), UnavailableError("No answer.")])


@dataclass(frozen=True)
class Life:
    """What happened in a simulated life of the certificates."""

    actions: tuple[Action, ...]
    leaves: tuple[Version, ...]
    bundles: tuple[Version, ...]


def live(leaf: float, authority: float, propagation: float, troubles_seconds: float, seed: int) -> Life:
    """Run the rotator for two and a half lifetimes of an authority."""
    clock = MovingClock()
    troubles = Troubles(random.Random(seed), clock, seconds(troubles_seconds))
    secrets = MemorySecrets(clock, before_write=troubles.before_write)
    configurations = MemoryConfigurations(clock, before_patch=troubles.before_write)
    configurations.add("mutating", ["mutate.numa"])
    configurations.add("validating", ["validate.numa", "capacity.numa"])
    rules = policy(
        leaf_lifetime=seconds(leaf),
        authority_lifetime=seconds(authority),
        propagation=seconds(propagation),
        look_every=seconds(authority),  # nothing but what is due brings it back
    )
    end = START + seconds(2.5 * authority)
    actions: list[Action] = []
    while clock.now < end:
        rotator = Rotator(secrets, configurations, rules)  # a new process each time: it may remember nothing
        try:
            step = rotator.step(clock.now)
        except Killed:
            clock.now += troubles.late()
            continue
        actions.append(step.action)
        troubles.in_a_row = 0 if not step.error else troubles.in_a_row
        assert step.look_at > clock.now - seconds(troubles_seconds), "a look in the past is a busy loop"
        clock.now = max(clock.now, step.look_at) + troubles.late()
        assert len(actions) < 2000, "it goes round in circles"
    return Life(tuple(actions), tuple(_leaves(secrets, clock.now)), tuple(_bundles(configurations, clock.now)))


def _leaves(secrets: MemorySecrets, end: datetime) -> Iterator[Version]:
    ends = [moment for moment, _ in secrets.history[1:]] + [end]
    for (begin, data), until in zip(secrets.history, ends, strict=True):
        leaf = holdings_of(data).leaf
        assert leaf is not None
        yield Version(begin, until, (leaf.certificate,))


def _bundles(configurations: MemoryConfigurations, end: datetime) -> Iterator[Version]:
    for history in configurations.history.values():
        ends = [moment for moment, _ in history[1:]] + [end]
        for (begin, bundles), until in zip(history, ends, strict=True):
            assert len(set(bundles)) == 1, "all webhooks of a configuration hold the same bundle"
            if bundles[0]:  # before the first one there are no calls to protect
                yield Version(begin, until, read_certificates(bundles[0]))


lifetimes = st.floats(0, 1).map(lambda share: 60 * (TEN_YEARS_SECONDS / 60) ** share)  # even by order of magnitude


@settings(max_examples=60, deadline=None)
@given(
    leaf=lifetimes,
    ratio=st.sampled_from([1, 1.01, 1.4, 2, 3.3, 8]),
    propagation=st.sampled_from([0, 5, 90, 600]),
    seed=st.integers(0, 2**32),
)
def test_no_call_fails_at_any_moment_of_any_life(leaf: float, ratio: float, propagation: float, seed: int):
    """Lifetimes of a minute to ten years, replicas and API servers late, the rotator late, killed and refused."""
    authority = min(leaf * ratio, TEN_YEARS_SECONDS)
    shortest = min(leaf, authority)
    delay = min(propagation, shortest / 10)  # what a certificate of this length can bear, and no more than was promised

    life = live(leaf, authority, propagation, shortest / 100, seed)

    assert list(failures(life.leaves, life.bundles, seconds(delay))) == []
    assert len({authority for bundle in life.bundles for authority in bundle.certificates}) >= 3
    assert all(len(bundle.certificates) <= 2 for bundle in life.bundles), "an overlap ends before the next begins"


def test_the_default_policy_bears_replicas_that_see_the_secret_ninety_seconds_late():
    """The lifetimes that the chart installs, over twelve years, in one piece."""
    rules = policy()
    leaf, authority = rules.leaf_lifetime.total_seconds(), rules.authority_lifetime.total_seconds()

    life = live(leaf, authority, rules.propagation.total_seconds(), 3600, seed=1)

    assert list(failures(life.leaves, life.bundles, seconds(90))) == []
    assert life.actions.count(Action.START) == 1


def test_a_life_is_not_busier_than_its_certificates_need():
    """Without trouble, a leaf is renewed by its share, an overlap takes five steps, and nothing is written twice."""
    life = live(86400, 7 * 86400, 90, 0, seed=1)

    assert life.actions.count(Action.START) == 1
    assert life.actions.count(Action.BEGIN_OVERLAP) == life.actions.count(Action.NOTE_TRUST) == 3
    assert life.actions.count(Action.SWITCH_LEAF) == life.actions.count(Action.FINISH_OVERLAP) == 3
    assert life.actions.count(Action.FORGET_TRUST) == life.actions.count(Action.REPAIR) == 0
    assert 24 <= life.actions.count(Action.RENEW_LEAF) <= 27


@pytest.mark.parametrize(
    ("bundle_at", "leaf_at", "drop_at", "verdict"),
    [
        pytest.param(0, 90, 180, 0, id="bundle first, leaf after the delay, old authority dropped after another"),
        pytest.param(0, 89, 180, 1, id="leaf a second before every API server trusts it"),
        pytest.param(0, 90, 179, 1, id="old authority dropped a second before every replica left it"),
        pytest.param(0, 0, 0, 2, id="everything at once, as a chart's genCA does it"),
    ],
)
def test_the_judge_finds_a_gap_of_one_second(bundle_at: int, leaf_at: int, drop_at: int, verdict: int):
    """The property above is worth what its judge is: shown rotations with and without a gap, it tells them apart."""
    old, new = (mint_authority(START, seconds(86400)) for _ in range(2))
    served = [mint_leaf(signer, NAMES, START, seconds(86400)).certificate for signer in (old, new)]
    at = [START + seconds(number) for number in (bundle_at, leaf_at, drop_at)]
    end = START + seconds(3600)
    leaves = [Version(START - seconds(60), at[1], (served[0],)), Version(at[1], end, (served[1],))]
    bundles = [
        Version(START - seconds(60), at[0], (old.certificate,)),
        Version(at[0], at[2], (old.certificate, new.certificate)),
        Version(at[2], end, (new.certificate,)),
    ]

    found = [failure for failure in failures(leaves, bundles, seconds(90)) if "trusted" in failure]

    assert len(found) == verdict
