"""What Koordinator asks of a pod whose CPUs it should pin: QoS, priority, whole cores in sum.

``domain/koordinator-ack.md`` 1.3 and 2.6. NUMA alignment itself needs neither whole cores nor request = limit, and no
container is looked at by itself.
"""

from collections.abc import Iterator
from typing import Final

from webhook.core.cpu_binding import PINNED_QOS, PROD_PRIORITIES, QOS_LABEL, other_priority
from webhook.core.dialect import Case
from webhook.core.effective import demand_of
from webhook.core.findings import Finding, Severity
from webhook.core.quantity import NANOS_PER_MILLI, Quantity
from webhook.core.reasons import CPU_SUM_NOT_WHOLE, PRIORITY_NOT_PROD, QOS_NOT_PINNED, QOS_UNKNOWN
from webhook.core.spelling import cores, folded, label_path, one_of, shown, whole_cores

_QOS_CLASSES: Final = ("LSE", "LSR", "LS", "BE", "SYSTEM")


def quality(case: Case) -> Iterator[Finding]:
    """Say when no CPU is pinned; refuse LSR with another priority than prod, as Koordinator's own webhook does."""
    qos = case.pod.labels.get(QOS_LABEL, "")
    path = label_path(QOS_LABEL)
    if qos and qos not in _QOS_CLASSES:
        meant = next((known for known in _QOS_CLASSES if folded(known) == folded(qos)), "")
        hint = f"did you mean {meant}?" if meant else f"one of {one_of(_QOS_CLASSES)} is needed."
        yield QOS_UNKNOWN.at(
            path, f"the value {shown(qos)} is not known; {hint}", found=shown(qos), wanted=meant or one_of(_QOS_CLASSES)
        )
    elif qos not in PINNED_QOS:
        yield QOS_NOT_PINNED.at(
            path,
            f"with {f'QoS {qos}' if qos else 'no QoS class'} the CPUs are not pinned, only counted by NUMA node.",
            found=qos or "no such label",
            wanted=one_of(PINNED_QOS),
        )
    elif (priority := other_priority(case.pod)) is not None:
        where, found = priority
        yield PRIORITY_NOT_PROD.at(
            where,
            f"{qos} is for pods of the prod priority only, and this one has {found}.",
            found=found,
            wanted=f"{PROD_PRIORITIES.start} to {PROD_PRIORITIES.stop - 1}",
            severity=Severity.ERROR if qos == "LSR" else Severity.WARNING,
        )


def cpu_sum(case: Case) -> Iterator[Finding]:
    """Refuse a pinned pod whose CPU requests in sum (init containers and overhead as usual) are no whole cores."""
    if case.pod.labels.get(QOS_LABEL) not in PINNED_QOS or other_priority(case.pod) is not None:
        return
    total = Quantity(demand_of(case.pod).totals.get("cpu", 0) * NANOS_PER_MILLI)
    if (total.nanos > 0 and total.is_whole) or (total.is_zero and case.pod.is_partial):
        return
    severity = Severity.WARNING if total.is_zero and case.stage.is_lenient else Severity.ERROR
    yield CPU_SUM_NOT_WHOLE.at(
        "spec.containers",
        f"the pod asks for {cores(total)} in sum; only whole cores can be pinned.",
        found=cores(total),
        wanted="whole cores",
        next_step=f"Change the requests to {whole_cores(max(1, total.nearest_whole()))} in sum.",
        severity=severity,
    )
