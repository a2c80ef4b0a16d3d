"""All that is told of each node, from several feeds, put together: a node's record changes when any of them changes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from webhook.core.ledger.events import LedgerEvent, NodeGone, NodeSeen, NodesListed, Reported
from webhook.core.ledger.records import NodeRecord
from webhook.core.ledger.verdicts import MachineClass
from webhook.wire.devices import NodeDevices
from webhook.wire.node_reports import report_of
from webhook.wire.node_sources import NodeAssembler, NodeSources
from webhook.wire.node_topologies import NodeTopology
from webhook.wire.nodes import NodeReading

REPORT_TRIES = 3
"""A report may be ahead of the feed of pods, so it is told again this many times."""


class NodeBoard:
    """Told by several feeds' threads. Its lock is held while events are handed on, so that they keep their order."""

    def __init__(self, assembler: NodeAssembler, apply: Callable[[Sequence[LedgerEvent]], None]) -> None:
        """Build records with ``assembler`` and hand events to ``apply``."""
        self._assembler = assembler
        self._apply = apply
        self._lock = threading.Lock()
        self._readings: dict[str, NodeReading] = {}
        self._topologies: dict[str, NodeTopology] = {}
        self._devices: dict[str, NodeDevices] = {}
        self._records: dict[str, NodeRecord] = {}
        self._tries_left: dict[str, int] = {}

    def node_seen(self, reading: NodeReading) -> None:
        """A node was added or changed."""
        name = reading.facts.name
        with self._lock:
            if name and self._readings.get(name) != reading:
                self._readings[name] = reading
                self._tell(name)

    def node_gone(self, name: str) -> None:
        """A node was removed."""
        with self._lock:
            self._readings.pop(name, None)
            if self._records.pop(name, None) is not None:
                self._apply((NodeGone(name),))

    def nodes_listed(self, names: frozenset[str]) -> None:
        """The list of nodes is whole."""
        with self._lock:
            for known in (self._readings, self._records):
                for name in [name for name in known if name not in names]:
                    del known[name]
            self._apply((NodesListed(names),))

    def topology_seen(self, name: str, topology: NodeTopology | None) -> None:
        """A topology was added or changed; None: it was removed."""
        with self._lock:
            if self._topologies.get(name) == topology:
                return
            if topology is None:
                del self._topologies[name]
            else:
                self._topologies[name] = topology
                self._tries_left[name] = REPORT_TRIES
            self._tell(name)

    def topologies_listed(self, names: frozenset[str]) -> None:
        """The list of topologies is whole; an empty one also where the CRD has disappeared."""
        for name in [name for name in self._topologies if name not in names]:
            self.topology_seen(name, None)

    def devices_seen(self, name: str, devices: NodeDevices | None) -> None:
        """A node's devices were told or changed; None: the object was removed."""
        with self._lock:
            if self._devices.get(name) == devices:
                return
            if devices is None:
                del self._devices[name]
            else:
                self._devices[name] = devices
            self._tell(name)

    def devices_listed(self, names: frozenset[str]) -> None:
        """The list of Devices is whole."""
        for name in [name for name in self._devices if name not in names]:
            self.devices_seen(name, None)

    def change_classes(self, classes: tuple[MachineClass, ...]) -> None:
        """Describe nodes by ``classes`` from now on: each node whose record changes so is told, one after another.

        The others are not told, and no node is taken away meanwhile.
        """
        with self._lock:
            self._assembler = replace(self._assembler, classes=classes)  # with its shelf: equal machines stay one value
            names = tuple(self._readings)
        for name in names:
            with self._lock:
                self._tell(name)

    def reports(self) -> tuple[LedgerEvent, ...]:
        """Return the live reports of all nodes, for after a list of pods."""
        with self._lock:
            return self._reports(tuple(self._topologies))

    def repeat_reports(self) -> None:
        """Tell young reports again: the pods that they are about may have been heard of only now."""
        with self._lock:
            names = tuple(self._tries_left)
            for name in names:
                self._tries_left[name] -= 1
                if not self._tries_left[name]:
                    del self._tries_left[name]
            events = self._reports(names)
            if events:
                self._apply(events)

    def _reports(self, names: Sequence[str]) -> tuple[LedgerEvent, ...]:
        events: list[LedgerEvent] = []
        for name in names:
            topology, record = self._topologies.get(name), self._records.get(name)
            report = report_of(topology, record.machine) if topology and record and record.machine else None
            if report is not None:
                events.append(Reported(name, report))
        return tuple(events)

    def _tell(self, name: str) -> None:
        reading = self._readings.get(name)
        if reading is None:
            return
        record = self._assembler.record(NodeSources(reading, self._topologies.get(name), self._devices.get(name)))
        events: list[LedgerEvent] = []
        if self._records.get(name) != record:
            self._records[name] = record
            events.append(NodeSeen(record))
        events.extend(self._reports((name,)))
        if events:
            self._apply(events)
