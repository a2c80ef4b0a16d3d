"""From everything that tells of a node to its ``NodeRecord``: which source wins, fact by fact.

This is the table; the first source of a row that tells the fact counts, and ``tests/wire/test_wire_node_sources.py``
goes through it row by row.

| fact | 1st | 2nd | 3rd | 4th |
|---|---|---|---|---|
| allocator kind | NRT: a kubelet policy that aligns (its refusal is final) | node labels | NRT | machine class |
| kubelet policy, scope | NRT attributes | NRT ``topologyPolicies`` | machine class | ``none``, ``container`` |
| CPU manager policy, options | koordlet annotation | machine class | NRT reserves CPUs: ``static`` | ``none`` |
| NUMA nodes, CPUs of each | koordlet ``cpu-topology`` | NRT zones, names from an agreeing class | machine class | |
| devices of each NUMA node | ``Device`` | NRT zones, by the class where it has more | machine class | |
| reserved CPUs | koordlet annotations | NRT capacity less allocatable | machine class | none |
| plain counts | the Node's status | machine class | | |
| healthy devices | ``Device`` | NRT: fewer than the class has | all | |
| distances | NRT costs | machine class | | |
| memory manager, kubelet's other settings | machine class | | | |
| kubelet's version | the Node's status | machine class | | |

Without NUMA nodes from any source the machine is None, and the node's answer is *unknown*.

Who holds what of them: ``webhook.cluster.pod_board`` has the table of pods.

Left unread: ACK's ConfigMap of a node's GPU topology (``domain/koordinator-ack.md`` 3.6; kube-system, label
``ack.node.gpu.schedule=topology``). What is known of it is too thin: it names no NUMA node, the form of the values in
its ``linkType`` and ``bandwidth`` matrices is not documented, and that the GPU numbers of its ``devices`` are those of
any other source is not verified, so not even the health in it can be joined to a device. Reading it would take a watch
on the ConfigMaps of kube-system. On ACK a ``Device``, a NodeResourceTopology or a machine class tells the NUMA nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from webhook.core.ledger.records import AllocatorKind, NodeRecord
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.machine import CpuLayout, DeviceLayout, KubeletConfig, Machine, MachineError, TopologyPolicy
from webhook.wire.counted_machines import contiguous_cpus, counted_devices, cpu_counts, reserved_by_count
from webhook.wire.devices import NodeDevices
from webhook.wire.machine_classes import POLICY_LABEL
from webhook.wire.node_topologies import NodeTopology, Writer, Zone
from webhook.wire.nodes import NodeReading
from webhook.wire.pod_results import RESOURCES_OF_KIND
from webhook.wire.shelf import Shelf

ACK_SCHEDULE_LABEL: Final = "ack.node.gpu.schedule"

CLASS_SOURCE: Final = "class"
NUMA_SOURCES: Final = (*(writer.value for writer in Writer), CLASS_SOURCE)
"""Who may tell a node's NUMA nodes: the writer of its NodeResourceTopology, or a machine class of the settings."""

_UNTRACKED: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_OPTION_FIELDS: Final[Mapping[str, str]] = {
    "full-pcpus-only": "full_pcpus_only",
    "distribute-cpus-across-numa": "distribute_cpus_across_numa",
    "align-by-socket": "align_by_socket",
    "distribute-cpus-across-cores": "distribute_cpus_across_cores",
    "strict-cpu-reservation": "strict_cpu_reservation",
    "prefer-align-cpus-by-uncorecache": "prefer_align_cpus_by_uncore_cache",
}


@dataclass(frozen=True, slots=True)
class NodeSources:
    """What each source tells of one node; None where it tells nothing."""

    reading: NodeReading
    topology: NodeTopology | None = None
    devices: NodeDevices | None = None


@dataclass(frozen=True, slots=True)
class _Frame:
    """NUMA nodes and CPUs."""

    numa_ids: tuple[int, ...]
    cpus: CpuLayout
    source: str
    """One of ``NUMA_SOURCES``."""


@dataclass(frozen=True, slots=True)
class NodeAssembler:
    """Builds records; equal machines come out as one value. Not thread-safe."""

    classes: tuple[MachineClass, ...] = ()
    """In the order of the settings: the first whose labels a node carries describes it."""
    shelf: Shelf = field(default_factory=Shelf)

    def record(self, sources: NodeSources) -> NodeRecord:
        """Return the record of the node; nothing is raised, whatever the sources say."""
        reading, topology = sources.reading, sources.topology
        machine_class = self.class_of(reading.facts.labels)
        base = machine_class.machine if machine_class else None
        kubelet = _kubelet(reading, topology, base)
        frame = _frame(topology, base)
        machine: Machine | None = None
        unhealthy: tuple[int, ...] = ()
        if frame is not None:
            layouts, unhealthy = _devices(frame, sources, base)
            try:
                machine = Machine(
                    numa_ids=frame.numa_ids,
                    cpus=frame.cpus,
                    reserved_cpus=_reserved(frame, topology, base),
                    devices=layouts,
                    memory=base.memory if base and base.numa_ids == frame.numa_ids else (),
                    distances=_distances(frame, topology, base),
                    kubelet=kubelet,
                    name=machine_class.name if machine_class else "",
                    node_policy=reading.facts.labels.get(POLICY_LABEL, ""),
                )
            except MachineError:
                machine, unhealthy = None, ()
        return NodeRecord(
            facts=reading.facts,
            allocatable=reading.allocatable or dict(machine_class.allocatable if machine_class else ()),
            machine=self.shelf.one(machine) if machine else None,
            allocator=_allocator(reading, topology, machine_class),
            unhealthy=unhealthy if any(unhealthy) else (),
            numa_source=frame.source if frame and machine else "",
        )

    def class_of(self, labels: Mapping[str, str]) -> MachineClass | None:
        """Return the first class whose labels are all in ``labels``; a class without labels describes no node."""
        for each in self.classes:
            if each.labels and all(labels.get(key) == value for key, value in each.labels):
                return each
        return None


def _allocator(
    reading: NodeReading, topology: NodeTopology | None, machine_class: MachineClass | None
) -> AllocatorKind:
    if topology and topology.policy not in {None, TopologyPolicy.NONE}:
        return AllocatorKind.KUBELET
    labels = reading.facts.labels
    if labels.get(ACK_SCHEDULE_LABEL) == "topology" or labels.get(POLICY_LABEL):
        return AllocatorKind.SCHEDULER
    if topology and topology.writer is Writer.KOORDLET:
        return AllocatorKind.SCHEDULER
    if topology and topology.policy is not None:
        return AllocatorKind.KUBELET
    return machine_class.allocator if machine_class else AllocatorKind.UNKNOWN


def _kubelet(reading: NodeReading, topology: NodeTopology | None, base: Machine | None) -> KubeletConfig:
    kubelet = base.kubelet if base else KubeletConfig(static_cpus=_reserves_cpus(topology))
    if reading.kubelet_minor_version is not None:
        kubelet = replace(kubelet, minor_version=reading.kubelet_minor_version)
    if topology is None:
        return kubelet
    if topology.policy is not None:
        kubelet = replace(kubelet, policy=topology.policy)
    if topology.scope is not None:
        kubelet = replace(kubelet, scope=topology.scope)
    tells = topology.koordlet
    if tells and tells.static_cpus is not None:
        kubelet = replace(kubelet, static_cpus=tells.static_cpus)
    if tells and tells.cpu_options is not None:
        options = {name: tells.cpu_options.get(option) == "true" for option, name in _OPTION_FIELDS.items()}
        kubelet = replace(kubelet, **options)  # type: ignore[arg-type] # every field in the table is a bool
    return kubelet


def _reserves_cpus(topology: NodeTopology | None) -> bool:
    """Return whether zones hold CPUs back: a CPU manager of policy ``static`` does not start without reserved ones."""
    return topology is not None and any(zone.reserved("cpu") or zone.busy("cpu") for zone in topology.zones)


def _frame(topology: NodeTopology | None, base: Machine | None) -> _Frame | None:
    if topology and topology.koordlet and topology.koordlet.cpus:
        return _Frame(topology.koordlet.numa_ids, topology.koordlet.cpus, topology.writer.value)
    if topology and topology.zones:
        ids = tuple(zone.numa_id for zone in topology.zones)
        counts = [zone.capacity("cpu") for zone in topology.zones]
        if base and base.numa_ids == ids and cpu_counts(base) == tuple(counts):
            return _Frame(ids, base.cpus, topology.writer.value)
        cpus = contiguous_cpus(counts)
        if cpus:
            return _Frame(ids, cpus, topology.writer.value)
    return _Frame(base.numa_ids, base.cpus, CLASS_SOURCE) if base else None


def _zones_on(frame: _Frame, topology: NodeTopology | None) -> tuple[Zone, ...]:
    """Return the zones in the order of the frame's NUMA nodes; none where they are other nodes."""
    if topology is None or tuple(zone.numa_id for zone in topology.zones) != frame.numa_ids:
        return ()
    return topology.zones


def _reserved(frame: _Frame, topology: NodeTopology | None, base: Machine | None) -> int:
    if topology and topology.koordlet and topology.koordlet.reserved_cpus & frame.cpus.all_cpus:
        return topology.koordlet.reserved_cpus & frame.cpus.all_cpus
    is_of_class = base is not None and frame.cpus == base.cpus
    zones = _zones_on(frame, topology)
    if zones and any(zone.amounts.get("cpu") for zone in zones) and not (topology and topology.koordlet):
        counts = [
            min(zone.reserved("cpu"), cpus.bit_count()) for zone, cpus in zip(zones, frame.cpus.numa_cpus, strict=True)
        ]
        if base and is_of_class and counts == [(cpus & base.reserved_cpus).bit_count() for cpus in base.cpus.numa_cpus]:
            return base.reserved_cpus
        return reserved_by_count(frame.cpus, counts)
    return base.reserved_cpus if base and is_of_class else 0


def _distances(frame: _Frame, topology: NodeTopology | None, base: Machine | None) -> tuple[tuple[int, ...], ...]:
    zones = _zones_on(frame, topology)
    if zones and all(set(zone.costs) >= set(frame.numa_ids) for zone in zones):
        return tuple(tuple(zone.costs[numa_id] for numa_id in frame.numa_ids) for zone in zones)
    return base.distances if base and base.numa_ids == frame.numa_ids else ()


def _devices(
    frame: _Frame, sources: NodeSources, base: Machine | None
) -> tuple[tuple[DeviceLayout, ...], tuple[int, ...]]:
    """Return the device layouts by resource name, and the mask of unhealthy devices of each."""
    found: dict[str, tuple[DeviceLayout, int]] = {}
    fits = base is not None and len(base.numa_ids) == len(frame.numa_ids)
    of_class = {layout.resource: layout for layout in base.devices} if base and fits else {}
    found.update((resource, (layout, 0)) for resource, layout in of_class.items())
    zones = _zones_on(frame, sources.topology)
    for resource in sorted({name for zone in zones for name in zone.amounts}):
        if resource in _UNTRACKED or resource.startswith("hugepages-") or resource not in sources.reading.capacity:
            continue
        counts = [zone.capacity(resource) for zone in zones]
        known = of_class.get(resource)
        if known is not None and all(
            known.touching(1 << position).bit_count() >= count for position, count in enumerate(counts)
        ):
            found[resource] = (known, _missing(known, counts))
            continue
        layout = counted_devices(resource, counts, sources.reading.capacity.get(resource, 0))
        if layout is not None:
            found[resource] = (layout, 0)
    for kind, resources in RESOURCES_OF_KIND.items() if sources.devices else ():
        for resource in resources:
            if sources.reading.capacity.get(resource, 0) > 0:
                told = _told(resource, kind, sources.devices, frame, of_class.get(resource))
                if told is not None:
                    found[resource] = told
    return tuple(found[name][0] for name in sorted(found)), tuple(found[name][1] for name in sorted(found))


def _missing(layout: DeviceLayout, counts: Sequence[int]) -> int:
    """Return a mask of the devices beyond ``counts``, the highest of each NUMA node: a zone lists only healthy ones."""
    mask = 0
    for position, count in enumerate(counts):
        here = layout.touching(1 << position)
        for _ in range(here.bit_count() - count):
            highest = 1 << (here.bit_length() - 1)
            mask |= highest
            here ^= highest
    return mask


def _told(
    resource: str, kind: str, devices: NodeDevices | None, frame: _Frame, known: DeviceLayout | None
) -> tuple[DeviceLayout, int] | None:
    own = devices.of_kind(kind) if devices else ()
    if not own:
        return None
    numa = [0] * (own[-1].minor + 1)
    ids = [""] * len(numa)
    # A minor that is missing between others is no device that anybody could get.
    unhealthy = (1 << len(numa)) - 1
    for device in own:
        if device.numa_id in frame.numa_ids:
            numa[device.minor] = 1 << frame.numa_ids.index(device.numa_id)
        ids[device.minor] = device.id
        if device.is_healthy:
            unhealthy &= ~(1 << device.minor)
    reports_numa = known.reports_numa if known else True
    return DeviceLayout(resource, tuple(numa), tuple(ids) if all(ids) else (), reports_numa=reports_numa), unhealthy
