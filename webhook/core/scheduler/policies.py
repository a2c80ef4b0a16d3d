"""Which NUMA policy and which exclusivity hold for a pod on a node, and what of that is not verified for ACK."""

from types import MappingProxyType
from typing import Final

from webhook.core.demand import PodDemand
from webhook.core.machine import Machine

BEST_EFFORT: Final = "BestEffort"
RESTRICTED: Final = "Restricted"
SINGLE_NUMA_NODE: Final = "SingleNUMANode"
POLICIES: Final = (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)
"""Case-sensitive; any other value stops Koordinator's scheduler, as far as its code was read (2.1, rule 6)."""

REQUIRED: Final = "Required"
"""The only value that restricts anything: a misspelt one is silently no restriction (2.1, rule 5)."""

UNVERIFIED: Final = MappingProxyType(
    {
        1: "other homes of the annotation",
        2: "result annotations of the NUMA feature",
        3: "whether a trailing comma is tolerated",
        4: "checks at admission, and the texts of refusals",
        5: "whether 'all containers' covers init and ephemeral containers",
        6: "whether single and shared follow bound CPUs, or the pods' policies as the documentation words it",
        7: "label values of eGPU and Lingjun nodes",
        8: "whether its topology reports carry Koordinator's keys",
        9: "what a policy outside the three does",
        10: "that an unknown policy stops Koordinator's scheduler",
    }
)
"""What ``domain/koordinator-ack.md`` 3.7 lists, by its numbers. Of these the model takes 5 (they count as the usual pod
request), 6 (bound CPUs) and 9 (as no policy) from Koordinator or on the lenient side, and copies the texts of 4."""


class PolicyMismatchError(ValueError):
    """The pod's policy is another than the node's; ``str`` is the scheduler's own text."""

    def __init__(self) -> None:
        """Say it in the scheduler's words."""
        super().__init__("node(s) NUMA Topology policy not match")


def effective_policy(pod_policy: str, node_policy: str) -> str:
    """Return the policy that holds; empty: none.

    Raises:
        PolicyMismatchError: both state one, and not the same (2.1, rule 2).
    """
    if pod_policy and node_policy and pod_policy != node_policy:
        raise PolicyMismatchError
    policy = pod_policy or node_policy
    return policy if policy in POLICIES else ""


def effective_exclusive(pod_policy: str, pod_exclusive: str) -> str:
    """Return the exclusivity that holds: the pod's, else ``Required`` where the policy is the pod's own (rule 5)."""
    return pod_exclusive or (REQUIRED if pod_policy else "")


def is_wider_than_a_numa_node(machine: Machine, demand: PodDemand) -> bool:
    """Return whether ``demand`` states SingleNUMANode and asks for more than any NUMA node of ``machine`` is made of.

    Reserved CPUs and unhealthy devices count as there. That such a pod fits nowhere is documented by both vendors, so
    it holds as proof where the model's other refusals are guesses.
    """
    if demand.numa_policy != SINGLE_NUMA_NODE:
        return False
    cpus = max(cpus.bit_count() for cpus in machine.cpus.numa_cpus)
    if demand.totals.get("cpu", 0) > cpus * 1000:
        return True
    return any(
        demand.totals.get(layout.resource, 0)
        > max(layout.touching(1 << position).bit_count() for position in range(len(machine.numa_ids)))
        + layout.numa_of_device.count(0)  # of those the NUMA node is not known
        for layout in machine.devices
        if any(layout.numa_of_device)
    )
