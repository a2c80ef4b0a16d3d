"""A NodeResourceTopology, whatever version is served, into what it tells: who wrote it, NUMA nodes, settings.

Forms: ``domain/kubelet-topology.md`` 3.1 (NFD's topology-updater, resource-topology-exporter) and
``domain/koordinator-ack.md`` 1.6 (koordlet). v1alpha1 and v1alpha2 differ in ``attributes``, which only the newer one
has at the top.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.core.machine import TopologyPolicy, TopologyScope
from webhook.core.pod import Malformed
from webhook.core.quantity import QuantityError, parse_quantity
from webhook.wire.koordlet_annotations import KoordletTells, read_koordlet_annotations
from webhook.wire.pod_records import seconds_of
from webhook.wire.shapes import JsonMap, read_list, read_map, read_text, read_text_map

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
RTE_ANNOTATION: Final = "k8stopoawareschedwg/rte-update"
KOORDLET_ANNOTATIONS: Final = ("kubelet.koordinator.sh/cpu-manager-policy", "node.koordinator.sh/cpu-topology")
POLICY_ATTRIBUTE: Final = "topologyManagerPolicy"
SCOPE_ATTRIBUTE: Final = "topologyManagerScope"
FINGERPRINT_ATTRIBUTE: Final = "nodeTopologyPodsFingerprint"

MOST_ZONES: Final = 64
"""The kubelet counts no more than 64 NUMA nodes; more zones are not a machine."""

_OLD_WORDS: Final[Mapping[str, TopologyPolicy]] = {
    "SingleNUMANode": TopologyPolicy.SINGLE_NUMA_NODE,
    "Restricted": TopologyPolicy.RESTRICTED,
    "BestEffort": TopologyPolicy.BEST_EFFORT,
    "None": TopologyPolicy.NONE,
}
_OLD_LEVELS: Final[Mapping[str, TopologyScope | None]] = {
    "PodLevel": TopologyScope.POD,
    "ContainerLevel": TopologyScope.CONTAINER,
    "": None,
}


class Writer(enum.Enum):
    """The program that wrote a topology; it decides what ``available`` means."""

    KOORDLET = "koordlet"
    NFD = "nfd"
    """NFD's topology-updater."""
    RTE = "rte"
    """resource-topology-exporter."""
    UNKNOWN = "unknown"

    @property
    def is_live(self) -> bool:
        """Whether its ``available`` is what is free now; koordlet's always equals ``allocatable``."""
        return self in {Writer.NFD, Writer.RTE}


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource of a zone, in whole units (CPUs, devices) or bytes; rounded down."""

    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True)
class Zone:
    """One NUMA node."""

    numa_id: int
    amounts: Mapping[str, Amount]
    costs: Mapping[int, int] = field(default_factory=dict)
    """Distance to each NUMA id, itself included; empty where none are told."""

    def capacity(self, resource: str) -> int:
        """Return how much of ``resource`` the zone has; 0 where it is not listed."""
        amount = self.amounts.get(resource)
        return amount.capacity if amount else 0

    def reserved(self, resource: str) -> int:
        """Return how much of ``resource`` is never given out."""
        amount = self.amounts.get(resource)
        return max(0, amount.capacity - amount.allocatable) if amount else 0

    def busy(self, resource: str) -> int:
        """Return how much of ``resource`` is given out, where the writer is live."""
        amount = self.amounts.get(resource)
        return max(0, amount.allocatable - amount.available) if amount else 0


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """What the topology of one node tells."""

    name: str
    """The node's name."""
    writer: Writer = Writer.UNKNOWN
    policy: TopologyPolicy | None = None
    scope: TopologyScope | None = None
    zones: tuple[Zone, ...] = ()
    """By ascending NUMA id; empty where none can be read."""
    koordlet: KoordletTells | None = None
    reported_seconds: float = 0.0
    """When its content last changed, seconds since 1970, cut to a whole second; 0 where that is not told."""
    malformed: tuple[Malformed, ...] = ()


def read_node_topology(raw: object) -> NodeTopology:
    """Return what ``raw`` tells; nothing is raised for any JSON value, and what cannot be read is left out.

    A zone counts if its type is ``Node`` and its name ``node-N`` (consumers of all three writers read them so).
    A zone that is told twice, or more than ``MOST_ZONES``, leaves no zones at all: that is no machine.
    """
    faults: list[Malformed] = []
    whole = read_map(raw, "", faults)
    metadata = read_map(whole.get("metadata"), "metadata", faults)
    annotations = read_text_map(metadata.get("annotations"), "metadata.annotations", faults)
    attributes = _attributes(whole.get("attributes"), faults)
    writer = _writer(metadata, annotations, attributes, faults)
    policy, scope = _policy(attributes, read_list(whole.get("topologyPolicies"), "topologyPolicies", faults))
    return NodeTopology(
        name=read_text(metadata.get("name"), "metadata.name", faults),
        writer=writer,
        policy=policy,
        scope=scope,
        zones=_zones(whole.get("zones"), faults),
        koordlet=read_koordlet_annotations(annotations, faults) if writer is Writer.KOORDLET else None,
        reported_seconds=_reported(metadata, faults),
        malformed=tuple(faults),
    )


def _writer(
    metadata: JsonMap, annotations: Mapping[str, str], attributes: Mapping[str, str], faults: list[Malformed]
) -> Writer:
    labels = read_text_map(metadata.get("labels"), "metadata.labels", faults)
    if labels.get(MANAGED_BY) == "Koordinator" or any(key in annotations for key in KOORDLET_ANNOTATIONS):
        return Writer.KOORDLET
    if RTE_ANNOTATION in annotations:
        return Writer.RTE
    # NFD marks nothing; these attributes are its shape, and koordlet has been told apart already.
    if any(key in attributes for key in (POLICY_ATTRIBUTE, SCOPE_ATTRIBUTE, FINGERPRINT_ATTRIBUTE)):
        return Writer.NFD
    managers = (
        entry.get("manager")
        for entry in read_list(metadata.get("managedFields"), "metadata.managedFields", faults)
        if isinstance(entry, dict)
    )
    if any(isinstance(manager, str) and manager.startswith("nfd") for manager in managers):
        return Writer.NFD
    return Writer.UNKNOWN


def _policy(
    attributes: Mapping[str, str], old_words: Iterable[object]
) -> tuple[TopologyPolicy | None, TopologyScope | None]:
    """Return policy and scope: each from its attribute, else from the deprecated list (its first known word)."""
    policy = next((each for each in TopologyPolicy if each.value == attributes.get(POLICY_ATTRIBUTE)), None)
    scope = next((each for each in TopologyScope if each.value == attributes.get(SCOPE_ATTRIBUTE)), None)
    if policy is not None and scope is not None:
        return policy, scope
    for word in old_words:
        for stem, old_policy in _OLD_WORDS.items():
            level = word.removeprefix(stem) if isinstance(word, str) and word.startswith(stem) else None
            if level is not None and level in _OLD_LEVELS:
                # The scope of an old word that tells another policy belongs to that policy.
                return (
                    (policy, scope) if policy not in {None, old_policy} else (old_policy, scope or _OLD_LEVELS[level])
                )
    return policy, scope


def _attributes(raw: object, faults: list[Malformed]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in read_list(raw, "attributes", faults):
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("value"), str):
            found[entry["name"]] = entry["value"]
    return found


def _zones(raw: object, faults: list[Malformed]) -> tuple[Zone, ...]:
    zones: dict[int, Zone] = {}
    for index, item in enumerate(read_list(raw, "zones", faults)):
        path = f"zones[{index}]"
        zone = read_map(item, path, faults)
        numa_id = _numa_id(zone.get("name"))
        if zone.get("type") != "Node" or numa_id is None:
            continue
        if numa_id in zones or len(zones) == MOST_ZONES:
            faults.append(Malformed(path, "one zone too many", f"at most {MOST_ZONES} zones, each of its own number"))
            return ()
        zones[numa_id] = Zone(
            numa_id, _amounts(zone.get("resources"), f"{path}.resources", faults), _costs(zone.get("costs"), faults)
        )
    return tuple(zones[numa_id] for numa_id in sorted(zones))


def _numa_id(name: object) -> int | None:
    if not isinstance(name, str) or not name.startswith("node-"):
        return None
    digits = name.removeprefix("node-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 4 else None


def _amounts(raw: object, path: str, faults: list[Malformed]) -> dict[str, Amount]:
    amounts: dict[str, Amount] = {}
    for index, item in enumerate(read_list(raw, path, faults)):
        entry = read_map(item, f"{path}[{index}]", faults)
        name = entry.get("name")
        capacity, allocatable, available = (_whole(entry.get(key)) for key in ("capacity", "allocatable", "available"))
        if not isinstance(name, str) or capacity is None:
            faults.append(Malformed(f"{path}[{index}]", "an entry without name or capacity", "name, capacity"))
            continue
        allocatable = capacity if allocatable is None else min(allocatable, capacity)
        amounts[name] = Amount(capacity, allocatable, allocatable if available is None else min(available, allocatable))
    return amounts


def _whole(raw: object) -> int | None:
    if not isinstance(raw, (str, int)):
        return None
    try:
        thousandths = parse_quantity(raw).millicores
    except QuantityError:
        return None
    return max(0, thousandths) // 1000


def _costs(raw: object, faults: list[Malformed]) -> dict[int, int]:
    costs: dict[int, int] = {}
    for entry in read_list(raw, "costs", faults):
        if isinstance(entry, dict):
            other, value = _numa_id(entry.get("name")), entry.get("value")
            if other is not None and isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255:
                costs[other] = value
    return costs


def _reported(metadata: JsonMap, faults: list[Malformed]) -> float:
    times = [
        seconds_of(entry.get("time"))
        for entry in read_list(metadata.get("managedFields"), "metadata.managedFields", faults)
        if isinstance(entry, dict)
    ]
    return max(times, default=0.0) or seconds_of(metadata.get("creationTimestamp"))
