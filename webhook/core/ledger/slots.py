"""Slots of nodes, and which of them a pod may go to: names, labels, taints and readiness as bit masks of slots."""

from collections.abc import Iterator

from webhook.core.ledger.columns import LabelColumn, Sets
from webhook.core.ledger.records import Eligibility
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
from webhook.core.pod import NodeSelectorTerm, Operator, Requirement


class NodeSlots:
    """A slot, that is a bit, for each node, and what node selection knows of it. Vacant slots are used again."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._slot_of: dict[str, int] = {}
        self._name_of: list[str] = []
        self._facts: list[NodeFacts | None] = []
        self._vacant: list[int] = []
        self._labels: dict[str, LabelColumn] = {}
        """Only the keys that pods have asked for."""
        self._taints: Sets[Taint] = Sets()
        self.present = 0
        self.ready = 0
        self.cordoned = 0

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._slot_of)

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

    def put_facts(self, facts: NodeFacts) -> int:
        """Add a node or take over its facts; return its slot."""
        slot = self._slot_of.get(facts.name)
        if slot is None:
            slot = self._new_slot(facts.name)
        self._put_facts(slot, facts)
        return slot

    def drop_facts(self, name: str) -> int:
        """Forget a node; return the slot that it had."""
        slot = self._slot_of.pop(name)
        self._put_facts(slot, None)
        self.present &= ~(1 << slot)
        self._name_of[slot] = ""
        self._vacant.append(slot)
        return slot

    def _new_slot(self, name: str) -> int:
        if self._vacant:
            slot = self._vacant.pop()
            self._name_of[slot] = name
        else:
            slot = len(self._name_of)
            self._name_of.append(name)
            self._facts.append(None)
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
