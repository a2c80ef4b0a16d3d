"""A thin client of the API server: who we are comes from the ``kubernetes`` package, bytes are decoded by orjson.

The package's own calls build a model object of each answer, 1 ms a pod; orjson takes 7 us (``DESIGN.md`` 7).
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

import orjson
import urllib3
import yaml
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as PoolTimeout

from webhook.cluster.errors import (
    BadAnswer,
    ClusterError,
    Forbidden,
    NotConfigured,
    TimedOut,
    Unavailable,
    rejection,
)

Query = Mapping[str, str | int | bool | None]
"""Parameters of a request; those that are None are left out."""
Json = dict[str, Any]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

CALL_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 3.0
POOLED_CONNECTIONS: Final = 16
"""Kept open: five feeds, the lease, the steering threads. More are opened and closed again as needed."""
ANSWER_BYTES: Final = 256 << 20
"""A larger answer is not ours: a page of 500 pods of the largest size etcd takes has 750 MB, real ones have 3."""
LINE_BYTES: Final = 16 << 20
"""A watch event is one object; etcd takes 1.5 MB, JSON text may be a few times that."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer's ``Date`` header said, and when it came by our monotonic clock."""

    moment: datetime
    """The API server's, UTC; in whole seconds, so that up to one second is missing."""
    monotonic_seconds: float


class Client:
    """Requests to one API server; every call may be made from any thread, and ends in time.

    Every method raises ``ClusterError`` and nothing else.
    """

    told: Told | None = None
    """The API server's clock, as of the last answer of any kind; None before the first."""

    def __init__(self, configuration: Configuration) -> None:
        """Speak to ``configuration.host`` with the identity in it; no connection is made yet."""
        configuration.connection_pool_maxsize = POOLED_CONNECTIONS
        configuration.retries = False
        self._configuration = configuration
        self._host = str(configuration.host).rstrip("/")
        self._pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        self._identity = threading.Lock()

    @staticmethod
    def from_environment(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> "Client":
        """Return a client of ``kubeconfig``; without one, by the pod's service account, else by the user's kubeconfig.

        Raises:
            NotConfigured: none of these is there, or it cannot be read.
        """
        configuration = Configuration()
        try:
            if kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=None if kubeconfig is None else os.fspath(kubeconfig),
                    context=context,
                    client_configuration=configuration,
                    persist_config=False,
                )
        except (ConfigException, OSError, ValueError, TypeError, LookupError, yaml.YAMLError) as error:
            raise NotConfigured(f"no access to a cluster is configured: {error}") from error
        return Client(configuration)

    @staticmethod
    def of_server(url: str) -> "Client":
        """Return a client of the server at ``url`` without any identity (``kubectl proxy``, a test's server)."""
        configuration = Configuration()
        configuration.host = url
        return Client(configuration)

    def get(self, path: str, query: Query | None = None, *, timeout_seconds: float = CALL_SECONDS) -> Json:
        """Return the JSON object at ``path``."""
        return self._call("GET", path, query, timeout_seconds=timeout_seconds)

    def post(
        self, path: str, body: object, *, query: Query | None = None, timeout_seconds: float = CALL_SECONDS
    ) -> Json:
        """Create ``body`` and return what is stored."""
        return self._call("POST", path, query, body=body, timeout_seconds=timeout_seconds)

    def put(
        self, path: str, body: object, *, query: Query | None = None, timeout_seconds: float = CALL_SECONDS
    ) -> Json:
        """Replace the object at ``path`` and return what is stored."""
        return self._call("PUT", path, query, body=body, timeout_seconds=timeout_seconds)

    def patch(
        self,
        path: str,
        body: object,
        content_type: str = MERGE_PATCH,
        *,
        query: Query | None = None,
        timeout_seconds: float = CALL_SECONDS,
    ) -> Json:
        """Change the object at ``path`` and return what is stored."""
        return self._call("PATCH", path, query, body=body, content_type=content_type, timeout_seconds=timeout_seconds)

    def delete(
        self, path: str, body: object = None, *, query: Query | None = None, timeout_seconds: float = CALL_SECONDS
    ) -> Json:
        """Remove the object at ``path``; ``body`` may be a DeleteOptions with preconditions."""
        return self._call("DELETE", path, query, body=body, timeout_seconds=timeout_seconds)

    def stream(self, path: str, query: Query | None = None, *, silence_seconds: float = 60.0) -> "LineStream":
        """Return the lines of an answer without end, such as a watch, as they come.

        Args:
            path: the resource, such as ``/api/v1/pods``.
            query: its parameters, ``watch`` included.
            silence_seconds: the stream ends with ``TimedOut`` when nothing has come for so long.
        """
        response = self._send("GET", path, query, silence_seconds=silence_seconds)
        if response.status >= 300:
            raise self._refusal(response, f"GET {path}", time.monotonic() + CALL_SECONDS)
        return LineStream(response, f"GET {path}")

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _call(
        self,
        method: str,
        path: str,
        query: Query | None,
        *,
        timeout_seconds: float,
        body: object = None,
        content_type: str = "application/json",
    ) -> Json:
        what = f"{method} {path}"
        deadline = time.monotonic() + timeout_seconds
        payload = None if body is None else orjson.dumps(body)
        response = self._send(
            method, path, query, silence_seconds=timeout_seconds, payload=payload, content_type=content_type
        )
        if response.status >= 300:
            raise self._refusal(response, what, deadline)
        raw = _whole(response, what, deadline)
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise BadAnswer(f"{what}: the answer is no JSON: {raw[:80]!r}") from error
        if not isinstance(answer, dict):
            raise BadAnswer(f"{what}: the answer is no JSON object: {raw[:80]!r}")
        return answer

    def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        *,
        silence_seconds: float,
        payload: bytes | None = None,
        content_type: str = "",
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": "numa-admission", **self._authorization()}
        if payload is not None:
            headers["Content-Type"] = content_type
        try:
            response = self._pool.request(
                method,
                f"{self._host}{path}{_encoded(query)}",
                body=payload,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, silence_seconds), read=silence_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            raise _broken(error, f"{method} {path}") from error
        moment = _moment(response.headers.get("Date", ""))
        if moment is not None:
            self.told = Told(moment, time.monotonic())
        return response

    def _authorization(self) -> dict[str, str]:
        # The package refreshes a token where it hands it out, without a lock of its own.
        try:
            with self._identity:
                settings = self._configuration.auth_settings()
        except (ConfigException, OSError, ValueError) as error:
            raise Forbidden(f"our token cannot be refreshed: {error}", status=401) from error
        bearer = settings.get("BearerToken")
        return {"Authorization": str(bearer["value"])} if bearer and bearer["value"] else {}

    def _refusal(self, response: urllib3.BaseHTTPResponse, what: str, deadline: float) -> ClusterError:
        raw = _whole(response, what, deadline)
        message, reason = raw[:200].decode(errors="replace"), ""
        try:
            status = orjson.loads(raw)
        except orjson.JSONDecodeError:
            status = None
        if isinstance(status, dict):
            message, reason = str(status.get("message") or message), str(status.get("reason") or "")
        wait = response.headers.get("Retry-After", "")
        return rejection(
            response.status, f"{what}: {response.status} {message}", reason, float(wait) if wait.isdigit() else 0.0
        )


class LineStream:
    """The lines of one endless answer; ``close`` may be called from another thread and ends the iteration."""

    def __init__(self, response: urllib3.BaseHTTPResponse, what: str) -> None:
        """Read from ``response``; ``what`` names the request in errors."""
        self._response = response
        self._what = what
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield each whole line without its end.

        Raises:
            TimedOut: nothing came for too long.
            Unavailable: the connection broke.
            BadAnswer: a line is far longer than any object.
        """
        rest: list[bytes] = []
        held = 0
        try:
            for piece in self._response.stream(1 << 16):
                *lines, tail = piece.split(b"\n")
                for line in lines:
                    yield b"".join((*rest, line))
                    rest.clear()
                    held = 0
                if tail:
                    rest.append(tail)
                    held += len(tail)
                    if held > LINE_BYTES:
                        raise BadAnswer(f"{self._what}: a line is longer than {LINE_BYTES} bytes")
        except (HTTPError, OSError, ValueError) as error:
            if not self._is_closed:
                raise _broken(error, self._what) from error
        finally:
            self._response.close()

    def __enter__(self) -> Self:
        """Return itself; it is closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the stream."""
        self.close()

    def close(self) -> None:
        """End the answer; whoever waits for its next line gets none."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._response.shutdown()  # wakes a thread that waits in recv; close alone does not
        except (HTTPError, OSError, ValueError, RuntimeError):
            self._response.close()


def _moment(date: str) -> datetime | None:
    """Return the moment of a ``Date`` header; None where it names none, or no zone."""
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None


def _encoded(query: Query | None) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if value is not None
    }
    return f"?{urlencode(given)}" if given else ""


def _whole(response: urllib3.BaseHTTPResponse, what: str, deadline: float) -> bytes:
    """Return the whole body and give the connection back; a server that drips is left at the deadline."""
    pieces: list[bytes] = []
    held = 0
    try:
        for piece in response.stream(1 << 20):
            pieces.append(piece)
            held += len(piece)
            if held > ANSWER_BYTES:
                response.close()
                raise BadAnswer(f"{what}: the answer is longer than {ANSWER_BYTES} bytes")
            if time.monotonic() > deadline:
                response.close()
                raise TimedOut(f"{what}: the answer did not end in time")
    except (HTTPError, OSError) as error:
        response.close()
        raise _broken(error, what) from error
    response.release_conn()
    return b"".join(pieces)


def _broken(error: Exception, what: str) -> ClusterError:
    # A refused connection is a connect time-out to urllib3's class tree; to us it is an answer of a kind.
    if isinstance(error, PoolTimeout | TimeoutError) and not isinstance(error, NewConnectionError):
        return TimedOut(f"{what}: {error}")
    return Unavailable(f"{what}: {error}")
