"""Whether this process may be sent calls (ready) and whether it should be restarted (alive), each with the reason."""

import enum
from collections.abc import Callable

Check = Callable[[], str]
"""Returns an empty text, or one sentence that says why not."""


class _Stage(enum.Enum):
    STARTING = "The server is starting."
    SERVING = ""
    DRAINING = "The server is draining and will stop."


class Health:
    """What the probes answer. The methods may be called from any thread."""

    def __init__(self, ready_checks: tuple[Check, ...] = (), alive_checks: tuple[Check, ...] = ()) -> None:
        """Start in the stage before serving; the checks are asked at every probe and must be quick."""
        self._stage = _Stage.STARTING
        self._ready_checks = ready_checks
        self._alive_checks = alive_checks

    def serving(self) -> None:
        """Enter the stage in which calls are welcome."""
        self._stage = _Stage.SERVING

    def draining(self) -> None:
        """Enter the last stage: readiness fails, so that no new caller is sent here."""
        self._stage = _Stage.DRAINING

    def watch_threads(self, stuck_seconds: Callable[[], float], bound_seconds: float) -> None:
        """Count the process as dead when all threads have been busy with one call for ``bound_seconds``."""

        def check() -> str:
            seconds = stuck_seconds()
            return f"Every thread has been busy for {seconds:.0f} s." if seconds > bound_seconds else ""

        self._alive_checks = (*self._alive_checks, check)

    def why_not_ready(self) -> tuple[str, ...]:
        """Return the reasons against sending calls here; empty where there is none."""
        return tuple(reason for reason in (self._stage.value, *(check() for check in self._ready_checks)) if reason)

    def why_not_alive(self) -> tuple[str, ...]:
        """Return the reasons for a restart; empty where there is none."""
        return tuple(reason for reason in (check() for check in self._alive_checks) if reason)
