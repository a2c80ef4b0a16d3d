"""What is decided before the first process is forked: listeners, bounds, and how a worker makes what it serves."""

import os
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from wsgiref.types import WSGIApplication

from webhook.serve.limits import Limits
from webhook.serve.reactor import TlsContexts
from webhook.service.services import Services
from webhook.service.settings import ServerSettings
from webhook.service.start import StartError

_FILES_BESIDE_CONNECTIONS = 256
_MOST_FILES = 65536
_BACKLOG = 1024
"""Connections that the kernel completes while no thread comes to accept; Linux caps it at net.core.somaxconn."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided before the first process is forked."""

    server: ServerSettings
    listener: socket.socket
    probe_listener: socket.socket | None
    tls: TlsContexts | None
    """None: plain HTTP, for benchmarks and tests only."""
    build: Callable[[], Services]
    """Called in each worker, after the fork."""
    application: Callable[[Services], WSGIApplication]
    """Makes the application of the admission port (``webhook.edge.app.create_app``)."""
    probes: Callable[[Services], WSGIApplication]
    """Makes the application of the probe port."""
    log_level: str = "info"
    on_ready: Callable[[], None] = lambda: None
    """Called in the master when the listeners are up and before the first worker serves."""

    @property
    def limits(self) -> Limits:
        """The bounds of the admission port."""
        server = self.server
        return replace(
            Limits(),
            threads=server.threads,
            max_connections=min(server.max_connections, most_connections()),
            keepalive_seconds=server.keepalive_seconds,
            handshake_seconds=server.handshake_seconds,
            request_seconds=server.request_seconds,
        )


def open_listener(address: str) -> socket.socket:
    """Return a listening socket on ``HOST:PORT``; port 0 takes a free one.

    Raises:
        StartError: the address is none of this machine's, or its port is taken.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # reuse_port stays off: two servers on one port by mistake would share the calls.
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG, reuse_port=False)
    except (OSError, OverflowError, ValueError) as error:
        # create_server adds the address to the text; ours has it already. The resolver's codes are below zero.
        code = getattr(error, "errno", None) or 0
        reason = os.strerror(code) if code > 0 else "there is no such address" if code < 0 else str(error)
        raise StartError(f"Cannot listen on {address}: {reason}.") from error


def most_connections() -> int:
    """Raise the limit of open files as far as it may go, and return how many connections that allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max((wanted if soft == resource.RLIM_INFINITY else soft) - _FILES_BESIDE_CONNECTIONS, 16)
