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

KIND_MISSPELT: Final = Reason(
    "KIND_MISSPELT",
    Family.FORM,
    Severity.WARNING,
    "An object with marks has a kind that nobody knows and that looks like a known one.",
    "Write kind and apiVersion as the API server knows them.",
)

UNREADABLE: Final = Reason(
    "UNREADABLE",
    Family.FORM,
    Severity.ERROR,
    "A file, or what stands in it, cannot be read, so nothing is said about it.",
    "Mend what the message names, or leave the file out with --ignore.",
)

FILE_REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {reason.code: reason for reason in (FIELD_TWICE, KIND_MISSPELT, UNREADABLE)}
)
"""Every reason of files by its code."""
