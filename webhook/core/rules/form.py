"""Fields that cannot be read at all: a number where a map belongs, a quantity that is none."""

from collections.abc import Iterator

from webhook.core.dialect import Case
from webhook.core.findings import Finding
from webhook.core.reasons import FIELD_UNREADABLE


def fields(case: Case) -> Iterator[Finding]:
    """Refuse each field of the pod that a rule needs and that has the wrong type or an unreadable text."""
    for fault in case.pod.malformed:
        yield FIELD_UNREADABLE.at(
            fault.path,
            f"found {fault.found}, where {fault.wanted} belongs.",
            found=fault.found,
            wanted=fault.wanted,
        )
