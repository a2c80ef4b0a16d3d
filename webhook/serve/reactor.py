"""A listener's threads and connections: no thread ever waits for a client, whatever the client does.

Every thread waits on one epoll set. A connection is armed for one event at a time (EPOLLONESHOT); the thread that
gets the event takes the connection's claim, goes on as far as the bytes at hand allow - handshake, read, decide,
write - and arms it again. A request reaches the application when its last byte is here. The worker's main thread
calls ``sweep`` a few times a second to close what has outlasted its phase's bound. Measurements: ``DECISIONS.md``.
"""

import enum
import errno
import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from webhook.serve.connection import Closed, Connection, Phase, WouldBlock
from webhook.serve.exchange import Exchange, plain_answer
from webhook.serve.framing import FramingError
from webhook.serve.limits import Limits
from webhook.serve.roster import Roster

_ACCEPTS_IN_A_ROW = 64
_DISCARDS_IN_A_ROW = 16
_READ = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
_WRITE = select.EPOLLOUT | select.EPOLLONESHOT
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_EXPIRED = {
    Phase.HANDSHAKE: "slow_handshake",
    Phase.READING: "slow_request",
    Phase.WRITING: "slow_reader",
    Phase.LINGERING: "finished",
    Phase.UNUSED: "idle",
    Phase.IDLE: "idle",
}


class _Next(enum.Enum):
    """What a connection waits for when a thread leaves it."""

    READABLE = enum.auto()
    WRITABLE = enum.auto()
    QUEUED = enum.auto()
    """Its turn among the large requests; it stays claimed."""
    CLOSED = enum.auto()


class TlsContexts(Protocol):
    """Gives the TLS context for the next connection, so that a rotated certificate is used without a restart."""

    def context(self) -> ssl.SSLContext:
        """Return the current server context."""
        ...


class Reactor:
    """Serves one listening socket by an ``Exchange`` with a fixed number of threads."""

    def __init__(
        self,
        listener: socket.socket,
        exchange: Exchange,
        limits: Limits,
        *,
        tls: TlsContexts | None = None,
        on_close: Callable[[str], None] = lambda _reason: None,
        on_fault: Callable[[], None] = lambda: None,
        keeps_connections: Callable[[], bool] = lambda: True,
        name: str = "admission",
    ) -> None:
        """Prepare; ``start`` begins to serve.

        ``on_close`` gets a bounded word for each connection's end; ``on_fault`` is called inside the handler of an
        exception that is a fault of ours; while ``keeps_connections`` says no, every answer is its connection's last.
        """
        self._listener = listener
        self._server = listener.getsockname()[:2]
        self._exchange = exchange
        self._limits = limits
        self._tls = tls
        self._on_fault = on_fault
        self._keeps_connections = keeps_connections
        self._name = name
        self._epoll = select.epoll()
        self.roster = Roster(limits, on_close)
        self._heavy: deque[Connection] = deque()
        self._heavy_lane = threading.Lock()
        self._busy_since: dict[int, float] = {}
        self._threads: list[threading.Thread] = []
        self._is_accepting = False
        self._is_draining = False
        self._is_stopped = False
        self._stop_read, self._stop_write = os.pipe()

    def start(self) -> None:
        """Start the threads (after a fork: threads do not survive one)."""
        self._listener.setblocking(False)
        self._epoll.register(self._stop_read, select.EPOLLIN)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN | select.EPOLLONESHOT)
        self._is_accepting = True
        for number in range(self._limits.threads):
            thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def drain(self) -> None:
        """Make every answer from now on the last one of its connection; new connections are still accepted."""
        self._is_draining = True

    def stop_accepting(self) -> None:
        """Close the listener here; connections are refused once every process has done so."""
        self._is_accepting = False
        try:
            self._epoll.unregister(self._listener.fileno())
        except (OSError, ValueError):
            return
        finally:
            self._listener.close()

    def close_idle(self) -> None:
        """Close the connections on which nothing goes on; a request that has arrived is answered.

        A client never repeats a POST that meets a closing connection: the API server would count it as our failure.
        """
        phases = (Phase.IDLE, Phase.UNUSED, Phase.HANDSHAKE)
        self.roster.close_where(phases, "drained", unless_arrived=True)

    def stop(self) -> None:
        """End the threads once they have finished what they do, and close every connection."""
        self._is_stopped = True
        os.write(self._stop_write, b"x")
        for thread in self._threads:
            thread.join(timeout=1.0)
        self.roster.close_where(Phase, "stopped")

    def stuck_seconds(self) -> float:
        """Return for how long every thread has been busy with one event; 0 while one is free."""
        busy = list(self._busy_since.values())
        return time.monotonic() - max(busy) if len(busy) >= self._limits.threads else 0.0

    def sweep(self) -> None:
        """Close connections whose phase has outlasted its bound, and take up accepting again."""
        now = time.monotonic()
        for connection in self.roster.all():
            if connection.deadline > now or not connection.claim.acquire(blocking=False):
                continue
            following = _Next.CLOSED
            try:
                if connection.deadline <= now and connection.phase in _EXPIRED:
                    following = self._expire(connection)
            finally:
                self._give_back(connection, following)
        if self._is_accepting:
            self._arm_listener()

    # The threads.

    def _run(self) -> None:
        listener = self._listener.fileno()
        me = threading.get_ident()
        while not self._is_stopped:
            for fd, _event in self._epoll.poll(-1, 1):
                self._busy_since[me] = time.monotonic()
                try:
                    if fd == listener:
                        self._accept()
                    else:
                        self._attend(fd)
                except Exception:  # noqa: BLE001 - a thread must not be lost, whatever happens to one connection
                    self._on_fault()
                finally:
                    del self._busy_since[me]

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_IN_A_ROW):
            if not self.roster.has_room and not self.roster.evict():
                return  # the next sweep arms the listener again: no spinning meanwhile
            try:
                sock, peer = self._listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if not self._is_accepting or (error.errno in _OUT_OF_FILES and not self.roster.evict()):
                    return
                continue  # that client gave up before it was accepted, or there is room now
            self._welcome(sock, peer)
        self._arm_listener()

    def _welcome(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.context().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):
            sock.close()
            return
        now = time.monotonic()
        connection = Connection(sock, peer[:2], self._limits, now)
        if self._tls is None:
            connection.enter(Phase.UNUSED, now, self._limits.keepalive_seconds)
        self.roster.add(connection)
        self._epoll.register(connection.fd, _READ)

    def _attend(self, fd: int) -> None:
        connection = self.roster.get(fd)
        if connection is None or not connection.claim.acquire(blocking=False):
            # Gone, or another thread has it and will arm it again, whereupon the event comes again.
            return
        if self._advance(connection) is _Next.QUEUED:
            self._run_heavy_lane()

    def _advance(self, connection: Connection) -> _Next:
        """Go on with a claimed connection as far as possible without waiting; then release the claim and arm it."""
        following = _Next.CLOSED
        try:
            following = self._step(connection)
        except WouldBlock as wait:
            following = _Next.WRITABLE if wait.for_write else _Next.READABLE
        except Closed:
            self.roster.close(connection, "client")
        except FramingError as error:
            following = self._refuse(connection, plain_answer(error.status, error.sentence), "unreadable")
        except ssl.SSLError as error:
            if error.reason == "HTTP_REQUEST":
                self._refuse_plain_http(connection)
            self.roster.close(connection, "tls")
        except BaseException:
            self.roster.close(connection, "fault")
            raise
        finally:
            if following is not _Next.QUEUED:
                self._give_back(connection, following)
        return following

    def _give_back(self, connection: Connection, following: _Next) -> None:
        """Release the claim and then arm: an event that finds the connection claimed would be lost."""
        fd = connection.fd
        connection.claim.release()
        if following is not _Next.CLOSED:
            try:
                self._epoll.modify(fd, _WRITE if following is _Next.WRITABLE else _READ)
            except (OSError, ValueError):
                return  # the sweep has closed it meanwhile

    def _step(self, connection: Connection) -> _Next:
        if connection.phase is Phase.HANDSHAKE:
            connection.handshake()
            connection.enter(Phase.UNUSED, time.monotonic(), self._limits.keepalive_seconds)
        elif connection.phase is Phase.WRITING:
            self._write(connection)
        elif connection.phase is Phase.QUEUED:
            end = connection.framing.end(connection.inbox)
            assert end is not None  # noqa: S101 - it was complete when it was queued
            self._serve(connection, end)
        elif connection.phase is Phase.LINGERING:
            self._discard(connection)
        for _ in range(self._limits.max_pipelined):
            if connection.phase is Phase.LINGERING:
                break
            end = self._read_request(connection)
            if end > self._limits.heavy_body_bytes:
                connection.phase = Phase.QUEUED
                self._heavy.append(connection)
                return _Next.QUEUED
            self._serve(connection, end)
            if not connection.has_input:
                break
        # Where more input waits others come first: a writable socket reports at once, at the end of the line.
        return _Next.WRITABLE if connection.has_input else _Next.READABLE

    def _read_request(self, connection: Connection) -> int:
        framing, inbox = connection.framing, connection.inbox
        if inbox and connection.phase is not Phase.READING:
            connection.enter(Phase.READING, time.monotonic(), self._limits.request_seconds)
        while True:
            had_head = framing.has_head
            if inbox and (end := framing.end(inbox)) is not None:
                connection.received = time.monotonic()
                return end
            if framing.has_head and not had_head:
                self._promise(connection)
            inbox += connection.receive()
            if connection.phase is not Phase.READING:
                connection.enter(Phase.READING, time.monotonic(), self._limits.request_seconds)

    def _promise(self, connection: Connection) -> None:
        """A head is here and its body is not: set room aside for it, and tell a client that asked to send it."""
        framing = connection.framing
        wanted = self._limits.max_body_bytes if framing.is_chunked else framing.body_bytes or 0
        if wanted > self._limits.small_body_bytes and not self.roster.reserve(connection, wanted):
            raise FramingError("503 Service Unavailable", "Too many large requests are being read.")
        if framing.expects_continue:
            connection.outbox = b"HTTP/1.1 100 Continue\r\n\r\n"
            try:
                connection.flush()
            except WouldBlock:
                raise Closed from None  # 25 bytes do not fit: the client takes no answers

    def _serve(self, connection: Connection, end: int) -> None:
        connection.phase = Phase.SERVING
        raw = bytes(memoryview(connection.inbox)[:end])
        # A new buffer: one that was large would stay so for as long as the connection is idle.
        connection.inbox = connection.inbox[end:]
        connection.framing.restart()
        answer, is_reusable = self._exchange.answer(
            raw,
            peer=connection.peer,
            server=self._server,
            received=connection.received,
            last=self._is_draining or not self._keeps_connections(),
        )
        self.roster.release(connection)
        connection.outbox = answer
        connection.last_answer = not is_reusable
        connection.enter(Phase.WRITING, time.monotonic(), self._limits.write_seconds)
        self._write(connection)

    def _write(self, connection: Connection) -> None:
        connection.flush()
        if connection.last_answer:
            connection.half_close()
            connection.inbox.clear()
            connection.enter(Phase.LINGERING, time.monotonic(), self._limits.linger_seconds)
            self._discard(connection)
        else:
            connection.enter(Phase.IDLE, time.monotonic(), self._limits.keepalive_seconds)

    def _discard(self, connection: Connection) -> None:
        connection.ending = connection.ending or "finished"
        for _ in range(_DISCARDS_IN_A_ROW):
            connection.receive()

    def _run_heavy_lane(self) -> None:
        """Decide the waiting large requests one after the other; whoever holds the lane does it for all."""
        while self._heavy and self._heavy_lane.acquire(blocking=False):
            try:
                while self._heavy:
                    self._advance(self._heavy.popleft())
            finally:
                self._heavy_lane.release()

    def _arm_listener(self) -> None:
        try:
            self._epoll.modify(self._listener.fileno(), select.EPOLLIN | select.EPOLLONESHOT)
        except (OSError, ValueError):  # closed by stop_accepting
            return

    # Ends.

    def _expire(self, connection: Connection) -> _Next:
        reason = _EXPIRED[connection.phase]
        if connection.phase in (Phase.IDLE, Phase.UNUSED) and connection.has_arrived():
            return _Next.READABLE  # its next request came just before its time was over
        if connection.phase is Phase.READING:
            seconds = self._limits.request_seconds
            sentence = f"The request was not complete {seconds:g} seconds after its first byte."
            return self._refuse(connection, plain_answer("408 Request Timeout", sentence), reason)
        self.roster.close(connection, reason)
        return _Next.CLOSED

    def _refuse(self, connection: Connection, answer: bytes, reason: str) -> _Next:
        """Answer a request that cannot be read and end the connection, without waiting for the client."""
        self.roster.release(connection)
        connection.outbox = answer
        connection.last_answer = True
        connection.ending = reason
        connection.enter(Phase.WRITING, time.monotonic(), self._limits.linger_seconds)
        try:
            self._write(connection)
        except WouldBlock as wait:
            return _Next.WRITABLE if wait.for_write else _Next.READABLE
        except Closed:
            self.roster.close(connection, reason)
            return _Next.CLOSED
        return _Next.READABLE

    def _refuse_plain_http(self, connection: Connection) -> None:
        """Tell a client that speaks plain HTTP to the TLS port what is wrong, as Go's server does."""
        connection.ending = "plain_http"
        answer = plain_answer("400 Bad Request", "This port speaks HTTPS, and the request came as plain HTTP.")
        try:
            with socket.socket(fileno=os.dup(connection.fd)) as raw:
                raw.setblocking(False)
                raw.send(answer)
                raw.shutdown(socket.SHUT_WR)
                raw.recv(65536)  # what is left unread would turn the close into a reset
        except OSError:
            return
