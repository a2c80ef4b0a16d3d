"""Taking and giving back what a pod holds of a node: pure arithmetic on ``NodeState``, the same for every allocator."""

from typing import TypeVar

from webhook.core.machine import Machine, NodeState
from webhook.core.placement import Holding

Value = TypeVar("Value")


def take(state: NodeState, holding: Holding) -> NodeState:
    """Return ``state`` with ``holding`` held. What is held twice stays held once: check ``is_free`` first."""
    memory = state.busy_memory
    if holding.memory:
        memory = tuple(busy + more for busy, more in zip(state.busy_memory, holding.memory, strict=True))
    return NodeState(
        state.free_cpus & ~holding.cpus,
        tuple(busy | more for busy, more in zip(state.busy_devices, holding.devices, strict=True))
        if holding.devices
        else state.busy_devices,
        state.unhealthy_devices,
        memory,
        state.memory_by_numa,
        (*state.cpusets, holding.cpuset) if holding.cpuset else state.cpusets,
    )


def give_back(machine: Machine, state: NodeState, holding: Holding) -> NodeState:
    """Return ``state`` with ``holding`` free again; reserved CPUs never become free."""
    memory = list(state.busy_memory)
    for index, groups in enumerate(holding.memory):
        left = memory[index]
        for group in reversed(groups):
            left = _without_last(left, group)
        memory[index] = left
    cpusets = _without_last(state.cpusets, holding.cpuset) if holding.cpuset else state.cpusets
    return NodeState(
        state.free_cpus | (holding.cpus & machine.cpus.all_cpus & ~machine.reserved_cpus),
        tuple(busy & ~less for busy, less in zip(state.busy_devices, holding.devices, strict=True))
        if holding.devices
        else state.busy_devices,
        state.unhealthy_devices,
        tuple(memory),
        state.memory_by_numa,
        cpusets,
    )


def _without_last(values: tuple[Value, ...], value: Value) -> tuple[Value, ...]:
    """Return ``values`` without the newest ``value``: who gives back what was taken last restores the state before."""
    at = len(values) - 1 - values[::-1].index(value)
    return values[:at] + values[at + 1 :]


def is_free(state: NodeState, holding: Holding) -> bool:
    """Return whether nothing of ``holding``'s CPUs and devices is held by another."""
    if holding.cpus & ~state.free_cpus:
        return False
    return not any(busy & more for busy, more in zip(state.busy_devices, holding.devices, strict=False))


def holds_unhealthy(state: NodeState, holding: Holding) -> bool:
    """Return whether a device of ``holding`` is unhealthy."""
    return any(bad & more for bad, more in zip(state.unhealthy_devices, holding.devices, strict=False))


def holds_nothing(holding: Holding) -> bool:
    """Return whether ``holding`` is empty, so that nothing about it can be wrong."""
    return not holding.cpus and not any(holding.devices) and not any(holding.memory)
