"""From settings to services: which endpoint is judged by what. The only place that puts the parts together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
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
from webhook.service.settings_file import SettingsFile
from webhook.service.settings_watch import SettingsWatch
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
        answer_seconds=chosen.answer_seconds,
        vocabulary=rules_of(settings).vocabulary,
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
    file: SettingsFile | None = None,
) -> Services:
    """Return the parts of one serving process; call it after the fork.

    ``file`` is where ``settings`` come from: what changes in it is taken over. ``tls`` is watched: its certificate's
    end is a metric, an ended one fails readiness, refused files are logged.
    """
    clock = clock or Clock()
    source = source or LedgerSource()
    meters = Meters(is_multiprocess=settings.server.workers > 1)
    live: LiveLedger | None = None
    book: Book | None = None
    on_tick: list[Callable[[], None]] = []
    if settings.server.role.has_ledger:
        live = _live(settings, source, clock, meters, log) if settings.cluster.live else None
        book = live.book if live is not None else _book(settings, source, clock)
        on_notice = live.divergence.take if live is not None else _unheard
        on_tick.append(_every(_ELAPSED_EVERY_SECONDS, clock, partial(_elapse, book, log, on_notice)))
    corridor = Corridor(doors_of(settings, book), meters, log, clock)
    watch_settings: SettingsWatch | None = None
    if file is not None:
        change = partial(_change, source=source, corridor=corridor, book=book, live=live)
        watch_settings = SettingsWatch(file, change, meters, log)
        watch_settings.catch_up()
    ready_checks: list[Check] = [live.why_not_ready] if live is not None else []
    on_tick.extend(live.on_tick if live is not None else ())
    if tls is not None:
        watch = CertificateWatch(tls, meters, log, clock)
        ready_checks.append(watch.why_not_ready)
        on_tick.append(_every(_LOOK_EVERY_SECONDS, clock, watch.look))
    return Services(
        corridor=corridor,
        health=Health(tuple(ready_checks)),
        meters=meters,
        log=log,
        on_start=(
            *(live.on_start if live is not None else ()),
            *((watch_settings.start,) if watch_settings is not None else ()),
        ),
        on_tick=tuple(on_tick),
        on_drain=live.on_drain if live is not None else (),
        on_stop=(
            *((watch_settings.stop,) if watch_settings is not None else ()),
            *(live.on_stop if live is not None else ()),
        ),
        keeps_connections=live.leads if live is not None else lambda: True,
    )


def doors_of(settings: Settings, book: Book | None) -> Mapping[Endpoint, Door]:
    """Return how each endpoint of the role is answered; ``book`` is the ledger's, None where the role has none."""
    role, timeouts, rules, kinds = settings.server.role, settings.timeouts, rules_of(settings), kinds_of(settings)
    doors: dict[Endpoint, Door] = {}
    if role.has_rules:
        wants = rules.vocabulary.carries_mark
        doors[Endpoint.MUTATE] = Door(
            lambda ask, _until: decide_mutate(ask, rules),
            timeouts.mutate_seconds,
            wants=wants,
            patches=True,
            kinds=kinds,
        )
        doors[Endpoint.VALIDATE] = Door(
            lambda ask, _until: decide_validate(ask, rules), timeouts.validate_seconds, wants=wants, kinds=kinds
        )
    if book is not None:

        def capacity(ask: Ask, _until_monotonic_seconds: float) -> Decision:
            # What the stateless rules refuse is theirs to say: two webhooks never report the same pod twice.
            return book.decide_capacity(ask) if decide_validate(ask, rules).allowed else Decision.allow()

        doors[Endpoint.CAPACITY] = Door(capacity, timeouts.capacity_seconds, gives_way=True, kinds=kinds)
        doors[Endpoint.BIND] = Door(book.decide_bind, timeouts.bind_seconds, gives_way=True, kinds=kinds)
    return MappingProxyType(doors)


def _change(
    settings: Settings, *, source: LedgerSource, corridor: Corridor, book: Book | None, live: "LiveLedger | None"
) -> None:
    """Judge by ``settings`` from now on. The ledger stays what it is; only nodes whose machine class changes change."""
    doors = doors_of(settings, book)
    if book is not None:
        book.change_rules(capacity_rules_of(settings, source))
    corridor.change_doors(doors)
    if live is not None:
        live.feeding.change_classes(settings.capacity.machine_classes)


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
