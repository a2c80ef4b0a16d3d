"""One request in bytes, one answer in bytes: gunicorn's parser and response around a WSGI application, without I/O."""

from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import WSGIApplication

from gunicorn.http import errors as http_errors
from gunicorn.http import wsgi
from gunicorn.http.parser import RequestParser

from webhook.edge.admission import RECEIVED

Address = tuple[str, int]

_STATUS_OF = (
    (http_errors.LimitRequestLine, "414 URI Too Long"),
    (http_errors.LimitRequestHeaders, "431 Request Header Fields Too Large"),
    (http_errors.UnsupportedTransferCoding, "501 Not Implemented"),
    (http_errors.ExpectationFailed, "417 Expectation Failed"),
)


def plain_answer(status: str, sentence: str) -> bytes:
    """Return a whole closing response of ``status`` (code and reason) with one plain sentence."""
    body = (sentence + "\n").encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body


class _Sink:
    """What gunicorn's response writes to instead of the socket: the answer leaves as one write, one TLS record."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.parts.append(data)

    def send(self, data: bytes) -> int:
        # Gunicorn sends nothing but "100 Continue" this way; the reactor has said that before the body came.
        return len(data)


class Exchange:
    """Answers whole requests by a WSGI application."""

    def __init__(self, config: Any, application: WSGIApplication, on_fault: Callable[[], None]) -> None:  # noqa: ANN401 - gunicorn's Config is untyped
        """Keep gunicorn's ``config``; ``on_fault`` is called inside the handler of an exception of ``application``."""
        self._config = config
        self._application = application
        self._on_fault = on_fault

    def answer(self, raw: bytes, *, peer: Address, server: Address, received: float, last: bool) -> tuple[bytes, bool]:
        """Return the response to the one request in ``raw`` and whether the connection may be used again.

        ``received`` is the monotonic clock in seconds when the last byte had arrived; ``last`` makes the response say
        ``Connection: close``. Never raises an ``Exception``.
        """
        sink = _Sink()
        try:
            parser = RequestParser(self._config, (raw,), peer)
            request = next(parser)
            response, environ = wsgi.create(request, sink, peer, server, self._config)
        except http_errors.ParseException as error:
            status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), "400 Bad Request")
            return plain_answer(status, "The request is not valid HTTP/1.1."), False
        except (StopIteration, http_errors.NoMoreData, ValueError):
            return plain_answer("400 Bad Request", "The request is not valid HTTP/1.1."), False
        environ["wsgi.multithread"] = True
        environ[RECEIVED] = received
        if last:
            response.force_close()
        try:
            self._write(self._application(environ, response.start_response), response)
        except http_errors.ParseException:  # a chunked body whose framing only the parser finds wrong
            return plain_answer("400 Bad Request", "The body is not valid HTTP/1.1."), False
        except Exception:  # noqa: BLE001 - the last door: whatever escaped becomes a 500, never a broken connection
            self._on_fault()
            return plain_answer("500 Internal Server Error", "The request met an internal fault."), False
        reusable = not response.should_close() and parser.finish_body() and not parser.unreader.take_buffered()
        return b"".join(sink.parts), reusable

    @staticmethod
    def _write(parts: Iterable[bytes], response: Any) -> None:  # noqa: ANN401 - gunicorn's Response is untyped
        try:
            for part in parts:
                response.write(part)
            response.close()
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()
