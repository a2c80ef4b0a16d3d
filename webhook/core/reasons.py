"""Every reason that the stateless rules can give: a closed list of codes. Each has a page in ``webhook/pages``."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from webhook.core.findings import Family, Finding, Severity


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that can be wrong, by its stable code."""

    code: str
    family: Family
    severity: Severity
    """As it weighs where nothing softens it: ERROR refuses."""
    summary: str
    """One sentence for lists and page titles."""
    next_step: str
    """What to do, where the rule has nothing more exact to say."""

    def at(
        self,
        path: str,
        problem: str,
        *,
        found: str = "",
        wanted: str = "",
        next_step: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        """Return the finding that this reason makes at ``path``."""
        return Finding(
            code=self.code,
            family=self.family,
            severity=severity or self.severity,
            path=path,
            problem=problem,
            found=found,
            wanted=wanted,
            next_step=next_step or self.next_step,
        )


def _error(code: str, family: Family, summary: str, next_step: str) -> Reason:
    return Reason(code, family, Severity.ERROR, summary, next_step)


def _warning(code: str, family: Family, summary: str, next_step: str) -> Reason:
    return Reason(code, family, Severity.WARNING, summary, next_step)


# The spec annotation: form.
SPEC_NOT_JSON: Final = _error(
    "SPEC_NOT_JSON",
    Family.SPEC,
    "The NUMA spec annotation is not JSON.",
    'Write one JSON object, such as {"numaTopologyPolicy":"SingleNUMANode"}.',
)
SPEC_NOT_OBJECT: Final = _error(
    "SPEC_NOT_OBJECT",
    Family.SPEC,
    "The NUMA spec annotation is JSON, but no object.",
    'Write one JSON object, such as {"numaTopologyPolicy":"SingleNUMANode"}.',
)
SPEC_TOO_LONG: Final = _error(
    "SPEC_TOO_LONG",
    Family.SPEC,
    "The NUMA spec annotation is longer than 4 KiB.",
    "Keep only numaTopologyPolicy and singleNUMANodeExclusive.",
)
SPEC_TOO_DEEP: Final = _error(
    "SPEC_TOO_DEEP",
    Family.SPEC,
    "The NUMA spec annotation is nested too deeply.",
    "Keep only numaTopologyPolicy and singleNUMANodeExclusive, each with a text.",
)
SPEC_REPAIRABLE_JSON: Final = _error(
    "SPEC_REPAIRABLE_JSON",
    Family.SPEC,
    "The NUMA spec annotation is JSON but for trailing commas or comments.",
    "Take out the trailing comma and the comments.",
)
SPEC_KEY_MISSPELT: Final = _error(
    "SPEC_KEY_MISSPELT",
    Family.SPEC,
    "A key of the NUMA spec is nearly one that is known.",
    "Write the key exactly.",
)
SPEC_KEY_UNKNOWN: Final = _warning(
    "SPEC_KEY_UNKNOWN",
    Family.SPEC,
    "A key of the NUMA spec is not known and has no effect.",
    "Take the key out.",
)
SPEC_KEY_TWICE: Final = _error(
    "SPEC_KEY_TWICE",
    Family.SPEC,
    "A key stands twice in the NUMA spec.",
    "Keep one of them: the scheduler takes the last and ignores case.",
)
SPEC_VALUE_NULL: Final = _error(
    "SPEC_VALUE_NULL",
    Family.SPEC,
    "A key of the NUMA spec is null.",
    "Write a value, or take the key out.",
)
SPEC_VALUE_TYPE: Final = _error(
    "SPEC_VALUE_TYPE",
    Family.SPEC,
    "A value of the NUMA spec is no text.",
    "Write the value as a text in double quotes.",
)
POLICY_UNKNOWN: Final = _error(
    "POLICY_UNKNOWN",
    Family.SPEC,
    "The value of numaTopologyPolicy is not known.",
    "Write SingleNUMANode, Restricted or BestEffort, in exactly this case.",
)
EXCLUSIVE_UNKNOWN: Final = _error(
    "EXCLUSIVE_UNKNOWN",
    Family.SPEC,
    "The value of singleNUMANodeExclusive is not known.",
    "Write Required or Preferred, in exactly this case.",
)
POLICY_MISSING: Final = _error(
    "POLICY_MISSING",
    Family.SPEC,
    "The NUMA spec names no numaTopologyPolicy.",
    'Add "numaTopologyPolicy" with SingleNUMANode, Restricted or BestEffort.',
)

# The spec annotation: where it stands.
SPEC_HOME_MISSPELT: Final = _error(
    "SPEC_HOME_MISSPELT",
    Family.SPEC,
    "An annotation key is nearly that of the NUMA spec.",
    "Write the annotation key exactly.",
)
SPEC_HOME_OLDER: Final = _error(
    "SPEC_HOME_OLDER",
    Family.SPEC,
    "The NUMA spec stands in the resource-spec annotation only.",
    "Move it to the numa-topology-spec annotation.",
)
SPEC_HOMES_DIFFER: Final = _error(
    "SPEC_HOMES_DIFFER",
    Family.SPEC,
    "The numa-topology-spec and resource-spec annotations ask for different things.",
    "Keep the policy in numa-topology-spec only.",
)
SPEC_DIALECTS_DIFFER: Final = _warning(
    "SPEC_DIALECTS_DIFFER",
    Family.SPEC,
    "The NUMA specs for two schedulers ask for different things.",
    "Make both the same, or keep the one for the scheduler that runs here.",
)

# cpuset-scheduler.
CPUSET_MISSING: Final = _error(
    "CPUSET_MISSING",
    Family.SPEC,
    "The annotation cpuset-scheduler is missing beside a NUMA spec.",
    'Add cpuset-scheduler: "required".',
)
CPUSET_UNKNOWN_VALUE: Final = _error(
    "CPUSET_UNKNOWN_VALUE",
    Family.SPEC,
    "The annotation cpuset-scheduler has a value other than required.",
    'Write cpuset-scheduler: "required".',
)
CPUSET_OTHER_FEATURE: Final = _error(
    "CPUSET_OTHER_FEATURE",
    Family.SPEC,
    'The annotation cpuset-scheduler: "true" asks for CPU topology-aware scheduling.',
    'Write cpuset-scheduler: "required", or take the NUMA spec out.',
)
CPUSET_KEY_MISSPELT: Final = _error(
    "CPUSET_KEY_MISSPELT",
    Family.SPEC,
    "An annotation key is nearly cpuset-scheduler.",
    "Write the annotation key exactly.",
)

# CPU.
CPU_REQUEST_MISSING: Final = _error(
    "CPU_REQUEST_MISSING",
    Family.CPU,
    "A container asks for no CPU.",
    "Ask for one or more whole cores, with the same limit.",
)
CPU_NOT_WHOLE: Final = _error(
    "CPU_NOT_WHOLE",
    Family.CPU,
    "A container asks for a fraction of a core.",
    "Ask for whole cores, with the same limit.",
)
CPU_LIMIT_MISSING: Final = _error(
    "CPU_LIMIT_MISSING",
    Family.CPU,
    "A container has a CPU request and no CPU limit.",
    "Set the limit to the same number as the request.",
)
CPU_NOT_EQUAL: Final = _error(
    "CPU_NOT_EQUAL",
    Family.CPU,
    "A container's CPU request and limit differ.",
    "Set both to the same number.",
)
CPU_POD_LEVEL: Final = _warning(
    "CPU_POD_LEVEL",
    Family.CPU,
    "The pod has pod-level CPU, which is not known to be pinned.",
    "Give each container its own CPU request and limit, and take the pod-level CPU out.",
)
CPU_OVERHEAD_NOT_WHOLE: Final = _warning(
    "CPU_OVERHEAD_NOT_WHOLE",
    Family.CPU,
    "The pod's overhead has a fraction of a core.",
    "Choose a RuntimeClass whose overhead is in whole cores.",
)
CPU_ADDED_CONTAINER: Final = _warning(
    "CPU_ADDED_CONTAINER",
    Family.CPU,
    "The operator of this kind adds a container that breaks the pod's CPU rules.",
    "Tell the operator to add none, or one with whole cores and an equal limit.",
)
CPU_SUM_NOT_WHOLE: Final = _error(
    "CPU_SUM_NOT_WHOLE",
    Family.CPU,
    "The pod's CPU requests do not add up to whole cores.",
    "Change the requests so that their sum is a whole number of cores.",
)

# GPU.
GPU_MISSING: Final = _error(
    "GPU_MISSING",
    Family.GPU,
    "No container asks for a GPU.",
    "Ask for whole cards in at least one container, or take the NUMA annotations out.",
)
GPU_OTHER_RESOURCE: Final = _error(
    "GPU_OTHER_RESOURCE",
    Family.GPU,
    "The pod asks for GPUs under another resource name.",
    "Use the resource name of this scheduler.",
)
GPU_MIXED: Final = _error(
    "GPU_MIXED",
    Family.GPU,
    "The pod asks for GPUs under two resource names that no node offers together.",
    "Keep one of them.",
)
GPU_NOT_WHOLE: Final = _error(
    "GPU_NOT_WHOLE",
    Family.GPU,
    "A container asks for a fraction of a GPU.",
    "Ask for whole cards.",
)
GPU_NOT_EQUAL: Final = _error(
    "GPU_NOT_EQUAL",
    Family.GPU,
    "A container's GPU request and limit differ.",
    "Set both to the same number of cards.",
)

# Features that exclude each other.
CONFLICT_CPU_TOPOLOGY: Final = _error(
    "CONFLICT_CPU_TOPOLOGY",
    Family.CONFLICT,
    "The pod also asks for CPU topology-aware scheduling.",
    "Take out the annotation cpu-policy, or the NUMA annotations.",
)
CONFLICT_GPU_TOPOLOGY: Final = _error(
    "CONFLICT_GPU_TOPOLOGY",
    Family.CONFLICT,
    "The pod also asks for GPU topology-aware scheduling.",
    "Take out the gpu-topology labels, or the NUMA annotations.",
)

# Nodes.
NODE_NEVER_MATCHES: Final = _error(
    "NODE_NEVER_MATCHES",
    Family.NODE,
    "The node selector or affinity keeps the pod off every node that aligns.",
    "Take it out, or let it admit the label.",
)
NODE_NAME_PRESET: Final = _warning(
    "NODE_NAME_PRESET",
    Family.NODE,
    "spec.nodeName is preset, so no scheduler places the pod.",
    "Use spec.nodeSelector to choose a node.",
)
NODE_LABEL_NOT_DEMANDED: Final = _warning(
    "NODE_LABEL_NOT_DEMANDED",
    Family.NODE,
    "The pod does not demand the label of nodes that align.",
    "Check that the mutating webhook is installed and reachable, or add the node selector yourself.",
)
NODE_LABEL_UNKNOWN: Final = _warning(
    "NODE_LABEL_UNKNOWN",
    Family.NODE,
    "A node's policy label has a value that is not known.",
    "Write one of the known values, or take the label off.",
)

# What only a scheduler writes.
RESULT_PRESET: Final = _error(
    "RESULT_PRESET",
    Family.RESULT,
    "The pod carries an annotation that only the scheduler may write.",
    "Take the annotation out; the scheduler writes it when it places the pod.",
)
RESULT_CHANGED: Final = _warning(
    "RESULT_CHANGED",
    Family.RESULT,
    "An annotation that only the scheduler may write was changed.",
    "Leave the annotation to the scheduler.",
)

# Updates.
UPDATE_SCHEDULED: Final = _error(
    "UPDATE_SCHEDULED",
    Family.UPDATE,
    "A NUMA annotation of a pod that has its node was changed.",
    "Make a new pod instead: the place of this one is given.",
)
BINDING_CARRIES_MARK: Final = _error(
    "BINDING_CARRIES_MARK",
    Family.UPDATE,
    "A Binding carries a NUMA annotation, which the API server would copy to the pod.",
    "Bind without it; set the annotation when the pod is created.",
)

# What has no effect.
EXCLUSIVE_WITHOUT_POLICY: Final = _warning(
    "EXCLUSIVE_WITHOUT_POLICY",
    Family.EFFECT,
    "singleNUMANodeExclusive has no effect without a policy.",
    "Add numaTopologyPolicy, or take singleNUMANodeExclusive out.",
)
EXCLUSIVE_NOT_ENFORCED: Final = _warning(
    "EXCLUSIVE_NOT_ENFORCED",
    Family.EFFECT,
    "singleNUMANodeExclusive: Required has no effect with BestEffort.",
    "Choose SingleNUMANode or Restricted, or take singleNUMANodeExclusive out.",
)
CPUSET_WITHOUT_SPEC: Final = _warning(
    "CPUSET_WITHOUT_SPEC",
    Family.EFFECT,
    "cpuset-scheduler: required has no effect without a NUMA spec.",
    "Add the annotation numa-topology-spec, or take cpuset-scheduler out.",
)
SCHEDULER_UNKNOWN: Final = _warning(
    "SCHEDULER_UNKNOWN",
    Family.EFFECT,
    "The pod's scheduler is not known to read the NUMA spec.",
    "Use the scheduler that reads it, or take the NUMA annotations out.",
)
QOS_UNKNOWN: Final = _warning(
    "QOS_UNKNOWN",
    Family.EFFECT,
    "The label koordinator.sh/qosClass has a value that is not known.",
    "Write LSE, LSR, LS, BE or SYSTEM.",
)
QOS_NOT_PINNED: Final = _warning(
    "QOS_NOT_PINNED",
    Family.EFFECT,
    "Koordinator pins CPUs only for pods of QoS LSR or LSE.",
    "Add the label koordinator.sh/qosClass: LSR if CPUs should be pinned.",
)
PRIORITY_NOT_PROD: Final = _error(
    "PRIORITY_NOT_PROD",
    Family.EFFECT,
    "Koordinator pins CPUs only for pods of its prod priority.",
    "Use a priority from 9000 to 9999, such as priorityClassName koord-prod.",
)
CPU_NOT_PINNED: Final = _warning(
    "CPU_NOT_PINNED",
    Family.EFFECT,
    "The kubelet would pin no CPUs for a container with GPUs.",
    "Give every container CPU and memory limits equal to its requests, and the one with GPUs whole cores.",
)

FIELD_UNREADABLE: Final = _error(
    "FIELD_UNREADABLE",
    Family.FORM,
    "A field that the rules need cannot be read.",
    "Write it as the Kubernetes API defines it.",
)

REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {value.code: value for value in list(globals().values()) if isinstance(value, Reason)}
)
"""Every reason by its code, in the order of this file."""
