"""The corridor: bytes of a call in, bytes of a reply out. One pass, no way back.

Errors::

    CallError           the call gets no verdict but an HTTP error; the API server's failure policy applies
      BadCall     400   what came is no AdmissionReview v1
      TooLate     504   the caller's time was over before the review was looked at
      Fault       500   ours; logged with the review's uid, never a silent allow

A pod that is not acceptable is none of these: it is a verdict, HTTP 200.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from webhook.core.capacity import unknown
from webhook.core.decisions import Ask, Decision, Endpoint
from webhook.service.clock import Clock
from webhook.service.logs import fault_text
from webhook.service.meters import Meters
from webhook.wire.replies import encode_review
from webhook.wire.reviews import BadReview, Wants, decode_review
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS

Judge = Callable[[Ask, float], Decision]
"""Decides a question; the number is when the answer must be ready, in seconds of the monotonic clock."""

MARGIN_SECONDS = 0.2
"""Kept for the way back, of the time that the caller grants (``practice`` G6)."""


class CallError(Exception):
    """No verdict: ``str`` is one plain sentence, ``status_code`` the HTTP code, ``reason`` a bounded word."""

    status_code = 500
    reason = "fault"


class BadCall(CallError):  # noqa: N818 - named after what happened, as its parent says error
    """What came is no AdmissionReview v1."""

    status_code = 400
    reason = "bad_review"


class TooLate(CallError):  # noqa: N818 - as above
    """The caller has stopped waiting."""

    status_code = 504
    reason = "too_late"


class Fault(CallError):  # noqa: N818 - as above
    """An internal fault."""


class Verdict(enum.Enum):
    """How a review ended, for logs and metrics."""

    ALLOWED = "allowed"
    WARNED = "warned"
    CHANGED = "changed"
    REFUSED = "refused"
    FAULT = "fault"

    @staticmethod
    def of(decision: Decision) -> "Verdict":
        """Return the word for ``decision``."""
        if not decision.allowed:
            return Verdict.REFUSED
        if decision.edits:
            return Verdict.CHANGED
        return Verdict.WARNED if decision.warnings or decision.findings else Verdict.ALLOWED


@dataclass(frozen=True, slots=True)
class Door:
    """How one endpoint is answered."""

    judge: Judge
    timeout_seconds: float
    wants: Wants | None = None
    """Whether a pod with these annotations is judged at all; None: every pod is parsed."""
    patches: bool = False
    """Whether the reply may carry a patch; a validating webhook that returns one has failed."""
    gives_way: bool = False
    """Whether a call that comes late is allowed unjudged, with a warning: the ledger's endpoints, whose answer
    ``unknown`` is meant for that. The others leave it to the failure policy."""
    kinds: KindTable = field(default_factory=lambda: STANDARD_KINDS)
    """The kinds that hold pod templates."""


@dataclass(slots=True)
class Corridor:
    """Answers reviews; endpoints without a door are not served by this role."""

    doors: Mapping[Endpoint, Door]
    meters: Meters
    log: FilteringBoundLogger
    clock: Clock = field(default_factory=Clock)

    def change_doors(self, doors: Mapping[Endpoint, Door]) -> None:
        """Answer by ``doors`` of the same endpoints from now on; a call that has begun ends by the door it took."""
        self.doors = doors

    def answer(
        self, endpoint: Endpoint, body: bytes, *, received_seconds: float, timeout_seconds: float | None = None
    ) -> bytes:
        """Return the reply to the review in ``body``.

        ``received_seconds`` is the monotonic clock when the call had arrived, ``timeout_seconds`` what the caller
        grants (``?timeout=``), None where it does not say.

        Raises:
            BadCall, TooLate, Fault: there is no verdict.
        """
        door = self.doors[endpoint]
        self.meters.begin()
        ask: Ask | None = None
        try:
            review = decode_review(body, wants=door.wants, kinds=door.kinds)
            ask = review.ask
            decision = self._judge(door, ask, received_seconds, timeout_seconds)
            reply = encode_review(ask.review_uid, decision, review.raw_object if door.patches else None)
        except BadReview as error:
            raise BadCall(str(error)) from error
        except CallError:
            raise
        except Exception as error:
            self._fault(endpoint, ask, received_seconds, error)
            raise Fault("The review met an internal fault; it is logged with the review's uid.") from error
        finally:
            self.meters.end()
        self._record(endpoint, ask, decision, received_seconds)
        return reply

    def _judge(self, door: Door, ask: Ask, received_seconds: float, timeout_seconds: float | None) -> Decision:
        granted = min(timeout_seconds or door.timeout_seconds, door.timeout_seconds)
        until = received_seconds + max(granted - MARGIN_SECONDS, granted / 2)
        now = self.clock.monotonic_seconds()
        if now <= until:
            return door.judge(ask, until)
        if door.gives_way:
            return Decision.allow(findings=(unknown("no-time"),)) if ask.subject is not None else Decision.allow()
        raise TooLate(
            f"The review waited {now - received_seconds:.1f} s for its turn, and the caller grants {granted:g} s."
        )

    def _record(self, endpoint: Endpoint, ask: Ask, decision: Decision, received_seconds: float) -> None:
        verdict = Verdict.of(decision)
        seconds = self.clock.monotonic_seconds() - received_seconds
        self.meters.review(endpoint, verdict.value, seconds, decision.findings)
        if verdict is not Verdict.ALLOWED:
            self.log.info(
                verdict.value,
                codes=[finding.code for finding in decision.findings],
                edits=len(decision.edits),
                **_who(endpoint, ask, seconds),
            )

    def _fault(self, endpoint: Endpoint, ask: Ask | None, received_seconds: float, error: Exception) -> None:
        seconds = self.clock.monotonic_seconds() - received_seconds
        self.meters.review(endpoint, Verdict.FAULT.value, seconds)
        self.log.error(Verdict.FAULT.value, **_who(endpoint, ask, seconds), **fault_text(error))


def _target(ask: Ask) -> str:
    return f"{ask.resource}/{ask.subresource}" if ask.subresource else ask.resource


def _who(endpoint: Endpoint, ask: Ask | None, seconds: float) -> dict[str, object]:
    """Return what a log line says of a call: enough to find it in the audit log, nothing of the object itself."""
    fields: dict[str, object] = {"endpoint": endpoint.value, "duration_ms": round(seconds * 1000, 3)}
    if ask is not None:
        fields |= {
            "uid": ask.review_uid,
            "operation": ask.operation.value,
            "resource": _target(ask),
            "namespace": ask.namespace,
            "name": ask.name,
            "user": ask.username,
            "dry_run": ask.dry_run,
        }
    return fields
