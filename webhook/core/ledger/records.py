"""What the ledger is told and what it keeps: nodes, pods, entries. All frozen; a change is a new value."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.core.demand import PodDemand, shared
from webhook.core.effective import demand_of
from webhook.core.machine import Machine, NodeState
from webhook.core.node_selection import NodeFacts
from webhook.core.placement import ContainerPlace, Holding
from webhook.core.pod import NodeSelectorTerm, Pod, Toleration

UNLIMITED: Final = 1 << 62
"""What is free where no limit is known."""


class AllocatorKind(enum.Enum):
    """Who hands out a node's NUMA nodes (``DESIGN.md`` 2)."""

    KUBELET = "kubelet"
    SCHEDULER = "scheduler"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as its sources show it; ``machine`` is None where no source tells its NUMA nodes."""

    facts: NodeFacts
    allocatable: Mapping[str, int]
    """Units as ``PodDemand.totals``: cpu in millicores, else whole units or bytes; ``pods`` included."""
    machine: Machine | None = None
    allocator: AllocatorKind = AllocatorKind.UNKNOWN
    unhealthy: tuple[int, ...] = ()
    """Mask of unhealthy devices per ``machine.devices``; empty where all are healthy."""
    numa_source: str = ""
    """Which source told its NUMA nodes, for metrics and pages; empty: none did, or nobody says."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.facts.name

    def free(self, resource: str, totals: Mapping[str, int]) -> int:
        """Return what ``totals`` leave of ``resource``; may be negative.

        A source that lists no ``pods`` sets no limit to their number; any other resource that a node does not list is
        one that a scheduler finds none of there.
        """
        if resource == "pods" and "pods" not in self.allocatable:
            return UNLIMITED
        return self.allocatable.get(resource, 0) - totals.get(resource, 0)

    def has_plain_room(self, totals: Mapping[str, int], demand: PodDemand) -> bool:
        """Return whether the plain count leaves room for one more pod of ``demand`` beside ``totals``."""
        return self.free("pods", totals) >= 1 and all(
            self.free(resource, totals) >= amount for resource, amount in demand.totals.items() if amount > 0
        )


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What a pod demands of the node's name, labels and taints. Equal for all pods of one template."""

    node_selector: tuple[tuple[str, str], ...] = ()
    required_terms: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    """``spec.nodeName`` preset at creation: only that node counts, and its taints of effect NoSchedule do not."""

    @staticmethod
    def of(pod: Pod) -> "Eligibility":
        """Return what ``pod`` demands of a node."""
        return Eligibility(tuple(sorted(pod.node_selector.items())), pod.required_terms, pod.tolerations, pod.node_name)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What sources tell of a bound pod's place: all of it, or its CPUs or some of its devices alone."""

    cpus: int | None
    """Mask of exclusive CPUs; None where no source says anything about CPUs."""
    devices: tuple[tuple[str, int], ...] = ()
    """(resource, mask of devices); nothing is told of a resource that is left out."""
    is_by_kubelet: bool = False
    """The CPUs were pinned by the node's kubelet. On a node that a scheduler allocates they are taken like any others,
    but a NUMA node is single or shared by the scheduler's own sets alone (``domain/koordinator-ack.md`` 2.5)."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a node itself counted as given out, by a writer whose counts are live (NFD, RTE)."""

    as_of_seconds: float
    """When it was written, seconds since 1970, cut to a whole second."""
    busy: Mapping[str, tuple[int, ...]]
    """``cpu`` (exclusive CPUs) and device resources: how many are given out on each NUMA position of the machine."""


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod in a few fields, from a watch or from a request."""

    uid: str
    namespace: str
    name: str
    demand: PodDemand
    eligibility: Eligibility
    node_name: str = ""
    """The node it is bound to; empty while it is not."""
    phase: str = "Pending"
    is_deleting: bool = False
    is_gated: bool = False
    is_unschedulable: bool = False
    """The scheduler found no node (PodScheduled=False, reason Unschedulable): it holds nothing."""
    is_refused_at_binding: bool = False
    """PodScheduled=False, reason SchedulerError: our bind guard (or another) turned its binding back."""
    nominated_node: str = ""
    is_answered: bool = False
    """The kubelet has said something about it: phase is not Pending, or it has container statuses."""
    created_seconds: float = 0.0
    bound_seconds: float = 0.0
    """When the condition PodScheduled became true, seconds since 1970; 0 where it is not told."""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    confirmed: Confirmed | None = None
    resource_version: int = 0
    failure_reason: str = ""
    """``status.reason`` of a Failed pod."""
    owner: str = ""
    """Kind/name of the controlling owner, for the map and the proofs only."""
    volume_claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims that it mounts."""

    @property
    def has_ended(self) -> bool:
        """Whether it ran to its end and holds nothing any more."""
        return self.phase in {"Succeeded", "Failed"}

    @staticmethod
    def asked(pod: Pod, *, namespace: str) -> "PodRecord":
        """Return the record of a pod in a CREATE review (not stored yet)."""
        return PodRecord(
            uid=pod.uid,
            namespace=namespace,
            name=pod.name or f"{pod.generate_name}*",
            demand=shared(demand_of(pod)),
            eligibility=Eligibility.of(pod),
            is_gated=bool(pod.scheduling_gates),
            scheduler_name=pod.scheduler_name or "default-scheduler",
            priority=pod.priority,
            owner=f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else "",
            volume_claims=pod.volume_claims,
        )


class EntryState(enum.Enum):
    """Where a pod stands between our first sight of it and its end (``DESIGN.md`` 4)."""

    CLAIMED = "claimed"
    PENDING = "pending"
    BOUND = "bound"


class Certainty(enum.Enum):
    """On what a place rests, weakest first."""

    VIRTUAL = "virtual"
    """A place that the ledger chose for a pod that is not bound."""
    GUESSED = "guessed"
    REPLAYED = "replayed"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One pod in the ledger. ``node`` is empty while it has no place."""

    pod: PodRecord
    state: EntryState
    node: str = ""
    certainty: Certainty = Certainty.VIRTUAL
    holding: Holding | None = None
    """None where the allocator model finds no place or the topology is not known: its totals count all the same."""
    places: tuple[ContainerPlace, ...] = ()
    until_seconds: float | None = None
    """When a claim, an admitted binding or a kept place ends unless the watch shows it."""
    tries: int = 0
    """Bindings of it that were turned back."""
    is_assumed: bool = False
    """Bound by an admitted binding that the watch has not shown yet."""
    since_seconds: float = 0.0
    """When it was charged to its node, by our clock."""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.uid

    @property
    def is_stored(self) -> bool:
        """Whether the watch has shown the pod: else it is only asked for, and may never be stored."""
        return self.pod.resource_version > 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with everything on it: an immutable value that readers may keep."""

    record: NodeRecord
    bound: tuple[Entry, ...] = ()
    """In the order in which the kubelet took them."""
    virtual: tuple[Entry, ...] = ()
    bound_state: NodeState | None = None
    """After the bound pods; None where the machine is not known."""
    full_state: NodeState | None = None
    """After the bound pods and the virtual places."""
    bound_totals: Mapping[str, int] = field(default_factory=dict)
    """Sum of the totals of the bound pods."""
    full_totals: Mapping[str, int] = field(default_factory=dict)
    since_seconds: float = 0.0
    """When the free state last changed."""
    is_doubted: bool = False
    """The kubelet surprised the model here: the free state proves nothing until the node drains or reports."""
    is_reported: bool = False
    """Where its guessed pods sit agrees with a live report, until one of them ends: which of them sat where is not
    reported."""

    @property
    def is_guessed(self) -> bool:
        """Whether a place on it rests on a guess, so that its free state proves nothing."""
        if self.is_reported:
            return self.is_doubted
        # A list is quicker than a generator, and this is on the path of every event.
        return self.is_doubted or Certainty.GUESSED in [entry.certainty for entry in self.bound]

    @property
    def is_freeing(self) -> bool:
        """Whether a pod on it is terminating: room will come."""
        return True in [entry.pod.is_deleting for entry in self.bound]

    def free(self, resource: str, *, with_virtual: bool = True) -> int:
        """Return what the plain count leaves of ``resource``, in the units of ``PodDemand.totals``; may be negative."""
        return self.record.free(resource, self.full_totals if with_virtual else self.bound_totals)
