"""The one clock type of this package. Moments are timezone-aware UTC datetimes; tests pass a clock that they move."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the wall-clock moment in UTC. The default clock where a real one is wanted."""
    return datetime.now(tz=UTC)


def in_words(moment: datetime) -> str:
    """Return ``moment`` as ``2026-01-31T23:59:59Z``, the form that kubectl prints."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
