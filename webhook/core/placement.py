"""The protocol of allocator models: may this pod run on this machine now, where would it sit, and if not why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from webhook.core.demand import PodDemand
from webhook.core.machine import Machine, NodeState


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """What one container got: exclusive CPUs and devices as masks, per resource index of ``Machine.devices``."""

    name: str
    cpus: int = 0
    devices: tuple[tuple[int, int], ...] = ()
    """(index in ``Machine.devices``, mask of devices)."""
    numa_mask: int | None = None
    """The NUMA positions that the allocator chose for it (or for the pod); None: no affinity."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a pod holds of a node while it lives, with what finished init containers left and no app reused."""

    cpus: int = 0
    devices: tuple[int, ...] = ()
    """One mask per ``Machine.devices``."""
    memory: tuple[tuple[tuple[int, int], ...], ...] = ()
    """As ``NodeState.busy_memory``."""
    cpuset: int = 0
    """The CPUs that a scheduler bound the pod to, for ``NodeState.cpusets``; 0 on kubelet-allocated nodes."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The pod is admitted: what it holds, where each container sits, and the node's state afterwards."""

    holding: Holding
    containers: tuple[ContainerPlace, ...]
    state: NodeState


@dataclass(frozen=True, slots=True)
class Rejection:
    """The pod is refused: the allocator's reason and message, and which container or resource it was."""

    reason: str
    """``TopologyAffinityError``, ``SMTAlignmentError``, ``UnexpectedAdmissionError``, or a scheduler's short word."""
    message: str
    container: str = ""
    resource: str = ""
    structural: bool = False
    """Whether the machine refuses this demand even when it is empty and healthy."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Numbers for the proof, such as ``cpu_width`` and ``gpu_width``."""


class Allocator(Protocol):
    """An allocator model: pure functions of machine, state and demand."""

    @property
    def name(self) -> str:
        """The model's name, for the map and for metrics."""
        ...

    def __hash__(self) -> int:
        """Return a hash: answers are kept by model, machine, state and demand."""
        ...

    def place(self, machine: Machine, state: NodeState, demand: PodDemand) -> Placement | Rejection:
        """Return where ``demand`` would sit on ``machine`` in ``state``, or why it is refused."""
        ...

    def release(self, machine: Machine, state: NodeState, holding: Holding) -> NodeState:
        """Return ``state`` with ``holding`` given back."""
        ...
