"""The nodes of a cluster picture: short entries by class, and Node objects matched to classes by their labels."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from webhook.core.ledger.records import NodeRecord
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.machine import Machine
from webhook.core.masks import mask_of
from webhook.core.node_selection import NodeFacts
from webhook.core.pod import Malformed
from webhook.core.spelling import counted
from webhook.wire.machine_classes import POLICY_LABEL, class_of, contradictions, more_devices, read_machine_class
from webhook.wire.nodes import read_amounts, read_node, read_taints
from webhook.wire.shapes import JsonMap, child, describe, read_list, read_map, read_text, read_text_map

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
MOST_NODES: Final = 20_000
"""Twice the largest cluster that the ledger is made for."""

_RANGE: Final = re.compile(r"\{([0-9]{1,253})\.\.([0-9]{1,253})\}", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST_NAME: Final = 253
_NAMES_WANTED: Final = f"names of lower case letters, digits, - and ., of {_LONGEST_NAME} characters or fewer"
_MOST_PRINTED: Final = 10**12
"""More names than that are not told one by one."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A class as it was read, and its own document, for nodes whose kubelet differs from it."""

    machine_class: MachineClass
    raw: JsonMap


@dataclass(slots=True)
class NodeReader:
    """Reads nodes one by one; equal machines are one value, so that the ledger judges them together."""

    classes: Mapping[str, Declared]
    faulty_classes: frozenset[str] = frozenset()
    """Names of classes that are declared with faults: naming one is no second fault."""
    _variants: dict[tuple[str, str], MachineClass | None] = field(default_factory=dict)
    _as_told: dict[tuple[Machine, int, str], Machine] = field(default_factory=dict)

    def short(self, raw: object, path: str, faults: list[Malformed]) -> Iterator[NodeRecord]:
        """Yield the nodes of one entry of ``nodes``, which keeps the schema."""
        entry = read_map(raw, path, faults)
        names = _names(entry, path, faults)
        labels = read_text_map(entry.get("labels"), f"{path}.labels", faults)
        declared = self._class(entry, labels, path, faults)
        if declared is None:
            return
        unhealthy = _unhealthy(entry.get("unhealthy"), declared.machine, f"{path}.unhealthy", faults)
        allocatable = dict(declared.allocatable)
        for devices, broken in zip(declared.machine.devices, unhealthy, strict=False):
            allocatable[devices.resource] = allocatable.get(devices.resource, 0) - broken.bit_count()
        told = read_amounts(entry.get("allocatable"), f"{path}.allocatable", faults)
        faults.extend(more_devices(told, declared.machine, f"{path}.allocatable"))
        allocatable.update(told)
        taints = read_taints(entry.get("taints"), f"{path}.taints", faults)
        machine = self._told_by_node(declared.machine, None, labels)
        for name in names:
            facts = NodeFacts(
                name=name,
                labels={HOSTNAME_LABEL: name, **dict(declared.labels), **labels},
                taints=taints,
                ready=entry.get("ready") is not False,
                unschedulable=entry.get("unschedulable") is True,
            )
            yield NodeRecord(facts, allocatable, machine, declared.allocator, unhealthy)

    def kubernetes(self, raw: object, path: str, faults: list[Malformed]) -> NodeRecord | None:
        """Return a Node object as a record; without a class that describes it its topology is unknown."""
        reading = read_node(raw)
        faults.extend(replace(fault, path=_below(path, fault.path)) for fault in reading.malformed)
        name = reading.facts.name
        if not is_name(name):
            faults.append(Malformed(_below(path, "metadata.name"), name or "nothing", "the name of a node"))
            return None
        every = [declared.machine_class for declared in self.classes.values()]
        declared = class_of(reading.facts.labels, every)
        if declared is None:
            return NodeRecord(reading.facts, reading.allocatable)
        unlike = contradictions(reading.capacity, declared.machine) or tuple(
            more_devices(reading.allocatable, declared.machine, "status.allocatable")
        )
        faults.extend(replace(fault, path=_below(path, fault.path)) for fault in unlike)
        machine = self._told_by_node(declared.machine, reading.kubelet_minor_version, reading.facts.labels)
        return NodeRecord(reading.facts, reading.allocatable, machine, declared.allocator)

    def _told_by_node(self, machine: Machine, minor: int | None, labels: Mapping[str, str]) -> Machine:
        """Return the class's ``machine`` with the version and the NUMA policy that the node itself tells."""
        version = machine.kubelet.minor_version if minor is None else minor
        policy = labels.get(POLICY_LABEL, machine.node_policy)
        if (version, policy) == (machine.kubelet.minor_version, machine.node_policy):
            return machine
        key = (machine, version, policy)
        if key not in self._as_told:
            kubelet = replace(machine.kubelet, minor_version=version)
            self._as_told[key] = replace(machine, kubelet=kubelet, node_policy=policy)
        return self._as_told[key]

    def _class(
        self, entry: JsonMap, labels: Mapping[str, str], path: str, faults: list[Malformed]
    ) -> MachineClass | None:
        name = read_text(entry.get("class"), f"{path}.class", faults)
        if not name:
            found = class_of(labels, (declared.machine_class for declared in self.classes.values()))
            if found is None:
                if not self.faulty_classes:
                    wanted = "a class, by name or by labels that one of them matches"
                    faults.append(Malformed(f"{path}.class", "nothing", wanted))
                return None
            name = found.name
        if name not in self.classes:
            if name not in self.faulty_classes:
                known = ", ".join(self.classes) or "a class, of which none is declared"
                faults.append(Malformed(f"{path}.class", describe(name), f"one of {known}"))
            return None
        if entry.get("kubelet") is None:
            return self.classes[name].machine_class
        return self._variant(name, read_map(entry.get("kubelet"), f"{path}.kubelet", faults), path, faults)

    def _variant(self, name: str, kubelet: JsonMap, path: str, faults: list[Malformed]) -> MachineClass | None:
        """Return class ``name`` with the fields of ``kubelet`` in place of its own."""
        key = (name, json.dumps(kubelet, sort_keys=True, default=str))
        if key not in self._variants:
            base = self.classes[name].raw
            below: list[Malformed] = []
            settings = {**read_map(base.get("kubelet"), "kubelet", below), **kubelet}
            self._variants[key] = read_machine_class({**base, "kubelet": settings}, "", below)
            faults.extend(replace(fault, path=f"{path}{fault.path}") for fault in below)
        return self._variants[key]


def is_name(text: str) -> bool:
    """Return whether ``text`` can be the name of a node, a pod or a namespace."""
    return len(text) <= _LONGEST_NAME and bool(_NAME.fullmatch(text))


def expand(text: str) -> Iterator[str]:
    """Yield the names that ``text`` stands for: ``gpu-{08..11}`` is gpu-08, gpu-09, gpu-10, gpu-11."""
    found = _RANGE.search(text)
    if found is None:
        yield text
        return
    first, last = found[1], found[2]
    for number in range(int(first), int(last) + 1):
        head = f"{text[: found.start()]}{number:0{len(first)}d}"
        for tail in expand(text[found.end() :]):
            yield head + tail


def _names(entry: JsonMap, path: str, faults: list[Malformed]) -> list[str]:
    if (entry.get("name") is None) is (entry.get("names") is None):
        faults.append(Malformed(path, "both or neither of name and names", "one of them"))
        return []
    if entry.get("name") is not None:
        return [read_text(entry.get("name"), f"{path}.name", faults)]
    raw = entry.get("names")
    names: list[str] = []
    for index, item in enumerate(raw if isinstance(raw, list) else [raw]):
        here = f"{path}.names[{index}]" if isinstance(raw, list) else f"{path}.names"
        text = read_text(item, here, faults)
        count = prod(
            int(last) - int(first) + 1 if int(last) >= int(first) else 0 for first, last in _RANGE.findall(text)
        )
        if not 0 < count <= MOST_NODES - len(names):
            wanted = f"1 to {MOST_NODES} of them, such as gpu-{{01..12}}"
            if names and count:
                wanted = f"{MOST_NODES} in all, with the {len(names)} before them"
            faults.append(Malformed(here, _number_of_names(count), wanted))
            continue
        of_item = list(expand(text))
        wrong = next((name for name in of_item if not is_name(name)), None)
        if wrong is not None:
            faults.append(Malformed(here, describe(wrong), _NAMES_WANTED))
            continue
        names += of_item
    return names


def _number_of_names(count: int) -> str:
    if count > _MOST_PRINTED:
        return f"more than {_MOST_PRINTED} names"
    return counted(count, "name") if count else "no names"


def _unhealthy(raw: object, machine: Machine, path: str, faults: list[Malformed]) -> tuple[int, ...]:
    masks = [0] * len(machine.devices)
    for resource, numbers in read_map(raw, path, faults).items():
        here = child(path, resource)
        index = machine.device_index(resource)
        if index is None:
            known = ", ".join(devices.resource for devices in machine.devices) or "a resource, of which it has none"
            faults.append(Malformed(here, "a resource that the class does not have", f"one of {known}"))
            continue
        masks[index] = read_devices(numbers, machine, index, here, faults)
    return tuple(masks) if any(masks) else ()


def read_devices(raw: object, machine: Machine, index: int, path: str, faults: list[Malformed]) -> int:
    """Return the mask of the device numbers in ``raw``, those of ``machine.devices[index]``."""
    count = machine.devices[index].count
    numbers = [number for number in read_list(raw, path, faults) if isinstance(number, int)]
    wrong = [number for number in numbers if number >= count]
    if wrong:
        wanted = (
            f"a number from 0 to {count - 1}" if count > 1 else "0, the only one" if count else "none, as the class has"
        )
        faults.append(Malformed(path, f"device {wrong[0]}", wanted))
    return mask_of(number for number in numbers if number < count)


def _below(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest else path or rest
