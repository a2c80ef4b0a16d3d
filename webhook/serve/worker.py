"""The gunicorn worker: a reactor for admission calls, one for probes, and a main thread that only keeps time.

Why not gunicorn's ``gthread``: ``DECISIONS.md``. What is used of gunicorn is the contract of a custom worker
(``gunicorn.workers.base.Worker``: ``run``, ``notify``, ``alive``) and its HTTP parser and response (``exchange``).
"""

import gc
import os
import select
import sys
import time

from gunicorn.workers.base import Worker

from webhook.serve.connection import Phase
from webhook.serve.exchange import Exchange
from webhook.serve.limits import Limits
from webhook.serve.plan import Plan
from webhook.serve.reactor import Reactor
from webhook.service.services import Services
from webhook.service.settings import CLOSING_SECONDS

_TICK_SECONDS = 0.25
_SWITCH_INTERVAL_SECONDS = 0.001
"""CPython's default of 5 ms lets a busy thread (a large review, a burst of watch events) hold up every small call by
that much; a switch costs microseconds."""
_GARBAGE_THRESHOLD = 20_000
"""A review makes thousands of containers and no cycles. With CPython's 700 the collector took 0.76 of the 0.91 s that
8 MiB of ``[],[],...`` held the interpreter; what was made before the first call (``freeze``) is never looked at."""
_STUCK_SECONDS = 30.0
"""No decision takes a second; when every thread has been in one for this long they will not come back."""


class AdmissionWorker(Worker):  # type: ignore[misc]  # gunicorn is untyped
    """Serves ``app.plan`` (``webhook.serve.plan``)."""

    def run(self) -> None:
        """Serve until told to stop, then drain: readiness fails first, then the listener closes, then clients leave."""
        sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
        gc.freeze()
        gc.set_threshold(_GARBAGE_THRESHOLD, 20, 20)
        plan: Plan = self.app.plan
        services: Services = self.app.services
        meters, health = services.meters, services.health
        admission = Reactor(
            self.sockets[0].sock,
            Exchange(self.cfg, self.wsgi, services.on_fault),
            plan.limits,
            tls=plan.tls,
            on_close=meters.connection_closed,
            on_fault=services.on_fault,
            keeps_connections=services.keeps_connections,
        )
        reactors = [admission]
        health.watch_threads(admission.stuck_seconds, _STUCK_SECONDS)
        if plan.probe_listener is not None:
            reactors.append(
                Reactor(
                    plan.probe_listener,
                    Exchange(self.cfg, self.app.probes, services.on_fault),
                    Limits.for_probes(),
                    on_fault=services.on_fault,
                    name="probes",
                )
            )
        for reactor in reactors:
            reactor.start()
        for action in services.on_start:
            action()
        health.serving()
        while self.alive and self._is_parent_alive():
            self._tick(reactors, services)
        server = plan.server
        closes_at_seconds = time.monotonic() + server.graceful_seconds - CLOSING_SECONDS
        health.draining()
        admission.drain()
        for action in services.on_drain:
            action()
        self._until(server.drain_seconds, reactors, services)
        admission.stop_accepting()
        # A call that meets a connection that is being closed has failed, so clients are left to close theirs.
        self._until(closes_at_seconds - time.monotonic(), reactors, services, unless_empty=admission)
        admission.close_idle()
        self._until(CLOSING_SECONDS, reactors, services, unless_empty=admission)
        for action in services.on_stop:
            action()

    def _is_parent_alive(self) -> bool:
        return bool(self.ppid == os.getppid())

    def _tick(self, reactors: list[Reactor], services: Services) -> None:
        self.notify()
        try:
            # A signal writes a byte to this pipe (gunicorn's init_signals), so a stop is seen at once.
            readable, _, _ = select.select([self.PIPE[0]], [], [], _TICK_SECONDS)
            if readable:
                os.read(self.PIPE[0], 4096)
        except OSError:
            pass
        for reactor in reactors:
            reactor.sweep()
        by_phase = reactors[0].roster.by_phase()
        services.meters.set_connections({phase.value: by_phase.get(phase, 0) for phase in Phase})
        for action in services.on_tick:
            action()

    def _until(
        self,
        seconds: float,
        reactors: list[Reactor],
        services: Services,
        *,
        unless_empty: Reactor | None = None,
    ) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and (unless_empty is None or len(unless_empty.roster)):
            self._tick(reactors, services)
