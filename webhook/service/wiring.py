"""From settings to services: which endpoint is judged by what. The only place that puts the parts together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from certs.files import ReloadingServerContext
from webhook.core.capacity import CapacityRules
from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import Ask, Decision, Endpoint
from webhook.core.dialects import DIALECTS
from webhook.core.ledger.events import Elapsed, LedgerEvent
from webhook.core.ledger.ledger import Ledger, Notice
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.modes import RuleModes, Rules
from webhook.service.admit import Corridor, Door
from webhook.service.allocators import allocator_models
from webhook.service.book import Book, Trust
from webhook.service.certificate import CertificateWatch
from webhook.service.clock import Clock
from webhook.service.health import Check, Health
from webhook.service.meters import Meters
from webhook.service.picture import events_of
from webhook.service.services import Services
from webhook.service.settings import Settings
from webhook.service.start import StartError
from webhook.wire.pictures import Picture
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import kind_table

if TYPE_CHECKING:
    from webhook.service.live import LiveLedger

_ELAPSED_EVERY_SECONDS = 1.0
"""How often claims and bindings that nothing confirmed are looked through; their shortest life is 5 s."""

_LOOK_EVERY_SECONDS = 10.0
"""How often an idle server looks at its certificate files; a busy one looks as connections come."""

_CLAIM_ON_A_PICTURE_SECONDS = 600.0
"""No watch ever confirms a claim on a picture; this long a person needs to fill the demo's nodes and look around."""


def _never_synced() -> str:
    return "not-synced"


@dataclass(frozen=True, slots=True)
class LedgerSource:
    """What the ledger starts with, and whether it can be trusted; without one every answer is ``unknown``."""

    events: tuple[LedgerEvent, ...] = ()
    classes: tuple[MachineClass, ...] = ()
    trust: Trust = field(default=_never_synced)
    claim_seconds: float = 5.0
    """How long an admitted pod keeps its place unless a watch shows it."""


def source_of(picture: Picture) -> LedgerSource:
    """Return a picture as the ledger's source: it is all there is, so it is always whole and fresh.

    Raises:
        StartError: the picture has faults; with each of them.
    """
    if picture.faults:
        raise StartError("\n".join(str(fault) for fault in picture.faults))
    return LedgerSource(events_of(picture), picture.classes, lambda: "", _CLAIM_ON_A_PICTURE_SECONDS)


def rules_of(settings: Settings) -> Rules:
    """Return the stateless rules as they are set."""
    chosen = settings.rules
    return Rules(
        dialects=tuple(dialect for dialect in DIALECTS if dialect.name in chosen.dialects),
        modes=RuleModes(modes=chosen.families, namespaces=chosen.namespaces, enforcement=chosen.enforcement),
        result_writers=frozenset(chosen.result_writers),
    )


def capacity_rules_of(settings: Settings, source: LedgerSource) -> CapacityRules:
    """Return how the ledger's outcomes weigh, as it is set."""
    chosen = settings.capacity
    return CapacityRules(
        modes=chosen.outcomes,
        namespace_modes=chosen.namespaces,
        classes=(*chosen.machine_classes, *source.classes),
        claim_seconds=source.claim_seconds,
        known_schedulers=frozenset(chosen.schedulers),
        controllers=frozenset(chosen.controllers),
        guards_bindings=chosen.guards_bindings,
    )


def kinds_of(settings: Settings) -> KindTable:
    """Return the kinds that hold pod templates: the standard ones, then those of the settings."""
    return kind_table(settings.workloads)


def build_services(
    settings: Settings,
    log: FilteringBoundLogger,
    *,
    source: LedgerSource | None = None,
    clock: Clock | None = None,
    tls: ReloadingServerContext | None = None,
) -> Services:
    """Return the parts of one serving process; call it after the fork.

    ``tls`` is watched: its certificate's end is a metric, an ended one fails readiness, refused files are logged.
    """
    clock = clock or Clock()
    source = source or LedgerSource()
    role, timeouts = settings.server.role, settings.timeouts
    meters = Meters(is_multiprocess=settings.server.workers > 1)
    doors: dict[Endpoint, Door] = {}
    live: LiveLedger | None = None
    on_tick: list[Callable[[], None]] = []
    if role.has_rules:
        rules = rules_of(settings)
        wants = rules.vocabulary.carries_mark
        doors[Endpoint.MUTATE] = Door(
            lambda ask, _until: decide_mutate(ask, rules), timeouts.mutate_seconds, wants=wants, patches=True
        )
        doors[Endpoint.VALIDATE] = Door(
            lambda ask, _until: decide_validate(ask, rules), timeouts.validate_seconds, wants=wants
        )
    if role.has_ledger:
        live = _live(settings, source, clock, meters, log) if settings.cluster.live else None
        book = live.book if live is not None else _book(settings, source, clock)
        stateless = rules_of(settings)

        def capacity(ask: Ask, _until_monotonic_seconds: float) -> Decision:
            # What the stateless rules refuse is theirs to say: two webhooks never report the same pod twice.
            return book.decide_capacity(ask) if decide_validate(ask, stateless).allowed else Decision.allow()

        doors[Endpoint.CAPACITY] = Door(capacity, timeouts.capacity_seconds, gives_way=True)
        doors[Endpoint.BIND] = Door(book.decide_bind, timeouts.bind_seconds, gives_way=True)
        on_notice = live.divergence.take if live is not None else _unheard
        on_tick.append(_every(_ELAPSED_EVERY_SECONDS, clock, partial(_elapse, book, log, on_notice)))
    ready_checks: list[Check] = [live.why_not_ready] if live is not None else []
    on_tick.extend(live.on_tick if live is not None else ())
    if tls is not None:
        watch = CertificateWatch(tls, meters, log, clock)
        ready_checks.append(watch.why_not_ready)
        on_tick.append(_every(_LOOK_EVERY_SECONDS, clock, watch.look))
    return Services(
        corridor=Corridor(doors, meters, log, clock, kinds_of(settings)),
        health=Health(tuple(ready_checks)),
        meters=meters,
        log=log,
        on_start=live.on_start if live is not None else (),
        on_tick=tuple(on_tick),
        on_drain=live.on_drain if live is not None else (),
        on_stop=live.on_stop if live is not None else (),
        keeps_connections=live.leads if live is not None else lambda: True,
    )


def _live(
    settings: Settings, source: LedgerSource, clock: Clock, meters: Meters, log: FilteringBoundLogger
) -> "LiveLedger":
    from webhook.service.live import open_live  # noqa: PLC0415 - the Kubernetes client takes 0.5 s to import

    allocators = allocator_models()
    return open_live(settings, capacity_rules_of(settings, source), allocators, clock=clock, meters=meters, log=log)


def _unheard(_notices: tuple[Notice, ...]) -> None:
    return


def _book(settings: Settings, source: LedgerSource, clock: Clock) -> Book:
    ledger = Ledger(allocator_models())
    book = Book(
        ledger,
        capacity_rules_of(settings, source),
        clock.wall_seconds,
        source.trust,
        monotonic_seconds=clock.monotonic_seconds,
        # A held binding waits in a thread; half of them are left for the other calls.
        most_held_bindings=settings.server.threads // 2,
    )
    book.apply(source.events)
    return book


def _elapse(book: Book, log: FilteringBoundLogger, on_notice: Callable[[tuple[Notice, ...]], None]) -> None:
    notices = book.apply((Elapsed(),))
    on_notice(notices)
    for notice in notices:
        log.info(
            "ledger",
            kind=notice.kind,
            uid=notice.uid,
            namespace=notice.namespace,
            name=notice.name,
            node=notice.node,
            detail=notice.detail,
        )


def _every(seconds: float, clock: Clock, action: Callable[[], None]) -> Callable[[], None]:
    """Return ``action`` so that calls within ``seconds`` of the last one that did something do nothing."""
    last = -seconds

    def tick() -> None:
        nonlocal last
        now = clock.monotonic_seconds()
        if now - last >= seconds:
            last = now
            action()

    return tick
