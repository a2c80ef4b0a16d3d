"""What a pod may hold of a machine, read from a result annotation, a report or a checkpoint, and checked against it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import and_

from webhook.core.demand import CpuBinding, PodDemand
from webhook.core.ledger.records import AllocatorKind, Entry, NodeRecord, PodRecord
from webhook.core.machine import Machine, NodeState
from webhook.core.masks import cpu_list
from webhook.core.numa_room import peak
from webhook.core.placement import Holding
from webhook.core.scheduler.request import binding_on


@dataclass(frozen=True, slots=True)
class Told:
    """What sources tell of a pod's place on a node; the rest is unknown, which is not the same as nothing."""

    holding: Holding
    """The parts that are told; what is unknown is empty here."""
    knows_cpus: bool = True
    """False: the pod pins CPUs, and no source says which."""
    unknown_devices: tuple[int, ...] = ()
    """Positions in ``Machine.devices`` of what the pod asks for and no source tells."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is unknown."""
        return self.knows_cpus and not self.unknown_devices

    def agrees(self, holding: Holding) -> bool:
        """Return whether ``holding`` has exactly what is told, whatever it has of the rest."""
        return self._told_of(holding) == (self.holding.cpus, self.holding.devices)

    def _told_of(self, holding: Holding) -> tuple[int, tuple[int, ...]]:
        masks = tuple(0 if at in self.unknown_devices else mask for at, mask in enumerate(holding.devices))
        return holding.cpus if self.knows_cpus else 0, masks

    def rest_of(self, holding: Holding) -> Holding:
        """Return the parts of ``holding`` that are not told."""
        masks = tuple(mask if at in self.unknown_devices else 0 for at, mask in enumerate(holding.devices))
        if self.knows_cpus:
            return replace(holding, cpus=0, devices=masks, cpuset=0)
        return replace(holding, devices=masks)

    def completed(self, guess: Holding) -> Holding:
        """Return what is told, and of ``guess`` what is not."""
        rest = self.rest_of(guess)
        return replace(
            rest,
            cpus=self.holding.cpus | rest.cpus,
            devices=tuple(mine | other for mine, other in zip(self.holding.devices, rest.devices, strict=True)),
            cpuset=self.holding.cpuset | rest.cpuset,
        )

    def open_for(self, machine: Machine, state: NodeState) -> NodeState:
        """Return ``state``, in which the told parts are held, so that they alone are free of their kinds.

        What a model places there lies beside them.
        """
        cpusets = list(state.cpusets)
        if self.holding.cpuset in cpusets:
            cpusets.remove(self.holding.cpuset)
        return replace(
            state,
            free_cpus=self.holding.cpus if self.knows_cpus and self.holding.cpus else state.free_cpus,
            busy_devices=tuple(
                layout.all_devices & ~mask if mask else busy
                for layout, mask, busy in zip(machine.devices, self.holding.devices, state.busy_devices, strict=True)
            ),
            cpusets=tuple(cpusets),
        )


def told(record: NodeRecord, pod: PodRecord) -> Told | None:
    """Return what sources say that ``pod`` holds; None where they say nothing, or where they claim too much.

    A result annotation can be forged: it never counts for more than the pod asks for.
    """
    confirmed, machine = pod.confirmed, record.machine
    if confirmed is None or machine is None:
        return None
    holding = holding_on(machine, confirmed.cpus or 0, confirmed.devices)
    if holding is None or not is_within(machine, holding, pod.demand):
        return None
    if record.allocator is AllocatorKind.SCHEDULER and not confirmed.is_by_kubelet:
        holding = replace(holding, cpuset=holding.cpus)
    names = {resource for resource, _ in confirmed.devices}
    asked = {name for container in pod.demand.containers for name, count in container.devices if count}
    unknown = tuple(
        at for at, layout in enumerate(machine.devices) if layout.resource in asked and layout.resource not in names
    )
    return Told(holding, confirmed.cpus is not None or not pinned_cpus(record, pod.demand), unknown)


def elsewhere(record: NodeRecord, pod: PodRecord, held: Holding) -> str:
    """Return in words what sources tell of ``pod`` that is none of ``held``, and both; empty where nothing is."""
    known, machine = told(record, pod), record.machine
    if known is None or machine is None:
        return ""
    kinds = [("CPUs", known.holding.cpus, held.cpus)]
    for layout, mask, other in zip(machine.devices, known.holding.devices, held.devices, strict=True):
        kinds.append((layout.resource, mask, other))
    return "; ".join(
        f"it is told to hold {name} {cpu_list(mask)}, replayed was {cpu_list(other) or 'none'}"
        for name, mask, other in kinds
        # Fewer are no contradiction: the node may be read while it hands them out.
        if mask & ~other
    )


def pinned_cpus(record: NodeRecord, demand: PodDemand) -> int:
    """Return how many CPUs a pod of ``demand`` gets for itself, bound by its scheduler or pinned by its kubelet."""
    machine = record.machine
    if machine is None:
        return 0
    if record.allocator is AllocatorKind.SCHEDULER and binding_on(machine, demand) is not CpuBinding.NONE:
        return demand.totals["cpu"] // 1000
    return peak(demand, demand.exclusive_cpus) if machine.kubelet.static_cpus else 0


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
    by_containers = sum(container.cpu_millicores for container in demand.containers)
    with_overhead = demand.totals.get("cpu", 0)
    if holding.cpus.bit_count() * 1000 > max(by_containers, with_overhead):
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
    cpus, devices = holding.cpus, holding.devices
    for other in others:
        theirs = other.holding
        if theirs is None or other is entry:
            continue
        cpus &= ~theirs.cpus
        if any(map(and_, devices, theirs.devices)):
            devices = tuple([mask & ~held for mask, held in zip(devices, theirs.devices, strict=True)])
    if cpus == holding.cpus and devices is holding.devices:
        return holding
    return replace(holding, cpus=cpus, devices=devices)


def same_places(one: Machine | None, other: Machine | None) -> bool:
    """Return whether CPUs and devices of one are those of the other by number, whatever else is told of them.

    What a kubelet has given out does not move when a source of the node's topology, a label or a setting of it changes.
    """
    if one is None or other is None:
        return one is other
    return (one.numa_ids, one.cpus, one.memory) == (other.numa_ids, other.cpus, other.memory) and [
        (layout.resource, layout.numa_of_device) for layout in one.devices
    ] == [(layout.resource, layout.numa_of_device) for layout in other.devices]
