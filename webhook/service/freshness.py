"""Can the ledger's picture be trusted now? Whole, once every needed feed has listed; fresh, while all are heard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.cluster.pulse import Pulse

NOT_SYNCED: Final = "not-synced"
STALE: Final = "stale"


@dataclass(frozen=True, slots=True)
class FreshnessLimits:
    """How old a picture may be: until then a decision may rest on what has changed meanwhile, after it none is made."""

    silent_seconds: float = 150.0
    """Since the API server was last heard on a feed: two of its bookmarks, which come about once a minute."""
    lost_seconds: float = 30.0
    """Since a feed began to fail: long enough for an API server's restart (5 s) and our longest pause (10 s)."""


class Freshness:
    """The answer of several pulses; ``trust`` is called by every decision and costs microseconds."""

    def __init__(
        self,
        needed: Sequence[Pulse],
        optional: Sequence[Pulse],
        now_seconds: Callable[[], float],
        limits: FreshnessLimits | None = None,
    ) -> None:
        """Judge by ``needed``; of ``optional`` it is only wanted that each has been listed or found absent once."""
        self._needed = tuple(needed)
        self._optional = tuple(optional)
        self._now_seconds = now_seconds
        self._limits = limits or FreshnessLimits()

    def trust(self) -> str:
        """Return an empty text, ``not-synced`` or ``stale``."""
        return self._judged()[0]

    def why_not_ready(self) -> str:
        """Return one sentence that says which feed keeps the process from being ready; empty where none does.

        A process that was synced once stays ready: its answers say by themselves that they are stale, and taking it
        out of service would help nobody.
        """
        word, name, why = self._judged()
        return f"The feed of {name} has not been read yet{f': {why}' if why else ''}." if word == NOT_SYNCED else ""

    def _judged(self) -> tuple[str, str, str]:
        for pulse in (*self._needed, *self._optional):
            state = pulse.state
            if not (state.has_listed or state.is_absent):
                return NOT_SYNCED, pulse.name, state.why_lost
        now = self._now_seconds()
        for pulse in self._needed:
            state = pulse.state
            lost = state.lost_since_seconds
            if now - state.heard_seconds > self._limits.silent_seconds or (
                lost is not None and now - lost > self._limits.lost_seconds
            ):
                return STALE, pulse.name, state.why_lost
        return "", "", ""
