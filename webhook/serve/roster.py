"""The open connections of one listener: how many, how much memory they may hold, who must go when there is no room."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from webhook.serve.connection import Connection, Phase
from webhook.serve.limits import Limits

_SETTLED_SECONDS = 0.25
_FIRST_TO_GO = (Phase.HANDSHAKE, Phase.READING, Phase.UNUSED, Phase.LINGERING, Phase.WRITING)


class Roster:
    """Open connections by file descriptor. Methods may be called from any thread."""

    def __init__(self, limits: Limits, on_close: Callable[[str], None]) -> None:
        """Start empty; ``on_close`` gets a bounded word for each connection's end."""
        self._limits = limits
        self._on_close = on_close
        self._connections: dict[int, Connection] = {}
        self._budget = threading.Lock()
        self._reserved_bytes = 0

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    def get(self, fd: int) -> Connection | None:
        """Return the connection of ``fd``, or None where it has been closed."""
        return self._connections.get(fd)

    def all(self) -> list[Connection]:
        """Return the open connections of this moment."""
        return list(self._connections.values())

    def by_phase(self) -> Mapping[Phase, int]:
        """Return the number of open connections in each phase."""
        return Counter(connection.phase for connection in self.all())

    @property
    def has_room(self) -> bool:
        """Whether one more connection may be added."""
        return len(self._connections) < self._limits.max_connections

    def add(self, connection: Connection) -> None:
        """Take up a new connection."""
        self._connections[connection.fd] = connection

    def close(self, connection: Connection, reason: str) -> None:
        """Close a claimed connection and count why."""
        if self._connections.get(connection.fd) is not connection:
            return
        del self._connections[connection.fd]  # before the close: the number may be taken again at once
        self.release(connection)
        connection.inbox = bytearray()
        connection.outbox = b""
        try:
            connection.sock.close()
        except OSError:
            reason = "client"
        self._on_close(connection.ending or reason)

    def close_where(self, phases: Iterable[Phase], reason: str, *, unless_arrived: bool = False) -> None:
        """Close every connection that stands in one of ``phases`` and that no thread has claimed.

        With ``unless_arrived`` one on which something has arrived stays: a thread is about to take it up.
        """
        wanted = frozenset(phases)
        for connection in self.all():
            if connection.phase not in wanted:
                continue
            if connection.claim.acquire(blocking=False):
                try:
                    if connection.phase in wanted and not (unless_arrived and connection.has_arrived()):
                        self.close(connection, reason)
                finally:
                    connection.claim.release()

    def evict(self) -> bool:
        """Close a connection to make room for a new one. Return whether there was one to close.

        Who has never had an answer goes first, the oldest of them first: a flood of silent connections pushes out
        itself. Nothing younger than a quarter of a second goes, or a flood would push out callers that just came;
        and nobody who has had an answer, while there are such: the flood waits in the kernel's queue until they age.
        """
        if self._close_oldest(_FIRST_TO_GO, older_than_seconds=_SETTLED_SECONDS):
            return True
        if any(connection.phase in _FIRST_TO_GO for connection in self.all()):
            return False
        return self._close_oldest((Phase.IDLE,), older_than_seconds=_SETTLED_SECONDS)

    def reserve(self, connection: Connection, wanted_bytes: int) -> bool:
        """Set aside memory for a large request. Return whether there was room, if need be after closing a slow one."""
        return self._take(connection, wanted_bytes) or (
            self._close_oldest((Phase.READING,), older_than_seconds=1.0, with_reservation=True)
            and self._take(connection, wanted_bytes)
        )

    def release(self, connection: Connection) -> None:
        """Give back what ``reserve`` set aside, if anything."""
        if connection.reserved_bytes:
            with self._budget:
                self._reserved_bytes -= connection.reserved_bytes
                connection.reserved_bytes = 0

    def _take(self, connection: Connection, wanted_bytes: int) -> bool:
        with self._budget:
            if self._reserved_bytes + wanted_bytes > self._limits.reserved_bytes:
                return False
            self._reserved_bytes += wanted_bytes
            connection.reserved_bytes = wanted_bytes
            return True

    def _close_oldest(
        self, phases: tuple[Phase, ...], *, older_than_seconds: float, with_reservation: bool = False
    ) -> bool:
        before = time.monotonic() - older_than_seconds
        found = [
            connection
            for connection in self.all()
            if connection.phase in phases
            and connection.since < before
            and (connection.reserved_bytes or not with_reservation)
        ]
        for connection in sorted(found, key=lambda each: each.since):
            if not connection.claim.acquire(blocking=False):
                continue
            try:
                if connection.phase in phases and self._connections.get(connection.fd) is connection:
                    self.close(connection, "evicted")
                    return True
            finally:
                connection.claim.release()
        return False
