"""A reactor in this process, on loopback, over real TLS; and clients that behave badly."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gunicorn.config import Config

from certs.files import ReloadingServerContext
from certs.mint import mint_development_pair
from webhook.serve.exchange import Exchange
from webhook.serve.limits import Limits
from webhook.serve.reactor import Reactor

PATIENCE_SECONDS = 20.0
"""How long a test waits before it says that something will never happen; nothing is measured by it."""


class World:
    """One listening reactor, what it counted, and ways to call it."""

    def __init__(self, reactor: Reactor, address: tuple[str, int], ca_file: Path, closed: Counter, faults: list):
        """Keep what a test looks at."""
        self.reactor = reactor
        self.address = address
        self.closed = closed
        self.faults = faults
        self._client = ssl.create_default_context(cafile=str(ca_file))

    def tcp(self) -> socket.socket:
        """Connect, and say nothing."""
        sock = socket.create_connection(self.address, timeout=PATIENCE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def tls(self) -> ssl.SSLSocket:
        """Connect and do the TLS handshake."""
        return self._client.wrap_socket(self.tcp(), server_hostname="127.0.0.1")

    def call(self, body: bytes = b"{}", *, path: str = "/validate") -> int:
        """Make an ordinary call on a connection of its own and return the status."""
        with self.tls() as sock:
            sock.sendall(post(body, path=path))
            return status_of(answer(sock))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; the test fails where it never does."""
        tick = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / 0.02)):
            if condition():
                return
            tick.wait(0.02)
        raise AssertionError(f"never: {condition}; closed {self.closed}, open {dict(self.reactor.roster.by_phase())}")


def post(body: bytes, *, path: str = "/validate", fields: str = "") -> bytes:
    """Return a POST of `body`."""
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answer(sock: socket.socket) -> bytes:
    """Read one response with a Content-Length, and no byte more."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = sock.recv(1)
        if not piece:
            return received
        received += piece
    head, _, _ = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left = int(lengths[0].split(b":")[1]) if lengths else 0
    while left:
        piece = sock.recv(left)
        if not piece:
            return received
        received += piece
        left -= len(piece)
    return received


def status_of(response: bytes) -> int:
    """Return the status of a response; 0 where there is none."""
    return int(response.split(b" ")[1]) if response.startswith(b"HTTP/1.1 ") else 0


def is_ended(sock: socket.socket) -> bool:
    """Read to the end and return True; the socket's own time-out fails the test where it does not come."""
    try:
        while sock.recv(65536):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    return True


@contextmanager
def serving(folder: Path, application: Callable, limits: Limits, *, with_tls: bool = True) -> Iterator[World]:
    """Serve `application` until the end of the block, swept as the worker's main thread would."""
    files = mint_development_pair(folder)
    closed, faults, over = Counter(), [], threading.Event()

    def on_close(reason: str) -> None:
        closed[reason] += 1

    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        reactor = Reactor(
            listener,
            Exchange(Config(), application, lambda: faults.append("application")),
            limits,
            tls=ReloadingServerContext(files.cert_file, files.key_file) if with_tls else None,
            on_close=on_close,
            on_fault=lambda: faults.append("reactor"),
        )

        def sweep() -> None:
            while not over.wait(0.02):
                reactor.sweep()

        sweeper = threading.Thread(target=sweep)
        reactor.start()
        sweeper.start()
        try:
            yield World(reactor, listener.getsockname(), files.ca_file, closed, faults)
        finally:
            over.set()
            sweeper.join()
            reactor.stop()
