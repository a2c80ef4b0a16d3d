"""What Prometheus is told of a ledger that follows a cluster, read off its parts at each scrape.

Every label's values are a closed list of ours. ``helm/numa-admission/METRICS.md`` lists all metrics; a test holds the
page to this code.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.cluster.nominations import Outcome
from webhook.cluster.pulse import EVENT_KINDS, Loss, Pulse
from webhook.core.ledger.records import AllocatorKind, Certainty, EntryState, NodeView
from webhook.service.book import Snapshot
from webhook.service.checkpointing import CheckpointCounts
from webhook.service.clock import Clock
from webhook.service.freshness import NOT_SYNCED, STALE
from webhook.service.steering_work import Ended, Steering
from webhook.wire.node_sources import NUMA_SOURCES

NONE: Final = "none"
FRESH: Final = "fresh"
_UNBOUND_PLACES: Final = (Certainty.VIRTUAL.value, NONE)
_BOUND_PLACES: Final = (Certainty.CONFIRMED.value, Certainty.REPLAYED.value, Certainty.GUESSED.value, NONE)
PLACES: Final = (
    *((state.value, place) for state in (EntryState.CLAIMED, EntryState.PENDING) for place in _UNBOUND_PLACES),
    *((EntryState.BOUND.value, place) for place in _BOUND_PLACES),
)
"""(state, place) of pods."""
STEERED: Final = ("due", "nominated", "waiting", "left_alone")


def nomination_counter(registry: CollectorRegistry) -> Callable[[str], None]:
    """Register the counter of nominations and return what counts one by its outcome's word."""
    counter = CounterMetric(
        "numa_admission_nominations",
        "Nominations of refused pods to the node that fits, by what became of the patch.",
        ("outcome",),
        registry=registry,
    )
    children = {outcome.value: counter.labels(outcome.value) for outcome in Outcome}
    return lambda word: children[word].inc()


@dataclass(frozen=True, eq=False)
class LedgerCollector(Collector):
    """Reads the parts when it is asked; register it once they are made."""

    pulses: Sequence[Pulse]
    trust: Callable[[], str]
    snapshot: Callable[[], Snapshot]
    leads: Callable[[], bool]
    clock: Clock
    checkpoint: CheckpointCounts | None = None
    """None: no checkpoint is kept."""
    steering: Steering | None = None
    """None: nobody is steered."""

    def collect(self) -> Iterable[Metric]:
        """Return all families with their values now; counting 100,000 pods takes some 30 ms of this thread."""
        yield _gauge("numa_admission_leader", "Whether this process leads.", self.leads())
        yield from self._of_feeds()
        yield from self._of_ledger()
        if self.checkpoint is not None:
            yield from self._of_checkpoint(self.checkpoint)
        if self.steering is not None:
            yield from _of_steering(self.steering)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry need not ask the parts when this is registered."""
        return ()

    def _of_feeds(self) -> Iterator[Metric]:
        labels = ("feed",)
        objects = GaugeMetricFamily("numa_admission_feed_objects", "Objects of the feed's kind.", labels=labels)
        synced = GaugeMetricFamily("numa_admission_feed_synced", "Whether a whole list was read once.", labels=labels)
        absent = GaugeMetricFamily("numa_admission_feed_absent", "Whether its CRD is missing.", labels=labels)
        silence = GaugeMetricFamily(
            "numa_admission_feed_silence_seconds",
            "Since the API server last said anything on it: a page, an event or a bookmark, one a minute at least.",
            labels=labels,
        )
        events = CounterMetricFamily(
            "numa_admission_feed_events", "Changes taken from the watch, bookmarks among them.", labels=("feed", "kind")
        )
        lists = CounterMetricFamily("numa_admission_feed_lists", "Whole lists read.", labels=labels)
        watches = CounterMetricFamily(
            "numa_admission_feed_watches", "Watches begun; each after the first is a reconnect.", labels=labels
        )
        losses = CounterMetricFamily(
            "numa_admission_feed_losses",
            "Requests that failed, by why; gone is 410, after which a whole list follows.",
            labels=("feed", "reason"),
        )
        malformed = CounterMetricFamily(
            "numa_admission_feed_malformed_objects", "Objects with a part that could not be read.", labels=labels
        )
        now = self.clock.monotonic_seconds()
        for pulse in self.pulses:
            state, counts, feed = pulse.state, pulse.counts, (pulse.name,)
            objects.add_metric(feed, counts.objects)
            synced.add_metric(feed, state.has_listed)
            absent.add_metric(feed, state.is_absent)
            silence.add_metric(feed, max(0.0, now - state.heard_seconds))
            lists.add_metric(feed, state.lists)
            watches.add_metric(feed, counts.watches)
            malformed.add_metric(feed, counts.malformed)
            for kind in EVENT_KINDS:
                events.add_metric((pulse.name, kind.lower()), counts.events[kind])
            for loss in Loss:
                losses.add_metric((pulse.name, loss.value), counts.losses[loss])
        yield from (objects, synced, absent, silence, events, lists, watches, losses, malformed)

    def _of_ledger(self) -> Iterator[Metric]:
        trust = GaugeMetricFamily(
            "numa_admission_ledger_trust",
            "1 for what the picture of the cluster is now; unless fresh, capacity and bind answer unknown.",
            labels=("state",),
        )
        word = self.trust() or FRESH
        for state in (FRESH, NOT_SYNCED, STALE):
            trust.add_metric((state,), word == state)
        yield trust
        snapshot = self.snapshot()
        yield CounterMetricFamily(
            "numa_admission_ledger_events", "Events that the ledger has applied.", value=snapshot.generation
        )
        nodes = GaugeMetricFamily(
            "numa_admission_ledger_nodes",
            "Nodes, by who hands out their NUMA nodes and by the source that told these.",
            labels=("allocator", "source"),
        )
        kinds = Counter(_kind_of(view) for view in snapshot.views.values())
        for allocator in AllocatorKind:
            for source in (*NUMA_SOURCES, NONE):
                nodes.add_metric((allocator.value, source), kinds[allocator.value, source])
        yield nodes
        yield _gauge(
            "numa_admission_ledger_guessed_nodes",
            "Nodes on which a place is guessed, so that nothing is denied by what is free there.",
            sum(view.is_guessed for view in snapshot.views.values()),
        )
        pods = GaugeMetricFamily(
            "numa_admission_ledger_pods",
            "Pods, by state (claimed: admitted and not stored yet) and by what their place rests on.",
            labels=("state", "place"),
        )
        places = _places(snapshot)
        for each in PLACES:
            pods.add_metric(each, places[each])
        yield pods

    def _of_checkpoint(self, counts: CheckpointCounts) -> Iterator[Metric]:
        writes = CounterMetricFamily(
            "numa_admission_checkpoint_writes",
            "Parts of the checkpoint written, by what became of it; conflict: another process had written it.",
            labels=("outcome",),
        )
        for outcome, count in (("stored", counts.stored), ("conflict", counts.conflicts), ("failed", counts.failures)):
            writes.add_metric((outcome,), count)
        yield writes
        yield CounterMetricFamily(
            "numa_admission_checkpoint_written_bytes", "Bytes written.", value=counts.stored_bytes
        )
        yield _gauge(
            "numa_admission_checkpoint_size_bytes",
            "Size of the parts that this process has written.",
            sum(tuple(counts.shard_bytes.values())),
        )
        yield _gauge(
            "numa_admission_checkpoint_last_write_timestamp_seconds",
            "When a part was last written, in seconds since 1970; 0: never by this process.",
            counts.last_stored_seconds,
        )
        since = counts.unwritten_since_seconds
        yield _gauge(
            "numa_admission_checkpoint_lag_seconds",
            "For how long something has been known that is not written; 0: all is.",
            0.0 if since is None else max(0.0, self.clock.wall_seconds() - since),
        )
        yield _gauge(
            "numa_admission_checkpoint_dropped_nodes",
            "Nodes that found no room in the part written last; they are guessed after a restart.",
            counts.dropped_nodes,
        )
        yield CounterMetricFamily(
            "numa_admission_checkpoint_recalled_places",
            "Places that a checkpoint gave back after a list.",
            value=counts.recalled_places,
        )


def _of_steering(steering: Steering) -> Iterator[Metric]:
    pods = GaugeMetricFamily(
        "numa_admission_steered_pods",
        "Pods whose binding was turned back and that are not bound yet.",
        labels=("state",),
    )
    states: Counter[str] = Counter()
    for course in steering.courses():
        nominated = "nominated" if course.ours else "due" if course.target else ""
        states[nominated or ("waiting" if course.waits() else "left_alone")] += 1
    for state in STEERED:
        pods.add_metric((state,), states[state])
    ended = CounterMetricFamily(
        "numa_admission_steered_pods_ended", "What became of pods whose binding was turned back.", labels=("outcome",)
    )
    for outcome in Ended:
        ended.add_metric((outcome.value,), steering.ended[outcome])
    yield from (pods, ended)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _kind_of(view: NodeView) -> tuple[str, str]:
    return view.record.allocator.value, view.record.numa_source or NONE


def _places(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Return how many pods there are of each of ``PLACES``."""
    views = snapshot.views
    bound: list[Certainty] = []
    waiting: list[EntryState] = []
    counts = dict.fromkeys(PLACES, 0)
    for entry in snapshot.entries.values():
        if entry.state is not EntryState.BOUND:
            waiting.append(entry.state)
            if entry.node:
                counts[entry.state.value, Certainty.VIRTUAL.value] += 1
        elif entry.node in views:
            bound.append(entry.certainty)
        else:
            counts[EntryState.BOUND.value, NONE] += 1
    # Enums hash slowly; lists count members by identity, ten times as fast.
    for certainty in (Certainty.CONFIRMED, Certainty.REPLAYED, Certainty.GUESSED):
        counts[EntryState.BOUND.value, certainty.value] = bound.count(certainty)
    for state in (EntryState.CLAIMED, EntryState.PENDING):
        counts[state.value, NONE] = waiting.count(state) - counts[state.value, Certainty.VIRTUAL.value]
    return counts
