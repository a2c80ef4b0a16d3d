"""Everything that can happen to the ledger, as values; ``Ledger.apply`` takes them in any order, doubled or late."""

from dataclasses import dataclass

from webhook.core.ledger.records import NodeRecord, PodRecord, Report
from webhook.core.placement import Placement


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed, or one of the sources of its topology did."""

    record: NodeRecord


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was removed."""

    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was listed, added or changed."""

    pod: PodRecord
    is_history: bool = False
    """It was bound before we looked: its place can only be guessed."""


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was removed from the API server."""

    uid: str
    resource_version: int = 0


@dataclass(frozen=True, slots=True)
class PodsListed:
    """A fresh list ended: pods that the watch had shown and that it does not hold are gone; claims live on."""

    uids: frozenset[str]
    started_seconds: float
    resource_version: int = 0
    """The list's own: a pod that it does not hold may still be news if its record is younger. 0: not known."""


@dataclass(frozen=True, slots=True)
class NodesListed:
    """A fresh list of nodes ended: nodes that it does not hold are gone."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Claimed:
    """A create was admitted; the pod may never be stored."""

    pod: PodRecord
    node: str
    placement: Placement
    until_seconds: float


@dataclass(frozen=True, slots=True)
class BindingAdmitted:
    """A binding was let through; it counts as bound until the watch shows it or the moment passes."""

    uid: str
    node: str
    until_seconds: float


@dataclass(frozen=True, slots=True)
class BindingRefused:
    """A binding was turned back; the pod keeps a place on ``steer_to`` (empty: none) until the moment passes."""

    uid: str
    steer_to: str
    until_seconds: float


@dataclass(frozen=True, slots=True)
class RoomFreed:
    """Something ended on ``node``: a pod that was turned back and has no place gets one there, if the node takes it."""

    uid: str
    node: str
    until_seconds: float


@dataclass(frozen=True, slots=True)
class Diverged:
    """The kubelet did what the model did not expect: the places on this node are guesses until it drains or reports."""

    node: str


@dataclass(frozen=True, slots=True)
class RecalledPlace:
    """What one pod held before a restart."""

    uid: str
    cpus: int
    devices: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    """A checkpoint tells the places that bound pods of a node had before a restart: they were replayed then."""

    node: str
    places: tuple[RecalledPlace, ...]


@dataclass(frozen=True, slots=True)
class Reported:
    """A node has counted what it gave out: guessed places move to where the counts say, pods younger than it stay."""

    node: str
    report: Report


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Time has passed: claims and assumptions whose moment lies before it end."""


LedgerEvent = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | PodsListed
    | NodesListed
    | Claimed
    | BindingAdmitted
    | BindingRefused
    | RoomFreed
    | Diverged
    | Recalled
    | Reported
    | Elapsed
)
