"""What must be free for a kubelet to say yes, as numbers under the keys of ``numa_room``."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from webhook.core.demand import ContainerDemand, PodDemand
from webhook.core.kubelet.requests import most_at_once
from webhook.core.kubelet.tables import tables_of
from webhook.core.kubelet.versions import rules_of
from webhook.core.machine import Machine, TopologyPolicy, TopologyScope
from webhook.core.numa_room import RoomKey, count_of, has_one_numa_each

_ANY_CPUS: Final[RoomKey] = "machine", "cpu", 0, 0
_NEVER: Final[tuple[RoomKey, int]] = ("never", "", 0, 0), 1


def gives_hints(machine: Machine, index: int) -> bool:
    """Return whether the devices at ``index`` of ``machine.devices`` give the kubelet NUMA hints (1.5, rule 1)."""
    layout = machine.devices[index]
    return layout.reports_numa and (any(layout.numa_of_device) or bool(layout.foreign_numa))


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
            if not has_one_numa_each(machine, index):
                return
        if len(widths) > 1:
            yield _NEVER
            return
        width = next(iter(widths), 1)
    for resource, count in counts:
        yield ("numa", resource, width, count), cpus + 1
    if cpus:
        yield ("numa", "", width, 0), cpus + 1
