"""What is known about one feed: has it listed, is it there at all, when was it last heard."""

import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from webhook.cluster.errors import (
    BadAnswer,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    Rejected,
    TimedOut,
    Unavailable,
)


@dataclass(frozen=True, slots=True)
class PulseState:
    """One moment of a feed; monotonic seconds."""

    has_listed: bool = False
    """A full list has been taken, at any time before."""
    is_absent: bool = False
    """The API server does not know the kind (its CRD is missing)."""
    heard_seconds: float = 0.0
    """When the API server last said anything on it."""
    lost_since_seconds: float | None = None
    """Since when nothing works; None while it does."""
    why_lost: str = ""
    lists: int = 0
    """Full lists so far."""
    losses: int = 0
    """Times that it was lost so far."""


class Loss(enum.Enum):
    """Why a feed was lost: a closed list, for counters."""

    GONE = "gone"
    """410: the version is too old, a full list follows."""
    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    UNAVAILABLE = "unavailable"
    """Refused, reset, cut off, 429 or 5xx."""
    TIMED_OUT = "timed_out"
    BAD_ANSWER = "bad_answer"
    """Nothing that can be read, or a watch that ended without a word."""
    REJECTED = "rejected"
    FAULT = "fault"
    """An error of ours."""

    @staticmethod
    def of(error: Exception) -> "Loss":
        """Return what ``error`` counts as."""
        return next((loss for kind, loss in _LOSSES if isinstance(error, kind)), Loss.FAULT)


_LOSSES: tuple[tuple[type[Exception], Loss], ...] = (
    (Gone, Loss.GONE),
    (NotFound, Loss.NOT_FOUND),
    (Forbidden, Loss.FORBIDDEN),
    (Unavailable, Loss.UNAVAILABLE),
    (TimedOut, Loss.TIMED_OUT),
    (BadAnswer, Loss.BAD_ANSWER),
    (Conflict, Loss.REJECTED),
    (Rejected, Loss.REJECTED),
)

EVENT_KINDS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


@dataclass(slots=True)
class FeedCounts:
    """What one feed has seen since the start; written by its thread, read by any (single numbers only)."""

    objects: int = 0
    """Objects that there are, as far as the feed knows."""
    events: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(EVENT_KINDS, 0)))
    """Changes taken, by kind (``EVENT_KINDS``)."""
    watches: int = 0
    """Watches begun: the first, and every connection again."""
    losses: Counter[Loss] = field(default_factory=lambda: Counter(dict.fromkeys(Loss, 0)))
    malformed: int = 0
    """Objects told with a part that could not be read."""
    why_malformed: str = ""
    """The last of them."""


class Pulse:
    """Written by the feed's thread, read by any: the state is one immutable value."""

    def __init__(self, name: str, now_seconds: Callable[[], float]) -> None:
        """Start as a feed that has not been heard; ``now_seconds`` is a monotonic clock."""
        self.name = name
        self.counts = FeedCounts()
        self._now_seconds = now_seconds
        self._state = PulseState(heard_seconds=now_seconds())

    @property
    def state(self) -> PulseState:
        """The state now."""
        return self._state

    def heard(self) -> None:
        """The API server answered."""
        old = self._state
        self._state = PulseState(old.has_listed, False, self._now_seconds(), None, "", old.lists, old.losses)

    def listed(self) -> None:
        """A full list has been taken."""
        old = self._state
        self._state = PulseState(True, False, self._now_seconds(), None, "", old.lists + 1, old.losses)

    def lost(self, error: Exception) -> None:
        """A request failed, or we did."""
        loss = Loss.of(error)
        self.counts.losses[loss] += 1
        why = f"fault: {error}" if loss is Loss.FAULT else str(error)
        old, now = self._state, self._now_seconds()
        since = now if old.lost_since_seconds is None else old.lost_since_seconds
        self._state = PulseState(
            old.has_listed, old.is_absent, old.heard_seconds, since, why, old.lists, old.losses + 1
        )

    def absent(self, why: str) -> None:
        """The API server does not know the kind: an answer like any other."""
        old = self._state
        self._state = PulseState(False, True, self._now_seconds(), None, why, old.lists, old.losses)
