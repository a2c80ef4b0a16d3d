"""Labels of nodes that choose a NUMA policy or a GPU mode (issue 4): an unknown value is said, never refused.

An unknown policy is worse than none: read in the source, it looks able to crash Koordinator's scheduler, the value
``None`` of its own documentation included (``domain/koordinator-ack.md`` 2.1 (6); read, not run).
"""

from collections.abc import Iterator, Mapping

from webhook.core.dialect import Dialect
from webhook.core.findings import Finding
from webhook.core.reasons import NODE_LABEL_UNKNOWN
from webhook.core.spelling import folded, label_path, one_of, shown


def unknown_policies(labels: Mapping[str, str], dialects: tuple[Dialect, ...]) -> Iterator[Finding]:
    """Warn of each label of the policy family whose value is not known; an empty value is none."""
    for dialect in dialects:
        for key, known in dialect.policy_labels:
            value = labels.get(key, "")
            if not value or value in known:
                continue
            meant = next((word for word in known if folded(word) == folded(value)), "")
            hint = f"did you mean {shown(meant)}?" if meant else f"one of {one_of(known)} is needed."
            yield NODE_LABEL_UNKNOWN.at(
                label_path(key),
                f"the value {shown(value)} is not known; {hint}",
                found=shown(value),
                wanted=meant or one_of(known),
            )
