"""What a pod may hold of a machine, read from a result annotation, a report or a checkpoint, and checked against it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from webhook.core.demand import PodDemand
from webhook.core.ledger.records import AllocatorKind, Entry, NodeRecord, PodRecord
from webhook.core.machine import Machine
from webhook.core.placement import Holding


@dataclass(frozen=True, slots=True)
class Told:
    """The place of a pod as a source tells it."""

    holding: Holding
    is_whole: bool
    """False: the pod pins CPUs, and the source says nothing of them."""


def told(record: NodeRecord, pod: PodRecord) -> Told | None:
    """Return what ``pod``'s result annotation says that it holds; None without one, or where it claims too much.

    A result annotation can be forged: it never counts for more than the pod asks for.
    """
    confirmed, machine = pod.confirmed, record.machine
    if confirmed is None or machine is None:
        return None
    holding = holding_on(machine, confirmed.cpus or 0, confirmed.devices)
    if holding is None or not is_within(machine, holding, pod.demand):
        return None
    if record.allocator is AllocatorKind.SCHEDULER:
        holding = replace(holding, cpuset=holding.cpus)
    return Told(holding, confirmed.cpus is not None or not pins_cpus(record, pod.demand))


def pins_cpus(record: NodeRecord, demand: PodDemand) -> bool:
    """Return whether a container of ``demand`` gets exclusive CPUs on the node."""
    machine = record.machine
    if machine is None or (record.allocator is AllocatorKind.KUBELET and not machine.kubelet.static_cpus):
        return False
    return any(demand.exclusive_cpus(container) for container in demand.containers)


def holding_on(machine: Machine, cpus: int, devices: Iterable[tuple[str, int]]) -> Holding | None:
    """Return a holding on ``machine``; None where it names CPUs or devices that the machine does not have."""
    masks = [0] * len(machine.devices)
    for resource, mask in devices:
        index = machine.device_index(resource)
        if index is None or mask & ~machine.devices[index].all_devices:
            return None
        masks[index] |= mask
    return None if cpus & ~machine.cpus.all_cpus else Holding(cpus, tuple(masks))


def is_within(machine: Machine, holding: Holding, demand: PodDemand) -> bool:
    """Return whether ``holding`` is no more than all containers of ``demand`` ask for together."""
    if holding.cpus.bit_count() * 1000 > sum(container.cpu_millicores for container in demand.containers):
        return False
    for layout, mask in zip(machine.devices, holding.devices, strict=True):
        asked = sum(
            count for container in demand.containers for name, count in container.devices if name == layout.resource
        )
        if mask.bit_count() > asked:
            return False
    return True


def held_alone(entry: Entry, others: Iterable[Entry]) -> Holding | None:
    """Return what ``entry`` holds and none of ``others`` does: two sources may tell the same device of two pods."""
    holding = entry.holding
    if holding is None:
        return None
    cpus, devices = holding.cpus, list(holding.devices)
    for other in others:
        theirs = other.holding
        if theirs is not None and other is not entry:
            cpus &= ~theirs.cpus
            for index, mask in enumerate(theirs.devices):
                devices[index] &= ~mask
    if cpus == holding.cpus and tuple(devices) == holding.devices:
        return holding
    return replace(holding, cpus=cpus, devices=tuple(devices))
