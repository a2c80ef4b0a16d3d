"""What must be free for an allocator to say yes: necessary conditions as numbers, so that an index can answer them.

Each condition reads "the number under ``key`` is at least ``need``". Keys:

* ``("machine", resource, 0, 0)``: 1 + what is free on the machine (``cpu``: exclusive CPUs; else healthy devices);
* ``("numa", resource, k, n)``, *n* > 0: 1 + the most CPUs free on *k* NUMA nodes that together have at least *n* free
  devices of ``resource``, 0 where there are no such NUMA nodes; ``("numa", "", k, 0)``: on any *k* NUMA nodes;
* ``("never", "", 0, 0)``: no number, for what no state of the machine admits.

*k* is 1 for single-numa-node and up to all NUMA nodes for restricted. For devices of one NUMA id the conditions of one
unit are also sufficient when it asks for one device resource (``domain/kubelet-topology.md`` 1.8, reduced rules).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from webhook.core.demand import ContainerDemand, PodDemand
from webhook.core.kubelet.requests import most_at_once
from webhook.core.kubelet.tables import tables_of
from webhook.core.kubelet.versions import rules_of
from webhook.core.machine import Machine, NodeState, TopologyPolicy, TopologyScope
from webhook.core.pod import ContainerKind

RoomKey = tuple[str, str, int, int]
_NEVER: Final[tuple[RoomKey, int]] = ("never", "", 0, 0), 1
_ANY_CPUS: Final[RoomKey] = "machine", "cpu", 0, 0


@lru_cache(maxsize=1024)
def devices_by_numa(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Return for each device layout of ``machine`` the mask of devices per NUMA position."""
    return tuple(
        tuple(layout.touching(1 << position) for position in range(len(machine.numa_ids))) for layout in machine.devices
    )


def gives_hints(machine: Machine, index: int) -> bool:
    """Return whether the devices at ``index`` of ``machine.devices`` give the kubelet NUMA hints (1.5, rule 1)."""
    layout = machine.devices[index]
    return layout.reports_numa and (any(layout.numa_of_device) or bool(layout.foreign_numa))


def numa_room(machine: Machine, state: NodeState) -> dict[RoomKey, int]:
    """Return the number of every key that a condition on ``machine`` may name."""
    free_cpus = state.free_cpus
    cpus_by_numa = [(free_cpus & cpus).bit_count() for cpus in machine.cpus.numa_cpus]
    room: dict[RoomKey, int] = {_ANY_CPUS: free_cpus.bit_count() + 1, ("numa", "", 1, 0): max(cpus_by_numa) + 1}
    is_wide = machine.kubelet.policy is TopologyPolicy.RESTRICTED
    if is_wide:
        total = 0
        for index, cpus in enumerate(sorted(cpus_by_numa, reverse=True)):
            total += cpus
            room["numa", "", index + 1, 0] = total + 1
    for index, by_numa in enumerate(devices_by_numa(machine)):
        resource = machine.devices[index].resource
        free = state.free_devices(machine, index)
        room["machine", resource, 0, 0] = free.bit_count() + 1
        pairs = [((free & mask).bit_count(), cpus) for mask, cpus in zip(by_numa, cpus_by_numa, strict=True)]
        if is_wide and _has_one_numa_each(machine, index):
            room.update(_wide(resource, tables_of(machine).devices[index].most, tuple(sorted(pairs))))
        else:
            most = max((mask.bit_count() for mask in by_numa), default=0)
            _put_best(room, resource, 1, (0, most), pairs)
    return room


def _put_best(
    room: dict[RoomKey, int], resource: str, width: int, counts: tuple[int, int], pairs: Iterable[tuple[int, int]]
) -> None:
    """Put the most CPUs beside at least *n* devices of (devices, CPUs) ``pairs``, for each *n* above the first count.

    The second count is the most devices that a pair can have.
    """
    above, most = counts
    best = [0] * (most + 1)
    for devices, cpus in pairs:
        if cpus >= best[devices]:
            best[devices] = cpus + 1
    widest = 0
    for count in range(most, above, -1):
        widest = max(widest, best[count])
        room["numa", resource, width, count] = widest


# Which devices and CPUs of a NUMA node are free makes no odds, and NUMA nodes are interchangeable: a cluster comes back
# to a few thousand of these again and again. Each keeps about 3 kB.
@lru_cache(maxsize=4096)
def _wide(resource: str, most: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> Mapping[RoomKey, int]:
    """Return the numbers of sets of NUMA nodes, given as (free devices, free CPUs); ``most`` devices by their width.

    Only the counts whose preferred width it is are asked of a width. NUMA nodes with equally many free devices are
    taken by their CPUs, so only how many of each kind counts: some dozen choices instead of every set.
    """
    kinds: dict[int, list[int]] = {}
    for devices, cpus in pairs:
        kinds.setdefault(devices, []).append(cpus)
    choices = [(0, 0, 0)]
    for devices, cpus_of_kind in kinds.items():
        sums = [(0, 0, 0)]
        for cpus in sorted(cpus_of_kind, reverse=True):
            width, count, total = sums[-1]
            sums.append((width + 1, count + devices, total + cpus))
        choices = [(w + v, d + e, c + b) for w, d, c in choices for v, e, b in sums]
    by_width: list[list[tuple[int, int]]] = [[] for _ in range(len(most) + 1)]
    for width, devices, cpus in choices:
        if width <= len(most):
            by_width[width].append((devices, cpus))
    room: dict[RoomKey, int] = {}
    above = 0
    for width, highest in enumerate(most, 1):
        if highest > above:
            _put_best(room, resource, width, (above, highest), by_width[width])
            above = highest
    return room


@lru_cache(maxsize=1024)
def _has_one_numa_each(machine: Machine, index: int) -> bool:
    layout = machine.devices[index]
    return not layout.foreign_numa and all(numa.bit_count() == 1 for numa in layout.numa_of_device)


@lru_cache(maxsize=16384)
def conditions(machine: Machine, demand: PodDemand) -> tuple[tuple[RoomKey, int], ...]:
    """Return the conditions (key, need) that must all hold; else the kubelet of ``machine`` refuses for sure."""
    kubelet = machine.kubelet
    rules = rules_of(kubelet.minor_version)

    def at_once(amount: Callable[[ContainerDemand], int]) -> int:
        return most_at_once(demand.containers, amount, with_sidecars=rules.sidecars_keep_their_share)

    def cpus(container: ContainerDemand) -> int:
        return demand.exclusive_cpus(container) if kubelet.static_cpus else 0

    if kubelet.full_pcpus_only:
        per_core = tables_of(machine).cpus.cpus_per_core
        if any(cpus(container) % per_core for container in demand.containers):
            return (_NEVER,)
    result: list[tuple[RoomKey, int]] = [(_ANY_CPUS, at_once(cpus) + 1)]
    asked = {resource for container in demand.containers for resource, _ in container.devices}
    hinted: dict[str, Callable[[ContainerDemand], int]] = {}
    for index, layout in enumerate(machine.devices):
        if layout.resource not in asked:
            continue
        count = count_of(layout.resource)
        result.append((("machine", layout.resource, 0, 0), at_once(count) + 1))
        if gives_hints(machine, index):
            hinted[layout.resource] = count
    if kubelet.policy not in {TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED}:
        return tuple(result)
    if kubelet.scope is TopologyScope.POD:
        devices = [
            (resource, most_at_once(demand.containers, count, with_sidecars=rules.sidecars_add_to_device_total))
            for resource, count in hinted.items()
        ]
        result.extend(_unit(machine, at_once(cpus), devices))
    else:
        for container in demand.containers:
            counts = [(resource, count(container)) for resource, count in hinted.items()]
            result.extend(_unit(machine, cpus(container), counts))
    return tuple(dict.fromkeys(result))


def _unit(machine: Machine, cpus: int, devices: Iterable[tuple[str, int]]) -> Iterable[tuple[RoomKey, int]]:
    """Yield the conditions of what is aligned together: a container, or the pod in pod scope.

    A request for no device (it gives a hint, too) is left out: some kubelets meet it anywhere.
    """
    counts = [(resource, count) for resource, count in devices if count]
    width = 1
    if machine.kubelet.policy is TopologyPolicy.RESTRICTED:
        if machine.kubelet.align_by_socket:
            return
        tables = tables_of(machine)
        widths = {tables.cpus.width(cpus)} if cpus else set()
        for resource, count in counts:
            index = tables.device_index[resource]
            widths.add(tables.devices[index].width(count))
            if not _has_one_numa_each(machine, index):
                return
        if len(widths) > 1:
            yield _NEVER
            return
        width = next(iter(widths), 1)
    for resource, count in counts:
        yield ("numa", resource, width, count), cpus + 1
    if cpus:
        yield ("numa", "", width, 0), cpus + 1


def count_of(resource: str) -> Callable[[ContainerDemand], int]:
    """Return the function that reads how many devices of ``resource`` a container asks for."""

    def count(container: ContainerDemand) -> int:
        return next((amount for name, amount in container.devices if name == resource), 0)

    return count


def peak(demand: PodDemand, amount: Callable[[ContainerDemand], int]) -> int:
    """Return the most that ``demand`` holds at one time of what ``amount`` counts per container.

    max(max over plain init containers i of (sidecars started before i + i), apps + all sidecars)
    (kubernetes/kubernetes:pkg/kubelet/cm/cpumanager/policy_static.go podGuaranteedCPUs).
    """
    sidecars = highest = apps = 0
    for container in demand.containers:
        asked = amount(container)
        match container.kind:
            case ContainerKind.INIT:
                highest = max(highest, sidecars + asked)
            case ContainerKind.SIDECAR:
                sidecars += asked
                highest = max(highest, sidecars)
            case _:
                apps += asked
    return max(highest, apps + sidecars)
