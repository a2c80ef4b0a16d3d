"""Marks of the two features that exclude NUMA topology-aware scheduling (issue 3, validate 6).

``cpuset-scheduler: "true"`` is the third mark; ``rules.cpuset`` speaks of it.
Source: ``domain/koordinator-ack.md`` 3.4 and 3.5.
"""

from collections.abc import Iterator
from typing import Final

from webhook.core.dialect import Case
from webhook.core.findings import Finding
from webhook.core.reasons import CONFLICT_CPU_TOPOLOGY, CONFLICT_GPU_TOPOLOGY
from webhook.core.spelling import annotation_path, label_path, shown

CPU_TOPOLOGY_ANNOTATION: Final = "cpu-policy"
GPU_TOPOLOGY_LABELS: Final = "gpu-topology"
"""Labels that start so are what ``arena submit --gputopology=true`` sets."""


def features(case: Case) -> Iterator[Finding]:
    """Refuse the annotation ``cpu-policy`` and the labels ``gpu-topology*``."""
    found = case.pod.annotations.get(CPU_TOPOLOGY_ANNOTATION)
    if found is not None:
        yield CONFLICT_CPU_TOPOLOGY.at(
            annotation_path(CPU_TOPOLOGY_ANNOTATION),
            f"{shown(found)} asks for CPU topology-aware scheduling, which excludes NUMA topology-aware scheduling.",
            found=shown(found),
            wanted="no such annotation",
        )
    for key in sorted(case.pod.labels):
        if key.startswith(GPU_TOPOLOGY_LABELS):
            yield CONFLICT_GPU_TOPOLOGY.at(
                label_path(key),
                "the label asks for GPU topology-aware scheduling, which excludes NUMA topology-aware scheduling.",
                found=key,
                wanted="no such label",
            )
