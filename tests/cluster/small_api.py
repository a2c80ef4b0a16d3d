"""A small API server on loopback: objects with resource versions, preconditions, nothing else. It speaks HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SmallApi:
    """Objects by path, changed by POST, PUT, merge PATCH and DELETE; every change has a new resource version."""

    def __init__(self) -> None:
        """Start empty."""
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.failing: int = 0
        """A status that every call is answered with; 0: none."""
        self._version = 100
        self._lock = threading.Lock()

    def store(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Put an object there, as another client would."""
        with self._lock:
            return self._stored(path, body)

    def _stored(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        metadata = {"uid": f"uid-{path}", **body.get("metadata", {}), "resourceVersion": str(self._version)}
        self.objects[path] = {**body, "metadata": metadata}
        return self.objects[path]

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """The status and the object."""
        with self._lock:
            self.calls.append((method, path))
            if self.failing:
                return self.failing, {"message": "failing"}
            if method == "POST":
                path = f"{path}/{body['metadata']['name']}"
                if path in self.objects:
                    return 409, {"reason": "AlreadyExists", "message": "exists"}
                return 201, self._stored(path, body)
            target = path.removesuffix("/status")
            old = self.objects.get(target)
            if old is None:
                return 404, {"message": "not found"}
            if method == "GET":
                return 200, old
            given = (body or {}).get("preconditions") or (body or {}).get("metadata") or {}
            for key in ("uid", "resourceVersion"):
                if given.get(key) and given[key] != old["metadata"][key]:
                    return 409, {"reason": "Conflict", "message": key}
            if method == "DELETE":
                del self.objects[target]
                return 200, old
            if method == "PATCH":
                body = {**old, "status": {**old.get("status", {}), **body["status"]}}
            return 200, self._stored(target, body)


@contextmanager
def small_api() -> Iterator[tuple[SmallApi, str]]:
    """The server and its URL, until the block ends."""
    api = SmallApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = api.answer(self.command, self.path, body)
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
