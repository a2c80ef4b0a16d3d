"""What can go wrong between us and the API server.

ClusterError
├── NotConfigured        no kubeconfig, no service account: nobody to ask
├── Unanswered           nobody knows whether the request was carried out; ask again later
│   ├── Unavailable      refused, reset, cut off; 429 and 5xx
│   └── TimedOut         no answer, or no whole one, in time
├── Rejected             the API server answered with another status (400, 422, ...)
│   ├── NotFound         404: no such object, or no such resource (its CRD is missing)
│   ├── Conflict         409: another resourceVersion, or it exists already (``reason`` tells which)
│   ├── Gone             410: the resourceVersion or the continue token is too old
│   └── Forbidden        401, 403
└── BadAnswer            an answer that is no JSON object
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# ruff: noqa: N818 - the names say what happened; the tree above says that they are errors


class ClusterError(Exception):
    """Anything below; the message names the request."""


class NotConfigured(ClusterError):
    """Neither a kubeconfig nor a service account is there, or it cannot be used."""


class Unanswered(ClusterError):
    """Nobody knows whether the request was carried out."""


class Unavailable(Unanswered):
    """The connection failed, or the API server is overloaded, starting or broken."""

    def __init__(self, message: str, *, status: int = 0, retry_after_seconds: float = 0.0) -> None:
        """Keep the HTTP ``status`` (0: there was no answer) and how long the server asks us to wait."""
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class TimedOut(Unanswered):
    """No answer, or no whole one, came in time."""


class Rejected(ClusterError):
    """The API server understood the request and does not do it."""

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        """Keep the HTTP ``status`` and the ``reason`` of the Status object, such as ``AlreadyExists``."""
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFound(Rejected):
    """There is no such object, or no such resource."""


class Conflict(Rejected):
    """The object has changed since, or exists already: ``reason`` is ``Conflict`` or ``AlreadyExists``."""


class Gone(Rejected):
    """The resource version or the continue token is too old: list again."""


class Forbidden(Rejected):
    """Our credentials are not accepted (401) or do not allow this (403)."""


class BadAnswer(ClusterError):
    """What came back is no JSON object, or not of the expected shape."""


REJECTIONS: Final[Mapping[int, type[Rejected]]] = MappingProxyType(
    {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone}
)
"""Statuses with an error of their own."""


def rejection(status: int, message: str, reason: str = "", retry_after_seconds: float = 0.0) -> ClusterError:
    """Return the error that an answer with HTTP ``status`` of 300 or more is."""
    if status == 429 or status >= 500:
        return Unavailable(message, status=status, retry_after_seconds=retry_after_seconds)
    return REJECTIONS.get(status, Rejected)(message, status=status, reason=reason)
