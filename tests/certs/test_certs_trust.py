"""Bundles from a Secret that somebody else writes."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from certs_world import START, MemoryConfigurations, MemorySecrets, MovingClock, seconds

from certs.bundle import bundle_of
from certs.pki import Pair
from certs.steps import Outcome
from certs.store import ForbiddenError
from certs.trust import TrustKeeper


class ReadOnlySecrets(MemorySecrets):
    """A Secret that our role cannot write."""

    def write(self, data: Mapping[str, bytes], version: str) -> str:
        """Fail the test."""
        raise AssertionError(f"the keeper wrote {sorted(data)} over version {version} of a Secret that is not ours")


@pytest.fixture
def secrets(clock: MovingClock) -> ReadOnlySecrets:
    return ReadOnlySecrets(clock)


@pytest.fixture
def configurations(clock: MovingClock) -> MemoryConfigurations:
    made = MemoryConfigurations(clock)
    made.add("mutating", ["mutate"])
    made.add("validating", ["validate", "capacity"])
    return made


@pytest.fixture
def keeper(secrets: ReadOnlySecrets, configurations: MemoryConfigurations) -> TrustKeeper:
    return TrustKeeper(secrets, configurations, propagation=seconds(90))


def test_the_secret_s_authorities_are_given_to_every_webhook(
    keeper, secrets, configurations, authority: Pair, leaf: Pair
):
    """Authorities only, in our order; a second step does nothing."""
    secrets.put({"ca.crt": leaf.certificate.pem + authority.certificate.pem})
    step = keeper.step(START)

    assert (step.outcome, step.patched) == (Outcome.DONE, ("mutating", "validating"))
    assert set(configurations.bundles("validating")) == {authority.certificate.pem}
    assert keeper.step(START).patched == ()
    assert keeper.step(START).look_at == START + seconds(60)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "names no authority"),
        ({"ca.crt": b"half"}, "holds no PEM block"),
        ({"ca.crt": b"-----BEGIN CERTIFICATE-----\n"}, "half-written"),
    ],
)
def test_without_a_readable_authority_the_bundles_stay_as_they_are(keeper, secrets, configurations, data, reason):
    configurations.reset("mutating", b"before")
    secrets.put(data)
    step = keeper.step(START)

    assert reason in step.reason
    assert configurations.bundles("mutating") == (b"before",)


def test_an_authority_that_left_the_secret_lingers_until_no_replica_can_need_it(
    keeper, secrets, configurations, authority: Pair, other_authority: Pair
):
    old, new = authority.certificate, other_authority.certificate
    secrets.put({"ca.crt": old.pem})
    keeper.step(START)
    secrets.put({"ca.crt": new.pem})

    step = keeper.step(START + seconds(100))
    assert configurations.bundles("mutating") == (bundle_of([old, new]),)
    assert step.look_at == START + seconds(160)
    keeper.step(START + seconds(279))
    assert configurations.bundles("mutating") == (bundle_of([old, new]),)
    keeper.step(START + seconds(280))
    assert configurations.bundles("mutating") == (new.pem,)
    assert keeper.step(START + seconds(281)).reason == "Nothing is due."


@pytest.mark.parametrize(
    ("after", "lingers"),
    [
        pytest.param(timedelta(days=31), False, id="expired"),
        pytest.param(timedelta(days=-1), True, id="not begun, by a clock that is set back"),
    ],
)
def test_an_authority_that_left_the_secret_lingers_unless_it_has_expired(
    keeper, secrets, configurations, *, authority: Pair, other_authority: Pair, after: timedelta, lingers: bool
):
    """One that has not begun by our clock has begun for other API servers, and replicas still serve what it signed."""
    old, new = authority.certificate, other_authority.certificate
    secrets.put({"ca.crt": old.pem})
    keeper.step(START)
    secrets.put({"ca.crt": new.pem})
    keeper.step(START + after)

    assert configurations.bundles("mutating") == (bundle_of([old, new] if lingers else [new]),)


def test_a_store_that_refuses_is_said(keeper, secrets, configurations, authority: Pair):
    def refuses(_name: str) -> None:
        raise ForbiddenError("We may not patch.")

    secrets.put({"ca.crt": authority.certificate.pem})
    configurations.before_patch = refuses
    step = keeper.step(START)

    assert (step.outcome, step.error, step.look_at) == (Outcome.FAILED, "We may not patch.", START + seconds(5))
