"""TCP relays on loopback: one that follows an EndpointSlice as kube-proxy would, one that can be cut."""

import contextlib
import socket
import threading
from collections.abc import Callable


class Relay:
    """Passes connections on to ``target()``; what is open stays open, wherever the target moves to."""

    def __init__(
        self, target: Callable[[], tuple[str, int] | None], address: tuple[str, int] = ("127.0.0.1", 0)
    ) -> None:
        """Listen on a free port, or where it is said."""
        self._target = target
        self._listener = socket.create_server(address)
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """From now on nothing passes, neither way, and nobody is told: connections are not closed."""
        self._is_cut = True

    def close(self) -> None:
        """Close everything."""
        self._listener.close()
        with self._lock:
            for each in self._open:
                each.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(caller)
            target = None if self._is_cut else self._target()
            if target is None:
                if not self._is_cut:
                    caller.close()
                continue
            try:
                called = socket.create_connection(target, timeout=5)
            except OSError:
                caller.close()
                continue
            called.settimeout(None)
            with self._lock:
                self._open.add(called)
            for source, sink in ((caller, called), (called, caller)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._is_cut:
                    continue
                sink.sendall(data)
        if not self._is_cut:
            for each in (source, sink):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
