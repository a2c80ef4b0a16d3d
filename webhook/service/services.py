"""What a serving process consists of, made once after the fork and passed to whoever needs it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from webhook.service.admit import Corridor
from webhook.service.health import Health
from webhook.service.logs import fault_text
from webhook.service.meters import Meters


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one process."""

    corridor: Corridor
    health: Health
    meters: Meters
    log: FilteringBoundLogger
    on_start: tuple[Callable[[], None], ...] = field(default=())
    """Called once the process may have threads (after the fork): watches, leadership."""
    on_tick: tuple[Callable[[], None], ...] = field(default=())
    """Called about four times a second by the main thread; must be quick and must not raise."""
    on_drain: tuple[Callable[[], None], ...] = field(default=())
    """Called when the process begins to drain, while it still answers: whatever another process should take over."""
    on_stop: tuple[Callable[[], None], ...] = field(default=())
    """Called when the last answer is out, in this order."""

    keeps_connections: Callable[[], bool] = field(default=lambda: True)
    """Whether callers should come back on the same connection: not to a process that does not lead (any more)."""

    def fault(self, error: BaseException) -> None:
        """Log a fault that belongs to no review."""
        self.log.error("fault", **fault_text(error))

    def on_fault(self) -> None:
        """Log the exception that is being handled."""
        error = sys.exc_info()[1]
        if error is not None:
            self.fault(error)
