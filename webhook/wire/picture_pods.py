"""The pods of a cluster picture: short entries become pods as Kubernetes writes them, then all are read alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from webhook.core.ledger.holdings import pinned_cpus
from webhook.core.ledger.records import Confirmed, NodeRecord, PodRecord
from webhook.core.masks import cpu_list
from webhook.core.numa_room import count_of, peak
from webhook.core.pod import Malformed
from webhook.core.spelling import counted
from webhook.wire.layouts import read_cpus
from webhook.wire.picture_nodes import is_name, read_devices
from webhook.wire.pod_records import read_pod_record
from webhook.wire.pods import read_pod
from webhook.wire.shapes import JsonMap, child, describe, read_list, read_map

DEFAULT_NAMESPACE: Final = "default"

_COPIED: Final = ("nodeSelector", "tolerations")
_LISTS: Final = {"init": "initContainers", "sidecar": "initContainers"}


@dataclass(slots=True)
class PodReader:
    """Reads pods one by one; knows the nodes, and who holds what of them already."""

    nodes: Mapping[str, NodeRecord]
    faulty_nodes: bool = False
    """Some nodes could not be read: a pod on an unknown node is no second fault."""
    _holders: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """(node, resource, number) -> the pod that holds it; CPUs under ``cpu``."""

    def short(self, raw: object, path: str, faults: list[Malformed]) -> PodRecord | None:
        """Return one short entry of ``pods``, which keeps the schema."""
        entry = read_map(raw, path, faults)
        if (entry.get("resources") is not None) and (entry.get("containers") is not None):
            faults.append(Malformed(path, "both resources and containers", "one of them"))
        node = entry.get("node")
        record = self._read(_as_kubernetes(entry), path, faults, is_short=True)
        if record is None:
            return None
        if isinstance(node, str) and node not in self.nodes:
            if not self.faulty_nodes:
                faults.append(Malformed(f"{path}.node", describe(node), "the name of a node of the picture"))
            return None
        if entry.get("holds") is None:
            return record
        return self._holding(record, read_map(entry.get("holds"), f"{path}.holds", faults), f"{path}.holds", faults)

    def kubernetes(self, raw: object, path: str, faults: list[Malformed]) -> PodRecord | None:
        """Return a pod as Kubernetes writes it."""
        return self._read(raw, path, faults, is_short=False)

    @staticmethod
    def _read(raw: object, path: str, faults: list[Malformed], *, is_short: bool) -> PodRecord | None:
        pod = read_pod(raw)
        for fault in pod.malformed:
            where = path if is_short else f"{path}.{fault.path}" if path else fault.path
            what = f"{fault.found} as {fault.path}" if is_short else fault.found
            faults.append(Malformed(where, what, fault.wanted))
        if not is_name(pod.name) or (pod.namespace and not is_name(pod.namespace)):
            where = f"{path}.metadata" if path else "metadata"
            faults.append(Malformed(where, "a name or namespace that is none", "names as Kubernetes has them"))
            return None
        record = read_pod_record(raw, pod=pod)
        namespace = record.namespace or DEFAULT_NAMESPACE
        return replace(
            record,
            namespace=namespace,
            uid=record.uid or f"{namespace}/{record.name}",
            resource_version=max(1, record.resource_version),  # it is stored, not only asked for
        )

    def _holding(self, record: PodRecord, holds: JsonMap, path: str, faults: list[Malformed]) -> PodRecord:
        """Return ``record`` with its place confirmed; what cannot be is told."""
        node = self.nodes.get(record.node_name)
        machine = node.machine if node is not None else None
        if node is None or machine is None:
            faults.append(Malformed(path, "a place", "nothing for a pod that is on no node"))
            return record
        before = len(faults)
        cpus: int | None = None
        if holds.get("cpus") is not None:
            cpus = read_cpus(holds.get("cpus"), f"{path}.cpus", faults)
            usable = machine.cpus.all_cpus & ~machine.reserved_cpus
            if cpus & ~usable:
                found = f"CPUs {cpu_list(cpus & ~usable)}"
                wanted = f"CPUs of {cpu_list(usable)}" if usable else "none, as every CPU is reserved"
                faults.append(Malformed(f"{path}.cpus", found, wanted))
            asked = pinned_cpus(node, record.demand)
            if cpus.bit_count() != asked:
                wanted = f"{asked}, as many as it gets for itself"
                faults.append(Malformed(f"{path}.cpus", counted(cpus.bit_count(), "CPU"), wanted))
            self._claim(record, "cpu", cpus, f"{path}.cpus", faults)
        devices: list[tuple[str, int]] = []
        raw_devices = read_map(holds.get("devices"), f"{path}.devices", faults)
        for layout in machine.devices:
            wanted_count = peak(record.demand, count_of(layout.resource))
            if wanted_count and layout.resource not in raw_devices:
                faults.append(
                    Malformed(f"{path}.devices", f"nothing of {layout.resource}", counted(wanted_count, "device"))
                )
        for resource, numbers in raw_devices.items():
            here = child(f"{path}.devices", resource)
            index = machine.device_index(resource)
            if index is None:
                faults.append(Malformed(here, "a resource that the node does not have", "one of its resources"))
                continue
            mask = read_devices(numbers, machine, index, here, faults)
            asked = peak(record.demand, count_of(resource))
            if mask.bit_count() != asked:
                faults.append(Malformed(here, counted(mask.bit_count(), "device"), f"{asked}, as many as it asks for"))
            self._claim(record, resource, mask, here, faults)
            devices.append((resource, mask))
        if len(faults) > before:
            return record
        return replace(record, confirmed=Confirmed(cpus, tuple(devices)))

    def _claim(self, record: PodRecord, resource: str, mask: int, path: str, faults: list[Malformed]) -> None:
        taken = sorted(
            {
                self._holders[record.node_name, resource, number]
                for number in range(mask.bit_length())
                if mask >> number & 1 and (record.node_name, resource, number) in self._holders
            }
        )
        if taken:
            faults.append(Malformed(path, f"what {', '.join(taken)} holds too", "what nobody else holds"))
        who = f"{record.namespace}/{record.name}"
        for number in range(mask.bit_length()):
            if mask >> number & 1:
                self._holders.setdefault((record.node_name, resource, number), who)


def _as_kubernetes(entry: JsonMap) -> dict[str, object]:
    """Return the pod that a short entry means, as Kubernetes would show it: on a node it runs, else it waits."""
    kind, _, name = str(entry.get("owner") or "").partition("/")
    metadata: dict[str, object] = {key: entry.get(key) for key in ("name", "namespace", "labels", "annotations")}
    if kind:
        metadata["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
    if entry.get("terminating") is True:
        metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    spec: dict[str, object] = {key: entry[key] for key in _COPIED if entry.get(key) is not None}
    node = entry.get("node")
    if node is not None:
        spec["nodeName"] = node
    rows = read_list(entry.get("containers"), "", []) or [{"name": "main", "resources": entry.get("resources")}]
    for raw in rows:
        row = read_map(raw, "", [])
        both = row.get("resources")
        container = {
            "name": row.get("name"),
            "resources": {
                "requests": row.get("requests") if both is None else both,
                "limits": row.get("limits") if both is None else both,
            },
        }
        if row.get("kind") == "sidecar":
            container["restartPolicy"] = "Always"
        of_kind = spec.setdefault(_LISTS.get(str(row.get("kind")), "containers"), [])
        if isinstance(of_kind, list):
            of_kind.append(container)
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running" if node is not None else "Pending"}}
