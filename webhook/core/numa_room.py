"""What must be free for an allocator to say yes: necessary conditions as numbers, so that an index can answer them.

Each condition reads "the number under ``key`` is at least ``need``". Keys:

* ``("machine", resource, 0, 0)``: 1 + what is free on the machine (``cpu``: exclusive CPUs; else healthy devices);
* ``("numa", resource, k, n)``, *n* > 0: 1 + the most CPUs free on *k* NUMA nodes that together have at least *n* free
  devices of ``resource``, 0 where there are no such NUMA nodes; ``("numa", "", k, 0)``: on any *k* NUMA nodes;
* ``("never", "", 0, 0)``: no number, for what no state of the machine admits.

*k* is 1 for single-numa-node and up to all NUMA nodes for restricted. For devices of one NUMA id the conditions of one
unit are also sufficient when it asks for one device resource (``domain/kubelet-topology.md`` 1.8, reduced rules).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final

from webhook.core.demand import ContainerDemand, PodDemand
from webhook.core.kubelet.tables import tables_of
from webhook.core.machine import Machine, NodeState, TopologyPolicy
from webhook.core.pod import ContainerKind

RoomKey = tuple[str, str, int, int]
_ANY_CPUS: Final[RoomKey] = "machine", "cpu", 0, 0


@lru_cache(maxsize=1024)
def devices_by_numa(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Return for each device layout of ``machine`` the mask of devices per NUMA position."""
    return tuple(
        tuple(layout.touching(1 << position) for position in range(len(machine.numa_ids))) for layout in machine.devices
    )


def numa_room(machine: Machine, state: NodeState) -> dict[RoomKey, int]:
    """Return the number of every key that a condition on ``machine`` may name."""
    plan = room_plan(machine)
    return dict(zip(plan.keys, plan.numbers(state), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class DevicePlan:
    """The devices of one resource, and in which way their numbers are found."""

    all_devices: int
    by_numa: tuple[int, ...]
    """The mask of devices per NUMA position."""
    most: tuple[int, ...] = ()
    """For sets of NUMA nodes, the most devices by the width of the set; empty: only single NUMA nodes are asked of."""
    even: int = 0
    """The devices of each NUMA node that hosts any, where all have equally many; 0 where they have not."""

    def keys(self, resource: str) -> Iterable[RoomKey]:
        """Return the keys of the numbers of NUMA nodes, in the order of ``numbers``."""
        above = 0
        for width, highest in enumerate(self.most or (self.most_on_one,), 1):
            for count in range(highest, above, -1):
                yield "numa", resource, width, count
            above = max(above, highest)

    @property
    def most_on_one(self) -> int:
        """The most devices of one NUMA node."""
        return max((mask.bit_count() for mask in self.by_numa), default=0)

    def numbers(self, free: int, cpus_by_numa: list[int]) -> Sequence[int]:
        """Return the most CPUs beside the devices that each key names; ``free`` devices, free CPUs by position."""
        counts = [(free & mask).bit_count() for mask in self.by_numa]
        if self.even:
            return _evenly(self.even, self.most[-1] // self.even, counts, cpus_by_numa)
        if self.most:
            return _wide(self.most, tuple(sorted(zip(counts, cpus_by_numa, strict=True))))
        return _best((0, self.most_on_one), zip(counts, cpus_by_numa, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class RoomPlan:
    """What of a machine never changes and its numbers are found by."""

    keys: tuple[RoomKey, ...]
    numa_cpus: tuple[int, ...]
    is_wide: bool
    """Sets of NUMA nodes are asked of, not single ones alone."""
    devices: tuple[DevicePlan, ...]

    def numbers(self, state: NodeState) -> tuple[int, ...]:
        """Return the numbers of ``keys``, in their order."""
        free_cpus = state.free_cpus
        cpus_by_numa = [(free_cpus & cpus).bit_count() for cpus in self.numa_cpus]
        result = [sum(cpus_by_numa) + 1]
        if self.is_wide:
            result += [total + 1 for total in accumulate(sorted(cpus_by_numa, reverse=True))]
        else:
            result.append(max(cpus_by_numa) + 1)
        for plan, busy, unhealthy in zip(self.devices, state.busy_devices, state.unhealthy_devices, strict=True):
            free = plan.all_devices & ~busy & ~unhealthy
            result.append(free.bit_count() + 1)
            result += plan.numbers(free, cpus_by_numa)
        return tuple(result)


@lru_cache(maxsize=1024)
def room_plan(machine: Machine) -> RoomPlan:
    """Return how the numbers of ``machine`` are found."""
    is_wide = machine.kubelet.policy is TopologyPolicy.RESTRICTED
    keys: list[RoomKey] = [_ANY_CPUS]
    keys += (("numa", "", width, 0) for width in range(1, (len(machine.numa_ids) if is_wide else 1) + 1))
    devices: list[DevicePlan] = []
    for index, by_numa in enumerate(devices_by_numa(machine)):
        layout = machine.devices[index]
        most: tuple[int, ...] = ()
        if is_wide and has_one_numa_each(machine, index):
            most = tables_of(machine).devices[index].most
        plan = DevicePlan(layout.all_devices, by_numa, most, _even(most))
        devices.append(plan)
        keys.append(("machine", layout.resource, 0, 0))
        keys += plan.keys(layout.resource)
    return RoomPlan(tuple(keys), machine.cpus.numa_cpus, is_wide, tuple(devices))


def _even(most: tuple[int, ...]) -> int:
    """Return how many devices each host has, 0 where they differ: the sums grow evenly, and then no more."""
    if not most or not most[0]:
        return 0
    hosts = most[-1] // most[0]
    return most[0] if all(highest == most[0] * min(width, hosts) for width, highest in enumerate(most, 1)) else 0


def _evenly(each: int, hosts: int, counts: Sequence[int], cpus_by_numa: Sequence[int]) -> list[int]:
    """Return what ``_wide`` does for ``hosts`` NUMA nodes of ``each`` devices.

    Of *w* NUMA nodes that together have more than ``each * (w - 1)`` free devices, fewer than ``each`` are busy: which
    nodes lack how many has as few choices as that number has partitions, and of equal nodes those with the most CPUs
    count.
    """
    kinds: list[list[int]] = [[] for _ in range(each + 1)]
    for count, cpus in zip(counts, cpus_by_numa, strict=True):
        kinds[each - count].append(cpus)
    sums = [list(accumulate(sorted(cpus, reverse=True), initial=0)) for cpus in kinds]
    whole = sums[0]
    choices: list[list[tuple[int, int]]] = []
    for parts in partitions_below(each):
        found = []
        for width, missing in parts:
            total = 0
            for lacking, nodes in missing:
                if nodes >= len(sums[lacking]):
                    break
                total += sums[lacking][nodes]
            else:
                found.append((width, total + 1))
        choices.append(found)
    result: list[int] = []
    for width in range(1, hosts + 1):
        widest = 0
        for found in choices:
            for begun, cpus in found:
                if begun <= width < begun + len(whole) and (total := cpus + whole[width - begun]) > widest:
                    widest = total
            result.append(widest)
    return result


@lru_cache(maxsize=64)
def partitions_below(limit: int) -> tuple[tuple[tuple[int, tuple[tuple[int, int], ...]], ...], ...]:
    """Return for each number below ``limit`` its partitions, as (how many parts, ((part, how often), ...))."""

    def split(number: int, highest: int) -> Iterator[tuple[tuple[int, int], ...]]:
        if not number:
            yield ()
        for part in range(min(number, highest), 0, -1):
            for often in range(number // part, 0, -1):
                for rest in split(number - often * part, part - 1):
                    yield ((part, often), *rest)

    return tuple(
        tuple((sum(often for _, often in parts), parts) for parts in split(number, number)) for number in range(limit)
    )


def _best(counts: tuple[int, int], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return 1 + the most CPUs beside at least *n* devices of (devices, CPUs) ``pairs`` for each *n*, highest first.

    *n* is above the first count; the second is the most devices that a pair can have.
    """
    above, most = counts
    best = [0] * (most + 1)
    for devices, cpus in pairs:
        if cpus >= best[devices]:
            best[devices] = cpus + 1
    return list(accumulate(best[most:above:-1], max))


# Which devices and CPUs of a NUMA node are free makes no odds, and NUMA nodes are interchangeable: a cluster comes back
# to a few thousand of these again and again.
@lru_cache(maxsize=4096)
def _wide(most: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
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
    room: list[int] = []
    above = 0
    for width, highest in enumerate(most, 1):
        if highest > above:
            room += _best((above, highest), by_width[width])
            above = highest
    return tuple(room)


@lru_cache(maxsize=1024)
def has_one_numa_each(machine: Machine, index: int) -> bool:
    """Return whether each device at ``index`` of ``machine.devices`` reports one NUMA node that the machine has."""
    layout = machine.devices[index]
    return not layout.foreign_numa and all(numa.bit_count() == 1 for numa in layout.numa_of_device)


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
