"""The dialects: one row for each way to ask for NUMA placement. Nothing else asks which dialect it deals with.

Keys and values: ``domain/koordinator-ack.md`` 1.1, 1.3, 1.4, 2.6, 3.3 to 3.6 and 6.
"""

from typing import Final

from webhook.core.cpu_binding import CPUSET_SCHEDULER, PRIORITY_LABEL, QOS_LABEL
from webhook.core.dialect import Dialect
from webhook.core.rules import conflict, cpu, cpuset, effect, form, gpu, koordinator, node, result, spec

_KOORDINATOR_RESULTS: Final = (
    "scheduling.koordinator.sh/resource-status",
    "scheduling.koordinator.sh/device-allocated",
    "internal.scheduling.koordinator.sh/scheduling-hint",
    "scheduling.koordinator.sh/scheduling-hint",
)

ACK: Final = Dialect(
    name="ack",
    title="ACK",
    home="scheduling.alibabacloud.com/numa-topology-spec",
    older_home="scheduling.alibabacloud.com/resource-spec",
    cpuset=CPUSET_SCHEDULER,
    gpus=("aliyun.com/gpu",),
    foreign_gpus=("nvidia.com/gpu", "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"),
    requires_gpu=True,
    node_label=("ack.node.gpu.schedule", "topology"),
    policy_labels=(
        ("ack.node.gpu.schedule", ("default", "topology", "cgpu", "share", "core_mem", "mps", "mig", "disabled")),
    ),
    result_keys=(
        "cpuset",
        "topology.kubernetes.io/gpu-group",
        "scheduler.framework.gpushare.allocation",
        *_KOORDINATOR_RESULTS,
    ),
    read_annotations=(conflict.CPU_TOPOLOGY_ANNOTATION,),
    read_label_prefixes=(conflict.GPU_TOPOLOGY_LABELS,),
    schedulers=("default-scheduler",),
    requires_policy=True,
    rules=(
        form.fields,
        spec.text,
        spec.homes,
        spec.older_home,
        cpuset.cpuset,
        cpu.containers,
        cpu.pod_level,
        cpu.overhead,
        gpu.cards,
        gpu.resource_names,
        conflict.features,
        node.selection,
        result.preset,
        effect.exclusive,
        effect.cpuset_alone,
        effect.scheduler,
    ),
)

KOORDINATOR: Final = Dialect(
    name="koordinator",
    title="Koordinator",
    home="scheduling.koordinator.sh/numa-topology-spec",
    older_home="scheduling.koordinator.sh/resource-spec",
    gpus=("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"),
    foreign_gpus=("aliyun.com/gpu",),
    policy_labels=(("node.koordinator.sh/numa-topology-policy", ("SingleNUMANode", "Restricted", "BestEffort")),),
    result_keys=_KOORDINATOR_RESULTS,
    read_labels=(QOS_LABEL, PRIORITY_LABEL),
    schedulers=("koord-scheduler",),
    rules=(
        form.fields,
        spec.text,
        spec.homes,
        spec.older_home,
        koordinator.quality,
        koordinator.cpu_sum,
        gpu.cards,
        gpu.resource_names,
        result.preset,
        effect.exclusive,
        effect.scheduler,
    ),
)

KUBELET: Final = Dialect(name="kubelet", title="the kubelet", gpus=("nvidia.com/gpu", "amd.com/gpu", "aliyun.com/gpu"))
"""Pods carry no annotation: the nodes align. Its one rule needs to know the nodes (``rules.pinning``)."""

DIALECTS: Final = (ACK, KOORDINATOR, KUBELET)

NUMA_SPEC_KEYS: Final = tuple(key for dialect in DIALECTS for key in dialect.homes)
"""Every annotation that is the exact home of a NUMA spec in some dialect."""
