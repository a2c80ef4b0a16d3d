"""A declared machine class (in a cluster picture or the server's settings) into core's ``MachineClass``.

The form is published as ``machine-class.schema.json``. What a schema cannot say is said here, as ``Malformed`` with the
path, what was found and what is wanted; nothing is raised for any JSON value.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from webhook.core.kubelet.startup import startup_faults
from webhook.core.ledger.records import AllocatorKind
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.machine import Machine, MachineError
from webhook.core.masks import cpu_list
from webhook.core.pod import Malformed
from webhook.core.spelling import in_units
from webhook.wire.kubelet_settings import read_kubelet_config, reserved_cpus
from webhook.wire.layouts import Layout, read_layout, read_memory
from webhook.wire.nodes import read_amounts
from webhook.wire.shapes import JsonMap, child, read_list, read_map, read_text, read_text_map

POLICY_LABEL: Final = "node.koordinator.sh/numa-topology-policy"
"""The NUMA policy that a scheduler reads from the node (``domain/koordinator-ack.md`` 2.1, rule 1)."""
DEFAULT_PODS: Final = 110
"""The kubelet's ``maxPods``."""
UNLISTED_BYTES: Final = 1 << 62
"""Ephemeral storage of a class that does not state it: what a source does not list is not zero."""


def read_machine_classes(raw: object, path: str, faults: list[Malformed]) -> tuple[MachineClass, ...]:
    """Return the classes that ``raw`` (a list that keeps the schema) declares, without those that are faulty."""
    classes: dict[str, MachineClass] = {}
    for index, item in enumerate(read_list(raw, path, faults)):
        declared = read_machine_class(item, f"{path}[{index}]", faults)
        if declared is None:
            continue
        if declared.name in classes:
            faults.append(Malformed(f"{path}[{index}].name", f"{declared.name} again", "each name once"))
        classes.setdefault(declared.name, declared)
    return tuple(classes.values())


def read_machine_class(raw: object, path: str, faults: list[Malformed]) -> MachineClass | None:
    """Return the class that ``raw`` (a map that keeps the schema) declares; None where it is faulty."""
    before = len(faults)
    declared = read_map(raw, path, faults)
    name = read_text(declared.get("name"), f"{path}.name", faults)
    layout_path, kubelet_path = f"{path}.layout", f"{path}.kubelet"
    raw_layout = read_map(declared.get("layout"), layout_path, faults)
    kubelet = read_map(declared.get("kubelet"), kubelet_path, faults)
    layout = read_layout(raw_layout, layout_path, faults)
    config = read_kubelet_config(kubelet, kubelet_path, faults)
    if layout is None or len(faults) > before:
        return None
    if config.full_pcpus_only and raw_layout.get("threadsPerCore") is None:
        faults.append(Malformed(f"{layout_path}.threadsPerCore", "nothing", "a whole number, for full-pcpus-only"))
    try:
        machine = Machine(
            numa_ids=layout.numa_ids,
            cpus=layout.cpus,
            devices=layout.devices,
            distances=layout.distances,
            kubelet=config,
            name=name,
        )
    except MachineError as error:
        faults.append(Malformed(layout_path, "a layout that contradicts itself", str(error)))
        return None
    reserved = reserved_cpus(machine, kubelet, kubelet_path, faults)
    if reserved & ~machine.cpus.all_cpus:
        missing = cpu_list(reserved & ~machine.cpus.all_cpus)
        wanted = f"CPUs of {cpu_list(machine.cpus.all_cpus)}"
        faults.append(Malformed(f"{kubelet_path}.reservedSystemCPUs", f"CPUs {missing}", wanted))
        return None
    memory = read_memory(raw_layout, kubelet, len(layout.numa_ids), path, faults)
    machine = replace(machine, reserved_cpus=reserved, memory=memory if config.static_memory else ())
    faults.extend(Malformed(kubelet_path, problem, "what a kubelet starts with") for problem in startup_faults(machine))
    offered = _allocatable(layout, machine, kubelet)
    offered.update({kind.resource: sum(kind.total_bytes) - sum(kind.reserved_bytes) for kind in memory})
    huge = sum(amount for resource, amount in offered.items() if resource.startswith("hugepages-"))
    offered["memory"] -= huge
    told = read_amounts(declared.get("allocatable"), f"{path}.allocatable", faults)
    faults.extend(more_devices(told, machine, f"{path}.allocatable"))
    offered.update(told)
    if len(faults) > before:
        return None
    labels = read_text_map(declared.get("matchLabels"), f"{path}.matchLabels", faults)
    machine = replace(machine, node_policy=labels.get(POLICY_LABEL, ""))
    kind = AllocatorKind.SCHEDULER if declared.get("allocator") == "scheduler" else AllocatorKind.KUBELET
    return MachineClass(name, tuple(sorted(labels.items())), machine, kind, tuple(sorted(offered.items())))


def _allocatable(layout: Layout, machine: Machine, kubelet: JsonMap) -> dict[str, int]:
    """Return what a node of the machine offers by plain count; memory is added by the caller."""
    kept_back = 0
    for field in ("kubeReserved", "systemReserved"):
        kept_back += read_amounts(kubelet.get(field), field, []).get("cpu", 0)
    if kubelet.get("reservedSystemCPUs") is not None:
        kept_back = machine.reserved_cpus.bit_count() * 1000
    return {
        "cpu": machine.cpus.all_cpus.bit_count() * 1000 - kept_back,
        "pods": DEFAULT_PODS,
        "ephemeral-storage": UNLISTED_BYTES,
        **{devices.resource: devices.count for devices in layout.devices},
    }


def class_of(labels: Mapping[str, str], classes: Iterable[MachineClass]) -> MachineClass | None:
    """Return the first class whose labels a node carries, or None; a class without labels describes no node."""
    for declared in classes:
        if declared.labels and all(labels.get(key) == value for key, value in declared.labels):
            return declared
    return None


def contradictions(capacity: Mapping[str, int], machine: Machine) -> tuple[Malformed, ...]:
    """Return where a node's own capacity shows that ``machine`` does not describe it; paths from the Node's root.

    CPUs and devices are compared, where the node lists them: a device plugin that is not up yet lists none.
    """
    faults: list[Malformed] = []
    cpus = machine.cpus.all_cpus.bit_count()
    found = capacity.get("cpu", 0)
    if found and found != cpus * 1000:
        words = f"{in_units(found, 1000)} CPUs"
        faults.append(Malformed(child("status.capacity", "cpu"), words, f"{cpus}, as class {machine.name} has"))
    for devices in machine.devices:
        count = capacity.get(devices.resource, 0)
        if count and count != devices.count:
            wanted = f"{devices.count}, as class {machine.name} has"
            faults.append(Malformed(child("status.capacity", devices.resource), str(count), wanted))
    return tuple(faults)


def more_devices(allocatable: Mapping[str, int], machine: Machine, path: str) -> Iterator[Malformed]:
    """Yield where ``allocatable`` counts more devices than ``machine`` has; CPUs may be amplified, devices are not."""
    for devices in machine.devices:
        count = allocatable.get(devices.resource, 0)
        if count > devices.count:
            wanted = f"{devices.count} at most, as class {machine.name} has"
            yield Malformed(child(path, devices.resource), str(count), wanted)
