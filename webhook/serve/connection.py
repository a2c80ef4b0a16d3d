"""One client connection: a socket that never blocks, what has arrived, what must still leave, and since when."""

import enum
import select
import socket
import ssl
import threading

from webhook.serve.exchange import Address
from webhook.serve.framing import Framing
from webhook.serve.limits import Limits

_LEAST_READ_BYTES = 65536
_MOST_READ_BYTES = 262144


class Phase(enum.Enum):
    """Where a connection stands. The order is the order of eviction: who proved least goes first."""

    HANDSHAKE = "handshake"
    """TLS is being negotiated (or the client is silent on a TLS port)."""
    READING = "reading"
    """A request has begun to arrive."""
    UNUSED = "unused"
    """TLS is done, nothing was ever sent: what an API server's client leaves after dialling ahead."""
    LINGERING = "lingering"
    """The last answer is out; what still arrives is thrown away."""
    WRITING = "writing"
    """The client takes the answer more slowly than we write it."""
    IDLE = "idle"
    """At least one request was answered; the next one may come."""
    QUEUED = "queued"
    """A large request is complete and waits for its turn."""
    SERVING = "serving"
    """A thread decides."""


class Closed(Exception):  # noqa: N818 - not a fault: the client has gone
    """The client has closed or reset the connection."""


class WouldBlock(Exception):  # noqa: N818 - not a fault: the poller takes over
    """The socket cannot go on now; ``for_write`` tells which readiness it waits for."""

    def __init__(self, *, for_write: bool) -> None:
        """Keep ``for_write``."""
        super().__init__()
        self.for_write = for_write


class Connection:
    """State of one connection. Whoever holds ``claim`` may touch it, nobody else; the socket never blocks."""

    __slots__ = (
        "claim", "deadline", "ending", "fd", "framing", "inbox", "last_answer", "outbox", "peer", "phase", "received",
        "reserved_bytes", "since", "sock",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, peer: Address, limits: Limits, now: float) -> None:
        """Take over ``sock`` (already wrapped where TLS is spoken, handshake not begun)."""
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.claim = threading.Lock()
        self.inbox = bytearray()
        self.outbox: bytes | memoryview = b""
        self.framing = Framing(limits)
        self.phase = Phase.HANDSHAKE if isinstance(sock, ssl.SSLSocket) else Phase.UNUSED
        self.since = now
        self.deadline = now + limits.handshake_seconds
        self.received = 0.0
        self.reserved_bytes = 0
        self.last_answer = False
        """The connection is closed when ``outbox`` is out."""
        self.ending = ""
        """Why it is being closed, once that is known: a bounded word for the metrics."""

    def enter(self, phase: Phase, now: float, seconds: float) -> None:
        """Change to ``phase``, which may last ``seconds``."""
        self.phase = phase
        self.since = now
        self.deadline = now + seconds

    @property
    def has_input(self) -> bool:
        """Whether bytes wait here that the poller cannot see: read ahead, or decrypted inside TLS."""
        return bool(self.inbox) or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0)

    def has_arrived(self) -> bool:
        """Return whether the client has sent something, or its end, that nobody has looked at yet."""
        if self.has_input:
            return True
        poll = select.poll()  # select() takes no descriptor above 1023
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(0))

    def handshake(self) -> None:
        """Go on with the TLS handshake.

        Raises:
            WouldBlock: the client's next message has not arrived.
            Closed: the client has gone.
            ssl.SSLError: the client speaks no TLS that we speak.
        """
        assert isinstance(self.sock, ssl.SSLSocket)  # noqa: S101 - only TLS connections start in this phase
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            raise WouldBlock(for_write=False) from None
        except ssl.SSLWantWriteError:
            raise WouldBlock(for_write=True) from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise Closed from None
        except ssl.SSLError:
            raise
        except (OSError, ValueError):
            raise Closed from None

    def receive(self) -> bytes:
        """Return what has arrived, at least one byte.

        Raises:
            WouldBlock: nothing has.
            Closed: the client has ended its side, or broken TLS.
        """
        size = min(max(_LEAST_READ_BYTES, self.framing.missing(self.inbox)), _MOST_READ_BYTES)
        try:
            data = self.sock.recv(size)
        except (ssl.SSLWantReadError, BlockingIOError):
            raise WouldBlock(for_write=False) from None
        except ssl.SSLWantWriteError:
            raise WouldBlock(for_write=True) from None
        except (OSError, ValueError):  # SSLError is an OSError
            raise Closed from None
        if not data:
            raise Closed
        return data

    def flush(self) -> None:
        """Write what is in ``outbox``.

        Raises:
            WouldBlock: the client must first take what is on the way.
            Closed: the client has gone.
        """
        while self.outbox:
            try:
                sent = self.sock.send(self.outbox)
            except (ssl.SSLWantWriteError, BlockingIOError):
                raise WouldBlock(for_write=True) from None
            except ssl.SSLWantReadError:
                raise WouldBlock(for_write=False) from None
            except (OSError, ValueError):
                raise Closed from None
            self.outbox = memoryview(self.outbox)[sent:]
        self.outbox = b""

    def half_close(self) -> None:
        """Tell the client that no more comes."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            raise Closed from None
