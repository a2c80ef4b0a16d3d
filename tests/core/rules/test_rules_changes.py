"""What an UPDATE must change to be judged: in Python, in CEL, and by what the rules then say."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import (
    ABSENT,
    BIND_POLICY,
    KOORD_KEY,
    KOORD_OLDER_KEY,
    OLDER_KEY,
    SINGLE,
    SPEC_KEY,
    container,
    raw_koordinator_pod,
    raw_pod,
)
from support.cel import evaluate

from webhook.core.changes import concerns_rules
from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import Ask, Operation
from webhook.core.dialect import Stage
from webhook.core.dialects import DIALECTS
from webhook.core.judge import pod_findings
from webhook.core.marks import Vocabulary
from webhook.core.match_conditions import match_conditions
from webhook.core.modes import Rules
from webhook.wire.pods import read_pod

ALL = Vocabulary.of(DIALECTS)
RULES = Rules()

PASSED_BY = {
    "a finalizer": {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}},
    "an owner": {"metadata": {"ownerReferences": [{"kind": "Job", "name": "x", "controller": True}]}},
    "an annotation of somebody else": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
    "Koordinator's choice of a bind policy": {"annotations": {KOORD_OLDER_KEY: BIND_POLICY}},
    "a label of somebody else": {"labels": {"training.kubeflow.org/job-role": "master"}},
    "an image": {"containers": [{**container(), "image": "other"}]},
    "a toleration": {"spec": {"tolerations": [{"operator": "Exists"}]}},
    "a debug container": {"spec": {"ephemeralContainers": [{"name": "debug"}]}},
}
ASKED_OF = {
    "the policy": {"annotations": {SPEC_KEY: "{}"}},
    "the spec goes": {"annotations": {SPEC_KEY: ABSENT}},
    "a near miss": {"annotations": {f"{SPEC_KEY}s": SINGLE}},
    "the older home": {"annotations": {OLDER_KEY: SINGLE}},
    "a near miss of the older home": {"annotations": {f"{OLDER_KEY}s": SINGLE}},
    "the companion": {"annotations": {"cpuset-scheduler": "true"}},
    "a near miss of the companion": {"annotations": {"Cpuset_Scheduler": "required"}},
    "another feature": {"annotations": {"cpu-policy": "static-burst"}},
    "another feature's label": {"labels": {"gpu-topology": "true"}},
    "Koordinator's QoS": {"labels": {"koordinator.sh/qosClass": "LS"}},
    "Koordinator's priority": {"labels": {"koordinator.sh/priority-class": "koord-batch"}},
    "the node selector": {"spec": {"nodeSelector": {}}},
    "the affinity": {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}},
    "amounts": {"containers": [container(cpu="23")]},
    "amounts of an init container": {"spec": {"initContainers": [container("first", cpu="23")]}},
    "amounts of the pod": {"spec": {"resources": {"requests": {"cpu": "48"}}}},
}
INIT = {"spec": {"initContainers": [container("first")]}}


def asked(webhook, new, old):
    """Whether the API server would call the webhook for this UPDATE."""
    (condition,) = match_conditions()[webhook]
    return evaluate(condition.expression, object=new, oldObject=old)


@pytest.mark.parametrize("webhook", ["mutate-pods", "validate-pods"])
@pytest.mark.parametrize("changes", PASSED_BY.values(), ids=PASSED_BY)
def test_what_no_rule_reads_is_not_asked_of(webhook, changes):
    """A controller's bookkeeping on a marked pod goes on while nobody answers."""
    old, new = raw_pod(), raw_pod(**changes)
    assert not asked(webhook, new, old)
    assert not asked(webhook, old, new)
    assert asked(webhook, new, None)


@pytest.mark.parametrize("webhook", ["mutate-pods", "validate-pods"])
@pytest.mark.parametrize("changes", ASKED_OF.values(), ids=ASKED_OF)
def test_what_a_rule_reads_is_asked_of(webhook, changes):
    """Each key and field that a rule reads, when it comes, goes and changes."""
    old = raw_pod(**INIT) if "first" in str(changes) else raw_pod()
    new = raw_pod(**changes)
    assert asked(webhook, new, old)
    assert asked(webhook, old, new)


WORKLOADS = {
    "another template": ({"spec": {"template": raw_pod()}}, True),
    "other replicas": ({"spec": {"template": raw_koordinator_pod(), "replicas": 2}}, True),
    "a template of its own": ({"spec": {"template": raw_koordinator_pod()}, "template": raw_pod()}, True),
    "metadata": ({"metadata": {"annotations": {"a": "b"}}, "spec": {"template": raw_koordinator_pod()}}, False),
    "status": ({"spec": {"template": raw_koordinator_pod()}, "status": {"replicas": 1}}, False),
}


@pytest.mark.parametrize("webhook", ["validate-workloads", "capacity-workloads"])
@pytest.mark.parametrize(("new", "called"), WORKLOADS.values(), ids=WORKLOADS)
def test_of_a_workload_only_what_surrounds_its_template_is_asked_of(webhook, new, called):
    """A controller that writes its notes on a Deployment never waits for us."""
    old = {"spec": {"template": raw_koordinator_pod()}}
    assert asked(webhook, new, old) == called


RESULTS = {
    "a result": ({"annotations": {"cpuset": "{}"}}, True),
    "Koordinator's result": ({"annotations": {"scheduling.koordinator.sh/resource-status": "{}"}}, True),
    "Koordinator's result and bind policy": (
        {"annotations": {"scheduling.koordinator.sh/resource-status": "{}", KOORD_OLDER_KEY: BIND_POLICY}},
        True,
    ),
    "a result and the spec": ({"annotations": {"cpuset": "{}", SPEC_KEY: "{}"}}, False),
    "something of others": ({"annotations": {"team/note": "a"}}, False),
}


@pytest.mark.parametrize(("changes", "alone"), RESULTS.values(), ids=RESULTS)
def test_results_alone_have_a_webhook_of_their_own(changes, alone):
    """Nobody waits for us to write one; what else changes beside it is asked of as ever, and once."""
    old, new = raw_pod(), raw_pod(**changes)
    assert asked("validate-results", new, old) == asked("validate-results", old, new) == alone
    assert asked("validate-pods", new, old) == (SPEC_KEY in changes["annotations"])
    assert not asked("validate-results", new, None)


def test_equal_pods_are_not_asked_of():
    """Nothing has changed."""
    for webhook in ("mutate-pods", "validate-pods", "validate-results"):
        assert not asked(webhook, raw_pod(**INIT), raw_pod(**INIT))


annotations = st.dictionaries(
    st.sampled_from(
        [
            *(SPEC_KEY, f"{SPEC_KEY}s", OLDER_KEY, KOORD_KEY, "cpuset-scheduler", "Cpuset_Schedulers", "cpu-policy"),
            *(KOORD_OLDER_KEY, f"{OLDER_KEY}s"),
            *("cpuset", "scheduling.koordinator.sh/resource-status", "kubernetes.io/limit-ranger", "team/note"),
        ]
    ),
    st.sampled_from([SINGLE, '{"numaTopologyPolicy":"BestEffort"}', BIND_POLICY, "{}", "required", "true", ABSENT]),
    max_size=3,
)
labels = st.dictionaries(
    st.sampled_from(["koordinator.sh/qosClass", "koordinator.sh/priority-class", "gpu-topology-x", "app"]),
    st.sampled_from(["LSR", "LS", "koord-batch", "x"]),
    max_size=2,
)
amounts = st.sampled_from([{}, {"cpu": "23"}, {"cpu": "1500m"}, {"requests": {"cpu": ABSENT}}])
images = st.sampled_from(["a", "b"])
containers = st.builds(lambda amount, image: [{**container(**amount), "image": image}], amounts, images)
specs = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.sampled_from([{}, {"zone": "a"}]),
        "nodeName": st.just("gpu-1"),
        "affinity": st.sampled_from([{}, {"nodeAffinity": {}}]),
        "initContainers": containers,
        "resources": st.sampled_from([{}, {"requests": {"cpu": "48"}}]),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)
made = st.sampled_from([raw_pod, raw_koordinator_pod])


@st.composite
def updates(draw):
    """A pod before and after: the node and the containers' names stay, as the API server sees to it."""
    make = draw(made)
    old = make(annotations=draw(annotations), labels=draw(labels), containers=draw(containers), spec=draw(specs))
    new = make(annotations=draw(annotations), labels=draw(labels), containers=draw(containers), spec=draw(specs))
    new = draw(st.sampled_from([new, copy.deepcopy(old)]))
    new["spec"].pop("nodeName", None)
    for field in ("nodeName", "initContainers"):
        if field not in old["spec"]:
            new["spec"].pop(field, None)
        elif field not in new["spec"]:
            new["spec"][field] = old["spec"][field]
    for field in draw(st.sets(st.sampled_from(["annotations", "labels"]))):
        new["metadata"][field] = {**old["metadata"][field], "team/note": "b"}
    return old, new


@given(update=updates())
def test_cel_and_python_see_the_same_changes(update):
    """What Python takes for a change the API server asks of, where there is a mark; CEL may ask once too often."""
    old, new = update
    carries = any(ALL.carries_mark(raw["metadata"]["annotations"]) for raw in update)
    if concerns_rules(read_pod(old), read_pod(new), ALL):
        assert asked("validate-pods", new, old) == carries
    if not asked("validate-pods", new, old):
        assert not carries or not concerns_rules(read_pod(old), read_pod(new), ALL)


@given(update=updates())
def test_nothing_is_to_be_said_of_what_no_rule_reads(update):
    """Where the API server does not ask, judging both pods anew finds nothing new, and nothing is edited or refused."""
    old, new = update
    if any(asked(webhook, new, old) for webhook in ("validate-pods", "validate-results")):
        return
    before, after = read_pod(old), read_pod(new)
    had = {(each.code, each.path, each.found) for each in pod_findings(before, RULES, Stage.UPDATE)}
    assert {(each.code, each.path, each.found) for each in pod_findings(after, RULES, Stage.UPDATE)} <= had
    ask = Ask(Operation.UPDATE, namespace="team", name="example", subject=after, old=before)
    assert decide_validate(ask, RULES).findings == ()
    assert decide_mutate(ask, RULES).edits == ()
