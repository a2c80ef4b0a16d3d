"""How much a fault weighs that mutate repairs by itself: it depends on whether mutate is still to come."""

from webhook.core.dialect import Stage
from webhook.core.findings import Finding, Severity
from webhook.core.reasons import SPEC_HOME_OLDER, SPEC_REPAIRABLE_JSON, Reason

SPELLING_ONLY = frozenset({SPEC_REPAIRABLE_JSON.code, SPEC_HOME_OLDER.code})
"""Repairable faults that say the same as the repaired pod: on UPDATE they weigh nothing where the meaning stayed."""


def repairable(reason: Reason, stage: Stage, path: str, problem: str, *, found: str = "", wanted: str = "") -> Finding:
    """Return the finding of a fault that mutate repairs.

    On CREATE mutate has run, so it was missed: an error that says so. On UPDATE mutate repairs nothing new: an error.
    In templates and files the repair is still to come: a warning.
    """
    advice = reason.next_step[0].lower() + reason.next_step[1:]
    match stage:
        case Stage.CREATE:
            step = f"The mutating webhook was missed; check that it is reachable, or {advice}"
        case Stage.UPDATE:
            step = f"An update is not repaired; {advice}"
        case Stage.TEMPLATE | Stage.FILE:
            step = f"The mutating webhook repairs it when the pod is created; to be rid of this warning, {advice}"
    severity = Severity.WARNING if stage.is_lenient else Severity.ERROR
    return reason.at(path, problem, found=found, wanted=wanted, next_step=step, severity=severity)
