"""The annotations that koordlet puts on a NodeResourceTopology (``domain/koordinator-ack.md`` 1.6)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from webhook.core.machine import CpuLayout
from webhook.core.masks import HIGHEST_CPU_ID, CpuListError, parse_cpu_list
from webhook.core.pod import Malformed
from webhook.wire.shapes import describe

CPU_MANAGER: Final = "kubelet.koordinator.sh/cpu-manager-policy"
CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
RESERVATION: Final = "node.koordinator.sh/reservation"
SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"
POD_CPUS: Final = "node.koordinator.sh/pod-cpu-allocs"

_LONGEST_TEXT: Final = 1 << 20
"""512 CPUs take 30 KB."""


@dataclass(frozen=True, slots=True)
class KoordletTells:
    """What koordlet found out on the node."""

    numa_ids: tuple[int, ...] = ()
    """Of ``cpus.numa_cpus``; empty where the CPU topology is absent or cannot be read."""
    cpus: CpuLayout | None = None
    reserved_cpus: int = 0
    """Mask of CPUs that no pod gets for itself: the kubelet's, the node's reservation, the exclusive system set."""
    static_cpus: bool | None = None
    """The kubelet's CPU manager policy is ``static``; None where koordlet does not ask the kubelet."""
    cpu_options: Mapping[str, str] | None = None
    pod_cpus: tuple[tuple[str, int], ...] = ()
    """(UID, mask of CPUs) of the pods whose CPUs the kubelet has pinned, by UID. A pod that is not in it may have some
    all the same: koordlet leaves out those that carry a Koordinator cpuset or are labelled LS or BE."""


def read_koordlet_annotations(annotations: Mapping[str, str], faults: list[Malformed]) -> KoordletTells:
    """Return what ``annotations`` tell; nothing is raised, and what cannot be read stands in ``faults``."""
    manager = _json_map(annotations, CPU_MANAGER, faults)
    policy, options = manager.get("policy"), manager.get("options")
    reservation = _json_map(annotations, RESERVATION, faults)
    system = _json_map(annotations, SYSTEM_QOS, faults)
    reserved = _cpus(manager.get("reservedCPUs"), CPU_MANAGER, faults)
    reserved |= _cpus(reservation.get("reservedCPUs"), RESERVATION, faults)
    if system.get("cpusetExclusive") is not False:
        reserved |= _cpus(system.get("cpuset"), SYSTEM_QOS, faults)
    numa_ids, cpus = _topology(_json_map(annotations, CPU_TOPOLOGY, faults).get("detail"))
    return KoordletTells(
        numa_ids=numa_ids,
        cpus=cpus,
        reserved_cpus=reserved,
        static_cpus=policy == "static" if isinstance(policy, str) and policy else None,
        cpu_options={key: str(value) for key, value in options.items()} if isinstance(options, dict) else None,
        pod_cpus=_pod_cpus(_json(annotations, POD_CPUS, faults), faults),
    )


def _pod_cpus(allocs: object, faults: list[Malformed]) -> tuple[tuple[str, int], ...]:
    """Return what the kubelet's own entries of ``allocs`` tell (Koordinator's scheduler counts no others)."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for entry in allocs if isinstance(allocs, list) else ():
        uid = entry.get("uid") if isinstance(entry, dict) else None
        if not isinstance(uid, str) or not uid or entry.get("managedByKubelet") is not True:
            continue
        if uid in found:
            twice.add(uid)
        found[uid] = _cpus(entry.get("cpuset"), POD_CPUS, faults)
    return tuple(sorted((uid, cpus) for uid, cpus in found.items() if cpus and uid not in twice))


def _topology(detail: object) -> tuple[tuple[int, ...], CpuLayout | None]:
    """Return the NUMA ids and the layout of a list of CPUs; nothing where a CPU is told twice or not wholly."""
    numa: dict[int, int] = {}
    sockets: dict[int, int] = {}
    cores: dict[tuple[int, int], int] = {}
    seen = 0
    for entry in detail if isinstance(detail, list) else ():
        cpu, core, socket, node = (_number(entry, key) for key in ("id", "core", "socket", "node"))
        if cpu is None or core is None or socket is None or node is None or seen >> cpu & 1:
            return (), None
        seen |= 1 << cpu
        numa[node] = numa.get(node, 0) | 1 << cpu
        sockets[socket] = sockets.get(socket, 0) | 1 << cpu
        # The core's number may count within its socket or in the whole machine; with the socket it is unique in both.
        cores[socket, core] = cores.get((socket, core), 0) | 1 << cpu
    if not seen:
        return (), None
    ids = tuple(sorted(numa))
    return ids, CpuLayout(
        numa_cpus=tuple(numa[node] for node in ids),
        socket_cpus=tuple(sockets[socket] for socket in sorted(sockets)),
        core_cpus=tuple(cores[core] for core in sorted(cores)),
    )


def _number(entry: object, key: str) -> int | None:
    value = entry.get(key) if isinstance(entry, dict) else None
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST_CPU_ID
    return value if is_number else None


def _json_map(annotations: Mapping[str, str], key: str, faults: list[Malformed]) -> dict[str, Any]:
    value = _json(annotations, key, faults)
    return value if isinstance(value, dict) else {}


def _json(annotations: Mapping[str, str], key: str, faults: list[Malformed]) -> object:
    text = annotations.get(key, "")
    if not text or len(text) > _LONGEST_TEXT:
        return None
    try:
        return orjson.loads(text)
    except json.JSONDecodeError:
        faults.append(Malformed(f"metadata.annotations[{key}]", "a text that is no JSON", "JSON"))
        return None


def _cpus(value: object, key: str, faults: list[Malformed]) -> int:
    if value is None or value == "":
        return 0
    try:
        return parse_cpu_list(value if isinstance(value, str) else "?")
    except CpuListError:
        faults.append(Malformed(f"metadata.annotations[{key}]", describe(value), "a CPU list such as 0-1"))
        return 0
