"""``SchedulerAllocator``: a NUMA-aware scheduler behind the protocol of allocator models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from webhook.core.demand import PodDemand
from webhook.core.kubelet.cpu_packed import take_packed
from webhook.core.kubelet.tables import CpuTable, tables_of
from webhook.core.machine import Machine, NodeState
from webhook.core.numa_room import peak
from webhook.core.occupancy import give_back, take
from webhook.core.placement import ContainerPlace, Holding, Placement, Rejection
from webhook.core.pod import ContainerKind
from webhook.core.scheduler.accumulator import pick_cpus
from webhook.core.scheduler.cards import Cards, cards_of, lowest
from webhook.core.scheduler.choice import Choice
from webhook.core.scheduler.exclusive import Occupants
from webhook.core.scheduler.merge import Terms
from webhook.core.scheduler.picks import bound_cpus, owed_cpus
from webhook.core.scheduler.policies import (
    PolicyMismatchError,
    effective_exclusive,
    effective_policy,
    is_wider_than_a_numa_node,
)
from webhook.core.scheduler.request import Request, WholeCpusError, check_whole_cpus, is_pinned_by_kubelet, request_of
from webhook.core.scheduler.scoring import Scoring
from webhook.core.scheduler.zones import Zones, whole_free_cores, zones_of

_VERDICTS_REMEMBERED: Final = 16384

POLICY_MISMATCH: Final = "policy-mismatch"
CPUS_NOT_WHOLE: Final = "cpus-not-whole"
INSUFFICIENT: Final = "insufficient"
UNSATISFIED: Final = "unsatisfied"
UNALIGNED: Final = "unaligned"
EXCLUSIVE: Final = "exclusive"
"""Unaligned in the scheduler's own words; it never says that exclusivity is why."""
REASONS: Final = (POLICY_MISMATCH, CPUS_NOT_WHOLE, INSUFFICIENT, UNSATISFIED, UNALIGNED, EXCLUSIVE)


class _RefusedError(Exception):
    """The scheduler passes the node over. ``reason`` is one of ``REASONS``, ``str`` its own text."""

    def __init__(self, reason: str, message: str, resource: str = "", facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.resource = resource
        self.facts = facts or {}


@dataclass(frozen=True, slots=True)
class SchedulerAllocator:
    """What Koordinator's scheduler, and by its documentation ACK's, does with a pod and a node.

    The node's memory is looked at only where ``Machine.memory`` tells it.
    """

    scoring: Scoring = Scoring.LEAST_ALLOCATED
    name: str = "scheduler"

    def place(self, machine: Machine, state: NodeState, demand: PodDemand) -> Placement | Rejection:
        """Return where ``demand`` would sit on ``machine`` in ``state``, or why the scheduler passes the node over.

        ``Rejection.facts`` has ``documented: true`` where the refusal is documented and no guess.
        """
        try:
            return _Placing(machine, state, demand, self).run()
        except _RefusedError as refused:
            facts = dict(refused.facts)
            if is_wider_than_a_numa_node(machine, demand):
                facts["documented"] = "true"
            return Rejection(
                refused.reason,
                str(refused),
                resource=refused.resource,
                structural=_is_refused_when_empty(self, machine, demand),
                facts=facts,
            )

    def release(self, machine: Machine, state: NodeState, holding: Holding) -> NodeState:
        """Return ``state`` with ``holding`` given back."""
        return give_back(machine, state, holding)


@lru_cache(maxsize=_VERDICTS_REMEMBERED)
def _is_refused_when_empty(allocator: SchedulerAllocator, machine: Machine, demand: PodDemand) -> bool:
    try:
        _Placing(machine, tables_of(machine).empty, demand, allocator).run()
    except _RefusedError:
        return True
    return False


@dataclass(slots=True)
class _Placing:
    """One pod on one node."""

    machine: Machine
    state: NodeState
    demand: PodDemand
    allocator: SchedulerAllocator

    def run(self) -> Placement:
        demand, machine = self.demand, self.machine
        try:
            check_whole_cpus(demand, demand.cpu_binding)
            policy = effective_policy(demand.numa_policy, machine.node_policy)
            request = request_of(machine, demand)
        except PolicyMismatchError as error:
            facts = {"pod_policy": demand.numa_policy, "node_policy": machine.node_policy}
            raise _RefusedError(POLICY_MISMATCH, str(error), facts=facts) from None
        except WholeCpusError as error:
            raise _RefusedError(CPUS_NOT_WHOLE, str(error), "cpu") from None
        cards = cards_of(machine, self.state, request)
        shortage = cards.shortage(policy)
        if shortage:
            raise _RefusedError(INSUFFICIENT, shortage)
        zones = zones_of(machine, self.state, request)
        numa_mask = self._numa_mask(policy, zones, cards) if policy else None
        holding = self._holding(request, zones, cards, numa_mask)
        return Placement(holding, tuple(self._places(holding, numa_mask)), take(self.state, holding))

    def _numa_mask(self, policy: str, zones: Zones, cards: Cards) -> int | None:
        """Return the NUMA nodes for the pod; None: any."""
        machine, demand = self.machine, self.demand
        exclusive = effective_exclusive(demand.numa_policy, demand.numa_exclusive)
        occupants = Occupants.of(self.state.cpusets, machine.cpus.numa_cpus)
        choice = Choice(Terms(policy, machine.all_numa, exclusive, occupants), zones, cards, self.allocator.scoring)
        merged = choice.make()
        if merged.admits:
            return merged.numa_mask
        message = ", ".join(merged.reasons)
        facts = {"policy": policy}
        if choice.fails_by_exclusivity():
            facts["occupied"] = occupants.in_words(machine.numa_ids)
            raise _RefusedError(EXCLUSIVE, message, facts=facts)
        if merged.unmet:
            raise _RefusedError(UNSATISFIED, message, zones.zones[0].resource, facts)
        raise _RefusedError(UNALIGNED, message, facts=facts)

    def _holding(self, request: Request, zones: Zones, cards: Cards, numa_mask: int | None) -> Holding:
        cpus = cpuset = 0
        table = tables_of(self.machine).cpus
        free = whole_free_cores(self.machine, self.state.free_cpus) if request.in_whole_cores else self.state.free_cpus
        memory: tuple[tuple[tuple[int, int], ...], ...] = ()
        if numa_mask is None:
            cpus, cpuset = self._anywhere(table, free, request)
        else:
            if request.millicores:
                shares = _shares(zones, "cpu", numa_mask)
                if request.is_bound:
                    found = bound_cpus(table, free, shares, self.allocator.scoring)
                else:
                    found = owed_cpus(table, free, shares)
                if found is None:
                    raise _RefusedError(INSUFFICIENT, "not enough cpus available to satisfy request", "cpu")
                cpus, cpuset = found, found if request.is_bound else 0
            memory = self._memory(request, zones, numa_mask)
        devices = [0] * len(self.machine.devices)
        for one in cards.asked:
            picked = one.pick(numa_mask)
            if picked is None:
                raise _RefusedError(INSUFFICIENT, one.table.shortage, self.machine.devices[one.index].resource)
            devices[one.index] = picked
        return Holding(cpus, tuple(devices), memory, cpuset)

    def _anywhere(self, table: CpuTable, free: int, request: Request) -> tuple[int, int]:
        """Return the CPUs of a pod that no policy aligns, wherever they are, and the set that it is bound to.

        What is not bound is not counted, but for what the node's kubelet pins after the scheduler's choice.
        """
        if request.is_bound:
            cpus = pick_cpus(table, free, request.millicores // 1000, self.allocator.scoring)
            if cpus is None:
                raise _RefusedError(INSUFFICIENT, "not enough cpus available to satisfy request", "cpu")
            return cpus, cpus
        if is_pinned_by_kubelet(self.machine, self.demand):
            count = peak(self.demand, self.demand.exclusive_cpus)
            return (take_packed(table, free, count) if count <= free.bit_count() else 0), 0
        return 0, 0

    def _memory(self, request: Request, zones: Zones, numa_mask: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        if not request.memory:
            return ()
        blocks: list[tuple[tuple[int, int], ...]] = [()] * len(self.machine.memory)
        for index, _ in request.memory:
            shares = _shares(zones, self.machine.memory[index].resource, numa_mask)
            blocks[index] = tuple((1 << position, size) for position, size in sorted(shares.items()))
        return tuple(blocks)

    def _places(self, holding: Holding, numa_mask: int | None) -> Iterable[ContainerPlace]:
        """Yield each container's place: all share the CPUs; apps and sidecars divide the devices, init ones reuse."""
        left = list(holding.devices)
        for container in self.demand.containers:
            given: list[tuple[int, int]] = []
            for resource, count in container.devices:
                index = self.machine.device_index(resource)
                if index is None or not count:
                    continue
                if container.kind is ContainerKind.INIT:
                    given.append((index, lowest(holding.devices[index], count)))
                    continue
                mask = lowest(left[index], count)
                left[index] &= ~mask
                given.append((index, mask))
            yield ContainerPlace(container.name, holding.cpuset, tuple(given), numa_mask)


def _shares(zones: Zones, resource: str, numa_mask: int) -> Mapping[int, int]:
    """Return how much of ``resource``, which is asked for, each NUMA position of ``numa_mask`` gives."""
    zone = next(zone for zone in zones.zones if zone.resource == resource)
    shares = zone.split(numa_mask)
    if shares is None:
        raise _RefusedError(INSUFFICIENT, f"Insufficient NUMA {resource}", resource)
    return shares
