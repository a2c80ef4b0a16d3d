"""Koordinator's ``Device`` object: the devices of one node (``domain/koordinator-ack.md`` 1.5)."""

from dataclasses import dataclass
from typing import Final

from webhook.core.pod import Malformed
from webhook.wire.shapes import read_list, read_map, read_text

HIGHEST_MINOR: Final = 511
"""A device mask is as long as the highest minor."""


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """One device."""

    kind: str
    """``gpu``, ``rdma`` or ``fpga``."""
    minor: int
    """The driver's number; its bit in every device mask."""
    id: str = ""
    is_healthy: bool = False
    numa_id: int | None = None
    """None where it is not known (no topology, or ``nodeID: -1``)."""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of one node."""

    name: str
    """The node's name."""
    devices: tuple[NodeDevice, ...] = ()
    """By kind and minor; a minor that is told twice is left out, for nobody knows which of the two it is."""
    malformed: tuple[Malformed, ...] = ()

    def of_kind(self, kind: str) -> tuple[NodeDevice, ...]:
        """Return the devices of ``kind`` by minor."""
        return tuple(device for device in self.devices if device.kind == kind)


def read_node_devices(raw: object) -> NodeDevices:
    """Return the devices in ``raw``; nothing is raised for any JSON value. ``health`` is false where it is absent."""
    faults: list[Malformed] = []
    whole = read_map(raw, "", faults)
    metadata = read_map(whole.get("metadata"), "metadata", faults)
    spec = read_map(whole.get("spec"), "spec", faults)
    found: dict[tuple[str, int], NodeDevice | None] = {}
    for index, item in enumerate(read_list(spec.get("devices"), "spec.devices", faults)):
        path = f"spec.devices[{index}]"
        entry = read_map(item, path, faults)
        kind, minor = read_text(entry.get("type"), f"{path}.type", faults), entry.get("minor")
        if not isinstance(minor, int) or isinstance(minor, bool) or not 0 <= minor <= HIGHEST_MINOR or not kind:
            faults.append(Malformed(path, "a device without type or minor", f"a minor from 0 to {HIGHEST_MINOR}"))
            continue
        topology = read_map(entry.get("topology"), f"{path}.topology", faults)
        numa_id = topology.get("nodeID")
        known = isinstance(numa_id, int) and not isinstance(numa_id, bool) and 0 <= numa_id <= 9999
        found[kind, minor] = (
            None
            if (kind, minor) in found
            else NodeDevice(
                kind,
                minor,
                read_text(entry.get("id"), f"{path}.id", faults),
                entry.get("health") is True,
                numa_id if known and isinstance(numa_id, int) else None,
            )
        )
    return NodeDevices(
        read_text(metadata.get("name"), "metadata.name", faults),
        tuple(device for _, device in sorted(found.items()) if device is not None),
        tuple(faults),
    )
