"""The entry points: what is allowed unseen, what an update may do, and how modes weigh."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import (
    ABSENT,
    GUIDE_COMPACT,
    GUIDE_SPEC,
    KOORD_KEY,
    OLDER_KEY,
    SINGLE,
    SPEC_KEY,
    ask,
    binding,
    bound,
    container,
    node,
    pod,
    raw_pod,
    stranger,
    workload,
)

from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import Ask, Decision, Operation
from webhook.core.dialect import Stage
from webhook.core.findings import Family, Severity
from webhook.core.judge import judge_pod
from webhook.core.modes import Enforcement, Mode, RuleModes, Rules
from webhook.core.pod import Malformed, PodTemplate, Workload
from webhook.wire.pods import read_pod

RULES = Rules()
ALLOWED = Decision(allowed=True)
BAD = {"containers": [container(cpu="1500m")]}
MODE = "ack.node.gpu.schedule"


def codes(decision):
    return [finding.code for finding in decision.findings]


def validate(new, old=None, rules=RULES, **more):
    return decide_validate(ask(new, old, **more), rules)


UNSEEN = {
    "an unknown kind": ask(None),
    "an update of an unknown kind": Ask(Operation.UPDATE, "team", "x", None, None),
    "a pod of another feature": ask(stranger()),
    "an update of a pod of another feature": ask(stranger(), stranger()),
    "DELETE": Ask(Operation.DELETE, "team", "x", None, pod(**BAD)),
    "DELETE that carries an object": Ask(Operation.DELETE, "team", "x", pod(**BAD), None),
    "CONNECT": Ask(Operation.CONNECT, "team", "x", pod(**BAD), None),
    "status": ask(pod(**BAD), pod(), subresource="status"),
    "eviction": ask(pod(**BAD), subresource="eviction"),
    "a subresource of tomorrow": ask(pod(**BAD), pod(), subresource="checkpoint"),
    "scale of a workload": ask(workload(pod(**BAD)), workload(pod()), subresource="scale"),
    "a Binding without our keys": ask(binding(a="b"), subresource="binding"),
    "a node without the labels": ask(node(a="b")),
    "a workload without a mark": ask(workload(stranger())),
    "a mirror pod": ask(pod(annotations={"kubernetes.io/config.mirror": "x"}, **BAD)),
}


@pytest.mark.parametrize("question", UNSEEN.values(), ids=UNSEEN)
def test_is_allowed_unseen(question):
    """Neither endpoint says a word."""
    assert decide_validate(question, RULES) == ALLOWED
    assert decide_mutate(question, RULES) == ALLOWED


SPELT = raw_pod(
    annotations={SPEC_KEY: '{ "numaTopologyPolicy" : "SingleNUMANode", "singleNUMANodeExclusive":"Required"}'}
)
OLD_BAD = raw_pod(**BAD)
GATED = {"schedulingGates": [{"name": "wait"}]}
OTHER = raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"BestEffort"}'})
UNMARKED = raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT})
ALONE = raw_pod(annotations={SPEC_KEY: ABSENT})


def deleting(raw):
    return {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-11-29T00:00:00Z", "finalizers": ["a/b"]}}


def annotated(raw, **annotations):
    return {**raw, "metadata": {**raw["metadata"], "annotations": {**raw["metadata"]["annotations"], **annotations}}}


UPDATES = {
    "nothing": (raw_pod(), raw_pod(), []),
    "a label": (raw_pod(), raw_pod(labels={"a": "b"}), []),
    "a label on a scheduled pod that was always bad": (bound(OLD_BAD), bound(raw_pod(labels={"a": "b"}, **BAD)), []),
    "another annotation of a bad pod": (OLD_BAD, annotated(OLD_BAD, note="x"), []),
    "a finalizer taken off a bad pod that is going": (deleting(OLD_BAD), {**deleting(OLD_BAD), "status": {}}, []),
    "another spelling, scheduled": (bound(raw_pod()), bound(SPELT), []),
    "another spelling, waiting": (raw_pod(), SPELT, []),
    "the guide's own text again, scheduled": (
        bound(raw_pod(annotations={SPEC_KEY: GUIDE_COMPACT})),
        bound(raw_pod(annotations={SPEC_KEY: GUIDE_SPEC})),
        [],
    ),
    "the carried home taken away, scheduled": (
        bound(raw_pod(annotations={OLDER_KEY: SINGLE})),
        bound(raw_pod(annotations={OLDER_KEY: SINGLE, SPEC_KEY: ABSENT})),
        [],
    ),
    "the older home taken away, scheduled": (bound(raw_pod(annotations={OLDER_KEY: SINGLE})), bound(raw_pod()), []),
    "policy changed, waiting": (raw_pod(), raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"Restricted"}'}), []),
    "policy changed, scheduled": (bound(raw_pod()), bound(OTHER), ["UPDATE_SCHEDULED"]),
    "policy changed, scheduled and going": (deleting(bound(raw_pod())), deleting(bound(OTHER)), ["UPDATE_SCHEDULED"]),
    "exclusive added, scheduled": (
        bound(raw_pod()),
        bound(raw_pod(annotations={SPEC_KEY: GUIDE_COMPACT})),
        ["UPDATE_SCHEDULED"],
    ),
    "everything taken away, scheduled": (bound(raw_pod()), bound(UNMARKED), ["UPDATE_SCHEDULED"] * 2),
    "everything added, scheduled": (bound(UNMARKED), bound(raw_pod()), ["UPDATE_SCHEDULED"] * 2),
    "everything taken away, waiting": (raw_pod(), UNMARKED, []),
    "everything added to a pod that cannot, waiting": (
        raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT}, **BAD),
        raw_pod(**BAD),
        ["CPU_NOT_WHOLE"],
    ),
    "a spec added beside cpuset-scheduler, waiting": (ALONE, raw_pod(), []),
    "cpuset-scheduler to true, waiting": (
        raw_pod(),
        raw_pod(annotations={"cpuset-scheduler": "true"}),
        ["CPUSET_OTHER_FEATURE"],
    ),
    "another feature added": (
        raw_pod(),
        annotated(raw_pod(), **{"cpu-policy": "static-burst"}),
        ["CONFLICT_CPU_TOPOLOGY"],
    ),
    "Koordinator's spec added, scheduled": (
        bound(raw_pod()),
        bound(raw_pod(annotations={KOORD_KEY: SINGLE})),
        ["UPDATE_SCHEDULED", "SCHEDULER_UNKNOWN", "QOS_NOT_PINNED"],
    ),
    "a gate taken off a bad pod": (raw_pod(spec=GATED, **BAD), OLD_BAD, []),
    "a gated pod's selector tightened": (
        raw_pod(spec={**GATED, "nodeSelector": {}}),
        raw_pod(spec={**GATED, "nodeSelector": {MODE: "topology"}}),
        [],
    ),
    "a gated pod's selector turned against us": (
        raw_pod(spec={**GATED, "nodeSelector": {}}),
        raw_pod(spec={**GATED, "nodeSelector": {MODE: "cgpu"}}),
        ["NODE_NEVER_MATCHES"],
    ),
}


@pytest.mark.parametrize("old, new, wanted", UPDATES.values(), ids=UPDATES)
def test_update(old, new, wanted):
    """Only what the change makes wrong is said."""
    assert sorted(codes(validate(read_pod(new), read_pod(old)))) == sorted(wanted)


RESIZES = {
    "to whole cores": (container(cpu="26"), []),
    "to a fraction": (container(cpu="25500m"), ["CPU_NOT_WHOLE"]),
    "requests only": (container(requests={"cpu": "20"}), ["CPU_NOT_EQUAL"]),
}


@pytest.mark.parametrize("resized, wanted", RESIZES.values(), ids=RESIZES)
def test_resize(resized, wanted):
    """A resize that leaves the rules is refused, on a scheduled pod as well."""
    old, new = read_pod(bound(raw_pod())), read_pod(bound(raw_pod(containers=[resized])))
    assert codes(validate(new, old, subresource="resize")) == wanted
    assert codes(validate(new, old, subresource="resize")) == codes(validate(new, old))


def test_resize_of_a_pod_that_was_bad():
    """What was wrong before is not the resize's fault, and another fraction is."""
    old = read_pod(bound(OLD_BAD))
    assert validate(old, old, subresource="resize").allowed
    worse = read_pod(bound(raw_pod(containers=[container(cpu="2500m")])))
    assert codes(validate(worse, old, subresource="resize")) == ["CPU_NOT_WHOLE"]


def test_ephemeral_containers_never_block():
    """Kubectl debug passes on a pod that would be refused today, whatever else the object seems to change."""
    old = read_pod(bound(OLD_BAD))
    new = read_pod(
        bound(raw_pod(spec={"ephemeralContainers": [{"name": "debugger"}]}, annotations={SPEC_KEY: "{"}, **BAD))
    )
    assert validate(new, old, subresource="ephemeralcontainers") == ALLOWED


BINDINGS = {
    "the spec": ({SPEC_KEY: SINGLE}, False),
    "a near miss": ({"numa-topology-spec": SINGLE}, False),
    "the older home with a policy": ({OLDER_KEY: SINGLE}, False),
    "the older home of another feature": ({OLDER_KEY: "{}"}, True),
    "cpuset-scheduler": ({"cpuset-scheduler": "true"}, False),
    "a result": ({"cpuset": "{}"}, True),
    "something else": ({"a": "b"}, True),
}


@pytest.mark.parametrize("annotations, allowed", BINDINGS.values(), ids=BINDINGS)
def test_binding(annotations, allowed):
    """A Binding cannot smuggle our annotations into a pod."""
    assert validate(binding(**annotations), subresource="binding").allowed is allowed


def test_results_have_writers():
    """Once exact writers are named, they pass without a word and everybody else is refused."""
    named = Rules(result_writers=frozenset({"system:kube-scheduler"}))
    new, old = pod(annotations={"cpuset": "{}"}), pod()
    assert validate(new, old, named, username="system:kube-scheduler") == ALLOWED
    assert not validate(new, old, named, username="system:kube-scheduler2").allowed
    assert [f.severity for f in validate(new, old, username="system:kube-scheduler").findings] == [Severity.WARNING]
    assert (
        validate(binding(cpuset="{}"), None, named, username="system:kube-scheduler", subresource="binding") == ALLOWED
    )
    assert not validate(binding(cpuset="{}"), None, named, subresource="binding").allowed
    assert not validate(new, None, named, username="system:kube-scheduler").allowed, "nobody presets a result"


WORKLOADS = {
    "created bad": (None, workload(pod(**BAD)), ["CPU_NOT_WHOLE"]),
    "an old bad one scaled to 0": (workload(pod(**BAD)), workload(pod(**BAD), replicas=0), []),
    "an old bad one with a new label in the template": (
        workload(pod(**BAD)),
        workload(pod(labels={"a": "b"}, **BAD)),
        ["CPU_NOT_WHOLE"],
    ),
    "mark taken out of the template": (workload(pod(**BAD)), workload(read_pod(UNMARKED)), []),
    "a good one": (None, workload(pod()), []),
}


@pytest.mark.parametrize("old, new, wanted", WORKLOADS.values(), ids=WORKLOADS)
def test_workload(old, new, wanted):
    """A template is judged where it changed."""
    assert codes(validate(new, old)) == wanted


def test_each_template_has_its_path():
    """Findings of several templates are told apart by the path."""
    templates = (PodTemplate("spec.a.template", pod(**BAD), 1), PodTemplate("spec.b[1].template", pod(**BAD), 2))
    found = validate(Workload("kubeflow.org", "PyTorchJob", "team", "x", templates)).findings
    assert [finding.path for finding in found] == [
        f"{template.path}.spec.containers[0].resources.requests.cpu" for template in templates
    ]


def test_unreadable_workload():
    """A field of the workload itself that cannot be read is refused where a template carries a mark, if it is new."""
    fault = (Malformed("spec.replicas", "a text", "a whole number"),)
    marked = Workload("apps", "Deployment", "team", "x", workload(pod()).templates, malformed=fault)
    strange = Workload("apps", "Deployment", "team", "x", workload(stranger()).templates, malformed=fault)
    assert codes(validate(marked)) == ["FIELD_UNREADABLE"]
    assert validate(strange) == ALLOWED
    assert validate(marked, marked) == ALLOWED


NODES = {
    "known policy": ({"node.koordinator.sh/numa-topology-policy": "Restricted"}, []),
    "known mode": ({MODE: "core_mem"}, []),
    "empty": ({MODE: ""}, []),
    "None": ({"node.koordinator.sh/numa-topology-policy": "None"}, ["NODE_LABEL_UNKNOWN"]),
    "two": ({"node.koordinator.sh/numa-topology-policy": "x", MODE: "y"}, ["NODE_LABEL_UNKNOWN"] * 2),
}


@pytest.mark.parametrize("labels, wanted", NODES.values(), ids=NODES)
def test_node(labels, wanted):
    """An unknown value is said and allowed; the same value on the next update is not said again."""
    decision = validate(node(**labels))
    assert decision.allowed
    assert codes(decision) == wanted
    assert validate(node(**labels), node(**labels)) == ALLOWED


MODES = {
    "deny": (RuleModes(), False, ["CPU_NOT_WHOLE"]),
    "warn": (RuleModes({Family.CPU: Mode.WARN}), True, ["CPU_NOT_WHOLE"]),
    "off": (RuleModes({Family.CPU: Mode.OFF}), True, []),
    "another family off": (RuleModes({Family.GPU: Mode.OFF}), False, ["CPU_NOT_WHOLE"]),
    "off for this namespace": (RuleModes(namespaces={"team": {Family.CPU: Mode.OFF}}), True, []),
    "off for another namespace": (RuleModes(namespaces={"other": {Family.CPU: Mode.OFF}}), False, ["CPU_NOT_WHOLE"]),
    "denied in this namespace alone": (
        RuleModes({Family.CPU: Mode.OFF}, {"team": {Family.CPU: Mode.DENY}}),
        False,
        ["CPU_NOT_WHOLE"],
    ),
    "nothing is enforced": (RuleModes(enforcement=Enforcement.WARN), True, ["CPU_NOT_WHOLE"]),
}


@pytest.mark.parametrize("modes, allowed, wanted", MODES.values(), ids=MODES)
def test_modes(modes, allowed, wanted):
    """A family refuses, warns or is silent, by namespace name, for pods and workloads alike."""
    for subject in (pod(**BAD), workload(pod(**BAD))):
        decision = validate(subject, rules=Rules(modes=modes))
        assert decision.allowed is allowed
        assert codes(decision) == wanted


def test_a_mode_never_hardens():
    """What is only a warning stays one under deny."""
    decision = validate(
        pod(spec={"schedulerName": "volcano"}), rules=Rules(modes=RuleModes({Family.EFFECT: Mode.DENY}))
    )
    assert decision.allowed
    assert codes(decision) == ["SCHEDULER_UNKNOWN"]


def test_all_findings_come_at_once():
    """A pod with many faults is told all of them in one answer."""
    worst = pod(
        annotations={
            SPEC_KEY: '{"numaTopologyPolicy":"Any"}',
            "cpuset-scheduler": "true",
            "cpu-policy": "x",
            "cpuset": "{}",
        },
        labels={"gpu-topology": "a"},
        containers=[container(cpu="1.5", gpu_name="nvidia.com/gpu"), container("b", cpu=None, gpu=None)],
        spec={"nodeSelector": {MODE: "default"}},
    )
    assert codes(validate(worst)) == [
        "POLICY_UNKNOWN",
        "CPUSET_OTHER_FEATURE",
        "CPU_NOT_WHOLE",
        "CPU_REQUEST_MISSING",
        "GPU_OTHER_RESOURCE",
        "CONFLICT_CPU_TOPOLOGY",
        "CONFLICT_GPU_TOPOLOGY",
        "NODE_NEVER_MATCHES",
        "RESULT_PRESET",
    ]


LENIENT = [Stage.TEMPLATE, Stage.FILE]


@pytest.mark.parametrize("stage", LENIENT, ids=[stage.value for stage in LENIENT])
def test_repairable_faults_warn_before_creation(stage):
    """In a template and in a file, what mutate or a LimitRange will mend is a warning."""
    found = judge_pod(
        pod(annotations={SPEC_KEY: GUIDE_SPEC, "cpuset-scheduler": ABSENT}, containers=[container(cpu=None)]),
        RULES,
        stage=stage,
    )
    assert {finding.code for finding in found} == {"SPEC_REPAIRABLE_JSON", "CPUSET_MISSING", "CPU_REQUEST_MISSING"}
    assert {finding.severity for finding in found} == {Severity.WARNING}


SPELLINGS = [
    lambda n: f"{n}",
    lambda n: f"{n}000m",
    lambda n: f"{n}.0",
    lambda n: f"{n}e0",
    lambda n: f"+{n}",
    lambda n: f"{n}000000u",
    lambda n: f"0.{n:03d}k",
    lambda n: n,
]
spellings = st.sampled_from(SPELLINGS)


@given(cores=st.integers(1, 200), limit=st.integers(1, 200), spell=st.tuples(spellings, spellings))
def test_equal_quantities_equal_verdicts(cores, limit, spell):
    """How a quantity is written changes nothing."""
    plainly = validate(pod(containers=[container(requests={"cpu": str(cores)}, limits={"cpu": str(limit)})]))
    otherwise = validate(
        pod(containers=[container(requests={"cpu": spell[0](cores)}, limits={"cpu": spell[1](limit)})])
    )
    assert otherwise == plainly
    assert plainly.allowed is (cores == limit)
