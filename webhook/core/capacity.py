"""The ledger's two questions: could a node take this pod or workload, and will this node take this pod now?"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Final

from webhook.core.capacity_rules import CONTROLLERS, DEFAULT_MODES, GANG_KEYS, CapacityRules, Mode
from webhook.core.decisions import Ask, Decision, Operation
from webhook.core.dialects import KUBELET
from webhook.core.findings import Finding, Severity
from webhook.core.judge import carries_mark
from webhook.core.ledger import reasons
from webhook.core.ledger.events import BindingAdmitted, BindingRefused, Claimed
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.orders import every_order_works
from webhook.core.ledger.proofs import asked, numa_rooms, policy_words, prove
from webhook.core.ledger.records import AllocatorKind, Entry, EntryState, NodeView, PodRecord
from webhook.core.ledger.verdicts import Outcome, Verdict, judge, replicas_that_fit
from webhook.core.occupancy import holds_nothing
from webhook.core.placement import Placement
from webhook.core.pod import Binding, Pod, PodTemplate, Workload
from webhook.core.rules.pinning import pinning_findings
from webhook.core.spelling import counted

__all__ = [
    "CONTROLLERS",
    "DEFAULT_MODES",
    "GANG_KEYS",
    "CapacityRules",
    "Mode",
    "concerns",
    "decide_bind",
    "decide_capacity",
    "finding_of",
    "unknown",
]


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
    pinning = _pinning(pod, record, ledger, rules)
    known = ledger.entry(pod.uid) if pod.uid else None
    if known is not None and known.node and known.pod.demand == record.demand:
        return Decision.allow(findings=pinning)  # asked a second time: its place is kept already
    verdict = judge(ledger, record, rules.classes, known_schedulers=rules.known_schedulers)
    if verdict.outcome is Outcome.FITS:
        if verdict.placement is None or record.is_gated or holds_nothing(verdict.placement.holding):
            return Decision.allow(findings=pinning)
        until = now_seconds + rules.claim_seconds
        return Decision.allow(findings=pinning, event=Claimed(record, verdict.node, verdict.placement, until))
    mode = rules.mode(verdict.outcome, ask.namespace)
    if mode is Mode.DENY and verdict.outcome is Outcome.WOULD_FAIL and _may_wait(ask, pod, verdict, rules):
        mode = Mode.WAIT
    if mode is Mode.OFF:
        return Decision.allow(findings=pinning)
    found = finding_of(ledger, record, verdict, now_seconds, path="spec", mode=mode)
    return Decision.of((found, *pinning))


def _pinning(pod: Pod, record: PodRecord, ledger: Ledger, rules: CapacityRules) -> tuple[Finding, ...]:
    """Return warnings of CPUs that would not be pinned; what a mark demands of the CPUs is for its own rules to say."""
    if carries_mark(pod, rules.vocabulary):
        return ()
    if not any(count for container in record.demand.containers for name, count in container.devices if name in _GPUS):
        return ()
    index = ledger.index
    nodes = index.could_hold(record.demand.totals, index.eligible(record.eligibility))
    static = sum(
        group.bit_count()
        for kind, machine, group in index.groups(nodes)
        if kind is AllocatorKind.KUBELET and machine is not None and machine.kubelet.static_cpus
    )
    return pinning_findings(pod, KUBELET.gpus, static_nodes=static, eligible_nodes=nodes.bit_count())


_GPUS: Final = frozenset(KUBELET.gpus)


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
    ledger: Ledger, record: PodRecord, verdict: Verdict, now_seconds: float, *, path: str, mode: Mode
) -> Finding:
    """Return the finding that says ``verdict`` (not FITS), with its proof. What rests on a guess only warns."""
    if verdict.outcome is Outcome.UNKNOWN:
        return unknown(verdict.reason, path)
    reason = _REASON_OF[verdict.outcome]
    denies = mode is Mode.DENY and not verdict.rests_on_guess
    problem, step = reason.summary, reason.next_step
    if verdict.outcome is Outcome.WOULD_FAIL and record.eligibility.node_name:
        problem = "The pod names its node itself, and the node's kubelet would refuse it for good now."
    elif verdict.outcome is Outcome.WOULD_FAIL and not denies:
        problem, step = "Every node that has room by plain counts would refuse the pod for good now.", _WAITS
    if verdict.rests_on_guess:
        problem = problem.removesuffix(".") + ", as far as can be guessed."
    proof = prove(ledger, record, verdict, now_seconds)
    finding = reason.at(
        path,
        problem,
        found=asked(record.demand),
        next_step=f"{proof.change} {step}".strip(),
        severity=Severity.ERROR if denies else Severity.WARNING,
    )
    return replace(finding, proof=proof.paragraph)


_WAITS: Final = "It is created all the same, and is bound when a node takes it."


def unknown(word: str, path: str = "spec") -> Finding:
    """Return the warning that a pod was let through unjudged, and why."""
    because = _UNKNOWN_BECAUSE.get(word, word)
    problem = f"Whether the pod fits cannot be told: {because}."
    return reasons.CAPACITY_UNKNOWN.at(path, problem, found=word)


def _workload(ask: Ask, workload: Workload, ledger: Ledger, rules: CapacityRules, now_seconds: float) -> Decision:
    old = ask.old if ask.operation is Operation.UPDATE and isinstance(ask.old, Workload) else None
    findings: list[Finding] = []
    for template, was in workload.paired_with(old):
        pod = template.pod
        wanted = _more_pods(workload, template, was)
        if wanted == (0, 0):
            continue
        record = PodRecord.asked(pod, namespace=ask.namespace)
        if not concerns(ledger, pod, record):
            continue
        path = template.locate("spec")
        findings += (
            finding.moved_to(template.locate(finding.path)) for finding in _pinning(pod, record, ledger, rules)
        )
        verdict = judge(ledger, record, rules.classes, known_schedulers=rules.known_schedulers)
        mode = rules.mode(verdict.outcome, ask.namespace)
        if verdict.outcome in {Outcome.NEVER, Outcome.UNKNOWN}:
            if mode is not Mode.OFF:
                findings.append(finding_of(ledger, record, verdict, now_seconds, path=path, mode=mode))
        elif rules.mode(Outcome.WOULD_WAIT, ask.namespace) is not Mode.OFF and wanted is not None:
            findings.extend(_replicas(ledger, record, *wanted, path))
    return Decision.of(tuple(findings))


def _more_pods(workload: Workload, template: PodTemplate, old: PodTemplate | None) -> tuple[int, int] | None:
    """Return how many pods more the template makes than before, and how many a rolling update runs beyond that.

    None: the kind does not say how many it makes (DaemonSet).
    """
    if old is not None and old.replicas == template.replicas and template.makes_the_pods_of(old):
        return 0, 0
    if template.replicas is None:
        return None
    if old is None or old.replicas is None:
        return template.replicas, workload.surge if template.replicas else 0
    more = max(0, template.replicas - old.replicas)
    if template.makes_the_pods_of(old):
        return more, 0
    # The old pods give way to new ones: besides those that are added only the surge needs room of its own.
    return (more, workload.surge) if template.replicas else (0, 0)


def _replicas(ledger: Ledger, record: PodRecord, more: int, surge: int, path: str) -> Iterator[Finding]:
    wanted = more + surge
    count = replicas_that_fit(ledger, record, wanted)
    if count.pods >= wanted or count.is_at_least:
        return
    each = asked(record.demand)
    if count.pods < more:
        rest = "it" if more == 1 else "the others" if count.pods else "they"
        problem = f"{count.pods} of {counted(more, 'replica')} fit now ({each} each); {rest} would wait."
    elif more:
        fit = "The replica fits" if more == 1 else f"All {more} replicas fit"
        problem = (
            f"{fit} now ({each} each), and {count.pods - more} of the {surge} more that a rolling "
            "update runs at a time; the update would wait for room."
        )
    else:
        problem = (
            f"A rolling update runs {surge} more at a time ({each} each), and {count.pods} of them fit now; the update "
            "would wait for room."
        )
    yield reasons.REPLICAS_EXCEED_ROOM.at(path, problem, found=str(count.pods), wanted=str(wanted))


# --- bindings ---

MOST_TRIES_ON_OPEN: Final = 20
"""Refusals of one pod at nodes with several accounts, or with a refusal of the kubelet's own, before the guard gives
way: with the scheduler's back-off of at most 11 s, after about three minutes."""
MOST_OPEN_NODES: Final = 8
"""Nodes that fit by their first account only and are passed over in one search: there is seldom more than one."""


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
    if entry is None or view is None:
        return Decision.allow()
    # A second binding of one that was let through: asked again, or the first came to nothing after us.
    if entry.state is EntryState.BOUND and (not entry.is_assumed or entry.node == binding.node_name):
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
    if view.record.allocator is not AllocatorKind.KUBELET or machine is None or state is None:
        return None
    accounts = (view, *ledger.alternatives(view.record.name))
    placements = [_placed(ledger, account, entry) for account in accounts]
    path, pod = "target", f"{entry.pod.namespace}/{entry.pod.name}"
    if None in placements:
        is_open = any(placement is not None for placement in placements)
        if entry.tries >= (MOST_TRIES_ON_OPEN if is_open else rules.most_tries_on_guess if view.is_guessed else inf):
            return None
        free = numa_rooms(machine, accounts[placements.index(None)].bound_state or state)
        proof = f"Free there ({policy_words(machine)}): {free}. Asked: {asked(entry.pod.demand)}."
        problem = f"Node {view.record.name}'s kubelet would refuse pod {pod} for good."
        if is_open:
            problem = (
                f"Node {view.record.name}'s kubelet may refuse pod {pod} for good: a pod ended there just as another "
                "came, and which of them was first is not known."
            )
        return replace(reasons.BINDING_WOULD_FAIL.at(path, problem), proof=proof)
    if all(placement is not None and holds_nothing(placement.holding) for placement in placements):
        return None
    if ledger.has_refused(view.record.name, entry.pod.demand) and entry.tries < MOST_TRIES_ON_OPEN:
        problem = f"Node {view.record.name}'s kubelet has refused an equal pod, and nothing was freed there since."
        return reasons.BINDING_WOULD_FAIL.at(path, problem)
    for account in accounts:
        in_flight = [other for other in account.bound if not other.pod.is_answered and _holds(other)]
        if in_flight and not every_order_works(ledger.charges, account, in_flight, entry):
            names = ", ".join(f"{other.pod.namespace}/{other.pod.name}" for other in in_flight[:3])
            problem = f"Node {view.record.name}'s kubelet has not answered yet for {names}, bound just before."
            return reasons.BINDING_OUT_OF_TURN.at(path, problem)
    return None


def _placed(ledger: Ledger, account: NodeView, entry: Entry) -> Placement | None:
    state = account.bound_state
    return None if state is None else ledger.charges.place(account, state, entry.pod.demand)


def _holds(entry: Entry) -> bool:
    return entry.holding is not None and not holds_nothing(entry.holding)


def _steer_to(ledger: Ledger, entry: Entry, avoid: frozenset[str]) -> str:
    """Return the node that the pod should try next; empty where none fits for sure."""
    if entry.node and entry.node not in avoid and _fits_for_sure(ledger, entry, entry.node):
        return entry.node
    for _ in range(MOST_OPEN_NODES):
        node = ledger.find(entry.pod, avoid=avoid).node
        if not node or _fits_for_sure(ledger, entry, node):
            return node
        avoid |= {node}
    return ""


def _fits_for_sure(ledger: Ledger, entry: Entry, node: str) -> bool:
    if ledger.has_refused(node, entry.pod.demand):
        return False
    return all(_placed(ledger, account, entry) is not None for account in ledger.alternatives(node))
