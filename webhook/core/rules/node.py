"""Node selector, affinity and preset node against the label of nodes that align (issue 3, validate 7)."""

from collections.abc import Iterator
from typing import Final

from webhook.core.dialect import Case, Stage
from webhook.core.findings import Finding
from webhook.core.node_selection import contradicts_label, demands_label
from webhook.core.plain_text import plain
from webhook.core.reasons import NODE_LABEL_NOT_DEMANDED, NODE_NAME_PRESET, NODE_NEVER_MATCHES

_QUOTED_TERMS: Final = 3
DAEMON_SET: Final = "DaemonSet"


def selection(case: Case) -> Iterator[Finding]:
    """Refuse what can never meet the label; warn of a preset node, and of an affinity that mutate did not add."""
    if case.dialect.node_label is None:
        return
    key, value = case.dialect.node_label
    against = contradicts_label(case.pod, key, value)
    if against:
        terms = ", ".join(plain(each.text) for each in against[:_QUOTED_TERMS])
        more = f" and {len(against) - _QUOTED_TERMS} more" if len(against) > _QUOTED_TERMS else ""
        yield NODE_NEVER_MATCHES.at(
            against[0].path,
            f"{terms}{more} keeps the pod off every node with {key}={value}.",
            found=terms,
            wanted=f"{key}={value}",
            next_step=f"Take it out, or let it admit {key}={value}.",
        )
    if case.pod.node_name:
        if case.stage is not Stage.UPDATE:
            yield NODE_NAME_PRESET.at(
                "spec.nodeName",
                f"the pod is tied to node {plain(case.pod.node_name)}, so no scheduler gives it a place.",
                found=plain(case.pod.node_name),
                wanted="no preset node",
            )
    elif (
        case.stage is Stage.CREATE
        and not against
        and case.is_exactly_marked  # else mutate adds nothing, and a near miss is refused anyway
        and case.pod.owner_kind != DAEMON_SET
        and not demands_label(case.pod, key, (value,))
    ):
        yield NODE_LABEL_NOT_DEMANDED.at(
            "spec.affinity",
            f"the pod does not demand nodes with {key}={value}, so the mutating webhook was missed.",
            found="no such demand",
            wanted=f"{key} In [{value}]",
        )
