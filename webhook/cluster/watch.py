"""List, then watch, for ever: how a feed follows one kind of object through whatever happens to the API server.

What it lives through: pages whose continue token is too old, ``410 Gone``, a watch that ends, is cut, falls silent or
answers an error, an API server that restarts or is overloaded, credentials that do not suffice, a CRD that is missing
and one that disappears.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from webhook.cluster.client import Client, Json, LineStream, Query
from webhook.cluster.errors import BadAnswer, ClusterError, Gone, NotFound, Unanswered, rejection
from webhook.cluster.pulse import Pulse


class Receiver(Protocol):
    """Takes what one feed brings; called by the feed's thread alone. Items are JSON maps of the cluster's objects."""

    def list_begins(self) -> None:
        """A full list begins; what was received in one that did not end counts for nothing more than itself."""
        ...

    def listed(self, items: list[Any]) -> None:
        """Take one page of the list."""
        ...

    def list_ends(self) -> None:
        """The list is whole: what it did not hold is gone."""
        ...

    def changed(self, kind: str, item: Json) -> None:
        """Take one change; ``kind`` is ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        ...


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """The numbers of list and watch."""

    page_items: int = 100
    """100 pods are some 500 KB: decoding them holds the interpreter's lock for 1 to 2 ms (``DESIGN.md`` 7)."""
    page_seconds: float = 30.0
    silence_seconds: float = 90.0
    """The API server sends a bookmark about once a minute; a connection on which nothing comes for longer is dead."""
    shortest_watch_seconds: int = 300
    """After this or up to twice as long the API server ends the watch, so that load spreads over its replicas."""
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 10.0
    longest_away_pause_seconds: float = 1.0
    """While nobody answers at all: an API server that is back lets pods be created and bound at once, unseen by us
    until we ask, and a connection that is refused costs nobody anything."""
    absent_pause_seconds: float = 15.0
    """How often a missing CRD is looked for."""
    tries_before_list: int = 3
    """Watches in a row that brought nothing and failed: the version may be from another life of the store."""


class Watch:
    """One feed. ``run`` blocks until ``stop`` is called, from any thread."""

    def __init__(
        self,
        client: Client,
        path: str | Callable[[], str],
        receiver: Receiver,
        pulse: Pulse,
        *,
        may_be_absent: bool = False,
        limits: WatchLimits | None = None,
        pause: Callable[[float], object] | None = None,
        on_fault: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """Follow the objects at ``path``.

        Args:
            client: whom to ask.
            path: a list's path, such as ``/api/v1/pods``, or what finds it before each list (which version is served?).
            receiver: who takes what comes.
            pulse: told what is heard and what is lost.
            may_be_absent: whether the kind need not exist (its CRD): then 404 is an empty list, looked at again later.
            limits: time-outs and sizes.
            pause: waits so many seconds; ends early when the feed is stopped.
            on_fault: told of an exception that is none of the cluster's; the feed then lists anew.
        """
        self._client = client
        self._find = path if callable(path) else lambda: path
        self._path = "" if callable(path) else path
        self._may_be_absent = may_be_absent
        self._receiver = receiver
        self._pulse = pulse
        self._limits = limits or WatchLimits()
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait
        self._on_fault = on_fault
        self._version = ""
        """Where the watch resumes; empty: list first."""
        self._stream: LineStream | None = None
        self._jitter = random.Random()  # noqa: S311 - spreads retries, guards nothing

    def stop(self) -> None:
        """End the feed soon."""
        self._stopped.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def run(self) -> None:
        """Follow until stopped."""
        failures = answered_badly = 0
        while not self._stopped.is_set():
            before = self._version
            is_away = False
            try:
                self._step()
                failures = answered_badly = 0
                continue
            except NotFound as error:
                self._version = ""
                # A watch that is not found may only be of a version that is served no more: the list finds another.
                if self._may_be_absent and not before:
                    self._tell_absent(str(error))
                    self._pause(self._limits.absent_pause_seconds)
                    continue
                self._pulse.lost(error)
            except Gone as error:
                self._version = ""
                self._pulse.lost(error)
            except ClusterError as error:
                self._pulse.lost(error)
                # An API server that is away says nothing about our version; one that answers and fails may.
                is_away = isinstance(error, Unanswered) and getattr(error, "status", 0) == 0
                answered_badly += not is_away
            except Exception as error:  # noqa: BLE001 - a feed that dies unseen is worse than any fault
                self._version = ""
                self._pulse.lost(error)
                self._on_fault(error)
            if self._version and self._version != before:
                failures = answered_badly = 0
            failures += 1
            if answered_badly >= self._limits.tries_before_list:
                self._version = ""
            self._pause(self._pause_seconds(failures, is_away=is_away))

    def _step(self) -> None:
        """List if there is no version to resume from, then watch until that ends by itself."""
        if not self._version:
            self._list()
        if not self._stopped.is_set():
            self._watch()

    def _pause_seconds(self, failures: int, *, is_away: bool) -> float:
        doubled: float = self._limits.first_pause_seconds * (1 << min(failures - 1, 16))
        limit = self._limits.longest_away_pause_seconds if is_away else self._limits.longest_pause_seconds
        longest = min(limit, doubled)
        return longest * self._jitter.uniform(0.5, 1.0)

    def _tell_absent(self, why: str) -> None:
        if not self._pulse.state.is_absent:
            self._receiver.list_begins()
            self._receiver.list_ends()
        self._pulse.counts.objects = 0
        self._pulse.absent(why)

    def _list(self) -> None:
        self._path = self._find()
        self._receiver.list_begins()
        token: str | None = None
        count = 0
        while not self._stopped.is_set():
            page = self._client.get(
                self._path,
                {"limit": self._limits.page_items, "continue": token},
                timeout_seconds=self._limits.page_seconds,
            )
            metadata, items = page.get("metadata"), page.get("items")
            if not isinstance(metadata, dict) or not isinstance(items, (list, type(None))):
                raise BadAnswer(f"GET {self._path}: the answer is no list")
            self._pulse.heard()
            self._receiver.listed(items or [])
            count += len(items or [])
            token = metadata.get("continue") or None
            if token is None:
                version = metadata.get("resourceVersion")
                if not isinstance(version, str) or not version:
                    raise BadAnswer(f"GET {self._path}: the list has no resourceVersion")
                self._receiver.list_ends()
                self._version = version
                self._pulse.counts.objects = count
                self._pulse.listed()
                return

    def _watch(self) -> None:
        shortest = self._limits.shortest_watch_seconds
        query: Query = {
            "watch": True,
            "resourceVersion": self._version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": self._jitter.randint(shortest, 2 * shortest),
        }
        before = self._version
        with self._client.stream(self._path, query, silence_seconds=self._limits.silence_seconds) as stream:
            self._stream = stream
            try:
                if self._stopped.is_set():
                    return
                self._pulse.heard()
                self._pulse.counts.watches += 1
                for line in stream:
                    self._take(line)
            finally:
                self._stream = None
        if self._version == before and not self._stopped.is_set():
            # Not even the bookmark that ends a watch: pause as after a failure, or this could turn in circles.
            raise BadAnswer(f"GET {self._path}: the watch ended without a word")

    def _take(self, line: bytes) -> None:
        if not line:
            return
        try:
            event = orjson.loads(line)
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                raise _told(item, self._path)
            version = item["metadata"]["resourceVersion"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise BadAnswer(f"GET {self._path}: a line of the watch is no event: {line[:80]!r}") from error
        self._pulse.heard()
        counts = self._pulse.counts
        if kind != "BOOKMARK":
            self._receiver.changed(kind, item)
            counts.objects += (kind == "ADDED") - (kind == "DELETED")
        if kind in counts.events:
            counts.events[kind] += 1
        self._version = version


def _told(status: Any, path: str) -> ClusterError:  # noqa: ANN401 - any JSON value
    """Return the error that a Status object in a watch tells."""
    found = status if isinstance(status, dict) else {}
    code = found.get("code")
    message = f"watch {path}: {found.get('message') or 'an error without a message'}"
    return rejection(code if isinstance(code, int) else 500, message, str(found.get("reason") or ""))
