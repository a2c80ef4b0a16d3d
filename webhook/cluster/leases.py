"""Leadership by a Lease, as client-go's leader election does it: pure decisions, and the calls that carry them out.

Clocks of different machines are never compared: whoever does not lead notes, on its own monotonic clock, when it saw
the Lease change last, and takes it over once it has not changed for its whole duration
(kubernetes/client-go:tools/leaderelection/leaderelection.go). Whoever leads counts its term from before it sent the
renewal, so its term is over before any other can take the Lease.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from webhook.cluster.client import Client
from webhook.cluster.errors import ClusterError, Conflict, NotFound

DURATION_SECONDS: Final = 10
"""From the last renewal until another may take over; a dead leader is replaced within this and a retry: 12."""
TERM_SECONDS: Final = 6.0
"""How long a renewal lets us lead. The rest of the duration covers clocks that run at different speeds, and the time
between a last look at the term and the commit that follows it."""
RETRY_SECONDS: Final = 1.0
CALL_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as the API server has it."""

    holder: str
    renewed: str
    """``spec.renewTime`` as text: only whether it changes matters."""
    transitions: int
    duration_seconds: float
    resource_version: str


@dataclass(frozen=True, slots=True)
class Observed:
    """A Lease and when, on our monotonic clock, it was first seen so."""

    record: LeaseRecord
    since_seconds: float

    def is_over(self, now_seconds: float) -> bool:
        """Return whether its holder has let it lapse."""
        return not self.record.holder or now_seconds - self.since_seconds > self.record.duration_seconds


def observe(old: Observed | None, record: LeaseRecord, now_seconds: float) -> Observed:
    """Return what is known now: a Lease that has not changed keeps the moment at which it was first seen."""
    if old is not None and (old.record.holder, old.record.renewed) == (record.holder, record.renewed):
        return replace(old, record=record)
    return Observed(record, now_seconds)


def read_lease(raw: dict[str, Any]) -> LeaseRecord:
    """Return the record in a Lease's JSON; what is missing is empty."""
    spec = raw.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        renewed=str(spec.get("renewTime") or ""),
        transitions=int(spec.get("leaseTransitions") or 0),
        duration_seconds=float(spec.get("leaseDurationSeconds") or DURATION_SECONDS),
        resource_version=str((raw.get("metadata") or {}).get("resourceVersion") or ""),
    )


def stamp(wall_seconds: float) -> str:
    """Return a moment as the API's MicroTime."""
    return datetime.fromtimestamp(wall_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class LeaseElection:
    """One candidate for one Lease. ``try_once`` makes one round; it belongs to one thread."""

    client: Client
    namespace: str
    name: str
    identity: str
    duration_seconds: int = DURATION_SECONDS
    observed: Observed | None = None
    acquired: str = ""
    """``spec.acquireTime`` of our term."""

    @property
    def path(self) -> str:
        """Where the Lease is."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"

    def try_once(self, monotonic_seconds: float, wall_seconds: float) -> bool:
        """Acquire or renew; return whether the Lease is ours, counted from the moments given (before the calls).

        Raises:
            ClusterError: the API server did not answer, or refused; nothing is known of a renewal then.
        """
        try:
            raw = self.client.get(self.path, timeout_seconds=CALL_SECONDS)
        except NotFound:
            return self._create(monotonic_seconds, wall_seconds)
        self.observed = observe(self.observed, read_lease(raw), monotonic_seconds)
        record = self.observed.record
        is_ours = record.holder == self.identity
        if not is_ours and not self.observed.is_over(monotonic_seconds):
            return False
        now = stamp(wall_seconds)
        if not is_ours or not self.acquired:
            self.acquired = now
        spec = self._spec(now, record.transitions + (0 if is_ours else 1))
        body = {**raw, "spec": {**(raw.get("spec") or {}), **spec}}
        return self._store(lambda: self.client.put(self.path, body, timeout_seconds=CALL_SECONDS), monotonic_seconds)

    def release(self, wall_seconds: float) -> None:
        """Give the Lease up, so that the next need not wait for its end; failing that, it ends by itself."""
        if self.observed is None or self.observed.record.holder != self.identity:
            return
        # As client-go: one second and no holder, so that everyone may take it at once.
        spec = {**self._spec(stamp(wall_seconds), self.observed.record.transitions), "holderIdentity": ""}
        metadata = {"name": self.name, "resourceVersion": self.observed.record.resource_version}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {**spec, "leaseDurationSeconds": 1},
        }
        self.observed = None
        try:
            self.client.put(self.path, body, timeout_seconds=CALL_SECONDS)
        except ClusterError:
            return

    def _create(self, monotonic_seconds: float, wall_seconds: float) -> bool:
        self.acquired = stamp(wall_seconds)
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self._spec(self.acquired, 0),
        }
        collection = self.path.rpartition("/")[0]
        return self._store(lambda: self.client.post(collection, body, timeout_seconds=CALL_SECONDS), monotonic_seconds)

    def _store(self, send: Callable[[], dict[str, Any]], monotonic_seconds: float) -> bool:
        try:
            stored = send()
        except Conflict:
            return False  # another was quicker; the next round shows who
        self.observed = Observed(read_lease(stored), monotonic_seconds)
        return self.observed.record.holder == self.identity

    def _spec(self, renewed: str, transitions: int) -> dict[str, object]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.duration_seconds,
            "acquireTime": self.acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }
