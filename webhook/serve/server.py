"""The server as a whole: gunicorn's master over a plan, its workers, and services in each of them."""

import logging
import os
import sys
from typing import Any
from wsgiref.types import WSGIApplication

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

from webhook.serve.gunicorn_log import GunicornLog, LibraryLog
from webhook.serve.plan import Plan
from webhook.serve.worker import AdmissionWorker
from webhook.service.services import Services


class AdmissionApplication(BaseApplication):  # type: ignore[misc]  # gunicorn is untyped
    """Gunicorn's view of a plan. The workers read ``plan``, ``services`` and ``probes``."""

    def __init__(self, plan: Plan) -> None:
        """Configure gunicorn by ``plan``."""
        self.plan = plan
        self.services: Services | None = None
        self.probes: WSGIApplication | None = None
        super().__init__()

    def load_config(self) -> None:
        """Set what differs from gunicorn's defaults, each with its reason."""
        plan = self.plan
        chosen: dict[str, Any] = {
            # Bound by us: a taken port is one sentence, and port 0 is known before the fork. Given away whole: a copy
            # that stayed open would take connections which nobody serves, once the others are closed.
            "bind": f"fd://{plan.listener.detach()}",
            "worker_class": AdmissionWorker,  # serve/DECISIONS.md
            "workers": plan.server.workers,
            "threads": plan.server.threads,
            # The worker holds the bound itself; gunicorn's response only asks whether it is 0.
            "keepalive": int(plan.server.keepalive_seconds),
            "graceful_timeout": int(plan.server.graceful_seconds),
            # The main thread of a worker reports four times a second and never decides anything: silent for 30 s, it
            # is dead.
            "timeout": 30,
            # Threads, watches and leadership do not survive a fork, so nothing is loaded before it.
            "preload_app": False,
            # A restart resets connections (practice 3D 45), and we hold no memory that grows.
            "max_requests": 0,
            # A path in the file system that nobody needs; the container's is read-only.
            "control_socket_disable": True,
            # The heartbeat's file: memory, where it is writable, for a disk that hangs would look like a dead worker.
            "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,  # noqa: S108 - not ours to name
            # An API server sends a short line and eight fields.
            "limit_request_line": 4094,
            "limit_request_fields": 64,
            "limit_request_field_size": 8190,
            # Nobody stands in front of us whose X-Forwarded fields would mean anything.
            "forwarded_allow_ips": "",
            # The parser in C is another package with other edges; ours is the one that is tested.
            "http_parser": "python",
            "loglevel": plan.log_level,
            "logger_class": GunicornLog,
            "when_ready": lambda _arbiter: plan.on_ready(),
            "child_exit": self._forget_worker,
            "proc_name": "numa-admission",
        }
        for key, value in chosen.items():
            self.cfg.set(key, value)

    def load(self) -> WSGIApplication:
        """Build the services of this worker and return its application."""
        self.services = self.plan.build()
        self.probes = self.plan.probes(self.services)
        return self.plan.application(self.services)

    @staticmethod
    def _forget_worker(_arbiter: Any, worker: Any) -> None:  # noqa: ANN401 - gunicorn is untyped
        """Drop the gauges of a worker that has ended, where several share their metrics."""
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415 - not before the workers

            mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # prometheus_client is half typed


def serve_plan(plan: Plan) -> None:
    """Serve until a signal ends it: TERM drains, INT and QUIT stop at once. Does not return: it exits.

    TERM: readiness fails, answers say ``Connection: close``, new connections are still taken for ``drain_seconds``;
    then the listener closes, and the end comes when clients have closed their connections or ``graceful_seconds`` are
    over.
    """
    master = os.getpid()
    # Without a handler Python prints what libraries warn of as it is, line breaks of strangers included.
    logging.getLogger().addHandler(LibraryLog(plan.log_level))
    try:
        _Master(AdmissionApplication(plan)).run()
    except SystemExit as end:
        if os.getpid() != master:
            # A worker's end comes up here as well; what the master's callers clean up is not the worker's.
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else 0)
        raise


class _Master(Arbiter):  # type: ignore[misc]  # gunicorn is untyped
    """Gunicorn's master, for which settings and code change by a new process."""

    def handle_hup(self) -> None:
        """Ignore a HUP: it would start a second ledger beside the first."""
        self.log.warning("A HUP does nothing: certificates and settings are read again by themselves.")
