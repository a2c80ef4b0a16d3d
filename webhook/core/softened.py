"""The reasons whose findings do not always weigh as the reason says: an error here, a warning there.

The settings soften any finding (``webhook.core.modes``); these are softened by the rule itself: by where the object is
met (a file or a template that mutate will still repair, or a LimitRange fill in), by the dialect, or by what the
settings leave open.
"""

from typing import Final

from webhook.core.reasons import (
    CPU_REQUEST_MISSING,
    CPU_SUM_NOT_WHOLE,
    CPUSET_MISSING,
    POLICY_MISSING,
    PRIORITY_NOT_PROD,
    RESULT_CHANGED,
    SPEC_HOME_OLDER,
    SPEC_REPAIRABLE_JSON,
)

SOFTENED: Final = frozenset(
    reason.code
    for reason in (
        CPUSET_MISSING,
        CPU_REQUEST_MISSING,
        CPU_SUM_NOT_WHOLE,
        POLICY_MISSING,
        PRIORITY_NOT_PROD,
        RESULT_CHANGED,
        SPEC_HOME_OLDER,
        SPEC_REPAIRABLE_JSON,
    )
)
"""Codes of findings that are errors in one place and warnings in another."""
