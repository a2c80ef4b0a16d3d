"""What is counted, for Prometheus. Every label's values are a closed list of ours: never a name from a request."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from webhook.core.decisions import Endpoint
from webhook.core.findings import Finding, Severity

DURATION_BUCKETS_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a fifth of a millisecond, where most calls are, to the API server's default time-out of 10 s."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Meters:
    """The metrics of one process. With several workers the values live in files that all of them read
    (``PROMETHEUS_MULTIPROC_DIR``, set before this module is imported), and ``render`` adds them up.
    """  # noqa: D205 - the summary is one sentence

    def __init__(self, *, is_multiprocess: bool = False) -> None:
        """Make the metrics in a registry of their own."""
        self._registry = registry = CollectorRegistry()
        self._is_multiprocess = is_multiprocess
        self._reviews = Counter(
            "numa_admission_reviews", "Reviews answered.", ("endpoint", "verdict"), registry=registry
        )
        self._findings = Counter(
            "numa_admission_findings",
            "Findings said, by the stable code of the rule.",
            ("endpoint", "family", "severity", "code"),
            registry=registry,
        )
        self._bad_calls = Counter(
            "numa_admission_bad_calls",
            "Calls that got an HTTP error instead of a verdict.",
            ("endpoint", "reason"),
            registry=registry,
        )
        self._duration = Histogram(
            "numa_admission_review_duration_seconds",
            "From a request's last byte to its answer.",
            ("endpoint",),
            buckets=DURATION_BUCKETS_SECONDS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "numa_admission_in_flight", "Reviews being decided.", registry=registry, multiprocess_mode="livesum"
        )
        self._connections = Gauge(
            "numa_admission_open_connections",
            "Open connections of the admission port.",
            ("phase",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._closed = Counter(
            "numa_admission_connections_closed", "Connections ended, by why.", ("reason",), registry=registry
        )
        self._certificate_expiry = Gauge(
            "numa_admission_certificate_expiry_timestamp_seconds",
            "When the serving certificate ends, in seconds since 1970.",
            registry=registry,
            multiprocess_mode="min",
        )
        self._certificate_refused = Gauge(
            "numa_admission_certificate_refused",
            "1 while the certificate's files are refused and the pair of before is served.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        # ``labels`` takes a lock and builds a tuple of texts; the children of the hot path are looked up once.
        self._duration_of = {endpoint: self._duration.labels(endpoint.value) for endpoint in Endpoint}
        self._reviews_of: dict[tuple[Endpoint, str], Counter] = {}
        self._findings_of: dict[tuple[Endpoint, str, Severity], Counter] = {}

    def begin(self) -> None:
        """Count a review that is being decided."""
        self._in_flight.inc()

    def end(self) -> None:
        """Take back what ``begin`` counted."""
        self._in_flight.dec()

    def review(self, endpoint: Endpoint, verdict: str, seconds: float, findings: Iterable[Finding] = ()) -> None:
        """Count a verdict (``webhook.service.admit.Verdict``) that took ``seconds`` and said ``findings``."""
        child = self._reviews_of.get((endpoint, verdict))
        if child is None:
            child = self._reviews_of[endpoint, verdict] = self._reviews.labels(endpoint.value, verdict)
        child.inc()
        self._duration_of[endpoint].observe(seconds)
        for finding in findings:
            key = (endpoint, finding.code, finding.severity)
            said = self._findings_of.get(key)
            if said is None:
                said = self._findings_of[key] = self._findings.labels(
                    endpoint.value, finding.family.value, finding.severity.value, finding.code
                )
            said.inc()

    def bad_call(self, endpoint: str, reason: str) -> None:
        """Count a call that got an HTTP error; ``endpoint`` is one of ours or ``other``."""
        self._bad_calls.labels(endpoint, reason).inc()

    def connection_closed(self, reason: str) -> None:
        """Count the end of a connection."""
        self._closed.labels(reason).inc()

    def set_connections(self, by_phase: Mapping[str, int]) -> None:
        """Set the open connections; every phase is given, those without connections with 0."""
        for phase, count in by_phase.items():
            self._connections.labels(phase).set(count)

    def set_certificate_expiry(self, wall_seconds: float) -> None:
        """Set when the serving certificate ends."""
        self._certificate_expiry.set(wall_seconds)

    def set_certificate_refused(self, *, is_refused: bool) -> None:
        """Set whether what the files hold now is not what is served."""
        self._certificate_refused.set(is_refused)

    @property
    def registry(self) -> CollectorRegistry:
        """The registry, for whoever counts more (the ledger)."""
        return self._registry

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        if not self._is_multiprocess:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # prometheus_client types it not
        return generate_latest(registry)
