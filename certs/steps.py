"""What one step of a loop did, as a value: for logs, metrics and whoever sleeps until the next."""

import enum
from dataclasses import dataclass
from datetime import datetime

from certs.holdings import Holdings
from certs.plan import Action


class Outcome(enum.Enum):
    """How a step ended."""

    DONE = "done"
    CONFLICT = "conflict"
    """Somebody else wrote in between; nothing of ours was lost, the next look starts from what is there."""
    FAILED = "failed"
    """A store did not answer or refused; what was written before it stays and the next step goes on from there."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did and when the next is due."""

    action: Action
    reason: str
    look_at: datetime
    outcome: Outcome = Outcome.DONE
    error: str = ""
    """A sentence if the outcome is not DONE."""
    patched: tuple[str, ...] = ()
    """Names of the configurations that got the bundle in this step."""
    holdings: Holdings | None = None
    """What the Secret holds after the step, for metrics; None if it could not be read."""
