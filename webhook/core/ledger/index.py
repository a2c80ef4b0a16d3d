"""The index of all nodes: which ones a pod may go to, and which have room, as bit masks of node slots."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeVar

from webhook.core.demand import PodDemand
from webhook.core.ledger.columns import Column, LabelColumn, Sets
from webhook.core.ledger.records import UNLIMITED, AllocatorKind, Eligibility, NodeRecord, NodeView
from webhook.core.machine import Machine
from webhook.core.masks import members
from webhook.core.node_selection import (
    KUBELET_EFFECTS,
    SCHEDULER_EFFECTS,
    NodeFacts,
    Taint,
    is_parsable,
    requirement_matches,
    tolerates_cordon,
    untolerated,
)
from webhook.core.numa_room import RoomKey, numa_room
from webhook.core.numa_room import conditions as kubelet_conditions
from webhook.core.pod import NodeSelectorTerm, Operator, Requirement
from webhook.core.scheduler.conditions import conditions as scheduler_conditions

Key = TypeVar("Key", bound=Hashable)

_CONDITIONS: Final = MappingProxyType(
    {AllocatorKind.KUBELET: kubelet_conditions, AllocatorKind.SCHEDULER: scheduler_conditions}
)
"""What must be free for each kind of allocator to say yes."""

# Pod shapes whose refusals are kept: those that fit by every number of the index and are refused all the same, such as
# pods of several containers on nodes in shreds. Each event looks at all of them (about 50 ns each).
KEPT_REFUSALS: Final = 64


class NodeIndex:
    """Slots of nodes and the columns over them. One writer; readers hold the same lock as the writer."""

    def __init__(self, modelled: frozenset[AllocatorKind] = frozenset(AllocatorKind)) -> None:
        """Start without nodes; ``modelled`` are the kinds of allocators that there is a model for."""
        self._modelled = modelled - {AllocatorKind.UNKNOWN}
        self._slot_of: dict[str, int] = {}
        self._name_of: list[str] = []
        self._facts: list[NodeFacts | None] = []
        self._vacant: list[int] = []
        self._labels: dict[str, LabelColumn] = {}
        self._taints: Sets[Taint] = Sets()
        self._total: dict[str, Column] = {}
        self._free: dict[str, Column] = {}
        self._numa: dict[RoomKey, Column] = {}
        self._groups: Sets[tuple[AllocatorKind, Machine | None]] = Sets()
        """(allocator kind, machine) -> nodes."""
        self._group_of: list[tuple[AllocatorKind, Machine | None] | None] = []
        self._tracked: frozenset[str] | None = None
        self._refused: OrderedDict[PodDemand, int] = OrderedDict()
        self.present = 0
        self.ready = 0
        self.cordoned = 0
        self.known = 0
        """Nodes whose machine is known, and whose allocator there is a model for."""
        self.guessed = 0
        """Nodes whose free state rests on a guess."""
        self.freeing = 0
        """Nodes on which a pod is terminating: room will come."""

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._slot_of)

    @property
    def tracked_resources(self) -> frozenset[str]:
        """Device resources of the known machines."""
        if self._tracked is None:
            groups = self.groups(self.known)
            self._tracked = frozenset(
                layout.resource for _, machine, _ in groups if machine for layout in machine.devices
            )
        return self._tracked

    def slot(self, name: str) -> int | None:
        """Return the slot of node ``name``, or None."""
        return self._slot_of.get(name)

    def name(self, slot: int) -> str:
        """Return the name of the node in ``slot``."""
        return self._name_of[slot]

    def names(self, mask: int) -> Iterator[str]:
        """Yield the names of the nodes in ``mask``, by slot."""
        return (self._name_of[slot] for slot in members(mask))

    # --- writing ---

    def put(self, view: NodeView) -> None:
        """Add or replace a node."""
        name = view.record.name
        slot = self._slot_of.get(name)
        if slot is None:
            slot = self._new_slot(name)
        self._put_facts(slot, view.record.facts)
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
        if record.machine is not None and view.full_state is not None:
            for key, widest in numa_room(record.machine, view.full_state).items():
                _put(self._numa, key, slot, widest, slots)

    def mark(self, view: NodeView) -> None:
        """Note whether the free state of an indexed node rests on a guess, and whether room is being freed there."""
        bit = 1 << self._slot_of[view.record.name]
        self.guessed = self.guessed | bit if view.is_guessed else self.guessed & ~bit
        freeing = any(entry.pod.is_deleting for entry in view.bound)
        self.freeing = self.freeing | bit if freeing else self.freeing & ~bit

    def drop(self, name: str) -> None:
        """Forget a node."""
        slot = self._slot_of.pop(name)
        bit = ~(1 << slot)
        self._put_facts(slot, None)
        self._leave_group(slot)
        self._forget_refusals(slot)
        for column in self._columns():
            column.set(slot, 0)
        self.present &= bit
        self.known &= bit
        self.guessed &= bit
        self.freeing &= bit
        self._name_of[slot] = ""
        self._vacant.append(slot)

    def _columns(self) -> Iterator[Column]:
        return chain(self._total.values(), self._free.values(), self._numa.values())

    def _new_slot(self, name: str) -> int:
        if self._vacant:
            slot = self._vacant.pop()
            self._name_of[slot] = name
        else:
            slot = len(self._name_of)
            self._name_of.append(name)
            self._facts.append(None)
            self._group_of.append(None)
            for column in self._columns():
                column.grow(slot + 1)
        self._slot_of[name] = slot
        self.present |= 1 << slot
        return slot

    def _put_facts(self, slot: int, facts: NodeFacts | None) -> None:
        old = self._facts[slot]
        if old == facts:
            return
        self._facts[slot] = facts
        for key, column in self._labels.items():
            column.set(slot, old.labels.get(key) if old else None, facts.labels.get(key) if facts else None)
        for taint in old.taints if old else ():
            self._taints.remove(taint, slot)
        for taint in facts.taints if facts else ():
            self._taints.add(taint, slot)
        bit = 1 << slot
        self.ready = self.ready | bit if facts and facts.ready else self.ready & ~bit
        self.cordoned = self.cordoned | bit if facts and facts.unschedulable else self.cordoned & ~bit

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
        for column in self._numa.values():
            column.set(slot, 0)

    def _leave_group(self, slot: int) -> None:
        key = self._group_of[slot]
        if key is not None:
            self._groups.remove(key, slot)
            self._group_of[slot] = None
            self._tracked = None

    def _put_allocatable(self, slot: int, allocatable: Mapping[str, int]) -> None:
        for columns in (self._total, self._free):
            for resource, column in columns.items():
                if resource not in allocatable:
                    column.set(slot, 0)
        for resource, amount in allocatable.items():
            _column(self._total, resource, len(self._name_of)).set(slot, amount)

    # --- who may take the pod ---

    def matching(self, eligibility: Eligibility) -> int:
        """Return the nodes that selector, required affinity and preset name allow; taints and readiness aside."""
        mask = self.present
        for key, value in eligibility.node_selector:
            mask &= self._label(key).any_of((value,))
        if eligibility.required_terms is not None:
            terms = 0
            for term in eligibility.required_terms:
                terms |= self._term(term)
            mask &= terms
        if eligibility.node_name:
            slot = self._slot_of.get(eligibility.node_name)
            mask &= 0 if slot is None else 1 << slot
        return mask

    def repelling(self, eligibility: Eligibility) -> int:
        """Return the nodes with a taint that the pod does not tolerate."""
        # A pod that names its node bypasses the scheduler; the kubelet looks at NoExecute only
        # (kubernetes/kubernetes:pkg/kubelet/lifecycle/predicate.go).
        effects = KUBELET_EFFECTS if eligibility.node_name else SCHEDULER_EFFECTS
        mask = 0
        for taint, nodes in self._taints.items():
            if untolerated(eligibility.tolerations, (taint,), effects) is not None:
                mask |= nodes
        return mask

    def closed(self, eligibility: Eligibility) -> int:
        """Return the nodes that take no new pod now: not ready, or cordoned and the pod does not tolerate that."""
        closed = self.present & ~self.ready
        if not eligibility.node_name and not tolerates_cordon(eligibility.tolerations):
            closed |= self.cordoned
        return closed

    def eligible(self, eligibility: Eligibility) -> int:
        """Return the nodes that a scheduler may bind the pod to now, room aside."""
        mask = self.matching(eligibility)
        return mask and mask & ~self.closed(eligibility) & ~self.repelling(eligibility)

    def _label(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            values = {
                slot: facts.labels[key] for slot, facts in enumerate(self._facts) if facts and key in facts.labels
            }
            column = self._labels[key] = LabelColumn(values)
        return column

    def _term(self, term: NodeSelectorTerm) -> int:
        if term.is_empty or not is_parsable(term):
            return 0
        mask = self.present
        for requirement in term.expressions:
            mask &= self._expression(requirement)
        for requirement in term.fields:
            mask &= self._field(requirement)
        return mask

    def _expression(self, requirement: Requirement) -> int:
        column = self._label(requirement.key)
        match requirement.operator:
            case Operator.IN:
                return column.any_of(requirement.values)
            case Operator.NOT_IN:
                return self.present & ~column.any_of(requirement.values)
            case Operator.EXISTS:
                return column.present
            case Operator.DOES_NOT_EXIST:
                return self.present & ~column.present
            case _:
                mask = 0
                for value, nodes in column.items():
                    if requirement_matches(requirement, {requirement.key: value}):
                        mask |= nodes
                return mask

    def _field(self, requirement: Requirement) -> int:
        # A parsable field has one value; one other than metadata.name is an empty text, as in Go.
        slot = self._slot_of.get(requirement.values[0]) if requirement.key == "metadata.name" else None
        mask = 0 if slot is None else 1 << slot
        if requirement.key != "metadata.name" and not requirement.values[0]:
            mask = self.present
        return mask if requirement.operator is Operator.IN else self.present & ~mask

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
        counts = range(16, 0, -1) if most_first else range(1, 17)
        for count in counts:
            if not within:
                return
            nodes = within & column.at_least(count + 1) & ~column.at_least(count + 2)
            if nodes:
                yield nodes
                within &= ~nodes

    # --- what was refused ---

    def refused(self, demand: PodDemand) -> int:
        """Return the nodes that are known to refuse ``demand`` in the state in which they are."""
        return self._refused.get(demand, 0)

    def note_refused(self, demand: PodDemand, nodes: int) -> None:
        """Remember that ``nodes`` refuse ``demand`` until something changes there."""
        self._refused[demand] = self._refused.get(demand, 0) | nodes
        self._refused.move_to_end(demand)
        if len(self._refused) > KEPT_REFUSALS:
            self._refused.popitem(last=False)

    def _forget_refusals(self, slot: int) -> None:
        bit = 1 << slot
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
