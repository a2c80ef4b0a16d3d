"""The five outcomes for a pod over all nodes, for a pod and one node, and for a workload (``DESIGN.md`` 4)."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from webhook.core.demand import PodDemand
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, Eligibility, NodeView, PodRecord
from webhook.core.ledger.search import Search
from webhook.core.machine import Machine, NodeState
from webhook.core.masks import members
from webhook.core.placement import Placement


class Outcome(enum.Enum):
    """What would become of a pod; the first that holds in this order."""

    FITS = "fits"
    UNKNOWN = "unknown"
    NEVER = "never"
    WOULD_FAIL = "would_fail"
    WOULD_WAIT = "would_wait"


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
class Verdict:
    """What would become of a pod, and the numbers behind it."""

    outcome: Outcome
    reason: str = ""
    """A stable word: why the outcome is unknown, or which part of it decided."""
    node: str = ""
    placement: Placement | None = None
    rests_on_guess: bool = False
    """The refusal rests on places that are guessed or on rules that are unverified: it may only warn."""
    search: Search = field(default_factory=lambda: Search(0, 0, 0))
    room_is_freed: bool = False
    """Pods on an eligible node are terminating: room will come by itself."""


def judge(
    ledger: Ledger,
    pod: PodRecord,
    classes: Iterable[MachineClass] = (),
    *,
    known_schedulers: frozenset[str] | None = None,
) -> Verdict:
    """Return what would become of ``pod`` if it were created now.

    ``known_schedulers`` are the scheduler names whose behaviour is known; None: every name counts as known.
    """
    if pod.demand.has_resource_claims:
        return Verdict(Outcome.UNKNOWN, "resource-claims")
    if known_schedulers is not None and pod.scheduler_name not in known_schedulers:
        return Verdict(Outcome.UNKNOWN, "unknown-scheduler")
    search = ledger.find(pod)
    if search.placement is not None:
        return Verdict(Outcome.FITS, node=search.node, placement=search.placement, search=search)
    if search.is_exhausted:
        return Verdict(Outcome.UNKNOWN, "too-many-states", search=search)
    unknown = search.eligible & ~ledger.index.known
    if unknown:
        return Verdict(Outcome.UNKNOWN, "topology-unknown", search=search)
    matching = ledger.index.matching(pod.eligibility) & ~ledger.index.repelling(pod.eligibility)
    known_room = _could_ever_fit(ledger, pod, classes, matching)
    if known_room is None:
        return Verdict(Outcome.UNKNOWN, "no-eligible-node", search=search)
    if not known_room.fits:
        return Verdict(Outcome.NEVER, "machine-too-small", search=search, rests_on_guess=known_room.rests_on_guess)
    if not search.eligible:
        return Verdict(Outcome.UNKNOWN, "no-eligible-node", search=search)
    freed = bool(search.eligible & ledger.index.freeing)
    blind = search.plain & _of_kind(ledger, AllocatorKind.KUBELET, search.plain)
    if blind:
        guess = _refusal_is_guessed(ledger, pod.demand, blind & ledger.index.guessed)
        return Verdict(Outcome.WOULD_FAIL, "kubelet-refuses", search=search, rests_on_guess=guess, room_is_freed=freed)
    reason = "scheduler-holds-back" if search.plain else "no-plain-room"
    return Verdict(Outcome.WOULD_WAIT, reason, search=search, room_is_freed=freed)


def judge_on_node(ledger: Ledger, pod: PodRecord, name: str) -> Verdict:
    """Return whether node ``name`` takes ``pod`` after its bound pods; virtual places of others do not count."""
    view = ledger.views.get(name)
    if view is None:
        return Verdict(Outcome.UNKNOWN, "node-unknown", name)
    if view.record.machine is None or view.bound_state is None:
        return Verdict(Outcome.UNKNOWN, "topology-unknown", name)
    placement = ledger.charges.place(view, view.bound_state, pod.demand)
    if placement is not None:
        return Verdict(Outcome.FITS, node=name, placement=placement)
    guess = view.is_guessed or view.record.allocator is not AllocatorKind.KUBELET
    return Verdict(Outcome.WOULD_FAIL, "kubelet-refuses", name, rests_on_guess=guess)


@dataclass(frozen=True, slots=True)
class Count:
    """How many equal pods fit; ``is_at_least``: the counting stopped early."""

    pods: int
    is_at_least: bool = False


# Different node states on which equal pods are counted before the answer becomes "at least": each costs one evaluation
# per pod that fits and one more, about 50 us each, and a workload's verdict should stay near a millisecond.
MOST_COUNTED_STATES = 32


def replicas_that_fit(ledger: Ledger, pod: PodRecord, replicas: int) -> Count:
    """Return how many of ``replicas`` equal pods would find a place now; the ledger does not change."""
    index, charges = ledger.index, ledger.charges
    plain = index.with_plain_room(pod.demand.totals, index.eligible(pod.eligibility))
    counted: dict[tuple[int, NodeState, int], int] = {}
    total = 0
    for slot in members(index.with_numa_room(pod.demand, plain & index.known)):
        view = ledger.views[index.name(slot)]
        state = view.full_state
        if state is None or view.record.machine is None:
            continue
        plainly = _plain_copies(view, pod.demand)
        key = (id(view.record.machine), state, plainly)
        if key not in counted:
            if len(counted) >= MOST_COUNTED_STATES:
                return Count(total, is_at_least=True)
            copies = 0
            while copies < min(plainly, replicas) and (placement := charges.place(view, state, pod.demand)):
                state = placement.state
                copies += 1
            counted[key] = copies
        total += counted[key]
        if total >= replicas:
            return Count(replicas)
    return Count(total)


def _plain_copies(view: NodeView, demand: PodDemand) -> int:
    """Return how many pods of ``demand`` the plain count of a node leaves room for."""
    amounts = {**{resource: amount for resource, amount in demand.totals.items() if amount > 0}, "pods": 1}
    return max(0, min(view.free(resource) // amount for resource, amount in amounts.items()))


@dataclass(frozen=True, slots=True)
class _EmptyRoom:
    fits: bool
    rests_on_guess: bool


def _could_ever_fit(
    ledger: Ledger, pod: PodRecord, classes: Iterable[MachineClass], matching: int
) -> _EmptyRoom | None:
    """Return whether an empty, healthy machine takes ``pod``; None where none is known that it may go to."""
    index, demand = ledger.index, pod.demand
    kinds: set[AllocatorKind] = set()
    wide = index.could_hold(demand.totals, matching & index.known)
    for kind, machine, nodes in index.groups(matching & index.known):
        kinds.add(kind)
        if nodes & wide and machine is not None and _takes_empty(ledger, demand, kind, machine):
            return _EmptyRoom(fits=True, rests_on_guess=False)
    for declared in classes:
        if not _class_matches(pod.eligibility, declared):
            continue
        kinds.add(declared.allocator)
        offers = dict(declared.allocatable)
        if all(offers.get(resource, 0) >= amount for resource, amount in demand.totals.items() if amount > 0) and (
            _takes_empty(ledger, demand, declared.allocator, declared.machine)
        ):
            return _EmptyRoom(fits=True, rests_on_guess=False)
    return _EmptyRoom(fits=False, rests_on_guess=AllocatorKind.SCHEDULER in kinds) if kinds else None


def _takes_empty(ledger: Ledger, demand: PodDemand, kind: AllocatorKind, machine: Machine) -> bool:
    allocator = ledger.charges.allocators.get(kind)
    if allocator is None:
        return True
    return isinstance(allocator.place(machine, NodeState.empty(machine), demand), Placement)


def _class_matches(eligibility: Eligibility, declared: MachineClass) -> bool:
    """Return whether a node of the class could satisfy the pod's selector; undeclared labels may be there."""
    labels = dict(declared.labels)
    return not eligibility.node_name and all(
        labels.get(key, value) == value for key, value in eligibility.node_selector
    )


def _of_kind(ledger: Ledger, wanted: AllocatorKind, within: int) -> int:
    mask = 0
    for kind, _, nodes in ledger.index.groups(within):
        if kind is wanted:
            mask |= nodes
    return mask


def _refusal_is_guessed(ledger: Ledger, demand: PodDemand, guessed: int) -> bool:
    """Return whether one of the ``guessed`` nodes might take the pod after all: its empty machine would."""
    return any(
        machine is not None and _takes_empty(ledger, demand, kind, machine)
        for kind, machine, _ in ledger.index.groups(guessed)
    )
