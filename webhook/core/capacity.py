"""The ledger's two questions: could a node take this pod or workload, and will this node take this pod now?"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from types import MappingProxyType
from typing import Final

from webhook.core.decisions import Ask, Decision, Operation
from webhook.core.findings import Finding, Severity
from webhook.core.ledger import reasons
from webhook.core.ledger.events import BindingAdmitted, BindingRefused, Claimed
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.proofs import asked, numa_rooms, policy_words, prove
from webhook.core.ledger.records import AllocatorKind, Entry, EntryState, NodeView, PodRecord
from webhook.core.ledger.verdicts import MachineClass, Outcome, Verdict, judge, replicas_that_fit
from webhook.core.machine import NodeState
from webhook.core.occupancy import give_back, holds_nothing
from webhook.core.placement import Holding
from webhook.core.pod import Binding, Pod, Workload


class Mode(enum.Enum):
    """What an outcome does to a request."""

    DENY = "deny"
    WAIT = "wait"
    """Allow at create and let the bind guard decide; the user is warned."""
    WARN = "warn"
    OFF = "off"


DEFAULT_MODES: Final[Mapping[Outcome, Mode]] = MappingProxyType(
    {
        Outcome.FITS: Mode.OFF,
        Outcome.UNKNOWN: Mode.WARN,
        Outcome.NEVER: Mode.DENY,
        Outcome.WOULD_FAIL: Mode.DENY,
        Outcome.WOULD_WAIT: Mode.WARN,
    }
)

CONTROLLERS: Final = frozenset(
    f"system:serviceaccount:kube-system:{name}"
    for name in (
        "replicaset-controller",
        "replication-controller",
        "statefulset-controller",
        "daemon-set-controller",
        "job-controller",
        "cronjob-controller",
    )
)
"""Users whose creates nobody watches; told by the request's user, never by ownerReferences, which anyone can write."""

GANG_KEYS: Final = frozenset(
    {
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "gang.scheduling.koordinator.sh/name",
        "pod-group.scheduling.sigs.k8s.io/name",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-name",
    }
)
"""Labels and annotations that make a pod a member of a gang or queue, which must not be split by a refusal."""


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """How the ledger's outcomes weigh."""

    modes: Mapping[Outcome, Mode] = field(default_factory=lambda: DEFAULT_MODES)
    namespace_modes: Mapping[str, Mapping[Outcome, Mode]] = field(default_factory=dict)
    """Overrides by namespace name; never by a label, which a tenant could write."""
    classes: tuple[MachineClass, ...] = ()
    known_schedulers: frozenset[str] | None = frozenset({"default-scheduler", "koord-scheduler"})
    controllers: frozenset[str] = CONTROLLERS
    guards_bindings: bool = True
    """Whether the bind guard is on: only then may a pod of a controller wait instead of being refused."""
    claim_seconds: float = 5.0
    """How long a claim lives unless the watch shows the pod: a stored pod shows at once, a refused one never."""
    binding_seconds: float = 10.0
    """How long an admitted binding counts unless the watch shows it."""
    steering_seconds: float = 60.0
    """How long a refused pod keeps its place on the node it is steered to: the scheduler's longest back-off is 11 s."""
    most_tries_on_guess: int = 3
    """Refusals of one pod that rest on guesses before the guard gives way."""

    def mode(self, outcome: Outcome, namespace: str) -> Mode:
        """Return what ``outcome`` does in ``namespace``."""
        override = self.namespace_modes.get(namespace, {}).get(outcome)
        return override if override is not None else self.modes[outcome]


# Pods in flight on one node up to which every order of their admission is tried: 4! replays of about 50 us each stay
# near a millisecond; a fifth binding within the second that a kubelet takes to answer waits for its turn.
MOST_IN_FLIGHT = 3


def concerns(ledger: Ledger, pod: Pod, record: PodRecord) -> bool:
    """Return whether the ledger has anything to say about ``pod``: it asks for a tracked device or exclusive CPUs."""
    if pod.is_mirror:
        return False
    if pod.numa_specs:
        return True
    tracked = ledger.tracked_resources
    demand = record.demand
    return any(
        demand.exclusive_cpus(container) or any(resource in tracked for resource, _ in container.devices)
        for container in demand.containers
    )


def decide_capacity(ask: Ask, ledger: Ledger, rules: CapacityRules, now_seconds: float) -> Decision:
    """Return whether a pod or workload may be created, by what the ledger knows; the event, if any, is a claim."""
    match ask.subject:
        case Pod() as pod if ask.operation is Operation.CREATE and not ask.subresource:
            return _pod(ask, pod, ledger, rules, now_seconds)
        case Workload() as workload if ask.operation in {Operation.CREATE, Operation.UPDATE} and not ask.subresource:
            return _workload(ask, workload, ledger, rules, now_seconds)
        case _:
            return Decision.allow()


def _pod(ask: Ask, pod: Pod, ledger: Ledger, rules: CapacityRules, now_seconds: float) -> Decision:
    record = PodRecord.asked(pod, namespace=ask.namespace)
    if not concerns(ledger, pod, record):
        return Decision.allow()
    verdict = judge(ledger, record, rules.classes, known_schedulers=rules.known_schedulers)
    if verdict.outcome is Outcome.FITS:
        if verdict.placement is None or record.is_gated or holds_nothing(verdict.placement.holding):
            return Decision.allow()
        until = now_seconds + rules.claim_seconds
        return Decision.allow(event=Claimed(record, verdict.node, verdict.placement, until))
    mode = rules.mode(verdict.outcome, ask.namespace)
    if mode is Mode.DENY and verdict.outcome is Outcome.WOULD_FAIL and _may_wait(ask, pod, verdict, rules):
        mode = Mode.WAIT
    if mode is Mode.OFF:
        return Decision.allow()
    denies = mode is Mode.DENY and not verdict.rests_on_guess
    return Decision.of((finding_of(ledger, record, verdict, now_seconds, "spec", denies=denies),))


def _may_wait(ask: Ask, pod: Pod, verdict: Verdict, rules: CapacityRules) -> bool:
    """Return whether a refusal now would do more harm than waiting (``DESIGN.md`` 4)."""
    if verdict.room_is_freed or pod.scheduling_gates:
        return True
    if not GANG_KEYS.isdisjoint(pod.labels) or not GANG_KEYS.isdisjoint(pod.annotations):
        return True
    return rules.guards_bindings and ask.username in rules.controllers


_REASON_OF: Final = MappingProxyType(
    {
        Outcome.NEVER: reasons.CAPACITY_NEVER,
        Outcome.WOULD_FAIL: reasons.CAPACITY_WOULD_FAIL,
        Outcome.WOULD_WAIT: reasons.CAPACITY_WOULD_WAIT,
        Outcome.UNKNOWN: reasons.CAPACITY_UNKNOWN,
    }
)

_UNKNOWN_BECAUSE: Final = MappingProxyType(
    {
        "resource-claims": "its devices come by dynamic resource allocation, which the ledger does not follow",
        "unknown-scheduler": "its scheduler is not one whose behaviour is known",
        "too-many-states": "the nodes are in too many different states to search them all",
        "topology-unknown": "a node that it may go to has no known NUMA topology",
        "no-eligible-node": "no node that it may go to is known now, as with a pool scaled to zero",
        "not-synced": "the ledger has not read the cluster yet",
        "stale": "the ledger's picture of the cluster is too old",
        "no-time": "the time that the API server gave for the answer was too short",
    }
)


def finding_of(
    ledger: Ledger, record: PodRecord, verdict: Verdict, now_seconds: float, path: str, *, denies: bool
) -> Finding:
    """Return the finding that says ``verdict`` (not FITS), with its proof."""
    reason = _REASON_OF[verdict.outcome]
    severity = Severity.ERROR if denies else Severity.WARNING
    if verdict.outcome is Outcome.UNKNOWN:
        return unknown(verdict.reason, path)
    proof = prove(ledger, record, verdict, now_seconds)
    problem = reason.summary
    if verdict.rests_on_guess:
        problem = problem.removesuffix(".") + ", as far as can be guessed."
    step = f"{proof.change} {reason.next_step}".strip()
    finding = reason.at(path, problem, found=asked(record.demand), next_step=step, severity=severity)
    return replace(finding, proof=proof.paragraph)


def unknown(word: str, path: str = "spec") -> Finding:
    """Return the warning that a pod was let through unjudged, and why."""
    because = _UNKNOWN_BECAUSE.get(word, word)
    problem = f"Whether the pod fits cannot be told: {because}."
    return reasons.CAPACITY_UNKNOWN.at(path, problem, found=word)


def _workload(ask: Ask, workload: Workload, ledger: Ledger, rules: CapacityRules, now_seconds: float) -> Decision:
    if ask.operation is Operation.UPDATE and isinstance(ask.old, Workload) and ask.old.templates == workload.templates:
        return Decision.allow()
    findings: list[Finding] = []
    for template in workload.templates:
        pod = template.pod
        record = PodRecord.asked(pod, namespace=ask.namespace)
        if not concerns(ledger, pod, record) or template.replicas == 0:
            continue
        path = f"{template.path}.spec" if template.path else "spec"
        verdict = judge(ledger, record, rules.classes, known_schedulers=rules.known_schedulers)
        mode = rules.mode(verdict.outcome, ask.namespace)
        if verdict.outcome is Outcome.NEVER:
            if mode is not Mode.OFF:
                denies = mode is Mode.DENY and not verdict.rests_on_guess
                findings.append(finding_of(ledger, record, verdict, now_seconds, path, denies=denies))
        elif verdict.outcome is Outcome.UNKNOWN:
            if mode is not Mode.OFF:
                findings.append(unknown(verdict.reason, path))
        elif rules.mode(Outcome.WOULD_WAIT, ask.namespace) is not Mode.OFF:
            findings.extend(_replicas(ledger, record, workload, template.replicas or 1, path))
    return Decision.of(tuple(findings))


def _replicas(ledger: Ledger, record: PodRecord, workload: Workload, replicas: int, path: str) -> Iterable[Finding]:
    wanted = replicas + workload.surge
    count = replicas_that_fit(ledger, record, wanted)
    if count.is_at_least and count.pods < wanted:
        return
    if count.pods < replicas:
        problem = f"{count.pods} of {replicas} replicas fit now ({asked(record.demand)} each); the others would wait."
        yield reasons.REPLICAS_EXCEED_ROOM.at(path, problem, found=str(count.pods), wanted=str(replicas))
    elif count.pods < wanted:
        problem = (
            f"All {replicas} replicas fit now ({asked(record.demand)} each), but only {count.pods - replicas} of the "
            f"{workload.surge} more that a rolling update runs at a time; it would wait for room."
        )
        yield reasons.REPLICAS_EXCEED_ROOM.at(path, problem, found=str(count.pods), wanted=str(wanted))


# --- bindings ---


def decide_bind(
    ask: Ask,
    ledger: Ledger,
    rules: CapacityRules,
    now_seconds: float,
    shunned: frozenset[str] = frozenset(),
) -> Decision:
    """Return whether a pod may be bound to a node: refused only where the node's kubelet would refuse it.

    ``shunned`` are nodes that the scheduler does not take for this pod: a refusal steers it to none of them.
    """
    binding = ask.subject
    if not isinstance(binding, Binding) or ask.operation is not Operation.CREATE:
        return Decision.allow()
    entry = ledger.entry(binding.pod_uid, binding.namespace or ask.namespace, binding.pod_name)
    view = ledger.views.get(binding.node_name)
    if entry is None or view is None or entry.state is EntryState.BOUND:
        return Decision.allow()
    admitted = BindingAdmitted(entry.uid, binding.node_name, now_seconds + rules.binding_seconds)
    if rules.mode(Outcome.WOULD_FAIL, binding.namespace or ask.namespace) in {Mode.OFF, Mode.WARN}:
        return Decision.allow(event=admitted)
    refusal = _refusal(ledger, view, entry, rules)
    if refusal is None:
        return Decision.allow(event=admitted)
    steer_to = _steer_to(ledger, entry, shunned | {view.record.name})
    if refusal.code == reasons.BINDING_WOULD_FAIL.code:
        refusal = replace(refusal, next_step=_where_to(steer_to))
    refused = BindingRefused(entry.uid, steer_to, now_seconds + rules.steering_seconds)
    return Decision(allowed=False, findings=(refusal,), event=refused)


def _where_to(steer_to: str) -> str:
    if steer_to:
        return f"The pod is steered to node {steer_to}, which fits."
    return "No other node fits now; the pod waits and is bound when room is free."


def _refusal(ledger: Ledger, view: NodeView, entry: Entry, rules: CapacityRules) -> Finding | None:
    """Return why the binding is turned back, or None where it may pass."""
    machine, state = view.record.machine, view.bound_state
    demand = entry.pod.demand
    if view.record.allocator is not AllocatorKind.KUBELET or machine is None or state is None:
        return None
    placement = ledger.charges.place(view, state, demand)
    path = "target"
    if placement is None:
        if view.is_guessed and entry.tries >= rules.most_tries_on_guess:
            return None
        proof = f"It has free {numa_rooms(machine, state)} ({policy_words(machine)}); asked: {asked(demand)}."
        problem = f"Node {view.record.name}'s kubelet would refuse pod {entry.pod.namespace}/{entry.pod.name} for good."
        return replace(reasons.BINDING_WOULD_FAIL.at(path, problem), proof=proof)
    if holds_nothing(placement.holding):
        return None
    in_flight = [other for other in view.bound if not other.pod.is_answered and _holds(other)]
    if in_flight and not _every_order_works(ledger, view, state, [*in_flight, entry]):
        names = ", ".join(f"{other.pod.namespace}/{other.pod.name}" for other in in_flight[:3])
        problem = f"Node {view.record.name}'s kubelet has not answered yet for {names}, bound just before."
        return reasons.BINDING_OUT_OF_TURN.at(path, problem)
    return None


def _holds(entry: Entry) -> bool:
    return entry.holding is not None and not holds_nothing(entry.holding)


def _every_order_works(ledger: Ledger, view: NodeView, state: NodeState, entries: list[Entry]) -> bool:
    """Return whether the kubelet may take ``entries`` in any order with the same result for each of them.

    It sorts pods that reach it together by their creation. Were their places to depend on the order, the ledger could
    not tell them apart afterwards, and a place that is only guessed proves nothing.
    """
    machine = view.record.machine
    if machine is None or len(entries) > MOST_IN_FLIGHT + 1:
        return False
    base = state
    for entry in entries:
        if entry.state is EntryState.BOUND and entry.holding is not None:
            base = give_back(machine, base, entry.holding)
    first: dict[str, Holding] | None = None
    for order in permutations(entries):
        after, holdings = base, {}
        for entry in order:
            placement = ledger.charges.place(view, after, entry.pod.demand)
            if placement is None:
                return False
            after = placement.state
            holdings[entry.uid] = placement.holding
        if first is None:
            first = holdings
        elif holdings != first:
            return False
    return True


def _steer_to(ledger: Ledger, entry: Entry, avoid: frozenset[str]) -> str:
    """Return the node that the pod should try next; empty where none fits."""
    if entry.node and entry.node not in avoid:
        return entry.node
    return ledger.find(entry.pod, avoid=avoid).node
