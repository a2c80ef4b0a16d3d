"""What must be free for an allocator to say yes: necessary conditions as numbers, so that an index can answer them.

Each condition reads "the number under ``key`` is at least ``need``". Keys:

* ``("machine", resource, 0)``: 1 + what is free on the whole machine (``cpu``: exclusive CPUs; else healthy devices);
* ``("numa", resource, n)``, *n* > 0: 1 + the most CPUs free on one NUMA node that has at least *n* free devices of
  ``resource``, 0 where there is no such NUMA node; ``("numa", "", 0)``: on any NUMA node.

For single-numa-node with one-NUMA-id devices the conditions of one unit are also sufficient when it asks for one device
resource (``domain/kubelet-topology.md`` 1.8, reduced rules).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

from webhook.core.demand import ContainerDemand, PodDemand
from webhook.core.kubelet.requests import most_at_once
from webhook.core.kubelet.versions import rules_of
from webhook.core.machine import Machine, NodeState, TopologyPolicy, TopologyScope
from webhook.core.pod import ContainerKind

RoomKey = tuple[str, str, int]


@lru_cache(maxsize=1024)
def _devices_by_numa(machine: Machine) -> tuple[tuple[int, ...], ...]:
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
    cpus_by_numa = [(state.free_cpus & cpus).bit_count() + 1 for cpus in machine.cpus.numa_cpus]
    room: dict[RoomKey, int] = {
        ("machine", "cpu", 0): state.free_cpus.bit_count() + 1,
        ("numa", "", 0): max(cpus_by_numa),
    }
    for index, by_numa in enumerate(_devices_by_numa(machine)):
        resource = machine.devices[index].resource
        free = state.free_devices(machine, index)
        room["machine", resource, 0] = free.bit_count() + 1
        widest = 0
        pairs = sorted(
            (((free & mask).bit_count(), cpus) for mask, cpus in zip(by_numa, cpus_by_numa, strict=True) if mask),
            reverse=True,
        )
        at = 0
        for count in range(max((mask.bit_count() for mask in by_numa), default=0), 0, -1):
            while at < len(pairs) and pairs[at][0] >= count:
                widest = max(widest, pairs[at][1])
                at += 1
            room["numa", resource, count] = widest
    return room


@lru_cache(maxsize=16384)
def conditions(machine: Machine, demand: PodDemand) -> tuple[tuple[RoomKey, int], ...]:
    """Return the conditions (key, need) that must all hold; else the kubelet of ``machine`` refuses for sure."""
    pins = machine.kubelet.static_cpus
    rules = rules_of(machine.kubelet.minor_version)

    def at_once(amount: Callable[[ContainerDemand], int]) -> int:
        return most_at_once(demand.containers, amount, with_sidecars=rules.sidecars_keep_their_share)

    def cpus(container: ContainerDemand) -> int:
        return demand.exclusive_cpus(container) if pins else 0

    result: list[tuple[RoomKey, int]] = [(("machine", "cpu", 0), at_once(cpus) + 1)]
    asked = {resource for container in demand.containers for resource, _ in container.devices}
    hinted: dict[str, Callable[[ContainerDemand], int]] = {}
    for index, layout in enumerate(machine.devices):
        if layout.resource not in asked:
            continue
        count = count_of(layout.resource)
        result.append((("machine", layout.resource, 0), at_once(count) + 1))
        if gives_hints(machine, index):
            hinted[layout.resource] = count
    if machine.kubelet.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        result.extend(_single_numa_conditions(machine, demand, cpus, hinted))
    return tuple(dict.fromkeys(result))


def _single_numa_conditions(
    machine: Machine,
    demand: PodDemand,
    cpus: Callable[[ContainerDemand], int],
    hinted: dict[str, Callable[[ContainerDemand], int]],
) -> Iterable[tuple[RoomKey, int]]:
    if machine.kubelet.scope is TopologyScope.POD:
        rules = rules_of(machine.kubelet.minor_version)
        pod_devices = [
            (
                resource,
                most_at_once(demand.containers, count, with_sidecars=rules.sidecars_add_to_device_total),
            )
            for resource, count in hinted.items()
        ]
        pod_cpus = most_at_once(demand.containers, cpus, with_sidecars=rules.sidecars_keep_their_share)
        yield from _unit(pod_cpus, pod_devices)
        return
    for container in demand.containers:
        named = {resource for resource, _ in container.devices}
        yield from _unit(cpus(container), [(r, count(container)) for r, count in hinted.items() if r in named])


def _unit(cpus: int, devices: list[tuple[str, int]]) -> Iterable[tuple[RoomKey, int]]:
    for resource, count in devices:
        if count:  # a request for none can be met on a NUMA node without the resource, by some kubelets
            yield ("numa", resource, count), cpus + 1
    if cpus:
        yield ("numa", "", 0), cpus + 1


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
