"""The index of all nodes: which ones a pod may go to, and which have room, as bit masks of node slots."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeVar

from webhook.core.demand import PodDemand
from webhook.core.kubelet.conditions import conditions as kubelet_conditions
from webhook.core.ledger.columns import Column, Sets
from webhook.core.ledger.records import UNLIMITED, AllocatorKind, NodeRecord, NodeView
from webhook.core.ledger.slots import NodeSlots
from webhook.core.machine import Machine
from webhook.core.numa_room import RoomKey, RoomPlan, room_plan
from webhook.core.scheduler.conditions import conditions as scheduler_conditions

Key = TypeVar("Key", bound=Hashable)

_CONDITIONS: Final = MappingProxyType(
    {AllocatorKind.KUBELET: kubelet_conditions, AllocatorKind.SCHEDULER: scheduler_conditions}
)
"""What must be free for each kind of allocator to say yes."""

# Pod shapes whose refusals are kept: those that fit by every number of the index and are refused all the same, such as
# pods of several containers on nodes in shreds. An event on a node that refused any looks at all of them.
KEPT_REFUSALS: Final = 64


class NodeIndex(NodeSlots):
    """Slots of nodes and the columns over them. One writer; readers hold the same lock as the writer."""

    def __init__(self, modelled: frozenset[AllocatorKind] = frozenset(AllocatorKind)) -> None:
        """Start without nodes; ``modelled`` are the kinds of allocators that there is a model for."""
        super().__init__()
        self._modelled = modelled - {AllocatorKind.UNKNOWN}
        self._total: dict[str, Column] = {}
        self._free: dict[str, Column] = {}
        self._numa: dict[RoomKey, Column] = {}
        self._groups: Sets[tuple[AllocatorKind, Machine | None]] = Sets()
        """(allocator kind, machine) -> nodes."""
        self._group_of: list[tuple[AllocatorKind, Machine | None] | None] = []
        self._plans: list[tuple[RoomPlan, tuple[Column, ...]] | None] = []
        """By slot: how the numbers of the node's machine are found, and the column of each."""
        self._marks: list[tuple[bool, bool]] = []
        """By slot: whether it is in ``guessed``, and in ``freeing``."""
        self._tracked: frozenset[str] | None = None
        self._refused: OrderedDict[PodDemand, int] = OrderedDict()
        self._refusing = 0
        """Nodes that refuse some of these, and maybe some that did."""
        self.known = 0
        """Nodes whose machine is known, and whose allocator there is a model for."""
        self.guessed = 0
        """Nodes whose free state rests on a guess."""
        self.freeing = 0
        """Nodes on which a pod is terminating: room will come."""

    @property
    def tracked_resources(self) -> frozenset[str]:
        """Device resources of the known machines."""
        if self._tracked is None:
            groups = self.groups(self.known)
            self._tracked = frozenset(
                layout.resource for _, machine, _ in groups if machine for layout in machine.devices
            )
        return self._tracked

    # --- writing ---

    def put(self, view: NodeView) -> None:
        """Add or replace a node."""
        slot = self.put_facts(view.record.facts)
        if slot == len(self._group_of):
            self._group_of.append(None)
            self._plans.append(None)
            self._marks.append((False, False))
            for column in self._columns():
                column.grow(slot + 1)
        self._put_group(slot, view.record)
        self._put_allocatable(slot, view.record.allocatable)
        self.put_room(view)

    def put_room(self, view: NodeView, *, is_same_state: bool = False) -> None:
        """Replace what is free on a node that is in the index; nothing else of it has changed.

        ``is_same_state``: only the plain counts have changed, not what is free of its NUMA nodes.
        """
        slot = self._slot_of[view.record.name]
        record = view.record
        slots = len(self._name_of)
        totals = view.full_totals
        for resource, total in record.allocatable.items():
            _put(self._free, resource, slot, total - totals.get(resource, 0), slots)
        if "pods" not in record.allocatable:
            _column(self._free, "pods", slots).set(slot, UNLIMITED)
        if is_same_state:
            return
        self._forget_refusals(slot)
        known = self._plans[slot]
        if known is not None and view.full_state is not None:
            plan, columns = known
            for column, number in zip(columns, plan.numbers(view.full_state), strict=True):
                if column.values[slot] != number:
                    column.set(slot, number)

    def mark(self, view: NodeView, *, is_open: bool = False) -> None:
        """Note whether the free state of an indexed node rests on a guess, and whether room is being freed there.

        ``is_open``: it has other accounts that may be the true one, so it does rest on a guess.
        """
        self._mark(self._slot_of[view.record.name], is_open or view.is_guessed, view.is_freeing)

    def _mark(self, slot: int, is_guessed: bool, is_freeing: bool) -> None:
        was_guessed, was_freeing = self._marks[slot]
        if is_guessed is not was_guessed:
            self.guessed ^= 1 << slot
        if is_freeing is not was_freeing:
            self.freeing ^= 1 << slot
        self._marks[slot] = is_guessed, is_freeing

    def drop(self, name: str) -> None:
        """Forget a node."""
        slot = self.drop_facts(name)
        bit = ~(1 << slot)
        self._leave_group(slot)
        self._forget_refusals(slot)
        for column in chain(self._total.values(), self._free.values()):
            column.set(slot, 0)
        self.known &= bit
        self._mark(slot, False, False)

    def _columns(self) -> Iterator[Column]:
        return chain(self._total.values(), self._free.values(), self._numa.values())

    def _put_group(self, slot: int, record: NodeRecord) -> None:
        bit = 1 << slot
        is_known = record.machine is not None and record.allocator in self._modelled
        self.known = self.known | bit if is_known else self.known & ~bit
        key = record.allocator, record.machine
        if key == self._group_of[slot]:
            return
        self._leave_group(slot)
        self._groups.add(key, slot)
        self._group_of[slot] = key
        self._tracked = None
        if record.machine is not None:
            plan = room_plan(record.machine)
            self._plans[slot] = plan, tuple(_column(self._numa, name, len(self._name_of)) for name in plan.keys)

    def _leave_group(self, slot: int) -> None:
        key = self._group_of[slot]
        if key is not None:
            self._groups.remove(key, slot)
            self._group_of[slot] = None
            self._plans[slot] = None
            for column in self._numa.values():
                column.set(slot, 0)
            self._tracked = None

    def _put_allocatable(self, slot: int, allocatable: Mapping[str, int]) -> None:
        for columns in (self._total, self._free):
            for resource, column in columns.items():
                if resource not in allocatable:
                    column.set(slot, 0)
        for resource, amount in allocatable.items():
            _column(self._total, resource, len(self._name_of)).set(slot, amount)

    # --- who has room ---

    def could_hold(self, totals: Mapping[str, int], within: int) -> int:
        """Return the nodes of ``within`` whose allocatable amounts, all free, are enough for ``totals``."""
        return _at_least(self._total, totals, within)

    def with_plain_room(self, totals: Mapping[str, int], within: int) -> int:
        """Return the nodes of ``within`` where the plain count of every resource leaves enough, and one more pod."""
        return _at_least(self._free, {**totals, "pods": 1}, within)

    def with_numa_room(self, demand: PodDemand, within: int) -> int:
        """Return the nodes of ``within`` that pass the necessary condition of their allocator for ``demand``.

        A node that is left out refuses the pod for sure; a node that is left in may still refuse.
        """
        result = 0
        for key, nodes in self._groups.items():
            candidates = nodes & within
            if not candidates:
                continue
            kind, machine = key
            conditions = _CONDITIONS.get(kind)
            if conditions is not None and machine is not None:
                candidates = self._room(conditions(machine, demand), candidates)
            result |= candidates
        return result

    def _room(self, conditions: Iterable[tuple[RoomKey, int]], candidates: int) -> int:
        for key, need in conditions:
            column = self._numa.get(key)
            candidates &= column.at_least(need) if column else 0
            if not candidates:
                break
        return candidates

    def by_free_devices(self, resource: str, within: int, *, most_first: bool = False) -> Iterator[int]:
        """Yield the nodes of ``within`` in sets of equally many free devices of ``resource``, 1 to 16; fewest first."""
        column = self._numa.get(("machine", resource, 0, 0))
        if column is None:
            return
        # The column holds 1 + what is free; each step takes what lies beyond one bound and within the one before.
        if most_first:
            within &= ~column.at_least(18)
            for number in range(17, 1, -1):
                if not within:
                    return
                if nodes := within & column.at_least(number):
                    yield nodes
                    within &= ~nodes
            return
        within &= column.at_least(2)
        for number in range(3, 19):
            if not within:
                return
            more = within & column.at_least(number)
            if nodes := within & ~more:
                yield nodes
            within = more

    # --- what was refused ---

    def refused(self, demand: PodDemand) -> int:
        """Return the nodes that are known to refuse ``demand`` in the state in which they are."""
        return self._refused.get(demand, 0)

    def note_refused(self, demand: PodDemand, nodes: int) -> None:
        """Remember that ``nodes`` refuse ``demand`` until something changes there."""
        self._refused[demand] = self._refused.get(demand, 0) | nodes
        self._refusing |= nodes
        self._refused.move_to_end(demand)
        if len(self._refused) > KEPT_REFUSALS:
            self._refused.popitem(last=False)

    def _forget_refusals(self, slot: int) -> None:
        bit = 1 << slot
        if not self._refusing & bit:
            return
        self._refusing &= ~bit
        for demand, nodes in self._refused.items():
            if nodes & bit:
                self._refused[demand] = nodes & ~bit

    def groups(self, within: int) -> Iterator[tuple[AllocatorKind, Machine | None, int]]:
        """Yield (allocator kind, machine, nodes) of each group of equal machines that has nodes in ``within``."""
        for (kind, machine), nodes in self._groups.items():
            if nodes & within:
                yield kind, machine, nodes & within


def _column(columns: dict[Key, Column], key: Key, slots: int) -> Column:
    """Return the column of ``key``, made with ``slots`` zeros where it is new."""
    column = columns.get(key)
    if column is None:
        column = columns[key] = Column(slots)
    return column


def _put(columns: dict[Key, Column], key: Key, slot: int, value: int, slots: int) -> None:
    """Set one number; most of them have not changed."""
    column = columns.get(key)
    if column is None:
        column = _column(columns, key, slots)
    if column.values[slot] != value:
        column.set(slot, value)


def _at_least(columns: Mapping[str, Column], amounts: Mapping[str, int], within: int) -> int:
    """Return the nodes of ``within`` that have at least each of ``amounts``; what no node has leaves none."""
    mask = within
    for resource, amount in amounts.items():
        if amount > 0:
            column = columns.get(resource)
            mask &= column.at_least(amount) if column else 0
    return mask
