"""What a pod asks of an allocator: its QoS class, and for each container whole cores, devices and memory."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from webhook.core.kept_hash import KeptHash
from webhook.core.pod import ContainerKind

SHAPES_REMEMBERED: Final = 16384
"""Demands of which one value stands for all equal ones; a cluster has some hundreds."""


class QosClass(enum.Enum):
    """Quality of service classes (kubernetes/kubernetes:pkg/apis/core/v1/helper/qos/qos.go)."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a call in Python for each look-up

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class CpuBinding(enum.Enum):
    """Whether a NUMA-aware scheduler binds the pod's CPUs to a set; a kubelet does not look at it."""

    __hash__ = object.__hash__  # as above

    NONE = "none"
    """They are only counted, by NUMA node where a policy holds."""
    CPUS = "cpus"
    WHOLE_CORES = "whole cores"
    """All hyper-threads of a core or none (a required bind policy ``FullPCPUs``)."""


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """One init container, sidecar or app container. Ephemeral containers ask for nothing and are left out."""

    name: str
    kind: ContainerKind
    cpu_millicores: int = 0
    """The CPU request after defaulting from the limit, rounded up to a millicore as the API server does."""
    devices: tuple[tuple[str, int], ...] = ()
    """(resource, count) of the limits of every resource that is not cpu, memory, ephemeral-storage or hugepages, in
    name order;     a count of 0 is kept: it still gives a hint (``domain/kubelet-code-as-oracle.md`` 3)."""
    memory_bytes: tuple[tuple[str, int], ...] = ()
    """(``memory`` or ``hugepages-*``, bytes) of the requests, in name order."""


@dataclass(frozen=True, slots=True)
class PodDemand(KeptHash):
    """A pod's whole demand. Equal demands are equal values, so decisions can be kept per demand."""

    qos: QosClass
    containers: tuple[ContainerDemand, ...]
    """Init containers and sidecars in their order, then app containers: the order of the kubelet's admission."""
    has_pod_level_resources: bool = False
    """Pod-level CPU or memory is set: CPU and memory managers then give no hints and no exclusive CPUs (1.34+)."""
    has_resource_claims: bool = False
    numa_policy: str = ""
    """The pod's own NUMA policy where its annotation states an exact one; only scheduler allocators look at it."""
    numa_exclusive: str = ""
    """``Required`` or ``Preferred`` where the annotation states it."""
    cpu_binding: CpuBinding = CpuBinding.NONE
    """Only scheduler allocators look at it."""
    totals: Mapping[str, int] = field(default_factory=dict, compare=True, hash=False)
    """What a scheduler counts (``resource -> amount``; cpu in millicores, everything else in whole units or bytes):
    the effective request with sidecars, init containers, pod-level resources and overhead
    (kubernetes/component-helpers:resource/helpers.go). ``pods`` is not in it."""

    __hash__ = KeptHash.__hash__  # else the decorator would make one

    def _key(self) -> tuple[object, ...]:
        return (
            self.qos,
            self.containers,
            self.has_pod_level_resources,
            self.has_resource_claims,
            self.numa_policy,
            self.numa_exclusive,
            self.cpu_binding,
        )

    def exclusive_cpus(self, container: ContainerDemand) -> int:
        """Return the whole cores a static CPU manager pins for ``container``: 0 unless Guaranteed and integral."""
        if self.qos is not QosClass.GUARANTEED or self.has_pod_level_resources or container.cpu_millicores % 1000:
            return 0
        return container.cpu_millicores // 1000


@lru_cache(maxsize=SHAPES_REMEMBERED)
def shared(demand: PodDemand) -> PodDemand:
    """Return the value that stands for all that equal ``demand``: what is compared often is then the same object."""
    return demand
