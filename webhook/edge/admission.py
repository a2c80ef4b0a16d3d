"""The admission calls as a WSGI application in front of Flask's.

Why not Flask views: routing, request and response objects and the context of a Flask call cost about 0.19 ms of the
0.35 ms that an empty handler takes on this server, and four fixed paths need none of it. What is not an admission call
goes on to Flask.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from webhook.core.decisions import Endpoint
from webhook.service.admit import CallError, Corridor

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MAX_BODY_BYTES: Final = 8 << 20
RECEIVED: Final = "numa.received"
"""Set by our worker: the monotonic clock in seconds when the call's last byte had arrived."""

_JSON: Final = "application/json"
_PATHS: Final = {f"/{endpoint.value}": endpoint for endpoint in Endpoint}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:h|ms|us|ns|m|s))+")
_DURATION_PART: Final = re.compile(r"([0-9.]+)(h|ms|us|ns|m|s)")
_UNIT_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_REASONS: Final = {
    400: "Bad Request",
    405: "Method Not Allowed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    500: "Internal Server Error",
    504: "Gateway Timeout",
}


class _Refused(Exception):  # noqa: N818 - a call that is refused, not a fault
    """The call is broken before its body is looked at."""

    def __init__(self, status_code: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status_code = status_code
        self.reason = reason


class AdmissionDoor:
    """Answers ``POST`` on the paths of the corridor's endpoints; everything else is for ``fallback``."""

    def __init__(self, corridor: Corridor, fallback: "WSGIApplication") -> None:
        """Keep the corridor and what answers other paths."""
        self._corridor = corridor
        self._fallback = fallback
        self._endpoints = {path: endpoint for path, endpoint in _PATHS.items() if endpoint in corridor.doors}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one call (PEP 3333)."""
        endpoint = self._endpoints.get(environ["PATH_INFO"])
        if endpoint is None:
            return self._fallback(environ, start_response)
        try:
            reply = self._answer(endpoint, environ)
        except (_Refused, CallError) as error:
            self._corridor.meters.bad_call(endpoint.value, error.reason)
            body = _plain(error.status_code, str(error), start_response)
            return () if environ["REQUEST_METHOD"] == "HEAD" else body
        start_response("200 OK", [("Content-Type", _JSON), ("Content-Length", str(len(reply)))])
        return (reply,)

    def _answer(self, endpoint: Endpoint, environ: "WSGIEnvironment") -> bytes:
        if environ["REQUEST_METHOD"] != "POST":
            raise _Refused(405, "method", "Admission reviews are sent by POST.")
        body = _body(environ)
        return self._corridor.answer(
            endpoint,
            body,
            received_seconds=environ.get(RECEIVED) or self._corridor.clock.monotonic_seconds(),
            timeout_seconds=timeout_seconds(environ.get("QUERY_STRING", "")),
        )


def timeout_seconds(query: str) -> float | None:
    """Return the ``timeout`` parameter of ``query``, a duration as Go prints it, in seconds.

    None where there is none, or it is none, or zero: then our own time-out counts.
    """
    for part in query.split("&"):
        name, _, text = part.partition("=")
        if name == "timeout" and _DURATION.fullmatch(text):
            try:
                return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text)) or None
            except ValueError:
                return None
    return None


def _body(environ: "WSGIEnvironment") -> bytes:
    media_type = environ.get("CONTENT_TYPE", "")
    if media_type != _JSON and media_type.partition(";")[0].strip().lower() != _JSON:
        raise _Refused(415, "media_type", f"The content type must be {_JSON}.")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise _Refused(415, "encoding", "The body must not be encoded (Content-Encoding).")
    length = environ.get("CONTENT_LENGTH") or ""
    if length:
        if not (length.isascii() and length.isdigit()):
            raise _Refused(400, "length", "Content-Length is not a number.")
        wanted = int(length[:20])
    elif environ.get("wsgi.input_terminated"):
        wanted = MAX_BODY_BYTES + 1
    else:
        wanted = 0
    if wanted > MAX_BODY_BYTES and length:
        raise _too_large()
    body: bytes = environ["wsgi.input"].read(wanted)
    if len(body) > MAX_BODY_BYTES:
        raise _too_large()
    if length and len(body) < wanted:
        raise _Refused(400, "length", f"The body ended after {len(body)} of {wanted} bytes.")
    return body


def _too_large() -> _Refused:
    return _Refused(413, "too_large", f"The body is larger than {MAX_BODY_BYTES} bytes.")


def _plain(status_code: int, sentence: str, start_response: "StartResponse") -> Iterable[bytes]:
    body = (sentence + "\n").encode("utf-8", "backslashreplace")
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if status_code == 405:
        headers.append(("Allow", "POST"))
    start_response(f"{status_code} {_REASONS[status_code]}", headers)
    return (body,)
