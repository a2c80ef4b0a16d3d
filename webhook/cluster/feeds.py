"""What the feeds make of what they hear: compact records at once, and ledger events of what is new.

Namespaces are not followed: no answer depends on one (settings name them, and a label is a tenant's to write), and the
end of a namespace is told by the end of each of its pods.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, Protocol, TypeVar

from webhook.cluster.client import Client, Json
from webhook.cluster.node_board import NodeBoard
from webhook.cluster.pod_board import PodBoard
from webhook.core.ledger.events import LedgerEvent, PodsListed
from webhook.core.ledger.records import PodRecord
from webhook.core.pod import Malformed
from webhook.wire.devices import NodeDevices, read_node_devices
from webhook.wire.node_topologies import NodeTopology, read_node_topology
from webhook.wire.nodes import NodeReading, read_node
from webhook.wire.pod_records import read_pod_record
from webhook.wire.pod_results import read_result
from webhook.wire.pods import read_pod
from webhook.wire.shelf import Shelf

PODS_PATH: Final = "/api/v1/pods"
NODES_PATH: Final = "/api/v1/nodes"
DEVICES_PATH: Final = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
TOPOLOGY_GROUP: Final = "topology.node.k8s.io"
TOPOLOGY_RESOURCE: Final = "noderesourcetopologies"

_VERSIONS: Final = ("v1alpha2", "v1alpha1")
"""Served versions that we read, best first; any other is taken as the API server prefers."""


OnMalformed = Callable[[str, Sequence[Malformed]], None]
"""Told the name of an object and the parts of it that could not be read."""


def _unheard(_name: str, _faults: Sequence[Malformed]) -> None:
    return


class OfANode(Protocol):
    """What a source tells of one node; its name is the node's."""

    @property
    def name(self) -> str:
        """The node's name."""
        ...

    @property
    def malformed(self) -> tuple[Malformed, ...]:
        """What could not be read."""
        ...


Told = TypeVar("Told", bound=OfANode)


class PodReceiver:
    """Pods into ``PodSeen``, ``PodGone`` and ``PodsListed``."""

    def __init__(
        self,
        board: PodBoard,
        wall_seconds: Callable[[], float],
        after_list: Callable[[], Iterable[LedgerEvent]] = lambda: (),
        on_malformed: OnMalformed = _unheard,
    ) -> None:
        """Tell ``board``; what ``after_list`` returns (a checkpoint's places, reports) follows each list."""
        self._board = board
        self._wall_seconds = wall_seconds
        self._after_list = after_list
        self._on_malformed = on_malformed
        self._shelf = Shelf()
        self._listing: set[str] = set()
        self._started_seconds = 0.0

    def list_begins(self) -> None:
        """Remember when, for claims that are younger."""
        self._listing = set()
        self._started_seconds = self._wall_seconds()

    def listed(self, items: list[Any]) -> None:
        """Take a page."""
        records = [record for item in items if (record := self._record(item)) is not None]
        self._listing.update(record.uid for record in records)
        self._board.seen(records, is_list=True)

    def list_ends(self) -> None:
        """Forget what was not listed."""
        # Asked before the board's lock is taken: it asks other boards and the cluster.
        more = tuple(self._after_list())
        self._board.listed(PodsListed(frozenset(self._listing), self._started_seconds), more)
        self._listing = set()

    def changed(self, kind: str, item: Json) -> None:
        """Take one change."""
        record = self._record(item)
        if record is None:
            return
        if kind == "DELETED":
            self._board.gone(record.uid, record.resource_version)
        else:
            self._board.seen((record,))

    def _record(self, item: object) -> PodRecord | None:
        pod = read_pod(item)
        if pod.malformed:
            self._on_malformed(f"{pod.namespace}/{pod.name}", pod.malformed)
        if not pod.uid:
            return None
        record = read_pod_record(item, pod=pod)
        return replace(
            record,
            namespace=sys.intern(record.namespace),
            node_name=sys.intern(record.node_name),
            phase=sys.intern(record.phase),
            scheduler_name=sys.intern(record.scheduler_name),
            owner=sys.intern(record.owner),
            demand=self._shelf.one(record.demand),
            eligibility=self._shelf.one(record.eligibility),
            confirmed=read_result(pod.annotations, record.demand) if record.node_name else None,
        )


class NodeReceiver:
    """Nodes into the board."""

    def __init__(self, board: NodeBoard, on_malformed: OnMalformed = _unheard) -> None:
        """Tell ``board``."""
        self._board = board
        self._on_malformed = on_malformed
        self._listing: set[str] = set()

    def list_begins(self) -> None:
        """Begin to collect names."""
        self._listing = set()

    def listed(self, items: list[Any]) -> None:
        """Take a page."""
        for item in items:
            reading = self._read(item)
            self._listing.add(reading.facts.name)
            self._board.node_seen(reading)

    def list_ends(self) -> None:
        """Whatever was not listed is gone."""
        self._board.nodes_listed(frozenset(self._listing))

    def changed(self, kind: str, item: Json) -> None:
        """Take one change."""
        reading = self._read(item)
        if kind == "DELETED":
            self._board.node_gone(reading.facts.name)
        else:
            self._board.node_seen(reading)

    def _read(self, item: object) -> NodeReading:
        reading = read_node(item)
        if reading.malformed:
            self._on_malformed(reading.facts.name, reading.malformed)
        return reading


class SourceReceiver(Generic[Told]):
    """A source that tells one thing of each node (NodeResourceTopologies, Koordinator's Devices) into the board."""

    def __init__(
        self,
        read: Callable[[Json], Told],
        seen: Callable[[str, Told | None], None],
        all_listed: Callable[[frozenset[str]], None],
        on_malformed: OnMalformed = _unheard,
    ) -> None:
        """Read items by ``read`` and tell the board by ``seen`` (None: removed) and, after a list, ``all_listed``."""
        self._reads = read
        self._on_malformed = on_malformed
        self._seen = seen
        self._all_listed = all_listed
        self._listing: set[str] = set()

    def list_begins(self) -> None:
        """Begin to collect names."""
        self._listing = set()

    def listed(self, items: list[Any]) -> None:
        """Take a page."""
        for item in items:
            told = self._read(item)
            self._listing.add(told.name)
            self._seen(told.name, told)

    def list_ends(self) -> None:
        """Whatever was not listed is gone."""
        self._all_listed(frozenset(self._listing))

    def changed(self, kind: str, item: Json) -> None:
        """Take one change."""
        told = self._read(item)
        self._seen(told.name, None if kind == "DELETED" else told)

    def _read(self, item: Json) -> Told:
        told = self._reads(item)
        if told.malformed:
            self._on_malformed(told.name, told.malformed)
        return told


def topology_receiver(
    board: NodeBoard, pods: PodBoard, on_malformed: OnMalformed = _unheard
) -> SourceReceiver[NodeTopology]:
    """Return the receiver of NodeResourceTopologies: what they tell of nodes, and koordlet's of pods."""

    def seen(name: str, topology: NodeTopology | None) -> None:
        board.topology_seen(name, topology)
        tells = topology.koordlet if topology else None
        pods.cpus_told(name, dict(tells.pod_cpus) if tells else {})

    def all_listed(names: frozenset[str]) -> None:
        board.topologies_listed(names)
        pods.cpus_listed(names)

    return SourceReceiver(read_node_topology, seen, all_listed, on_malformed)


def device_receiver(board: NodeBoard, on_malformed: OnMalformed = _unheard) -> SourceReceiver[NodeDevices]:
    """Return the receiver of Koordinator's Devices."""
    return SourceReceiver(read_node_devices, board.devices_seen, board.devices_listed, on_malformed)


def topology_path(client: Client) -> str:
    """Return the list's path of NodeResourceTopologies in a version that is served.

    Raises:
        NotFound: the CRD is missing.
    """
    group = client.get(f"/apis/{TOPOLOGY_GROUP}")
    versions = [entry.get("version") for entry in group.get("versions") or () if isinstance(entry, dict)]
    found = next((version for version in (*_VERSIONS, *versions) if version in versions), _VERSIONS[0])
    return f"/apis/{TOPOLOGY_GROUP}/{found}/{TOPOLOGY_RESOURCE}"
