"""Result annotations of a bound pod: the CPUs and devices that its scheduler says it has.

Koordinator: ``domain/koordinator-ack.md`` 1.4; ACK: 3.6 (that its NUMA feature writes these is not verified).
Anyone may write them: the ledger never lets them count for more than the pod asks for.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from webhook.core.demand import PodDemand
from webhook.core.ledger.records import Confirmed
from webhook.core.masks import HIGHEST_CPU_ID, CpuListError, parse_cpu_list
from webhook.wire.devices import HIGHEST_MINOR

RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
ACK_CPUSET: Final = "cpuset"
ACK_GPU_GROUP: Final = "topology.kubernetes.io/gpu-group"
RESULT_KEYS: Final = (RESOURCE_STATUS, DEVICE_ALLOCATED, ACK_CPUSET, ACK_GPU_GROUP)

RESOURCES_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu": ("aliyun.com/gpu", "nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"),
    "rdma": ("koordinator.sh/rdma",),
    "fpga": ("koordinator.sh/fpga",),
}
"""The resources, counted in whole devices, that the devices of a kind are asked for by."""

_LONGEST_TEXT: Final = 1 << 18
"""All annotations of an object together take 256 KiB at most."""


def read_result(annotations: Mapping[str, str], demand: PodDemand) -> Confirmed | None:
    """Return what the result annotations of a bound pod tell of its place; None where they tell nothing.

    What they leave out is not told: of CPUs ``cpus`` is None, a resource of devices is missing. A list of devices
    that is shorter or longer than ``demand`` asks is no place of the pod and counts as left out.
    """
    if not any(key in annotations for key in RESULT_KEYS):
        return None
    cpus = _koordinator_cpus(annotations.get(RESOURCE_STATUS))
    if cpus is None:
        cpus = _ack_cpus(annotations.get(ACK_CPUSET))
    by_kind = _koordinator_devices(annotations.get(DEVICE_ALLOCATED))
    if "gpu" not in by_kind:
        group = _gpu_group(annotations.get(ACK_GPU_GROUP))
        if group:
            by_kind["gpu"] = group
    devices: list[tuple[str, int]] = []
    asked = {name for container in demand.containers for name, count in container.devices if count}
    for resource in sorted(asked):
        kind = next((kind for kind, resources in RESOURCES_OF_KIND.items() if resource in resources), "")
        mask = by_kind.get(kind, 0)
        if mask and mask.bit_count() == demand.totals.get(resource, 0):
            devices.append((resource, mask))
    return None if cpus is None and not devices else Confirmed(cpus, tuple(devices))


def _koordinator_cpus(text: str | None) -> int | None:
    cpuset = _json_map(text).get("cpuset")
    if not isinstance(cpuset, str) or not cpuset:
        return None
    try:
        return parse_cpu_list(cpuset)
    except CpuListError:
        return None


def _ack_cpus(text: str | None) -> int | None:
    """Return the union of all containers' CPUs; None where a part cannot be read."""
    mask = 0
    for by_numa in _json_map(text).values():
        for place in by_numa.values() if isinstance(by_numa, dict) else (None,):
            elems = place.get("elems") if isinstance(place, dict) else None
            for cpu in elems if isinstance(elems, dict) else ("?",):
                number = _number(cpu, HIGHEST_CPU_ID)
                if number is None:
                    return None
                mask |= 1 << number
    return mask or None


def _koordinator_devices(text: str | None) -> dict[str, int]:
    masks: dict[str, int] = {}
    for kind, entries in _json_map(text).items():
        mask = 0
        for entry in entries if isinstance(entries, list) else ():
            minor = entry.get("minor") if isinstance(entry, dict) else None
            # A share of a device is no whole one: it would be counted as taken, and the rest of it be lost.
            if not isinstance(minor, int) or not 0 <= minor <= HIGHEST_MINOR or _is_share(entry):
                mask = 0
                break
            mask |= 1 << minor
        if mask:
            masks[kind] = mask
    return masks


def _is_share(entry: Mapping[str, Any]) -> bool:
    resources = entry.get("resources")
    core = resources.get("koordinator.sh/gpu-core") if isinstance(resources, dict) else None
    return core is not None and str(core) != "100"


def _gpu_group(text: str | None) -> int:
    mask = 0
    for part in text.split(",") if text and len(text) <= _LONGEST_TEXT else ():
        number = _number(part.strip(), HIGHEST_MINOR)
        if number is None:
            return 0
        mask |= 1 << number
    return mask


def _number(text: object, highest: int) -> int | None:
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > 6:
        return None
    return int(text) if int(text) <= highest else None


def _json_map(text: str | None) -> dict[str, Any]:
    if not text or len(text) > _LONGEST_TEXT:
        return {}
    try:
        value = orjson.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
