"""A small API server on loopback that lists in pages and lets itself be watched, and that fails as real ones do.

It speaks HTTP/1.1: chunked watches, bookmarks, 410 for old versions and old continue tokens, cut connections, 503,
silence, a restart that forgets its history.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson


@dataclass
class Change:
    """One change of one collection."""

    path: str
    version: int
    line: bytes


@dataclass
class FakeApi:
    """Collections of objects by list path. The methods may be called from any thread."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    status: int = 0
    """Every request is answered with it; 0: as usual."""
    is_silent: bool = False
    """Lists and watches are accepted and never answered."""
    gone_as_status: bool = False
    """An old version is told by HTTP 410; else, as the watch cache does, by an ERROR event after 200."""
    other_answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers by path for what is no list."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    version: int = 1000
    oldest: int = 0
    history: list[Change] = field(default_factory=list)
    life: int = 0
    """Grows when all connections are cut."""
    bookmarks: int = 0
    pages: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)
    watching: dict[str, int] = field(default_factory=dict)
    """Open watches by path."""
    watches: dict[str, int] = field(default_factory=dict)
    """How many watches of a path were opened so far, those that have ended too."""

    def serve(self, path: str) -> None:
        """Let the kind at ``path`` exist, with no object yet."""
        with self.changed:
            self.objects.setdefault(path, {})

    def put(self, path: str, item: dict[str, Any]) -> int:
        """Store ``item``; return its version."""
        with self.changed:
            known = self.objects.setdefault(path, {})
            key = _key(item)
            self.version += 1
            stored = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
            self._happened(path, "MODIFIED" if key in known else "ADDED", stored)
            known[key] = stored
            return self.version

    def delete(self, path: str, name: str, namespace: str = "") -> None:
        """Remove an object."""
        with self.changed:
            self.version += 1
            item = self.objects[path].pop(f"{namespace}/{name}")
            gone = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
            self._happened(path, "DELETED", gone)

    def remove_kind(self, path: str) -> None:
        """Let the kind be unknown: its CRD is removed."""
        with self.changed:
            self.objects.pop(path, None)
            self.life += 1
            self.changed.notify_all()

    def send_line(self, path: str, line: bytes) -> None:
        """Send whatever it is to those who watch ``path``."""
        with self.changed:
            self.version += 1
            self.history.append(Change(path, self.version, line))
            self.changed.notify_all()

    def bookmark(self) -> None:
        """Send a bookmark to everybody who watches."""
        with self.changed:
            self.bookmarks += 1
            self.changed.notify_all()

    def cut(self) -> None:
        """Cut every open watch in the middle of a chunk."""
        with self.changed:
            self.life += 1
            self.changed.notify_all()

    def forget_history(self) -> None:
        """Know nothing of older versions and continue tokens any more."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.history.clear()
            self.pages.clear()

    def wait_until(self, condition: Callable[[], bool], *, within_seconds: float = 10.0) -> None:
        """Wait, woken by every request and change, until ``condition`` holds."""
        with self.changed:
            if not self.changed.wait_for(condition, within_seconds):
                raise AssertionError(f"it did not come to pass; asked so far: {self.requests[-20:]}")

    def _happened(self, path: str, kind: str, item: dict[str, Any]) -> None:
        line = orjson.dumps({"type": kind, "object": item})
        self.history.append(Change(path, int(item["metadata"]["resourceVersion"]), line))
        self.changed.notify_all()

    # --- answers ---

    def page(self, path: str, limit: int, token: str) -> tuple[int, dict[str, Any]]:
        """Return status and body of one page of a list."""
        with self.changed:
            if path in self.other_answers:
                return 200, self.other_answers[path]
            if path not in self.objects:
                return 404, _status(404, "NotFound", "the server could not find the requested resource")
            if token and token not in self.pages:
                return 410, _status(410, "Expired", "The provided continue parameter is too old")
            version, left = self.pages.pop(token) if token else (self.version, list(self.objects[path].values()))
            items, left = (left[:limit], left[limit:]) if limit else (left, [])
            metadata: dict[str, Any] = {"resourceVersion": str(version)}
            if left:
                metadata["continue"] = f"{version}-{len(left)}"
                self.pages[metadata["continue"]] = (version, left)
            return 200, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}

    def lines(self, path: str, version: int) -> Iterator[bytes | None]:
        """Yield the lines of a watch; None ends it in the middle of a chunk."""
        with self.changed:
            life, marks = self.life, self.bookmarks
            position = 0
            if version < self.oldest:
                error = _status(410, "Expired", f"too old resource version: {version} ({self.oldest})")
                yield orjson.dumps({"type": "ERROR", "object": error})
                return
            while True:
                while position < len(self.history):
                    change = self.history[position]
                    position += 1
                    if change.path == path and change.version > version:
                        yield change.line
                if self.life != life:
                    yield None
                    return
                if self.bookmarks != marks:
                    marks = self.bookmarks
                    mark = {"kind": "X", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}}
                    yield orjson.dumps({"type": "BOOKMARK", "object": mark})
                    continue
                before = len(self.history)
                self.changed.wait(30)
                if len(self.history) < before:
                    position = 0


def _key(item: dict[str, Any]) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that went away."""


@contextmanager
def fake_api(port: int = 0, api: FakeApi | None = None) -> Iterator[tuple[FakeApi, str]]:
    """Yield the API and its URL; it is cut and closed when the block ends."""
    api = api or FakeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            with api.changed:
                api.requests.append(self.path)
                api.changed.notify_all()
                if api.is_silent:
                    api.changed.wait_for(lambda: not api.is_silent, 30)
            if api.status:
                self._answer(api.status, _status(api.status, "Failing", "failing"))
            elif query.get("watch") == "true":
                self._watch(url.path, int(query.get("resourceVersion") or 0))
            else:
                self._answer(*api.page(url.path, int(query.get("limit") or 0), query.get("continue", "")))

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            raw = orjson.dumps(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def _watch(self, path: str, version: int) -> None:
            if path not in api.objects:
                self._answer(404, _status(404, "NotFound", "no such resource"))
                return
            if api.gone_as_status and version < api.oldest:
                self._answer(410, _status(410, "Expired", "too old resource version"))
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with api.changed:
                api.watching[path] = api.watching.get(path, 0) + 1
                api.watches[path] = api.watches.get(path, 0) + 1
                api.changed.notify_all()
            try:
                for line in api.lines(path, version):
                    if line is None:
                        self.wfile.write(b'ff\r\n{"type":')
                        break
                    self.wfile.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line))
                else:
                    self.wfile.write(b"0\r\n\r\n")
            finally:
                with api.changed:
                    api.watching[path] -= 1
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        api.is_silent = False
        api.cut()
        server.shutdown()
        thread.join(10)
        server.server_close()
