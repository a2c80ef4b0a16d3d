"""The five outcomes for a pod over all nodes, for a pod and one node, and for a workload (``DESIGN.md`` 4)."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from webhook.core.demand import PodDemand
from webhook.core.ledger.classes import MachineClass, could_ever_fit
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, Eligibility, NodeView, PodRecord
from webhook.core.ledger.search import Search
from webhook.core.machine import Machine, NodeState
from webhook.core.masks import members
from webhook.core.placement import Placement

__all__ = ["Count", "MachineClass", "Outcome", "Verdict", "judge", "judge_on_node", "replicas_that_fit"]


class Outcome(enum.Enum):
    """What would become of a pod; the first that holds in this order."""

    FITS = "fits"
    UNKNOWN = "unknown"
    NEVER = "never"
    WOULD_FAIL = "would_fail"
    WOULD_WAIT = "would_wait"


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
    machine: Machine | None = None
    """For NEVER: the largest machine that the pod may go to."""
    kind: AllocatorKind | None = None
    """Who hands out the NUMA nodes of ``machine``."""


def judge(
    ledger: Ledger,
    pod: PodRecord,
    classes: Iterable[MachineClass] = (),
    *,
    known_schedulers: frozenset[str] | None = None,
) -> Verdict:
    """Return what would become of ``pod`` if it were created now.

    ``known_schedulers`` are the scheduler names whose behaviour is known; None: every name counts as known. A pod with
    a preset ``nodeName`` meets no scheduler, so its scheduler's name does not count.
    """
    if pod.demand.has_resource_claims:
        return Verdict(Outcome.UNKNOWN, "resource-claims")
    preset = bool(pod.eligibility.node_name)
    if known_schedulers is not None and pod.scheduler_name not in known_schedulers and not preset:
        return Verdict(Outcome.UNKNOWN, "unknown-scheduler")
    search = ledger.find(pod)
    if search.placement is not None:
        return Verdict(Outcome.FITS, node=search.node, placement=search.placement, search=search)
    if search.is_exhausted:
        return Verdict(Outcome.UNKNOWN, "too-many-states", search=search)
    index, demand = ledger.index, pod.demand
    # A node that is too small by its totals alone, such as one without GPUs, takes the pod in no topology.
    if index.could_hold(demand.totals, search.eligible & ~index.known):
        return Verdict(Outcome.UNKNOWN, "topology-unknown", search=search)
    matching = index.matching(pod.eligibility) & ~index.repelling(pod.eligibility)
    room = could_ever_fit(ledger, pod, classes, matching)
    if room is None:
        why = "nodes-too-small" if search.eligible else _why_none_is_eligible(ledger, pod.eligibility)
        return Verdict(Outcome.UNKNOWN, why, search=search)
    if not room.fits:
        return Verdict(
            Outcome.NEVER,
            "machine-too-small",
            search=search,
            rests_on_guess=room.rests_on_guess,
            machine=room.machine,
            kind=room.kind,
        )
    if not search.eligible:
        return Verdict(Outcome.UNKNOWN, _why_none_is_eligible(ledger, pod.eligibility), search=search)
    freed = bool(search.eligible & index.freeing)
    # A scheduler that is blind to NUMA binds where the plain counts fit; with a preset node nobody counts before the
    # kubelet does, and what it refuses fails.
    bound = search.eligible if preset else search.plain
    blind = bound & _of_kind(ledger, AllocatorKind.KUBELET, bound)
    if blind:
        guess = _refusal_is_guessed(ledger, demand, blind & index.guessed)
        return Verdict(Outcome.WOULD_FAIL, "kubelet-refuses", search=search, rests_on_guess=guess, room_is_freed=freed)
    reason = "scheduler-holds-back" if search.plain else "no-plain-room"
    # What holds it back where the plain counts leave room are a scheduler's rules, and those are closed.
    closed = bool(search.plain)
    return Verdict(Outcome.WOULD_WAIT, reason, search=search, rests_on_guess=closed, room_is_freed=freed)


def _why_none_is_eligible(ledger: Ledger, eligibility: Eligibility) -> str:
    """Return the word for what stands between a pod and the nodes that its selector, affinity and node name allow."""
    index = ledger.index
    matching = index.matching(eligibility)
    if not matching:
        return "no-eligible-node"
    unready = matching & ~index.ready
    cordoned = matching & index.closed(eligibility) & index.ready
    repelling = matching & index.repelling(eligibility)
    # A taint comes last: a node that is not ready or is cordoned carries one for that.
    for nodes, word in ((unready, "nodes-not-ready"), (cordoned, "nodes-cordoned"), (repelling, "nodes-tainted")):
        if nodes == matching:
            return word
    return "nodes-closed"


def judge_on_node(ledger: Ledger, pod: PodRecord, name: str) -> Verdict:
    """Return whether node ``name`` takes ``pod`` after its bound pods; virtual places of others do not count."""
    view = ledger.views.get(name)
    slot = ledger.index.slot(name)
    if view is None or slot is None:
        return Verdict(Outcome.UNKNOWN, "node-unknown", name)
    if not ledger.index.eligible(pod.eligibility) >> slot & 1:
        return Verdict(Outcome.WOULD_WAIT, "not-eligible", name)
    if not ledger.index.known >> slot & 1 or view.record.machine is None or view.bound_state is None:
        return Verdict(Outcome.UNKNOWN, "topology-unknown", name)
    preset = bool(pod.eligibility.node_name)
    if not view.record.has_plain_room(view.bound_totals, pod.demand) and not preset:
        return Verdict(Outcome.WOULD_WAIT, "no-plain-room", name)
    placement = ledger.charges.place(view, view.bound_state, pod.demand)
    if placement is not None and view.record.has_plain_room(view.bound_totals, pod.demand):
        return Verdict(Outcome.FITS, node=name, placement=placement)
    if view.record.allocator is not AllocatorKind.KUBELET:
        return Verdict(Outcome.WOULD_WAIT, "scheduler-holds-back", name, rests_on_guess=True)
    return Verdict(Outcome.WOULD_FAIL, "kubelet-refuses", name, rests_on_guess=view.is_guessed)


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
    is_open = bool(plain & ~index.known)  # nodes of unknown topology may take some, too
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
    return Count(total, is_at_least=is_open)


def _plain_copies(view: NodeView, demand: PodDemand) -> int:
    """Return how many pods of ``demand`` the plain count of a node leaves room for."""
    amounts = {"pods": 1, **{resource: amount for resource, amount in demand.totals.items() if amount > 0}}
    return max(0, min(view.free(resource) // amount for resource, amount in amounts.items()))


def _of_kind(ledger: Ledger, wanted: AllocatorKind, within: int) -> int:
    mask = 0
    for kind, _, nodes in ledger.index.groups(within):
        if kind is wanted:
            mask |= nodes
    return mask


def _refusal_is_guessed(ledger: Ledger, demand: PodDemand, guessed: int) -> bool:
    """Return whether one of the ``guessed`` nodes might take the pod after all: its empty machine would."""
    return any(
        machine is not None and ledger.charges.takes_empty(kind, machine, demand)
        for kind, machine, _ in ledger.index.groups(guessed)
    )
