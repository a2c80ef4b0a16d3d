"""The clocks, passed in wherever time matters, so that a test can hold them."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Two clocks: one for durations, one for dates."""

    monotonic_seconds: Callable[[], float] = time.monotonic
    """Never goes back; its zero means nothing."""
    wall_seconds: Callable[[], float] = time.time
    """Seconds since 1970, UTC; may jump."""
