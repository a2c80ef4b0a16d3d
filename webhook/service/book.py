"""The book: the ledger, one lock around it, and whether its picture of the cluster can be trusted now."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from webhook.core.capacity import CapacityRules, decide_bind, decide_capacity, unknown
from webhook.core.decisions import Ask, Decision
from webhook.core.ledger.events import LedgerEvent
from webhook.core.ledger.ledger import Ledger, Notice
from webhook.core.ledger.records import Entry, NodeView

Trust = Callable[[], str]
"""Returns an empty text while the ledger's picture is whole and fresh, else why not: ``not-synced``, ``stale``."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent set of values, for the map, the metrics and the checkpoint; nothing in it changes any more."""

    views: Mapping[str, NodeView]
    entries: Mapping[str, Entry]
    generation: int
    """Grows with every event that was applied."""


class Book:
    """The only door to the ledger. Each call holds the lock for about a millisecond at most."""

    def __init__(self, ledger: Ledger, rules: CapacityRules, now_seconds: Callable[[], float], trust: Trust) -> None:
        """Take over ``ledger``; nobody else may touch it any more.

        ``now_seconds`` is the wall clock: moments in events and records are seconds since 1970.
        """
        self._ledger = ledger
        self._rules = rules
        self._now_seconds = now_seconds
        self._trust = trust
        self._lock = threading.Lock()
        self._generation = 0

    def decide_capacity(self, ask: Ask) -> Decision:
        """Return the verdict on a create, its claim committed unless it is a dry run."""
        return self._decide(ask, decide_capacity)

    def decide_bind(self, ask: Ask) -> Decision:
        """Return the verdict on a binding, committed unless it is a dry run."""
        return self._decide(ask, decide_bind)

    def _decide(self, ask: Ask, decide: Callable[[Ask, Ledger, CapacityRules, float], Decision]) -> Decision:
        distrust = self._trust()
        if distrust:
            return Decision.allow(findings=(unknown(distrust),)) if ask.subject is not None else Decision.allow()
        now = self._now_seconds()
        with self._lock:
            decision = decide(ask, self._ledger, self._rules, now)
            if decision.event is not None and not ask.dry_run:
                self._ledger.apply(decision.event, now)
                self._generation += 1
        return decision

    def apply(self, events: Iterable[LedgerEvent]) -> tuple[Notice, ...]:
        """Take what has happened outside, one event under the lock at a time; return what should be logged."""
        for event in events:
            now = self._now_seconds()
            with self._lock:
                self._ledger.apply(event, now)
                self._generation += 1
        with self._lock:
            return self._ledger.take_notices()

    def snapshot(self) -> Snapshot:
        """Return the state as it is now."""
        with self._lock:
            return Snapshot(dict(self._ledger.views), dict(self._ledger.entries), self._generation)

    def entry(self, uid: str, namespace: str = "", name: str = "") -> Entry | None:
        """Return the entry of a pod by UID, else by name."""
        with self._lock:
            return self._ledger.entry(uid, namespace, name)

    def change_rules(self, rules: CapacityRules) -> None:
        """Judge by ``rules`` from now on."""
        with self._lock:
            self._rules = rules
