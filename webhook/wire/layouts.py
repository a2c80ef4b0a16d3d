"""The short form of a machine's layout: NUMA nodes, CPUs, sockets, devices, memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook.core.machine import CpuLayout, DeviceLayout, MemoryLayout
from webhook.core.masks import HIGHEST_CPU_ID, CpuListError, mask_of, members, parse_cpu_list
from webhook.core.pod import Malformed
from webhook.core.spelling import counted
from webhook.wire.nodes import read_amounts
from webhook.wire.shapes import JsonMap, child, describe, read_count, read_list, read_map, read_text

MOST_NUMA_NODES: Final = 64
"""No machine has more; a kubelet with any policy but none starts with 8, or as many as its option allows."""
MOST_DEVICES: Final = 512


@dataclass(frozen=True, slots=True)
class Layout:
    """What stands under ``layout``, as parts of a ``Machine``."""

    numa_ids: tuple[int, ...]
    cpus: CpuLayout
    devices: tuple[DeviceLayout, ...]
    distances: tuple[tuple[int, ...], ...]


def read_layout(raw: JsonMap, path: str, faults: list[Malformed]) -> Layout | None:
    """Return the layout in ``raw`` (which keeps the schema); None where it is faulty."""
    before = len(faults)
    numa = _count(raw, "numaNodes", 0, path, faults)
    if not 0 < numa <= MOST_NUMA_NODES:
        faults.append(Malformed(f"{path}.numaNodes", str(numa), f"1 to {MOST_NUMA_NODES}"))
        return None
    threads = _count(raw, "threadsPerCore", 1, path, faults)
    cores = _cores(raw, numa, threads, path, faults)
    sockets = _count(raw, "sockets", numa, path, faults)
    if sockets and numa % sockets and sockets % numa:
        faults.append(
            Malformed(f"{path}.sockets", str(sockets), f"a divisor or a multiple of {counted(numa, 'NUMA node')}")
        )
    elif sockets > numa and any(len(of_numa) % (sockets // numa) for of_numa in cores):
        faults.append(Malformed(f"{path}.sockets", str(sockets), "so many that each NUMA node's cores divide evenly"))
    caches = _count(raw, "uncoreCachesPerNUMANode", 0, path, faults)
    if caches and any(len(of_numa) % caches for of_numa in cores):
        faults.append(
            Malformed(f"{path}.uncoreCachesPerNUMANode", str(caches), "a divisor of the cores of each NUMA node")
        )
    devices = _devices(raw.get("devices"), numa, f"{path}.devices", faults)
    distances = tuple(
        tuple(
            distance for distance in read_list(row, f"{path}.distances[{index}]", faults) if isinstance(distance, int)
        )
        for index, row in enumerate(read_list(raw.get("distances"), f"{path}.distances", faults))
    )
    if len(faults) > before or not cores:
        return None
    numa_cpus = tuple(sum(of_numa) for of_numa in cores)
    cpus = CpuLayout(
        numa_cpus,
        _sockets(cores, sockets),
        tuple(core for of_numa in cores for core in of_numa),
        tuple(part for of_numa in cores for part in _parts(of_numa, caches)) if caches else (),
    )
    return Layout(tuple(range(numa)), cpus, devices, distances)


def read_memory(
    raw: JsonMap, kubelet: JsonMap, numa: int, class_path: str, faults: list[Malformed]
) -> tuple[MemoryLayout, ...]:
    """Return each kind of memory of ``numa`` NUMA nodes, by the maps under ``layout`` and ``kubelet`` of a class."""
    path, kubelet_path, before = f"{class_path}.layout", f"{class_path}.kubelet", len(faults)
    amounts = read_amounts({"memoryPerNUMANode": raw.get("memoryPerNUMANode")}, path, faults)
    if not amounts and raw.get("memoryPerNUMANode") is None:
        faults.append(Malformed(f"{path}.memoryPerNUMANode", "no amount", "the bytes of each NUMA node"))
    totals = {"memory": amounts.get("memoryPerNUMANode", 0)}
    totals.update(read_amounts(raw.get("hugepagesPerNUMANode"), f"{path}.hugepagesPerNUMANode", faults))
    if amounts and sum(amount for resource, amount in totals.items() if resource != "memory") > totals.get("memory", 0):
        faults.append(Malformed(f"{path}.hugepagesPerNUMANode", "more than the memory", "a part of memoryPerNUMANode"))
    is_told = len(faults) == before
    reserved = {resource: [0] * numa for resource in totals}
    for index, item in enumerate(read_list(kubelet.get("reservedMemory"), f"{kubelet_path}.reservedMemory", faults)):
        here = f"{kubelet_path}.reservedMemory[{index}]"
        row = read_map(item, here, faults)
        position = read_count(row.get("numaNode"), f"{here}.numaNode", faults) or 0
        if position >= numa:
            faults.append(Malformed(f"{here}.numaNode", str(position), f"a NUMA id from 0 to {numa - 1}"))
            continue
        for resource, amount in read_amounts(row.get("limits"), f"{here}.limits", faults).items():
            if not is_told:  # nothing follows from totals that are faulty themselves
                continue
            if amount > totals.get(resource, 0):
                wanted = f"at most the {totals.get(resource, 0)} bytes of the NUMA node"
                faults.append(Malformed(f"{here}.limits", f"{counted(amount, 'byte')} of {resource}", wanted))
            else:
                reserved[resource][position] = amount
    return tuple(
        MemoryLayout(resource, (amount,) * numa, tuple(reserved[resource])) for resource, amount in totals.items()
    )


def _count(raw: JsonMap, key: str, default: int, path: str, faults: list[Malformed]) -> int:
    """Return the number under ``key``, or ``default`` where it is absent or 0; one beyond any machine is a fault."""
    count = read_count(raw.get(key), f"{path}.{key}", faults) or default
    if count > HIGHEST_CPU_ID:
        faults.append(Malformed(f"{path}.{key}", describe(count), f"{HIGHEST_CPU_ID} at most"))
        return default
    return count


def _cores(raw: JsonMap, numa: int, threads: int, path: str, faults: list[Malformed]) -> list[list[int]]:
    """Return the mask of each core of each NUMA node."""
    given = [key for key in ("cpusPerNUMANode", "coresPerNUMANode", "numaCPUs") if raw.get(key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "nothing that says how many CPUs there are"
        faults.append(Malformed(path, found, "one of cpusPerNUMANode, coresPerNUMANode, numaCPUs"))
        return []
    if given == ["numaCPUs"]:
        return _listed_cores(raw, numa, threads, f"{path}.numaCPUs", faults)
    per_numa = _count(raw, given[0], 1, path, faults)
    if given == ["cpusPerNUMANode"]:
        if per_numa % threads:
            faults.append(
                Malformed(f"{path}.cpusPerNUMANode", str(per_numa), f"a multiple of {counted(threads, 'thread')}")
            )
            return []
        per_numa //= threads
    total = numa * per_numa
    if total * threads > HIGHEST_CPU_ID + 1:
        faults.append(Malformed(f"{path}.{given[0]}", counted(total * threads, "CPU"), f"{HIGHEST_CPU_ID + 1} at most"))
        return []
    if raw.get("siblings") == "adjacent":
        every = [mask_of(range(core * threads, (core + 1) * threads)) for core in range(total)]
    else:
        every = [mask_of(core + total * thread for thread in range(threads)) for core in range(total)]
    return [every[at : at + per_numa] for at in range(0, total, per_numa)]


def _listed_cores(raw: JsonMap, numa: int, threads: int, path: str, faults: list[Malformed]) -> list[list[int]]:
    rows = read_list(raw.get("numaCPUs"), path, faults)
    if len(rows) != numa:
        faults.append(Malformed(path, counted(len(rows), "CPU list"), f"one for each of {counted(numa, 'NUMA node')}"))
        return []
    result: list[list[int]] = []
    seen = 0
    for index, row in enumerate(rows):
        here = f"{path}[{index}]"
        cpus = read_cpus(row, here, faults)
        if cpus & seen:
            faults.append(Malformed(here, "a CPU of another NUMA node", "each CPU once"))
        seen |= cpus
        ids = list(members(cpus))
        if len(ids) % threads:
            faults.append(Malformed(here, counted(len(ids), "CPU"), f"a multiple of {counted(threads, 'thread')}"))
            continue
        count = len(ids) // threads
        if raw.get("siblings") == "adjacent":
            result.append([mask_of(ids[at : at + threads]) for at in range(0, len(ids), threads)])
        else:
            result.append([mask_of(ids[at::count]) for at in range(count)])
    return result


def read_cpus(raw: object, path: str, faults: list[Malformed]) -> int:
    """Return the mask of a Linux CPU list; 0 where it is none."""
    try:
        return parse_cpu_list(read_text(raw, path, faults))
    except CpuListError as error:
        faults.append(Malformed(path, describe(raw), str(error)))
        return 0


def _sockets(cores: list[list[int]], sockets: int) -> tuple[int, ...]:
    numa = len(cores)
    if sockets <= numa:
        size = numa // sockets
        return tuple(sum(sum(of_numa) for of_numa in cores[at : at + size]) for at in range(0, numa, size))
    return tuple(part for of_numa in cores for part in _parts(of_numa, sockets // numa))


def _parts(cores: list[int], count: int) -> list[int]:
    """Return the CPUs of ``cores`` in ``count`` equal parts."""
    size = len(cores) // count
    return [sum(cores[at : at + size]) for at in range(0, len(cores), size)]


def _devices(raw: object, numa: int, path: str, faults: list[Malformed]) -> tuple[DeviceLayout, ...]:
    layouts: list[DeviceLayout] = []
    for resource, form in read_map(raw, path, faults).items():
        here = child(path, resource)
        options: Mapping[str, object] = form if isinstance(form, dict) else {}
        per_numa, listed = options.get("perNUMANode"), options.get("numa")
        if isinstance(form, int):
            per_numa = form
        elif isinstance(form, list):
            listed = form
        if (per_numa is None) is (listed is None):
            faults.append(Malformed(here, "both or neither of perNUMANode and numa", "one of them"))
            continue
        if listed is None:
            count = read_count(per_numa, f"{here}.perNUMANode", faults) or 0
            if count * numa > MOST_DEVICES:
                faults.append(Malformed(here, f"{describe(count)} on each", f"{MOST_DEVICES} devices at most"))
                continue
            homes = [1 << position for position in range(numa) for _ in range(count)]
        else:
            rows = read_list(listed, here, faults)
            homes = [_home(row, numa, f"{here}[{index}]", faults) for index, row in enumerate(rows)]
        ids = [item for item in read_list(options.get("ids"), f"{here}.ids", faults) if isinstance(item, str)]
        if ids and len(ids) != len(homes):
            faults.append(
                Malformed(f"{here}.ids", counted(len(ids), "id"), f"one for each of {counted(len(homes), 'device')}")
            )
        layouts.append(
            DeviceLayout(resource, tuple(homes), tuple(ids), reports_numa=options.get("reportsNUMA") is not False)
        )
    return tuple(layouts)


def _home(raw: object, numa: int, path: str, faults: list[Malformed]) -> int:
    """Return the mask of the NUMA nodes that a device reports."""
    mask = 0
    for item in raw if isinstance(raw, list) else [raw]:
        if item is None:
            continue
        if not isinstance(item, int) or not 0 <= item < numa:
            faults.append(Malformed(path, describe(item), f"a NUMA id from 0 to {numa - 1}"))
        else:
            mask |= 1 << item
    return mask
