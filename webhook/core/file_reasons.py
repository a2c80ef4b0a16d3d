"""The reasons that only a file can give: the API server never sees what kubectl has dropped."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from webhook.core.findings import Family, Severity
from webhook.core.reasons import Reason

FIELD_TWICE: Final = Reason(
    "FIELD_TWICE",
    Family.FORM,
    Severity.ERROR,
    "A field stands twice in one map of a manifest.",
    "Keep one of them: kubectl takes the last and drops the others in silence.",
)

FILE_REASONS: Final[Mapping[str, Reason]] = MappingProxyType({FIELD_TWICE.code: FIELD_TWICE})
"""Every reason of files by its code."""
