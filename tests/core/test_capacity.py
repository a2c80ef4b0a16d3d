"""``decide_capacity``: what each outcome does, to whom and where; and what is none of the ledger's business."""

from dataclasses import replace

import pytest
from capacity_world import (
    CLASS,
    FULL,
    MACHINE,
    SPLIT,
    TOPOLOGY,
    ask,
    asked,
    capacity,
    cluster,
    commit,
    deployment,
    pending,
)
from ledger_world import GPU, ledger, machine, node
from support import builders

from webhook.core.capacity import CONTROLLERS, GANG_KEYS, CapacityRules, Mode, decide_capacity
from webhook.core.decisions import Operation
from webhook.core.ledger import events
from webhook.core.ledger.classes import MachineClass, may_match
from webhook.core.ledger.records import AllocatorKind, Eligibility, PodRecord
from webhook.core.ledger.verdicts import Outcome, judge, judge_on_node
from webhook.core.node_selection import Taint
from webhook.core.pod import NodeSelectorTerm, Operator, Requirement

REPLICASET = "system:serviceaccount:kube-system:replicaset-controller"


def outcome(decision) -> str:
    """Return what happened in a word: ``claimed``, ``allowed``, ``warned`` or ``refused``."""
    if not decision.allowed:
        assert decision.event is None
        return "refused"
    if decision.findings:
        return "warned"
    return "allowed" if decision.event is None else "claimed"


def judged(made, pod, rules=None, **more):
    """Return the verdict behind a decision."""
    rules = rules or CapacityRules()
    record = PodRecord.asked(pod, namespace="team")
    return judge(made, record, rules.classes, known_schedulers=rules.known_schedulers, **more)


# --- the five outcomes, the first in their order ---


def elsewhere(**labels):
    """Return an eligible node without topology that could hold any of the pods."""
    return node("blank", None, labels={**TOPOLOGY, **labels}, cpu=99_000)


@pytest.mark.parametrize(
    ("made", "pod", "expected"),
    [
        pytest.param(cluster, asked(4, 4), Outcome.FITS, id="fits: plain count and kubelet say yes"),
        pytest.param(
            lambda: cluster(elsewhere()), asked(4, 4), Outcome.FITS, id="fits on one, though another is not known"
        ),
        pytest.param(
            lambda: cluster(elsewhere(), bound=SPLIT), asked(4, 3), Outcome.UNKNOWN, id="unknown before would_fail"
        ),
        pytest.param(lambda: cluster(elsewhere()), asked(4, 5), Outcome.UNKNOWN, id="unknown before never"),
        pytest.param(
            lambda: cluster(node("cpu-2", None, labels=TOPOLOGY, **{GPU: None}), bound=SPLIT),
            asked(4, 3),
            Outcome.WOULD_FAIL,
            id="a node without GPUs is known to be too small, whatever its topology",
        ),
        pytest.param(
            lambda: cluster(replace(elsewhere(), allocatable={"cpu": 1000})),
            asked(4, 5),
            Outcome.NEVER,
            id="so is one with too few CPUs",
        ),
        pytest.param(lambda: cluster(bound=FULL), asked(4, 5), Outcome.NEVER, id="never before would_wait"),
        pytest.param(lambda: cluster(bound=SPLIT), asked(4, 3), Outcome.WOULD_FAIL, id="would_fail"),
        pytest.param(lambda: cluster(bound=FULL), asked(4, 4), Outcome.WOULD_WAIT, id="would_wait: no plain room"),
        pytest.param(ledger, asked(4, 4), Outcome.UNKNOWN, id="unknown: no node at all"),
        pytest.param(
            cluster,
            asked(4, 4, spec={"nodeSelector": {"pool": "none"}}),
            Outcome.UNKNOWN,
            id="unknown: a pool scaled to zero that no class declares",
        ),
        pytest.param(
            lambda: ledger(node("gpu-2", MACHINE, labels=TOPOLOGY, cordoned=True)),
            asked(4, 4),
            Outcome.UNKNOWN,
            id="unknown: the only node is cordoned",
        ),
        pytest.param(
            lambda: ledger(node("gpu-2", MACHINE, labels=TOPOLOGY, cordoned=True)),
            asked(4, 5),
            Outcome.NEVER,
            id="never: nor would the cordoned node take it",
        ),
        pytest.param(
            lambda: ledger(node("gpu-2", MACHINE, labels=TOPOLOGY, unhealthy=(0xFF,))),
            asked(4, 4),
            Outcome.WOULD_FAIL,
            id="broken devices are no reason for never",
        ),
        pytest.param(
            lambda: cluster(bound=FULL),
            asked(4, 3, spec={"nodeName": "gpu-1"}),
            Outcome.WOULD_FAIL,
            id="a preset node has no scheduler to wait for",
        ),
        pytest.param(
            cluster,
            asked(4, 3, spec={"nodeName": "nowhere"}),
            Outcome.UNKNOWN,
            id="a preset node that is not known",
        ),
        pytest.param(
            cluster,
            asked(4, 3, spec={"nodeName": "gpu-1", "schedulerName": "mine"}),
            Outcome.FITS,
            id="a preset node meets no scheduler, so its name does not matter",
        ),
        pytest.param(
            cluster,
            asked(4, 3, spec={"schedulerName": "mine"}),
            Outcome.UNKNOWN,
            id="unknown: another scheduler",
        ),
        pytest.param(
            cluster,
            asked(4, 3, spec={"resourceClaims": [{"name": "x"}]}),
            Outcome.UNKNOWN,
            id="unknown: devices by DRA",
        ),
    ],
)
def test_the_first_outcome_that_holds(made, pod, expected):
    """fits, unknown, never, would_fail, would_wait."""
    assert judged(made(), pod).outcome is expected


def test_a_daemonset_pod_is_judged_by_its_node():
    """The controller writes matchFields of ``metadata.name`` and tolerations; only that node counts."""
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-2"]}
    term = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    spec = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
        "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
    }
    made = cluster(bound=FULL)
    assert judged(made, asked(4, 4, spec=spec)).node == "gpu-2"
    spec["tolerations"] = []
    assert judged(made, asked(4, 4, spec=spec)).outcome is Outcome.UNKNOWN


TAINT = Taint("gpu", "", "NoSchedule")


@pytest.mark.parametrize(
    ("nodes", "spec", "reason"),
    [
        pytest.param([], {}, "no-eligible-node", id="no node"),
        pytest.param([{}], {"nodeSelector": {"pool": "none"}}, "no-eligible-node", id="none matches"),
        pytest.param([{"ready": False}], {}, "nodes-not-ready", id="not ready"),
        pytest.param([{"ready": False, "cordoned": True, "taints": [TAINT]}], {}, "nodes-not-ready", id="first reason"),
        pytest.param([{"cordoned": True}, {"cordoned": True}], {}, "nodes-cordoned", id="cordoned"),
        pytest.param([{"taints": [TAINT]}], {}, "nodes-tainted", id="tainted"),
        pytest.param([{"cordoned": True}, {"ready": False}], {}, "nodes-closed", id="each for its own reason"),
        pytest.param([{"taints": [TAINT]}, {"ready": False}], {}, "nodes-closed", id="one tainted, one not ready"),
        pytest.param([{"on": None, "cpu": 1000}], {}, "nodes-too-small", id="too small, whatever its topology"),
        pytest.param([{"ready": False}], {"nodeName": "n0"}, "nodes-not-ready", id="the node that it names"),
    ],
)
def test_why_no_node_is_eligible(nodes, spec, reason):
    """A pool scaled to zero is spoken of only where there is no node; the finding says what stands in the way."""
    made = ledger(*(node(f"n{at}", labels=TOPOLOGY, **{"on": MACHINE, **facts}) for at, facts in enumerate(nodes)))
    verdict = judged(made, asked(4, 4, spec=spec))
    assert (verdict.outcome, verdict.reason) == (Outcome.UNKNOWN, reason)
    (finding,) = capacity(made, asked(4, 4, spec=spec)).findings
    assert finding.found == reason
    assert reason not in finding.problem
    assert ("scaled to zero" in finding.problem) is (reason == "no-eligible-node")


# --- what is done about them ---


@pytest.mark.parametrize(
    ("mode", "of", "expected"),
    [
        pytest.param(Mode.DENY, Outcome.WOULD_FAIL, "refused", id="would_fail, deny"),
        pytest.param(Mode.WAIT, Outcome.WOULD_FAIL, "warned", id="would_fail, wait"),
        pytest.param(Mode.WARN, Outcome.WOULD_FAIL, "warned", id="would_fail, warn"),
        pytest.param(Mode.OFF, Outcome.WOULD_FAIL, "allowed", id="would_fail, off"),
        pytest.param(Mode.DENY, Outcome.WOULD_WAIT, "refused", id="would_wait, deny"),
        pytest.param(Mode.OFF, Outcome.WOULD_WAIT, "allowed", id="would_wait, off"),
        pytest.param(Mode.WARN, Outcome.NEVER, "warned", id="never, warn"),
        pytest.param(Mode.DENY, Outcome.NEVER, "refused", id="never, deny"),
        pytest.param(Mode.OFF, Outcome.UNKNOWN, "allowed", id="unknown, off"),
        pytest.param(Mode.DENY, Outcome.UNKNOWN, "warned", id="unknown is never denied, whatever the settings say"),
    ],
)
@pytest.mark.parametrize("by_namespace", [False, True], ids=["by the general setting", "by the namespace's own"])
def test_modes(mode, of, expected, by_namespace):
    """Each outcome has a mode, and a namespace may have its own."""
    made, pod = {
        Outcome.WOULD_FAIL: (cluster(bound=SPLIT), asked(4, 3)),
        Outcome.WOULD_WAIT: (cluster(bound=FULL), asked(4, 3)),
        Outcome.NEVER: (cluster(), asked(4, 5)),
        Outcome.UNKNOWN: (ledger(), asked(4, 3)),
    }[of]
    opposite = Mode.OFF if mode is not Mode.OFF else Mode.WARN
    modes = {**CapacityRules().modes, of: opposite if by_namespace else mode}
    rules = CapacityRules(modes=modes, namespace_modes={"team": {of: mode}} if by_namespace else {})
    assert outcome(capacity(made, pod, rules=rules)) == expected


def test_another_namespace_keeps_the_general_mode():
    """An override goes by the namespace's exact name."""
    rules = CapacityRules(namespace_modes={"other": {Outcome.WOULD_FAIL: Mode.OFF}})
    made = cluster(bound=SPLIT)
    assert outcome(capacity(made, asked(4, 3), rules=rules)) == "refused"
    assert outcome(capacity(made, asked(4, 3), rules=rules, namespace="other")) == "allowed"


def _guessed(made):
    made.apply(events.Diverged("gpu-1"), 110.0)


def _freeing(made):
    pod = made.entries["a"].pod
    made.apply(events.PodSeen(replace(pod, resource_version=2, is_deleting=True)), 110.0)


@pytest.mark.parametrize(
    ("pod", "more", "before", "expected"),
    [
        pytest.param({}, {}, None, "refused", id="a person is refused"),
        pytest.param({}, {"username": REPLICASET}, None, "warned", id="a controller's pod waits"),
        pytest.param(
            {}, {"username": REPLICASET, "rules": CapacityRules(guards_bindings=False)}, None, "refused",
            id="but not while nobody guards its binding",
        ),
        pytest.param(
            {"metadata": {"uid": "new", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "y", "controller": True}
            ]}}, {}, None, "refused",
            id="a forged owner changes nothing",
        ),
        pytest.param({}, {"username": "system:serviceaccount:team:replicaset-controller"}, None, "refused",
                     id="nor does a service account of that name elsewhere"),
        pytest.param({}, {}, _freeing, "warned", id="room is being freed"),
        pytest.param({}, {}, _guessed, "warned", id="what rests on a guess only warns"),
        pytest.param({"spec": {"schedulingGates": [{"name": "wait"}]}}, {}, None, "warned", id="a gated pod waits"),
        *[
            pytest.param({where: {key: "mine"}}, {}, None, "warned", id=f"a gang or queue waits: {where} {key}")
            for key in sorted(GANG_KEYS)
            for where in ("labels", "annotations")
        ],
    ],
)  # fmt: skip
def test_who_may_wait(pod, more, before, expected):
    """A refusal at the wrong moment is worse than none (``DESIGN.md`` 4)."""
    made = cluster(bound=SPLIT)
    if before is not None:
        before(made)
    assert outcome(capacity(made, asked(4, 3, **pod), **more)) == expected


@pytest.mark.parametrize("user", sorted(CONTROLLERS))
def test_never_is_refused_whoever_asks(user):
    """Waiting would not help."""
    assert outcome(capacity(cluster(), asked(4, 5), username=user)) == "refused"


def test_a_guess_that_an_empty_machine_would_refuse_too_is_proof():
    """A doubtful node whose machine could not take the pod even empty does not make the refusal a guess."""
    made = cluster(node("small", machine(2, 16, 2), labels=TOPOLOGY), bound=[*SPLIT, ("c", "small", (1, 1))])
    made.apply(events.Diverged("small"), 110.0)
    assert outcome(capacity(made, asked(4, 3))) == "refused"


# --- claims ---


def test_what_fits_is_claimed_and_what_is_asked_again_is_not_judged_by_its_own_claim():
    """The API server calls a second time with the same pod: one place, and no refusal for want of it."""
    made = cluster()
    for at in range(2):
        commit(made, capacity(made, asked(4, 4, uid=f"p{at}")))
    again = capacity(made, asked(4, 4, uid="p1"))
    assert (outcome(again), outcome(capacity(made, asked(4, 4, uid="p2")))) == ("allowed", "warned")
    assert made.views["gpu-1"].free(GPU) == 0


def test_a_retry_under_a_new_uid_waits_for_the_old_claim_to_end():
    """A create that failed after us is tried anew by its controller: its old claim ends in seconds."""
    made = cluster()
    for uid in ("p1", "p2"):
        commit(made, capacity(made, asked(4, 4, uid=uid)), 130.0)
    assert outcome(capacity(made, asked(4, 4, uid="p3"), now=131.0)) == "warned"
    made.apply(events.Elapsed(), 135.0)
    assert outcome(capacity(made, asked(4, 4, uid="p3"), now=135.0)) == "claimed"


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        pytest.param(asked(4, 4, spec={"schedulingGates": [{"name": "x"}]}), "gated", id="a gated pod claims nothing"),
        pytest.param(asked(4, 0, marked=False, containers=[{"name": "a"}]), "plain", id="nor one that holds nothing"),
    ],
)
def test_who_claims_nothing(pod, why):
    """No event, no finding."""
    assert outcome(capacity(cluster(), pod)) == "allowed", why


def test_deciding_changes_nothing():
    """A dry run is a decision that nobody commits: the ledger's content is as before, whatever the outcome."""
    made = cluster(bound=SPLIT)
    before = made.content()
    for pod in (asked(4, 2), asked(4, 3), asked(4, 5), asked(4, 3, spec={"nodeName": "gpu-1"})):
        capacity(made, pod, dry_run=True)
        capacity(made, deployment(pod, 3), dry_run=True)
    assert made.content() == before


# --- who is judged at all ---


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(asked(4, 5), "refused", id="a marked pod"),
        pytest.param(asked(4, 5, marked=False), "refused", id="a pod without a mark that asks for a tracked device"),
        pytest.param(
            asked(
                marked=False,
                containers=[builders.container("main", cpu="40", gpu=None, memory="1Gi")],
                spec={"nodeName": "gpu-1"},
            ),
            "refused",
            id="a pod that asks for exclusive CPUs only",
        ),
        pytest.param(
            asked(marked=False, containers=[{"name": "main", "resources": {"requests": {"cpu": "40"}}}]),
            "allowed",
            id="a pod on shared CPUs",
        ),
        pytest.param(
            asked(
                marked=False,
                containers=[builders.container(cpu="500m", gpu="5", gpu_name="example.com/other", memory="1Gi")],
            ),
            "allowed",
            id="a pod with devices that no known machine has",
        ),
        pytest.param(
            asked(4, 5, annotations={"kubernetes.io/config.mirror": "x"}), "allowed", id="a mirror pod runs anyway"
        ),
    ],
)
def test_who_is_judged(pod, expected):
    """Whatever asks for a tracked device or for exclusive CPUs, marked or not."""
    assert outcome(capacity(cluster(), pod)) == expected


@pytest.mark.parametrize(
    ("change", "judged_"),
    [
        pytest.param({}, True, id="CREATE"),
        pytest.param({"operation": Operation.UPDATE}, False, id="UPDATE of a pod"),
        pytest.param({"operation": Operation.DELETE}, False, id="DELETE"),
        pytest.param({"subresource": "status"}, False, id="a subresource"),
        pytest.param({"subject": None}, False, id="another kind"),
    ],
)
def test_which_requests_are_judged(change, judged_):
    """Creates of pods only."""
    question = replace(ask(asked(4, 5)), **change)
    decision = decide_capacity(question, cluster(), CapacityRules(), 130.0)
    assert decision.allowed is not judged_


# --- pinned CPUs ---


@pytest.mark.parametrize(
    ("pod", "made", "expected"),
    [
        pytest.param(asked("3500m", 1, marked=False), cluster, "warned", id="a fraction of a core"),
        pytest.param(asked("3500m", 1), cluster, "claimed", id="a marked pod hears it from its own rules"),
        pytest.param(asked("3", 1, marked=False), cluster, "claimed", id="whole cores"),
        pytest.param(
            asked("3500m", 1, marked=False),
            lambda: ledger(node("n1", machine(static_cpus=False), labels=TOPOLOGY)),
            "claimed",
            id="no node pins CPUs",
        ),
        pytest.param(deployment(asked("3500m", 1, marked=False), 1), cluster, "warned", id="a template, too"),
    ],
)
def test_cpus_that_would_not_be_pinned(pod, made, expected):
    """``rules.pinning`` where GPUs are asked for without a mark."""
    decision = capacity(made(), pod)
    assert outcome(decision) == expected or (expected == "claimed" and outcome(decision) == "allowed")
    assert [finding.code for finding in decision.findings] == (["CPU_NOT_PINNED"] if expected == "warned" else [])


# --- workloads ---


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(deployment(asked(4, 4), 2, 0), None, [], id="all replicas fit"),
        pytest.param(deployment(asked(4, 4), 3, 0), None, ["REPLICAS_EXCEED_ROOM"], id="some do not"),
        pytest.param(deployment(asked(4, 4), 2, 1), None, ["REPLICAS_EXCEED_ROOM"], id="the surge does not"),
        pytest.param(deployment(asked(4, 5), 1), None, ["CAPACITY_NEVER"], id="never"),
        pytest.param(deployment(asked(4, 5), 0), None, [], id="no replicas"),
        pytest.param(deployment(asked(4, 5), None), None, ["CAPACITY_NEVER"], id="a DaemonSet's template"),
        pytest.param(deployment(asked(4, 4), None), None, [], id="a DaemonSet says no number"),
        pytest.param(deployment(asked(4, 5), 3), deployment(asked(4, 5), 3), [], id="nothing changed"),
        pytest.param(deployment(asked(4, 5), 0), deployment(asked(4, 5), 3), [], id="scaled to nought"),
        pytest.param(deployment(asked(4, 5), 2), deployment(asked(4, 5), 3), [], id="scaled down"),
        pytest.param(deployment(asked(4, 4), 9), deployment(asked(4, 4), 7), [], id="scaled up by what fits"),
        pytest.param(
            deployment(asked(4, 4), 9), deployment(asked(4, 4), 6), ["REPLICAS_EXCEED_ROOM"], id="scaled up by more"
        ),
        pytest.param(deployment(asked(4, 3), 9), deployment(asked(4, 4), 9), [], id="a new template whose surge fits"),
        pytest.param(
            deployment(asked(4, 4), 9, 3), deployment(asked(4, 3), 9), ["REPLICAS_EXCEED_ROOM"],
            id="a new template whose surge does not fit",
        ),
        pytest.param(
            deployment(asked(4, 5), 9), deployment(asked(4, 4), 9), ["CAPACITY_NEVER"], id="a template that never fits"
        ),
    ],
)  # fmt: skip
def test_workloads(new, old, expected):
    """Only what is new is judged: replicas more than before, the surge of a rolling update, a changed template."""
    question = ask(new, old)
    decision = decide_capacity(question, cluster(), CapacityRules(), 130.0)
    assert [finding.code for finding in decision.findings] == expected
    assert decision.allowed is ("CAPACITY_NEVER" not in expected)
    assert decision.event is None, "templates claim nothing"


def test_a_workload_beside_unknown_nodes_is_not_counted():
    """A node of unknown topology may take some of the replicas: no number is said."""
    decision = capacity(cluster(elsewhere()), deployment(asked(4, 4), 9))
    assert [finding.code for finding in decision.findings] == []


# --- declared classes ---


def term(key, operator, *values, fields=()):
    """Return a required node affinity of one expression."""
    expressions = (Requirement(key, operator, values),) if key else ()
    return Eligibility(required_terms=(NodeSelectorTerm(expressions, fields),))


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        pytest.param(Eligibility(), True, id="no wish"),
        pytest.param(Eligibility(node_selector=(("pool", "gpu"),)), True, id="a declared label"),
        pytest.param(Eligibility(node_selector=(("pool", "cpu"),)), False, id="another value of it"),
        pytest.param(Eligibility(node_selector=(("zone", "a"),)), True, id="an undeclared label may be there"),
        pytest.param(Eligibility(node_name="gpu-1"), False, id="a preset node is a particular one"),
        pytest.param(term("pool", Operator.IN, "gpu", "x"), True, id="In with the value"),
        pytest.param(term("pool", Operator.IN, "x"), False, id="In without it"),
        pytest.param(term("pool", Operator.NOT_IN, "gpu"), False, id="NotIn with the value"),
        pytest.param(term("pool", Operator.NOT_IN, "x"), True, id="NotIn without it"),
        pytest.param(term("pool", Operator.EXISTS), True, id="Exists"),
        pytest.param(term("pool", Operator.DOES_NOT_EXIST), False, id="DoesNotExist"),
        pytest.param(term("zone", Operator.IN, "a"), True, id="In on an undeclared label"),
        pytest.param(term("zone", Operator.DOES_NOT_EXIST), True, id="DoesNotExist on an undeclared label"),
        pytest.param(term("pool", Operator.GT, "3"), False, id="Gt on a value that is no number"),
        pytest.param(term("pool", "Near", "gpu"), False, id="an unknown operator"),
        pytest.param(Eligibility(required_terms=()), False, id="no term at all"),
        pytest.param(term("", ""), False, id="an empty term"),
        pytest.param(
            term("", "", fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)), False, id="a node's own name"
        ),
        pytest.param(
            term("", "", fields=(Requirement("metadata.name", Operator.NOT_IN, ("n1",)),)), True, id="not that node"
        ),
    ],
)
def test_which_classes_a_pod_may_go_to(wish, expected):
    """A class declares some labels of its nodes; what it does not declare may be there."""
    assert may_match(wish, CLASS) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(asked(4, 4), Outcome.UNKNOWN, id="an empty machine of the class would take it"),
        pytest.param(asked(4, 5), Outcome.NEVER, id="not even an empty one would"),
        pytest.param(asked(4, 4, spec={"nodeSelector": {"pool": "cpu"}}), Outcome.UNKNOWN, id="another pool"),
    ],
)
def test_a_pool_scaled_to_zero_is_known_by_its_class(pod, expected):
    """Classes are a source of topology like any other."""
    assert judged(ledger(), pod, CapacityRules(classes=(CLASS,))).outcome is expected


def test_a_class_with_fewer_resources_than_its_machine_takes_less():
    """What the class offers counts as well as its layout."""
    small = replace(CLASS, allocatable=(("cpu", 30000), ("memory", 1 << 40), (GPU, 2)))
    assert judged(ledger(), asked(4, 3), CapacityRules(classes=(small,))).outcome is Outcome.NEVER


@pytest.mark.parametrize(
    ("policy", "kind", "is_guess"),
    [
        pytest.param("Restricted", AllocatorKind.SCHEDULER, True, id="a scheduler's closed rules prove nothing"),
        pytest.param("SingleNUMANode", AllocatorKind.SCHEDULER, False, id="wider than a NUMA node is documented"),
        pytest.param("Restricted", AllocatorKind.KUBELET, False, id="a kubelet's refusal is a fact"),
    ],
)
def test_whether_a_class_proves_that_a_pod_never_fits(policy, kind, is_guess):
    """A scheduler's refusal rests on a guess, but where its vendor documents it."""
    declared = MachineClass("x", (), machine(2, 16, 1), kind, CLASS.allocatable)
    record = PodRecord.asked(asked(4, 9), namespace="team")
    record = replace(record, demand=replace(record.demand, numa_policy=policy))
    verdict = judge(ledger(), record, (declared,))
    assert (verdict.outcome, verdict.rests_on_guess) == (Outcome.NEVER, is_guess)


# --- a pod and a node ---


@pytest.mark.parametrize(
    ("where", "pod", "expected"),
    [
        pytest.param("gpu-1", asked(4, 2), (Outcome.FITS, ""), id="fits"),
        pytest.param("gpu-1", asked(4, 3), (Outcome.WOULD_FAIL, "kubelet-refuses"), id="would fail"),
        pytest.param("gpu-1", asked(4, 4), (Outcome.WOULD_WAIT, "no-plain-room"), id="no plain room"),
        pytest.param("gpu-2", asked(4, 4), (Outcome.WOULD_WAIT, "not-eligible"), id="cordoned"),
        pytest.param("nowhere", asked(4, 4), (Outcome.UNKNOWN, "node-unknown"), id="no such node"),
        pytest.param("blank", asked(4, 4), (Outcome.UNKNOWN, "topology-unknown"), id="no topology"),
    ],
)
def test_a_pod_and_a_node(where, pod, expected):
    """Virtual places of others do not count there."""
    made = cluster(elsewhere(), bound=SPLIT)
    made.apply(events.PodSeen(pending("other", (4, 2), nominated_node="gpu-1")), 120.0)
    assert made.entries["other"].node == "gpu-1"
    verdict = judge_on_node(made, PodRecord.asked(pod, namespace="team"), where)
    assert (verdict.outcome, "" if verdict.outcome is Outcome.FITS else verdict.reason) == expected
