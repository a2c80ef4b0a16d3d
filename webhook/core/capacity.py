"""The ledger's first question: could a node take this pod or workload? The other one is in ``capacity_bind``."""

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from webhook.core.capacity_rules import CONTROLLERS, DEFAULT_MODES, GANG_KEYS, CapacityRules, Mode
from webhook.core.decisions import Ask, Decision, Operation
from webhook.core.dialects import KUBELET
from webhook.core.findings import Finding, Severity
from webhook.core.judge import carries_mark
from webhook.core.ledger import reasons
from webhook.core.ledger.events import Claimed
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.proofs import asked, prove
from webhook.core.ledger.records import AllocatorKind, PodRecord
from webhook.core.ledger.verdicts import Outcome, Verdict, judge, replicas_that_fit
from webhook.core.occupancy import holds_nothing
from webhook.core.pod import Pod, PodTemplate, Workload
from webhook.core.rules.pinning import pinning_findings
from webhook.core.spelling import counted

__all__ = [
    "CONTROLLERS",
    "DEFAULT_MODES",
    "GANG_KEYS",
    "CapacityRules",
    "Mode",
    "concerns",
    "decide_capacity",
    "finding_of",
    "unknown",
    "unknown_because",
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
        "nodes-too-small": "no node that it may go to is large enough, and none is known for its machine",
        "nodes-not-ready": "no node that it may go to is ready",
        "nodes-cordoned": "every node that it may go to is cordoned",
        "nodes-tainted": "every node that it may go to has a taint that it does not tolerate",
        "nodes-closed": "each node that it may go to is not ready, cordoned or has a taint that it does not tolerate",
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
    problem = f"Whether the pod fits cannot be told: {unknown_because(word)}."
    return reasons.CAPACITY_UNKNOWN.at(path, problem, found=word)


def unknown_because(word: str) -> str:
    """Return in words why an outcome is unknown, by the reason of its verdict."""
    return _UNKNOWN_BECAUSE.get(word, word)


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
