"""The ledger on a live cluster: feeds, leadership, steering, checkpoint and divergence around one book."""

import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from structlog.typing import FilteringBoundLogger

from webhook.cluster.checkpoints import CheckpointMaps
from webhook.cluster.client import Client
from webhook.cluster.endpoints import LeaderSlice, Place
from webhook.cluster.errors import ClusterError, NotConfigured
from webhook.cluster.leases import LeaseElection
from webhook.cluster.nominations import nominate
from webhook.core.capacity import CapacityRules
from webhook.core.ledger.charges import Allocators
from webhook.core.ledger.events import Recalled
from webhook.core.ledger.ledger import Ledger
from webhook.core.spelling import ended
from webhook.service.book import Book
from webhook.service.checkpointing import Checkpointing, recalled
from webhook.service.clock import Clock
from webhook.service.divergence import Divergence
from webhook.service.feeding import Feeding, Hooks
from webhook.service.leadership import Leadership
from webhook.service.ledger_meters import LedgerCollector, nomination_counter
from webhook.service.meters import Meters
from webhook.service.settings import ClusterSettings, Settings
from webhook.service.start import StartError
from webhook.service.steering_work import Steering

POINT_AGAIN_SECONDS = 5.0
"""How often a leader looks whether the EndpointSlice still names it."""
_READ_TRIES = 3


@dataclass(frozen=True, slots=True)
class LiveLedger:
    """The book and what keeps it true; ``wiring`` puts it behind the doors."""

    book: Book
    feeding: Feeding
    divergence: Divergence
    leadership: Leadership | None
    """None: this process is alone and leads always."""
    on_start: tuple[Callable[[], None], ...]
    on_tick: tuple[Callable[[], None], ...]
    on_drain: tuple[Callable[[], None], ...]
    on_stop: tuple[Callable[[], None], ...]

    def leads(self) -> bool:
        """Return whether this process leads now."""
        return self.leadership is None or self.leadership.leads()

    def why_not_ready(self) -> str:
        """Return why no call should come here yet; empty where nothing speaks against it."""
        return self.feeding.freshness.why_not_ready()


def client_of(cluster: ClusterSettings) -> Client:
    """Return a client of the cluster that the settings name.

    Raises:
        StartError: no access is configured.
    """
    try:
        return Client.from_environment(cluster.kubeconfig or None, cluster.context or None)
    except NotConfigured as error:
        raise StartError(f"The cluster cannot be reached: {ended(str(error))}") from error


def open_live(
    settings: Settings,
    rules: CapacityRules,
    allocators: Allocators,
    *,
    clock: Clock,
    meters: Meters,
    log: FilteringBoundLogger,
) -> LiveLedger:
    """Return the parts of a ledger that follows a cluster; nothing is started and nobody is asked yet.

    Raises:
        StartError: no access to a cluster is configured.
    """
    cluster = settings.cluster
    client = client_of(cluster)
    steering = _steering(client, cluster, log, clock, meters)
    leadership: Leadership | None = None
    if cluster.lease:
        leadership = Leadership(
            LeaseElection(client, cluster.namespace, cluster.lease, f"{socket.gethostname()}-{time.time_ns():x}"),
            clock,
            log,
            may_stand=lambda: not feeding.freshness.trust(),
            on_lead=_writer_of_the_slice(client, settings, clock),
            on_lost=steering.forget if steering is not None else lambda: None,
        )
    leads = leadership.leads if leadership is not None else _always
    book = Book(
        Ledger(allocators),
        rules,
        clock.wall_seconds,
        lambda: feeding.freshness.trust(),  # noqa: PLW0108 - the feeding is made below, from the book
        may_commit=leads,
        follower=steering,
        monotonic_seconds=clock.monotonic_seconds,
        # A held binding waits in a thread; half of them are left for the other calls.
        most_held_bindings=settings.server.threads // 2,
    )
    divergence = Divergence(log, book.view, meters.registry)
    checkpointing: Checkpointing | None = None
    if cluster.checkpoint:
        maps = CheckpointMaps(client, cluster.namespace, cluster.checkpoint)
        checkpointing = Checkpointing(maps, book, leads, log, now_seconds=clock.wall_seconds)
    feeding = Feeding(
        client,
        book,
        log,
        clock,
        classes=settings.capacity.machine_classes,
        hooks=Hooks(
            after_list=partial(_recall, checkpointing, book, log) if checkpointing is not None else _nothing,
            on_notice=lambda notice: divergence.take((notice,)),
        ),
    )

    meters.registry.register(
        LedgerCollector(
            feeding.pulses(),
            feeding.freshness.trust,
            book.snapshot,
            leads,
            clock,
            checkpointing.counts if checkpointing is not None else None,
            steering,
        )
    )
    threads = [part for part in (feeding, leadership, steering, checkpointing) if part is not None]
    return LiveLedger(
        book,
        feeding,
        divergence,
        leadership,
        on_start=tuple(part.start for part in threads),
        on_tick=(leadership.look,) if leadership is not None else (),
        # The checkpoint is written while this process still leads; then another may, before this one goes deaf.
        on_drain=tuple(part.stop for part in (checkpointing, leadership) if part is not None),
        on_stop=tuple(part.stop for part in (steering, feeding) if part is not None),
    )


def _steering(
    client: Client, cluster: ClusterSettings, log: FilteringBoundLogger, clock: Clock, meters: Meters
) -> Steering | None:
    if not cluster.steers:
        return None
    return Steering(partial(nominate, client), log, clock.wall_seconds, nomination_counter(meters.registry))


def _writer_of_the_slice(client: Client, settings: Settings, clock: Clock) -> Callable[[], None]:
    cluster = settings.cluster
    if not cluster.service:
        return lambda: None
    host, _, port = (cluster.advertise or settings.server.bind).rpartition(":")
    place = Place(host.strip("[]"), int(port), socket.gethostname())
    leader_slice = LeaderSlice(client, cluster.namespace, cluster.service)
    next_seconds = 0.0

    def write() -> None:
        nonlocal next_seconds
        now = clock.monotonic_seconds()
        if now >= next_seconds and leader_slice.point_to(place):
            next_seconds = now + POINT_AGAIN_SECONDS

    return write


def _recall(checkpointing: Checkpointing, book: Book, log: FilteringBoundLogger) -> Iterable[Recalled]:
    """Return the places that the checkpoint remembers of pods that are guessed now; none where it cannot be read."""
    for _ in range(_READ_TRIES):
        try:
            blobs = checkpointing.read()
        except ClusterError as error:
            log.warning("checkpoint", problem=str(error))
            continue
        events, problems = recalled(blobs, book.snapshot().entries.values())
        for problem in problems:
            log.warning("checkpoint", problem=f"A part of it is not used: {problem}.")
        if events:
            count = sum(len(event.places) for event in events)
            checkpointing.counts.recalled_places += count
            log.info("recalled", places=count)
        return events
    return ()


def _nothing() -> Iterable[Recalled]:
    return ()


def _always() -> bool:
    return True
