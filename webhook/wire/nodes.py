"""A Node's JSON into what the ledger needs of it: selection facts and plain counts. Fast: a live feed calls it too."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook.core.node_selection import NodeFacts, Taint
from webhook.core.pod import Malformed
from webhook.wire.shapes import JsonMap, child, read_list, read_map, read_quantities, read_text, read_text_map

_VERSION: Final = re.compile(r"v?1\.([0-9]{1,3})(?:[^0-9].*)?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node as its object tells it; which machine it is, other sources say."""

    facts: NodeFacts
    allocatable: Mapping[str, int]
    """Units as ``PodDemand.totals``: cpu in millicores, everything else in whole units or bytes."""
    capacity: Mapping[str, int]
    """As ``allocatable``; what the machine has, unhealthy devices and reservations included."""
    kubelet_minor_version: int | None = None
    """Minor version of ``status.nodeInfo.kubeletVersion``; None where it is absent or no Kubernetes 1.x."""
    malformed: tuple[Malformed, ...] = ()


def read_node(raw: object) -> NodeReading:
    """Return what ``raw`` tells of a node; nothing is raised for any JSON value.

    A node without a condition ``Ready`` of status ``True`` is not ready.
    """
    faults: list[Malformed] = []
    node = read_map(raw, "", faults)
    metadata = read_map(node.get("metadata"), "metadata", faults)
    spec = read_map(node.get("spec"), "spec", faults)
    status = read_map(node.get("status"), "status", faults)
    facts = NodeFacts(
        name=read_text(metadata.get("name"), "metadata.name", faults),
        labels=read_text_map(metadata.get("labels"), "metadata.labels", faults),
        taints=read_taints(spec.get("taints"), "spec.taints", faults),
        ready=_is_ready(status, faults),
        unschedulable=spec.get("unschedulable") is True,
    )
    info = read_map(status.get("nodeInfo"), "status.nodeInfo", faults)
    return NodeReading(
        facts,
        read_amounts(status.get("allocatable"), "status.allocatable", faults),
        read_amounts(status.get("capacity"), "status.capacity", faults),
        minor_version(read_text(info.get("kubeletVersion"), "status.nodeInfo.kubeletVersion", faults)),
        tuple(faults),
    )


def read_amounts(raw: object, path: str, faults: list[Malformed]) -> dict[str, int]:
    """Return a resource list in the units of plain counts: cpu in millicores, else whole units or bytes.

    Below 0 is a fault: no machine has that (kubernetes/kubernetes:pkg/apis/core/validation/validation.go
    ValidateResourceQuantityValue, which holds for capacity and allocatable of a Node).
    """
    amounts: dict[str, int] = {}
    for name, quantity in read_quantities(raw, path, faults).items():
        if quantity.nanos < 0:
            faults.append(Malformed(child(path, name), f"{quantity}", "0 or more"))
        else:
            amounts[name] = quantity.millicores if name == "cpu" else quantity.value
    return amounts


def read_taints(raw: object, path: str, faults: list[Malformed]) -> tuple[Taint, ...]:
    """Return the taints in ``raw``, a list of key, value and effect."""
    if raw is None:
        return ()
    taints: list[Taint] = []
    for index, item in enumerate(read_list(raw, path, faults)):
        here = f"{path}[{index}]"
        taint = read_map(item, here, faults)
        taints.append(
            Taint(
                read_text(taint.get("key"), f"{here}.key", faults),
                read_text(taint.get("value"), f"{here}.value", faults),
                read_text(taint.get("effect"), f"{here}.effect", faults),
            )
        )
    return tuple(taints)


def minor_version(text: str) -> int | None:
    """Return 34 for ``v1.34.4-gke.1`` or ``1.34``; None for what is no version of Kubernetes 1.x."""
    found = _VERSION.fullmatch(text)
    return int(found[1]) if found else None


def _is_ready(status: JsonMap, faults: list[Malformed]) -> bool:
    for condition in read_list(status.get("conditions"), "status.conditions", faults):
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return False
