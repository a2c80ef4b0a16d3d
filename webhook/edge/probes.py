"""Probes and metrics: a WSGI application of its own for the probe port, without Flask, so that it stays small."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from webhook.service.health import Health
from webhook.service.meters import CONTENT_TYPE, Meters

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_PLAIN = "text/plain; charset=utf-8"


class Probes:
    """``/livez`` and ``/readyz`` (200 ``ok``, or 503 and why not, a sentence a line), and ``/metrics``."""

    def __init__(self, health: Health, meters: Meters) -> None:
        """Keep what is asked."""
        self._health = health
        self._meters = meters

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one call (PEP 3333)."""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            status, kind, body = "405 Method Not Allowed", _PLAIN, b"Probes are asked by GET.\n"
        else:
            status, kind, body = self._answer(environ["PATH_INFO"])
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return () if environ["REQUEST_METHOD"] == "HEAD" else (body,)

    def _answer(self, path: str) -> tuple[str, str, bytes]:
        if path == "/livez":
            return _state(self._health.why_not_alive())
        if path == "/readyz":
            return _state(self._health.why_not_ready())
        if path == "/metrics":
            return "200 OK", CONTENT_TYPE, self._meters.render()
        return "404 Not Found", _PLAIN, b"Here are /livez, /readyz and /metrics.\n"


def _state(reasons: tuple[str, ...]) -> tuple[str, str, bytes]:
    if not reasons:
        return "200 OK", _PLAIN, b"ok\n"
    return "503 Service Unavailable", _PLAIN, ("\n".join(reasons) + "\n").encode()
