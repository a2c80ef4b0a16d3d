"""Whether this process leads now: a term that ends by itself, renewed by a thread of its own.

A leader that is frozen (SIGSTOP, a paused machine) and wakes finds its term over, whatever its thread believed before:
the term is a moment on two clocks, and whoever commits looks at both. The monotonic clock stands still while some
machines sleep, the wall clock may be set back; the term is over when either says so.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from webhook.cluster.errors import ClusterError
from webhook.cluster.leases import RETRY_SECONDS, TERM_SECONDS
from webhook.service.clock import Clock
from webhook.service.logs import fault_text


class Election(Protocol):
    """Whoever decides who leads (``webhook.cluster.leases.LeaseElection``)."""

    def try_once(self, monotonic_seconds: float, wall_seconds: float) -> bool:
        """Acquire or renew; return whether we hold it."""
        ...

    def release(self, wall_seconds: float) -> None:
        """Give it up."""
        ...


class Term:
    """A stretch of time in which this process may commit."""

    def __init__(self, clock: Clock) -> None:
        """Begin without one."""
        self._clock = clock
        self._ends: tuple[float, float] | None = None

    def renew(self, monotonic_seconds: float, wall_seconds: float, seconds: float = TERM_SECONDS) -> None:
        """Let the term last ``seconds`` from the moments given, which lie before the renewal was sent."""
        self._ends = (monotonic_seconds + seconds, wall_seconds + seconds)

    def end(self) -> None:
        """End it now."""
        self._ends = None

    def lasts(self) -> bool:
        """Return whether it has not ended; cheap, any thread, asked last thing before a commit."""
        ends = self._ends
        if ends is None:
            return False
        return self._clock.monotonic_seconds() < ends[0] and self._clock.wall_seconds() < ends[1]


class Leadership:
    """Keeps the term by an election, tells what begins and ends with it."""

    def __init__(
        self,
        election: Election,
        clock: Clock,
        log: FilteringBoundLogger,
        *,
        may_stand: Callable[[], bool] = lambda: True,
        on_lead: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Prepare.

        Args:
            election: who decides.
            clock: the clocks.
            log: where changes are told.
            may_stand: whether this process is fit to lead (synced); one that is not does not stand.
            on_lead: called in the thread at the begin of a term and after every renewal, until it returns without an
                error: it writes where the leader is.
            on_lost: called when a term has ended.
            retry_seconds: between two rounds.
        """
        self.term = Term(clock)
        self._election = election
        self._clock = clock
        self._log = log
        self._may_stand = may_stand
        self._on_lead = on_lead
        self._on_lost = on_lost
        self._retry_seconds = retry_seconds
        self._was_leading = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)

    def leads(self) -> bool:
        """Return whether this process leads now."""
        return self.term.lasts()

    def start(self) -> None:
        """Start the thread (after a fork)."""
        self._thread.start()

    def stop(self) -> None:
        """Give the leadership up; the successor need not wait."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        led = self._was_leading
        self.term.end()
        self._tell()
        if led:
            self._election.release(self._clock.wall_seconds())

    def round(self) -> None:
        """Acquire or renew once, and tell what has changed."""
        # Before the call: the term must end before anyone who saw the renewal arrive lets it lapse.
        monotonic, wall = self._clock.monotonic_seconds(), self._clock.wall_seconds()
        try:
            if (self.term.lasts() or self._may_stand()) and self._election.try_once(monotonic, wall):
                self.term.renew(monotonic, wall)
            else:
                self.term.end()
        except ClusterError as error:
            # What is left of the term still holds: nobody else can have taken the Lease before its end.
            self._log.warning("lease", problem=str(error))
        self._tell()
        if self.term.lasts():
            try:
                self._on_lead()
            except ClusterError as error:
                self._log.warning("leader-place", problem=str(error))

    def look(self) -> None:
        """Tell that a term has ended, though the thread may hang in a call: to be called by another one."""
        if self._was_leading and not self.term.lasts():
            self._tell()

    def _tell(self) -> None:
        leads = self.term.lasts()
        if leads is self._was_leading:
            return
        self._was_leading = leads
        self._log.info("leading" if leads else "not-leading")
        if not leads:
            self._on_lost()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.round()
            except Exception as error:  # noqa: BLE001 - the thread must outlive a fault of ours; it is logged
                self._log.error("fault", **fault_text(error))
            self._stop.wait(self._retry_seconds)
