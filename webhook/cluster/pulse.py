"""What is known about one feed: has it listed, is it there at all, when was it last heard."""

from collections.abc import Callable
from dataclasses import dataclass


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


class Pulse:
    """Written by the feed's thread, read by any: the state is one immutable value."""

    def __init__(self, name: str, now_seconds: Callable[[], float]) -> None:
        """Start as a feed that has not been heard; ``now_seconds`` is a monotonic clock."""
        self.name = name
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

    def lost(self, why: str) -> None:
        """A request failed."""
        old, now = self._state, self._now_seconds()
        since = now if old.lost_since_seconds is None else old.lost_since_seconds
        self._state = PulseState(
            old.has_listed, old.is_absent, old.heard_seconds, since, why, old.lists, old.losses + 1
        )

    def absent(self, why: str) -> None:
        """The API server does not know the kind: an answer like any other."""
        old = self._state
        self._state = PulseState(False, True, self._now_seconds(), None, why, old.lists, old.losses)
