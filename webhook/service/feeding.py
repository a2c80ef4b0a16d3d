"""The threads that feed the book from a live cluster, and what they have told of themselves."""

import gc
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from webhook.cluster.client import Client
from webhook.cluster.feeds import (
    DEVICES_PATH,
    NODES_PATH,
    PODS_PATH,
    NodeReceiver,
    OnMalformed,
    PodReceiver,
    device_receiver,
    topology_path,
    topology_receiver,
)
from webhook.cluster.node_board import NodeBoard
from webhook.cluster.pod_board import PodBoard
from webhook.cluster.pulse import Pulse, PulseState
from webhook.cluster.watch import Receiver, Watch, WatchLimits
from webhook.core.ledger.accounts import Notice
from webhook.core.ledger.events import LedgerEvent
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.pod import Malformed
from webhook.service.book import Book
from webhook.service.clock import Clock
from webhook.service.freshness import Freshness, FreshnessLimits
from webhook.service.logs import fault_text
from webhook.wire.node_sources import NodeAssembler

LOOK_SECONDS = 5.0
"""How often young reports are told again, and what has happened to the feeds is logged."""

FIRST_LIST_SECONDS = 15.0
"""How long the pods' first list waits for the nodes': places on nodes that are known are not computed twice."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What others (checkpoint, divergence counters) want to hear of the feeds."""

    after_list: Callable[[], Iterable[LedgerEvent]] = lambda: ()
    """Called by the pods' thread when a list of pods is in the book: a checkpoint's ``Recalled`` events."""
    on_notice: Callable[[Notice], None] = lambda _: None


class Feeding:
    """Four feeds: nodes and pods, which the ledger needs; NodeResourceTopologies and Devices, which may be absent."""

    def __init__(
        self,
        client: Client,
        book: Book,
        log: FilteringBoundLogger,
        clock: Clock | None = None,
        *,
        classes: tuple[MachineClass, ...] = (),
        hooks: Hooks | None = None,
        limits: WatchLimits | None = None,
        freshness_limits: FreshnessLimits | None = None,
    ) -> None:
        """Prepare the feeds of ``book``; nothing is asked before ``start``."""
        clock = clock or Clock()
        self._book = book
        self._log = log
        self._hooks = hooks or Hooks()
        self._stopped = threading.Event()
        self._board = NodeBoard(NodeAssembler(classes), self._apply)
        names = ("nodeResourceTopologies", "devices", "nodes", "pods")
        self._pulses = tuple(Pulse(name, clock.monotonic_seconds) for name in names)
        topologies, devices, nodes, pods = self._pulses
        self.freshness = Freshness((nodes, pods), (topologies, devices), clock.monotonic_seconds, freshness_limits)
        pod_board = PodBoard(self._apply)
        topology_reader = topology_receiver(self._board, pod_board, self._malformed_of(topologies))
        device_reader = device_receiver(self._board, self._malformed_of(devices))
        node_reader = NodeReceiver(self._board, self._malformed_of(nodes))
        pod_reader = PodReceiver(pod_board, clock.wall_seconds, self._after_list, self._malformed_of(pods))
        self._watches: dict[str, Watch] = {}
        for pulse, path, receiver, may_be_absent in (
            (topologies, lambda: topology_path(client), topology_reader, True),
            (devices, DEVICES_PATH, device_reader, True),
            (nodes, NODES_PATH, node_reader, False),
            (pods, PODS_PATH, pod_reader, False),
        ):
            self._watches[pulse.name] = self._watch(client, path, receiver, pulse, limits, may_be_absent=may_be_absent)
        self._threads: list[threading.Thread] = []

    def _watch(
        self,
        client: Client,
        path: str | Callable[[], str],
        receiver: Receiver,
        pulse: Pulse,
        limits: WatchLimits | None,
        *,
        may_be_absent: bool,
    ) -> Watch:
        return Watch(
            client, path, receiver, pulse, may_be_absent=may_be_absent, limits=limits, on_fault=self._log_fault
        )

    def start(self) -> None:
        """Start the threads; call it after the fork."""
        for number, pulse in enumerate(self._pulses):
            earlier = self._pulses[:number] if number >= 2 else ()
            thread = threading.Thread(
                target=self._run, args=(self._watches[pulse.name], earlier), name=f"feed-{pulse.name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        looker = threading.Thread(target=self._look_after, name="feed-look", daemon=True)
        self._threads.append(looker)
        looker.start()

    def stop(self, within_seconds: float = 5.0) -> None:
        """End the threads; those that do not end in time are left to the end of the process."""
        self._stopped.set()
        for watch in self._watches.values():
            watch.stop()
        for thread in self._threads:
            thread.join(within_seconds)

    def change_classes(self, classes: tuple[MachineClass, ...]) -> None:
        """Describe nodes by ``classes`` from now on; returns when the book has heard of all that this changes."""
        self._board.change_classes(classes)

    def states(self) -> dict[str, PulseState]:
        """Return the state of each feed by name, for metrics and the dashboard."""
        return {pulse.name: pulse.state for pulse in self._pulses}

    def pulses(self) -> tuple[Pulse, ...]:
        """Return the pulses of all feeds, for whoever reads their states and counts."""
        return self._pulses

    @staticmethod
    def _malformed_of(pulse: Pulse) -> OnMalformed:
        """Return what counts objects of a feed that could not be read whole; called by the feed's thread alone."""

        def count(name: str, faults: Sequence[Malformed]) -> None:
            pulse.counts.malformed += 1
            pulse.counts.why_malformed = f"{name}: {faults[0]}"

        return count

    def _run(self, watch: Watch, earlier: Sequence[Pulse]) -> None:
        """Follow ``watch``, its first list after the first lists of ``earlier`` or after a while."""
        left = FIRST_LIST_SECONDS
        while left > 0 and not all(pulse.state.has_listed or pulse.state.is_absent for pulse in earlier):
            if self._stopped.wait(0.05):
                return
            left -= 0.05
        watch.run()

    def _look_after(self) -> None:
        logged = self.states()
        malformed = dict.fromkeys(logged, 0)
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self._board.repeat_reports()
                for name, state in self.states().items():
                    self._log_change(name, logged[name], state)
                    logged[name] = state
                for pulse in self._pulses:
                    self._log_malformed(pulse, malformed[pulse.name])
                    malformed[pulse.name] = pulse.counts.malformed
            except Exception as error:  # noqa: BLE001 - as in the feeds: a thread that dies unseen is worse
                self._log_fault(error)

    def _log_malformed(self, pulse: Pulse, before: int) -> None:
        """Log that objects could not be read whole: how many, and the last of them."""
        counts = pulse.counts
        if counts.malformed != before:
            self._log.warning(
                "malformed", name=pulse.name, objects=counts.malformed - before, last=counts.why_malformed
            )

    def _log_change(self, name: str, old: PulseState, new: PulseState) -> None:
        """Log once in a while what a feed has gone through, not each of its tries."""
        if new.losses != old.losses:
            is_lost = new.lost_since_seconds is not None
            why = new.why_lost or "it is back"
            self._log.warning("feed", name=name, is_lost=is_lost, times=new.losses - old.losses, why=why)
        if (new.lists, new.is_absent) != (old.lists, old.is_absent):
            self._log.info("feed", name=name, lists=new.lists, is_absent=new.is_absent)

    def _after_list(self) -> Iterable[LedgerEvent]:
        # The pods of a whole cluster are a million objects in no cycles; the collector would walk them all, which
        # stops every thread for about 0.1 s, whenever a quarter as many were made.
        gc.freeze()
        # What a node counts now stands above what was remembered; a place of the checkpoint that agrees is kept.
        return (*self._hooks.after_list(), *self._board.reports())

    def _apply(self, events: Sequence[LedgerEvent]) -> None:
        for notice in self._book.apply(events):
            self._log.info(
                "ledger",
                kind=notice.kind,
                uid=notice.uid,
                namespace=notice.namespace,
                name=notice.name,
                node=notice.node,
                detail=notice.detail,
            )
            self._hooks.on_notice(notice)

    def _log_fault(self, error: Exception) -> None:
        self._log.error("fault", **fault_text(error))
