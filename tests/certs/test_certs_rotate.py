"""The step: look, plan, act; with conflicts, kills, resets and a second rotator."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from certs_world import NAMES, START, MemoryConfigurations, MemorySecrets, MovingClock, policy, seconds

from certs.holdings import Holdings, data_of, holdings_of
from certs.pki import mint_authority, mint_leaf
from certs.plan import Action, Asked
from certs.rotate import Rotator
from certs.steps import Outcome, Step
from certs.store import ConflictError, ForbiddenError, NoConfigurations, UnavailableError, WebhookConfiguration


@dataclass
class World:
    """A cluster as far as certificates go, with a rotator in it."""

    clock: MovingClock = field(default_factory=MovingClock)
    secrets: MemorySecrets = field(init=False)
    configurations: MemoryConfigurations = field(init=False)

    def __post_init__(self) -> None:
        """Set up two configurations that trust nobody."""
        self.secrets = MemorySecrets(self.clock)
        self.configurations = MemoryConfigurations(self.clock)
        self.configurations.add("mutating", ["mutate"])
        self.configurations.add("validating", ["validate", "capacity"])

    @property
    def held(self) -> Holdings:
        """Return what the Secret holds."""
        return holdings_of(self.secrets.data)

    def rotator(self) -> Rotator:
        """Return a rotator of this cluster; each is a new process."""
        return Rotator(self.secrets, self.configurations, policy())

    def step(self, asked: Asked = Asked.NOTHING) -> Step:
        """Do one step now."""
        return self.rotator().step(self.clock.now, asked)

    def until(self, action: Action) -> Step:
        """Step, sleeping as told, until ``action`` has been done."""
        for _ in range(3000):
            step = self.step()
            if step.action is action:
                return step
            self.clock.now = step.look_at
        raise AssertionError(f"{action} never came")

    def bundles(self) -> set[bytes]:
        """Return the distinct bundles of all webhooks."""
        return {bundle for name in ("mutating", "validating") for bundle in self.configurations.bundles(name)}


@pytest.fixture
def world() -> World:
    """A fresh cluster."""
    return World()


@pytest.fixture
def settled(world: World) -> World:
    """A cluster whose certificates are in order."""
    world.step()
    assert world.step().action is Action.KEEP
    return world


def test_the_first_step_makes_everything_and_the_second_nothing(world: World):
    first = world.step()

    assert (first.action, first.outcome, first.patched) == (Action.START, Outcome.DONE, ("mutating", "validating"))
    assert first.look_at == START + seconds(1)
    assert world.bundles() == {world.held.bundle} == {world.secrets.data["ca.crt"]}
    assert first.holdings == world.held

    second = world.step()
    assert (second.action, second.patched) == (Action.KEEP, ())
    assert second.look_at == START + policy().look_every
    assert len(world.secrets.history) == 1


def test_an_overlap_from_end_to_end(settled: World):
    """Three different bundles and one leaf change, in the order that the plan's docstring names."""
    old = settled.held
    assert settled.step(Asked.AUTHORITY).action is Action.BEGIN_OVERLAP
    both = settled.held
    assert both.leaf == old.leaf
    assert both.signer == old.signer
    assert settled.bundles() == {both.bundle}
    assert set(old.trusted) < set(both.trusted)

    settled.until(Action.SWITCH_LEAF)
    switched = settled.held
    assert settled.clock.now >= START + seconds(90)
    assert switched.signer == both.next_signer
    assert switched.leaf != old.leaf
    assert settled.bundles() == {both.bundle}

    settled.until(Action.FINISH_OVERLAP)
    assert settled.clock.now >= START + seconds(90 + 180)
    assert settled.bundles() == {settled.held.bundle}
    assert settled.held.trusted == (settled.held.anchors[0], settled.held.signer.certificate)
    assert set(settled.held.trusted) == {switched.signer.certificate}
    assert "rotation.json" not in settled.secrets.data
    assert settled.step().action is Action.KEEP


@pytest.mark.parametrize("bundle", [b"", b"\n", mint_authority(START, seconds(60)).certificate.pem])
def test_a_bundle_that_was_reset_comes_back_at_the_next_look(settled: World, bundle: bytes):
    """Whatever was put there, and without a write to the Secret."""
    settled.configurations.reset("validating", bundle)
    step = settled.step()

    assert (step.action, step.patched) == (Action.KEEP, ("validating",))
    assert settled.bundles() == {settled.held.bundle}
    assert len(settled.secrets.history) == 1


def test_a_reset_during_the_wait_starts_the_wait_again(settled: World):
    """A GitOps tool puts the old bundle back a second before the leaf would switch."""
    settled.step(Asked.AUTHORITY)
    settled.until(Action.NOTE_TRUST)
    noted_at = settled.clock.now
    settled.clock.forward(89)
    settled.configurations.reset("mutating", settled.held.signer.certificate.pem)

    step = settled.step()
    assert (step.action, step.patched) == (Action.FORGET_TRUST, ("mutating",))
    settled.until(Action.SWITCH_LEAF)
    assert settled.clock.now >= noted_at + seconds(89 + 90)


def test_two_rotators_with_the_same_view_make_one_change(settled: World):
    """The slower one is told by the store, throws its own authority away, and patches nothing."""
    slow, fast = settled.rotator(), settled.rotator()

    def other_first() -> None:
        settled.secrets.before_write = lambda: None
        assert fast.step(settled.clock.now, Asked.AUTHORITY).outcome is Outcome.DONE

    settled.secrets.before_write = other_first
    step = slow.step(settled.clock.now, Asked.AUTHORITY)

    assert (step.outcome, step.patched) == (Outcome.CONFLICT, ())
    assert len(settled.secrets.history) == 2
    assert settled.bundles() == {settled.held.bundle}
    assert slow.step(settled.clock.now).action is Action.NOTE_TRUST


def test_a_rotator_that_slept_before_its_patch_does_not_put_an_old_bundle_over_a_new_one(settled: World):
    """It looked before the overlap began, wants to repair a reset, sleeps, and wakes after the other one's patch."""
    slow, fast = settled.rotator(), settled.rotator()
    settled.configurations.reset("mutating", b"")

    def sleeps(_name: str) -> None:
        settled.configurations.before_patch = lambda _name: None
        fast.step(settled.clock.now, Asked.AUTHORITY)

    settled.configurations.before_patch = sleeps
    step = slow.step(settled.clock.now)

    assert step.outcome is Outcome.CONFLICT
    assert settled.held.next_signer is not None
    assert settled.bundles() == {settled.held.bundle}


def test_a_rotator_killed_between_secret_and_configurations_is_continued(world: World):
    def killed(_name: str) -> None:
        world.configurations.before_patch = lambda _name: None
        raise KeyboardInterrupt

    world.configurations.before_patch = killed
    with pytest.raises(KeyboardInterrupt):
        world.step()
    assert world.bundles() == {b""}

    assert world.step().patched == ("mutating", "validating")
    assert world.bundles() == {world.held.bundle}


def test_one_configuration_that_refuses_does_not_keep_the_other_from_its_bundle(world: World):
    def refuses(name: str) -> None:
        if name == "mutating":
            raise ForbiddenError("We may not patch mutating.")

    world.configurations.before_patch = refuses
    step = world.step()

    assert (step.outcome, step.error) == (Outcome.FAILED, "We may not patch mutating.")
    assert step.patched == ("validating",)
    assert step.look_at == START + seconds(5)
    assert world.configurations.bundles("mutating") == (b"",)


def test_a_store_that_does_not_answer_is_tried_again_and_nothing_is_lost(settled: World):
    def silent() -> None:
        raise UnavailableError("No answer within 10 seconds.")

    settled.secrets.before_write = silent
    step = settled.step(Asked.LEAF)

    assert (step.action, step.outcome) == (Action.RENEW_LEAF, Outcome.FAILED)
    assert step.error == "No answer within 10 seconds."
    assert step.look_at == START + seconds(5)
    assert len(settled.secrets.history) == 1


def test_a_secret_that_cannot_be_read_touches_nothing(settled: World, monkeypatch: pytest.MonkeyPatch):
    def forbidden() -> None:
        raise ForbiddenError("We may not read the Secret.")

    settled.configurations.reset("mutating", b"theirs")
    monkeypatch.setattr(settled.secrets, "read", forbidden)
    step = settled.step()

    assert (step.outcome, step.holdings) == (Outcome.FAILED, None)
    assert b"theirs" in settled.bundles()


def test_a_deleted_secret_keeps_the_trust_of_leaves_that_are_still_served(settled: World):
    """Replicas serve from memory what the Secret held; the configurations still say by whom it was signed."""
    before = settled.held
    settled.secrets.put({})
    step = settled.step()

    assert step.action is Action.START
    assert before.signer.certificate in settled.held.trusted
    assert settled.bundles() == {settled.held.bundle}
    settled.until(Action.FINISH_OVERLAP)
    assert settled.held.anchors == (settled.held.signer.certificate,)


def test_a_clock_that_is_set_back_keeps_the_trust_of_leaves_that_are_still_served(settled: World):
    """To an API server that is hours behind our authority has not begun; to the others it signed what is served."""
    before = settled.held
    settled.clock.forward(-5 * 3600)
    step = settled.step()

    assert step.action is Action.START
    assert before.signer.certificate in settled.held.trusted
    settled.until(Action.FINISH_OVERLAP)
    assert settled.held.anchors == (settled.held.signer.certificate,)


def test_a_secret_of_another_making_is_taken_over_without_a_gap(world: World):
    """An admin's pair is served on, its authority stays trusted, and ours comes beside it first."""
    theirs = mint_authority(START, timedelta(days=365))
    pair = mint_leaf(theirs, NAMES, START, timedelta(days=365))
    world.secrets.put(
        {"tls.crt": pair.certificates_pem, "tls.key": pair.key_pem, "ca.crt": theirs.certificate.pem, "owner": b"them"}
    )
    assert world.step().action is Action.BEGIN_OVERLAP
    assert (world.held.leaf, theirs.certificate in world.held.trusted) == (pair, True)

    world.until(Action.FINISH_OVERLAP)
    assert world.held.anchors == (world.held.signer.certificate,)
    assert world.secrets.data["owner"] == b"them"


def test_the_bundle_in_the_secret_is_put_in_order(settled: World):
    data = settled.secrets.data
    settled.secrets.put({**data, "ca.crt": data["tls.crt"] + data["ca.crt"]})

    assert settled.step().action is Action.REPAIR
    assert settled.secrets.data == data
    assert settled.step().action is Action.KEEP


def test_a_signer_that_cannot_sign_is_a_failed_step_and_not_a_dead_loop(settled: World):
    """Its certificate is ours, its key was replaced by one of a kind that we do not sign with."""
    held = settled.held
    settled.secrets.put({**data_of(held, {}), "tls.crt": b"", "tls.key": b"", "signer.key": b"broken"})
    step = settled.step()

    assert (step.action, step.outcome) == (Action.START, Outcome.DONE)
    assert held.signer.certificate in settled.held.trusted


def test_without_configurations_only_the_secret_is_kept(clock: MovingClock):
    """For development, and where cert-manager's injector writes the bundles."""
    secrets = MemorySecrets(clock)
    rotator = Rotator(secrets, NoConfigurations(), policy())

    assert rotator.step(clock.now).action is Action.START
    assert rotator.step(clock.now).action is Action.KEEP
    with pytest.raises(ConflictError):
        NoConfigurations().patch(WebhookConfiguration("MutatingWebhookConfiguration", "mutating", "1", {}), [])
