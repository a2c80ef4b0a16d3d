"""The book: the ledger, one lock around it, and whether its picture of the cluster can be trusted now."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from webhook.core.capacity import CapacityRules, decide_capacity, unknown
from webhook.core.capacity_bind import decide_bind
from webhook.core.decisions import Ask, Decision
from webhook.core.demand import PodDemand
from webhook.core.ledger import reasons
from webhook.core.ledger.events import (
    BindingAdmitted,
    BindingRefused,
    Claimed,
    LedgerEvent,
    PodGone,
    PodSeen,
    RoomFreed,
)
from webhook.core.ledger.ledger import Ledger, Notice
from webhook.core.ledger.records import Entry, EntryState, NodeView, PodRecord
from webhook.core.occupancy import holds_nothing
from webhook.core.pod import Binding
from webhook.service.bind_turns import BindTurns

Trust = Callable[[], str]
"""Returns an empty text while the ledger's picture is whole and fresh, else why not: ``not-synced``, ``stale``."""

MOST_HELD_BINDINGS: Final = 4
"""Of the eight threads that a server has by default."""


class Follower(Protocol):
    """Hears what the ledger hears, under its lock: must be quick and must not call back."""

    def shunned(self, uid: str, tried: str, now_seconds: float) -> frozenset[str]:
        """Return the nodes that a refused binding of pod ``uid`` to ``tried`` must not be steered to."""
        ...

    def refused(self, pod: PodRecord, node: str, steer_to: str, now_seconds: float) -> None:
        """Hear that a binding of ``pod`` to ``node`` is turned back."""
        ...

    def heard(self, event: LedgerEvent, now_seconds: float) -> None:
        """Hear of an event that the ledger has taken."""
        ...

    def waiting(self, node: str, now_seconds: float) -> tuple[str, ...]:
        """Return the pods (UIDs, at most a few dozen) that wait for room and might be steered to ``node``."""
        ...

    def found(self, uid: str, node: str, now_seconds: float) -> None:
        """Hear that room was freed for a waiting pod."""
        ...


class Deaf:
    """Follows nothing."""

    def shunned(self, uid: str, tried: str, now_seconds: float) -> frozenset[str]:  # noqa: ARG002 - the protocol's
        """Return none."""
        return frozenset()

    def refused(self, pod: PodRecord, node: str, steer_to: str, now_seconds: float) -> None:
        """Do nothing."""

    def heard(self, event: LedgerEvent, now_seconds: float) -> None:
        """Do nothing."""

    def waiting(self, node: str, now_seconds: float) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's
        """Return none."""
        return ()

    def found(self, uid: str, node: str, now_seconds: float) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent set of values, for the map, the metrics and the checkpoint; nothing in it changes any more."""

    views: Mapping[str, NodeView]
    entries: Mapping[str, Entry]
    generation: int
    """Grows with every event that was applied."""


def _always() -> bool:
    return True


class Book:
    """The only door to the ledger. Each call holds the lock for about a millisecond at most."""

    def __init__(
        self,
        ledger: Ledger,
        rules: CapacityRules,
        now_seconds: Callable[[], float],
        trust: Trust,
        *,
        may_commit: Callable[[], bool] = _always,
        follower: Follower | None = None,
        most_held_bindings: int = MOST_HELD_BINDINGS,
        monotonic_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take over ``ledger``; nobody else may touch it any more.

        Args:
            ledger: the ledger.
            rules: how outcomes weigh.
            now_seconds: the wall clock: moments in events and records are seconds since 1970.
            trust: whether the picture can be trusted.
            may_commit: whether this process leads. One that does not decides all the same and commits nothing; asked
                under the lock, last thing before the commit.
            follower: hears what the ledger hears.
            most_held_bindings: bindings that may wait for their turn at a time; 0: none waits.
            monotonic_seconds: the clock of deadlines.
        """
        self._ledger = ledger
        self._rules = rules
        self._now_seconds = now_seconds
        self._trust = trust
        self._may_commit = may_commit
        self._follower: Follower = follower or Deaf()
        self._monotonic_seconds = monotonic_seconds
        self._lock = threading.Lock()
        self._turns = BindTurns(self._lock, most_held_bindings)
        self._generation = 0

    def decide_capacity(self, ask: Ask) -> Decision:
        """Return the verdict on a create, its claim committed unless it is a dry run."""
        if distrust := self._trust():
            return _unjudged(ask, distrust)
        now = self._now_seconds()
        with self._lock:
            decision = decide_capacity(ask, self._ledger, self._rules, now)
            self._commit(ask, decision, now)
        return decision

    def decide_bind(self, ask: Ask, until_monotonic_seconds: float | None = None) -> Decision:
        """Return the verdict on a binding, committed unless it is a dry run.

        A binding that is only out of turn is held until the node's kubelet has answered for those before it, and one
        of a pod that the watch has not shown yet until it does, at most until ``until_monotonic_seconds``; None: it is
        not held.
        """
        if distrust := self._trust():
            return _unjudged(ask, distrust)
        with self._lock:
            rules = self._rules  # a binding that waits ends by the rules that it began with
            decision, now = self._judge_binding(ask, rules)
            while (subject := self._worth_waiting_for(ask, decision)) and self._turns.has_room():
                left = (until_monotonic_seconds or 0.0) - self._monotonic_seconds()
                if left <= 0:
                    break
                with self._turns.queue(subject) as news:
                    news.wait(left)
                decision, now = self._judge_binding(ask, rules)
            self._commit(ask, decision, now)
        return decision

    def _judge_binding(self, ask: Ask, rules: CapacityRules) -> tuple[Decision, float]:
        now, binding = self._now_seconds(), ask.subject
        shunned: frozenset[str] = frozenset()
        if isinstance(binding, Binding):
            shunned = self._follower.shunned(binding.pod_uid, binding.node_name, now)
        return decide_bind(ask, self._ledger, rules, now, shunned), now

    def _worth_waiting_for(self, ask: Ask, decision: Decision) -> str:
        """Return the node or the UID of the pod of which news may change ``decision``; empty: none would."""
        binding = ask.subject
        if not isinstance(binding, Binding):
            return ""
        if any(finding.code == reasons.BINDING_OUT_OF_TURN.code for finding in decision.findings):
            return binding.node_name
        known = self._ledger.entry(binding.pod_uid, binding.namespace or ask.namespace, binding.pod_name)
        return "" if known is not None or binding.node_name not in self._ledger.views else binding.pod_uid

    def _commit(self, ask: Ask, decision: Decision, now: float) -> None:
        event = decision.event
        if not isinstance(event, Claimed | BindingAdmitted | BindingRefused) or ask.dry_run or not self._may_commit():
            return
        if isinstance(event, BindingRefused) and isinstance(ask.subject, Binding):
            entry = self._ledger.entry(event.uid)
            if entry is not None:
                self._follower.refused(entry.pod, ask.subject.node_name, event.steer_to, now)
        self._apply(event, now)

    def _apply(self, event: LedgerEvent, now: float) -> None:
        self._ledger.apply(event, now)
        self._generation += 1
        self._turns.heard(event)

    def apply(self, events: Iterable[LedgerEvent]) -> tuple[Notice, ...]:
        """Take what has happened outside, one event under the lock at a time; return what should be logged."""
        for event in events:
            now = self._now_seconds()
            with self._lock:
                freed = self._freed_by(event)
                self._apply(event, now)
                self._follower.heard(event, now)
                has_waiting = self._ledger.has_waiting
            while has_waiting:
                with self._lock:
                    has_waiting = self._ledger.plan_next()
            if freed:
                self._reconsider(freed, now)
        with self._lock:
            return self._ledger.take_notices()

    def _freed_by(self, event: LedgerEvent) -> str:
        """Return the node on which ``event`` ends something that held anything; empty: on none."""
        if isinstance(event, PodSeen) and event.pod.has_ended:
            entry = self._ledger.entry(event.pod.uid)
        elif isinstance(event, PodGone):
            entry = self._ledger.entry(event.uid)
        else:
            return ""
        if entry is None or entry.state is not EntryState.BOUND or entry.holding is None:
            return ""
        return "" if holds_nothing(entry.holding) else entry.node

    def _reconsider(self, node: str, now: float) -> None:
        """Give room that was freed on ``node`` to pods that were turned back and wait, one under the lock at a time.

        They are nominated at once, so that the scheduler's next try, up to 11 s away, is not another refusal.
        """
        if not self._may_commit():
            return
        hopeless: set[PodDemand] = set()
        for uid in self._follower.waiting(node, now):
            with self._lock:
                entry = self._ledger.entry(uid)
                if entry is None or entry.node or entry.pod.demand in hopeless or self._ledger.alternatives(node):
                    continue
                self._apply(RoomFreed(uid, node, now + self._rules.steering_seconds), now)
                entry = self._ledger.entry(uid)
                if entry is not None and entry.node == node:
                    self._follower.found(uid, node, now)
                elif entry is not None:
                    hopeless.add(entry.pod.demand)

    def snapshot(self) -> Snapshot:
        """Return the state as it is now."""
        with self._lock:
            return Snapshot(dict(self._ledger.views), dict(self._ledger.entries), self._generation)

    def entry(self, uid: str, namespace: str = "", name: str = "") -> Entry | None:
        """Return the entry of a pod by UID, else by name."""
        with self._lock:
            return self._ledger.entry(uid, namespace, name)

    def views(self) -> Mapping[str, NodeView]:
        """Return the account of every node by name, as it is now; one of several that may be true is doubted."""
        with self._lock:
            views = dict(self._ledger.views)
            for name in self._ledger.open_nodes():
                views[name] = replace(views[name], is_doubted=True)
            return views

    def view(self, node: str) -> NodeView | None:
        """Return the account of one node."""
        with self._lock:
            return self._ledger.views.get(node)

    def change_rules(self, rules: CapacityRules) -> None:
        """Judge by ``rules`` from now on."""
        with self._lock:
            self._rules = rules


def _unjudged(ask: Ask, distrust: str) -> Decision:
    return Decision.allow(findings=(unknown(distrust),)) if ask.subject is not None else Decision.allow()
