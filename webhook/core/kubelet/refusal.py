"""How an allocation fails: one exception inside the model, turned into a ``Rejection`` at its border.

Reasons and texts are the kubelet's own (kubernetes/kubernetes:pkg/kubelet/cm/admission/errors.go,
cpumanager/policy_static.go, devicemanager/manager.go, memorymanager/policy_static.go, topologymanager/).
"""

from typing import Final

TOPOLOGY_AFFINITY_ERROR: Final = "TopologyAffinityError"
SMT_ALIGNMENT_ERROR: Final = "SMTAlignmentError"
UNEXPECTED_ADMISSION_ERROR: Final = "UnexpectedAdmissionError"

TOPOLOGY_MESSAGE: Final = "Resources cannot be allocated with Topology locality"


class Refused(Exception):  # noqa: N818 - it is an answer of the kubelet, not an error of ours
    """The kubelet refuses; ``reason`` and ``message`` are its own, ``resource`` is the one that it happened at."""

    def __init__(self, reason: str, message: str, resource: str, facts: dict[str, str] | None = None) -> None:
        """Keep the kubelet's words."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.resource = resource
        self.facts = facts or {}

    @classmethod
    def unexpectedly(cls, cause: str, resource: str) -> "Refused":
        """Return the refusal that the kubelet makes of an error without a reason of its own."""
        return cls(UNEXPECTED_ADMISSION_ERROR, f"Allocate failed due to {cause}, which is unexpected", resource)
