"""Whether a NUMA-aware scheduler binds a pod's CPUs to a set, by what the pod says: nothing else tells it.

``domain/koordinator-ack.md`` 1.1, 1.3 and 2.6: ACK binds the pods of its NUMA feature that say ``cpuset-scheduler:
required``; Koordinator those of QoS LSR and LSE with the prod priority and a bind policy that binds. That a node can
force all its pods is its own affair (``webhook.core.scheduler.request``).
"""

from typing import Final

from webhook.core.demand import CpuBinding
from webhook.core.pod import Pod
from webhook.core.spelling import label_path, shown

CPUSET_SCHEDULER: Final = "cpuset-scheduler", "required"
QOS_LABEL: Final = "koordinator.sh/qosClass"
PINNED_QOS: Final = ("LSE", "LSR")
PRIORITY_LABEL: Final = "koordinator.sh/priority-class"
PROD: Final = "koord-prod"
PROD_PRIORITIES: Final = range(9000, 10000)
_WHOLE_CORES: Final = "FullPCPUs"
_BINDING: Final = frozenset({_WHOLE_CORES, "SpreadByPCPUs", "Default", ""})
"""Bind policies with which CPUs are bound; the scheduler's default is FullPCPUs. An unknown one silently binds none."""


def binding_of(pod: Pod) -> CpuBinding:
    """Return how a scheduler of either dialect binds the CPUs of ``pod``."""
    key, value = CPUSET_SCHEDULER
    if pod.annotations.get(key) == value and any(spec.policy for spec in pod.numa_specs):
        return CpuBinding.CPUS
    if pod.labels.get(QOS_LABEL) not in PINNED_QOS or other_priority(pod) is not None:
        return CpuBinding.NONE
    required, preferred = pod.cpu_bind_policies
    if (required or preferred) not in _BINDING:
        return CpuBinding.NONE
    return CpuBinding.WHOLE_CORES if required == _WHOLE_CORES else CpuBinding.CPUS


def other_priority(pod: Pod) -> tuple[str, str] | None:
    """Return where the pod says that its priority is not prod, and what it says; None where it is prod or silent.

    Silence counts as prod for the scheduler. A class name that is not yet resolved to a number is silence, unless it
    is one of Koordinator's own.
    """
    label = pod.labels.get(PRIORITY_LABEL)
    if label is not None:
        return None if label == PROD else (label_path(PRIORITY_LABEL), shown(label))
    if pod.priority:
        return None if pod.priority in PROD_PRIORITIES else ("spec.priority", str(pod.priority))
    name = pod.priority_class_name
    return ("spec.priorityClassName", shown(name)) if name.startswith("koord-") and name != PROD else None
