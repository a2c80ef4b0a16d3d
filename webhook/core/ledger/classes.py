"""Machine classes that the settings declare, and whether an empty machine could ever take a pod."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.core.demand import PodDemand
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, Eligibility, PodRecord
from webhook.core.machine import Machine
from webhook.core.pod import NodeSelectorTerm, Operator, Requirement
from webhook.core.scheduler.policies import is_wider_than_a_numa_node
from webhook.core.selectors import is_parsable, requirement_matches


@dataclass(frozen=True, slots=True)
class MachineClass:
    """A kind of machine that the settings declare: which nodes it describes, and what an empty one offers."""

    name: str
    labels: tuple[tuple[str, str], ...]
    """Labels that a node of the class carries (``matchLabels``); a pod's selector is judged against them."""
    machine: Machine
    allocator: AllocatorKind
    allocatable: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class EmptyRoom:
    """Whether a machine that a pod may go to takes it when it is empty and healthy."""

    fits: bool
    rests_on_guess: bool = False
    """A machine's rules are closed, so that its refusal is no proof."""
    machine: Machine | None = None
    """Where it does not fit: the machine with the most devices and CPUs on one NUMA node."""
    kind: AllocatorKind | None = None


def could_ever_fit(ledger: Ledger, pod: PodRecord, classes: Iterable[MachineClass], matching: int) -> EmptyRoom | None:
    """Return whether an empty, healthy machine takes ``pod``; None where none is known that it may go to.

    ``matching`` are the nodes that it may go to, ready and uncordoned or not; one of them whose topology is not known
    and whose totals suffice could take it, for all that is known.
    """
    index, demand, charges = ledger.index, pod.demand, ledger.charges
    if index.could_hold(demand.totals, matching & ~index.known):
        return EmptyRoom(fits=True)
    seen: list[tuple[Machine, AllocatorKind]] = []
    wide = index.could_hold(demand.totals, matching & index.known)
    for kind, machine, nodes in index.groups(matching & index.known):
        if machine is not None:
            seen.append((machine, kind))
            if nodes & wide and charges.takes_empty(kind, machine, demand):
                return EmptyRoom(fits=True)
    for declared in classes:
        if not may_match(pod.eligibility, declared):
            continue
        seen.append((declared.machine, declared.allocator))
        offers = dict(declared.allocatable)
        if all(offers.get(resource, 0) >= amount for resource, amount in demand.totals.items() if amount > 0) and (
            charges.takes_empty(declared.allocator, declared.machine, demand)
        ):
            return EmptyRoom(fits=True)
    if not seen:
        return None
    is_guess = any(not _refusal_is_documented(machine, kind, demand) for machine, kind in seen)
    machine, kind = max(seen, key=lambda one: _size(one[0]))
    return EmptyRoom(fits=False, rests_on_guess=is_guess, machine=machine, kind=kind)


def _refusal_is_documented(machine: Machine, kind: AllocatorKind, demand: PodDemand) -> bool:
    """Return whether an empty machine's refusal is a fact: the kubelet's, or a scheduler's where its vendor says so."""
    if kind is AllocatorKind.KUBELET:
        return True
    return kind is AllocatorKind.SCHEDULER and is_wider_than_a_numa_node(machine, demand)


def may_match(eligibility: Eligibility, declared: MachineClass) -> bool:
    """Return whether a node of the class could be one that the pod may go to.

    Labels that the class does not declare may be there with any value, or be absent; no pod knows such a node's name.
    """
    labels = dict(declared.labels)
    if eligibility.node_name or any(labels.get(key, value) != value for key, value in eligibility.node_selector):
        return False
    terms = eligibility.required_terms
    return terms is None or any(_term_may_match(term, labels) for term in terms)


def _term_may_match(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    if term.is_empty or not is_parsable(term):
        return False
    return all(
        requirement.key not in labels or requirement_matches(requirement, labels) for requirement in term.expressions
    ) and all(map(_field_may_match, term.fields))


def _field_may_match(requirement: Requirement) -> bool:
    if requirement.key == "metadata.name":
        return requirement.operator is Operator.NOT_IN
    return (requirement.values[0] == "") is (requirement.operator is Operator.IN)


def _size(machine: Machine) -> tuple[int, int, int]:
    devices = sum(layout.count for layout in machine.devices)
    return (
        max((layout.touching(1).bit_count() for layout in machine.devices), default=0),
        devices,
        max(cpus.bit_count() for cpus in machine.cpus.numa_cpus),
    )
