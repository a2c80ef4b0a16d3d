"""The body of the rotation loop: look, plan, act, and say when to look again. The caller sleeps.

Nothing is remembered between steps; what must outlive a restart stands in the Secret. One rotator is assumed (the
leader), yet two at once do no harm: the configurations are read first and the Secret second, every write names the
version that was read, so that the slower one gets a conflict and looks again.

The moment that ``step`` is given should be the API server's (the ``Date`` header of its replies), for that is the clock
by which the certificates are judged; a node's own clock may be wrong.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from certs.bundle import behind
from certs.faults import CertificateError
from certs.holdings import Holdings, data_of, holdings_of
from certs.pki import Pair, mint_authority, mint_leaf
from certs.plan import Action, Asked, Facts, Plan, plan
from certs.policy import Policy
from certs.steps import Outcome, Step
from certs.store import ConfigurationStore, ConflictError, Secret, SecretStore, StoreError, WebhookConfiguration
from certs.trust import authorities_in, give_bundle

_LONGEST_PAUSE = timedelta(seconds=1)  # between two steps of one change
_LONGEST_RETRY = timedelta(seconds=5)  # after a store that failed
_PAUSES_PER_LIFETIME = 120  # a certificate of a minute leaves half a second


class Rotator:
    """Keep our own authority, leaf and trust bundle. Holds no state but its collaborators."""

    def __init__(self, secrets: SecretStore, configurations: ConfigurationStore, policy: Policy) -> None:
        """Take the collaborators."""
        self._secrets = secrets
        self._configurations = configurations
        self._policy = policy
        shortest = min(policy.leaf_lifetime, policy.authority_lifetime)
        self._pause = min(_LONGEST_PAUSE, shortest / _PAUSES_PER_LIFETIME)
        self._retry = min(_LONGEST_RETRY, shortest / _PAUSES_PER_LIFETIME)

    def step(self, now: datetime, asked: Asked = Asked.NOTHING) -> Step:
        """Do at most one write to the Secret, put the bundle where it is missing, and return what was done.

        Never raises for what a store reports; such a step has the outcome CONFLICT or FAILED.
        """
        chosen = Plan(Action.KEEP, "The stores could not be read.", now)
        held: Holdings | None = None
        patched: list[str] = []
        try:
            configurations = self._configurations.read()  # before the Secret, see the top
            secret = self._secrets.read()
            held = holdings_of(secret.data)
            chosen = plan(self._facts(held, secret, configurations), self._policy, now, asked)
            wanted = self._after(chosen.action, held, configurations, now)
            if wanted != held or chosen.action is Action.REPAIR:
                data = data_of(wanted, secret.data)
                self._secrets.write(data, secret.version)
                held = holdings_of(data)
            give_bundle(self._configurations, configurations, held.bundle, patched)
            outcome, fault = Outcome.DONE, ""
        except ConflictError as error:
            outcome, fault = Outcome.CONFLICT, str(error)
        except (StoreError, CertificateError) as error:  # the latter: a signer of somebody else's that cannot sign
            outcome, fault = Outcome.FAILED, str(error)
        return Step(
            chosen.action,
            chosen.reason,
            self._look_at(chosen, outcome, now, moved=bool(patched)),
            outcome,
            fault,
            tuple(patched),
            held,
        )

    def _look_at(self, chosen: Plan, outcome: Outcome, now: datetime, *, moved: bool) -> datetime:
        """Return when to look again: soon while things move, else when something is due, or as the policy says."""
        if outcome is Outcome.FAILED:
            return now + self._retry
        soon = now + self._pause
        if moved or outcome is Outcome.CONFLICT or chosen.action is not Action.KEEP:
            return soon
        return min(max(chosen.look_at, soon), now + self._policy.look_every)

    def _facts(self, held: Holdings, secret: Secret, configurations: Sequence[WebhookConfiguration]) -> Facts:
        bundle = held.bundle
        return Facts(
            held,
            in_order=data_of(held, secret.data) == secret.data,
            behind=tuple(one.name for one in configurations if behind(one.ca_bundles, bundle)),
        )

    def _after(
        self, action: Action, held: Holdings, configurations: Sequence[WebhookConfiguration], now: datetime
    ) -> Holdings:
        """Return what the Secret must hold after ``action``."""
        match action:
            case Action.KEEP | Action.REPAIR:
                return held
            case Action.START:
                signer = mint_authority(now, self._policy.authority_lifetime)
                # Replicas may still serve, from memory, what a deleted Secret held: signed by what is trusted now. One
                # that has not begun by this clock has begun by that of an API server which is not behind.
                known = dict.fromkeys((*held.trusted, *authorities_in(configurations)))
                anchors = tuple(one for one in known if not one.is_over_at(now))
                switched_at = now if anchors else None
                return Holdings(self._leaf(signer, now), signer, anchors=anchors, switched_at=switched_at)
            case Action.RENEW_LEAF:
                return replace(held, leaf=self._leaf(_there(held.signer), now))
            case Action.BEGIN_OVERLAP:
                following = mint_authority(now, self._policy.authority_lifetime)
                return replace(held, next_signer=following, anchors=held.trusted, trusted_since=None)
            case Action.NOTE_TRUST:
                return replace(held, trusted_since=now)
            case Action.FORGET_TRUST:
                return replace(held, trusted_since=None)
            case Action.SWITCH_LEAF:
                signer = _there(held.next_signer)
                return replace(
                    held,
                    leaf=self._leaf(signer, now),
                    signer=signer,
                    next_signer=None,
                    anchors=held.trusted,
                    trusted_since=None,
                    switched_at=now,
                )
            case Action.NOTE_SWITCH:
                return replace(held, switched_at=now)
            case Action.FINISH_OVERLAP:
                return replace(held, anchors=(_there(held.signer).certificate,), switched_at=None)

    def _leaf(self, signer: Pair, now: datetime) -> Pair:
        return mint_leaf(signer, self._policy.names, now, self._policy.leaf_lifetime)


def _there(signer: Pair | None) -> Pair:
    if signer is None:  # the plan chooses an action only where its signer is there
        raise LookupError("The plan names a signer that the Secret does not hold.")
    return signer
