"""Keep the bundle in the webhook configurations right: what both loops share, and a loop that does only that."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from certs.bundle import bundle_of, configuration_patch
from certs.faults import CertificateError
from certs.holdings import Holdings, holdings_of
from certs.pki import Certificate, read_certificates
from certs.plan import Action
from certs.steps import Outcome, Step
from certs.store import ConfigurationStore, ConflictError, SecretStore, StoreError, WebhookConfiguration

_RETRY = timedelta(seconds=5)


def give_bundle(
    store: ConfigurationStore, configurations: Sequence[WebhookConfiguration], bundle: bytes, patched: list[str]
) -> None:
    """Patch each configuration that does not hold ``bundle`` and append its name to ``patched`` once it does.

    One that fails does not keep the others from theirs.

    Raises:
        StoreError: the first fault of all, after every configuration was tried.
    """
    first: StoreError | None = None
    for one in configurations:
        operations = configuration_patch(one.ca_bundles, bundle, resource_version=one.version)
        if not operations:
            continue
        try:
            store.patch(one, operations)
        except StoreError as error:
            first = first or error
        else:
            patched.append(one.name)
    if first is not None:
        raise first


def authorities_in(configurations: Sequence[WebhookConfiguration]) -> tuple[Certificate, ...]:
    """Return the authorities that the configurations trust now; an unreadable bundle trusts none."""
    found: list[Certificate] = []
    for bundle in sorted({bundle for one in configurations for bundle in one.ca_bundles.values() if bundle}):
        with suppress(CertificateError):
            found += [certificate for certificate in read_certificates(bundle) if certificate.is_authority]
    return tuple(dict.fromkeys(found))


class TrustKeeper:
    """Keep the bundle of a Secret that somebody else writes (an admin, an issuer); never writes the Secret.

    An authority that leaves the Secret's ``ca.crt`` stays in the configurations for twice the propagation delay, so
    that replicas which serve the old leaf until then are still trusted. The other half is not in our hands: whoever
    changes the authority must name the new one in ``ca.crt`` before the leaf changes.
    """

    def __init__(
        self,
        secrets: SecretStore,
        configurations: ConfigurationStore,
        *,
        propagation: timedelta = timedelta(seconds=90),
        look_every: timedelta = timedelta(seconds=60),
    ) -> None:
        """Take the collaborators. A restart forgets only since when an old authority is not needed, and waits again."""
        self._secrets = secrets
        self._configurations = configurations
        self._linger = 2 * propagation
        self._look_every = look_every
        self._dropped_at: dict[Certificate, datetime] = {}

    def step(self, now: datetime) -> Step:
        """Put the Secret's bundle where it is missing, and return what was done. Never raises for a store's fault."""
        held: Holdings | None = None
        patched: list[str] = []
        try:
            configurations = self._configurations.read()  # before the Secret, as in certs.rotate
            held = holdings_of(self._secrets.read().data)
            if not held.anchors:
                reason = "".join(str(fault) for fault in held.faults[:1]) or "The Secret's ca.crt names no authority."
                return Step(Action.KEEP, reason, now + self._look_every, holdings=held)
            lingering = self._lingering(held.anchors, authorities_in(configurations), now)
            give_bundle(self._configurations, configurations, bundle_of((*held.anchors, *lingering)), patched)
        except StoreError as error:
            outcome = Outcome.CONFLICT if isinstance(error, ConflictError) else Outcome.FAILED
            return Step(Action.KEEP, "A store failed.", now + _RETRY, outcome, str(error), tuple(patched), held)
        ends = [dropped + self._linger for dropped in self._dropped_at.values()]
        reason = (
            f"{len(lingering)} authorities that left the Secret are still trusted." if lingering else "Nothing is due."
        )
        return Step(Action.KEEP, reason, min([now + self._look_every, *ends]), patched=tuple(patched), holdings=held)

    def _lingering(
        self, anchors: Sequence[Certificate], known: Sequence[Certificate], now: datetime
    ) -> tuple[Certificate, ...]:
        """Return the authorities that the configurations name and the Secret does not, until their time is over."""
        gone = [one for one in known if one not in anchors and not one.is_over_at(now)]
        self._dropped_at = {one: min(self._dropped_at.get(one, now), now) for one in gone}
        return tuple(one for one in gone if now < self._dropped_at[one] + self._linger)
