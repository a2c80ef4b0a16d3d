"""Who is judged: the mark, in Python and in CEL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import KOORD_KEY, KOORD_OLDER_KEY, OLDER_KEY, SINGLE, SPEC_KEY, raw_pod
from support.cel import evaluate

from webhook.core.dialects import ACK, DIALECTS, KOORDINATOR, KUBELET, NUMA_SPEC_KEYS
from webhook.core.judged import TABLE, Look
from webhook.core.marks import Vocabulary, marked
from webhook.core.match_conditions import mark_expression, match_conditions
from webhook.wire.numa_spec import EXCLUSIVES, NUMA_SPEC_HOMES, POLICIES

ALL = Vocabulary.of(DIALECTS)

MARKS = {
    "none": ({}, []),
    "the spec": ({SPEC_KEY: "anything"}, ["ack"]),
    "cpuset-scheduler: required": ({"cpuset-scheduler": "required"}, ["ack"]),
    "cpuset-scheduler: true is another feature": ({"cpuset-scheduler": "true"}, []),
    "cpuset-scheduler: Required alone": ({"cpuset-scheduler": "Required"}, []),
    "a near miss of cpuset-scheduler alone": ({"cpuset-schedulers": "required"}, []),
    "Koordinator's spec is no near miss of ACK's": ({KOORD_KEY: ""}, ["koordinator"]),
    "both": ({KOORD_KEY: "", SPEC_KEY: ""}, ["ack", "koordinator"]),
    "upper case": ({SPEC_KEY.upper(): ""}, ["ack"]),
    "no prefix": ({"numa-topology-spec": ""}, ["ack"]),
    "another prefix": ({"example.com/numa-topology-spec": ""}, ["ack"]),
    "Koordinator's prefix misspelt": ({"scheduling.koordinator.io/numa-topology-spec": ""}, ["koordinator"]),
    "plural": ({f"{SPEC_KEY}s": ""}, ["ack"]),
    "space behind": ({f"{SPEC_KEY} ": ""}, ["ack"]),
    "other separators": ({"scheduling.alibabacloud.com/numa_topology.spec": ""}, ["ack"]),
    "no separators": ({"numaTopologySpec": ""}, ["ack"]),
    "resource-spec with a policy": ({OLDER_KEY: SINGLE}, ["ack"]),
    "resource-spec with a broken policy": ({OLDER_KEY: "{numa-topologyPolicy"}, ["ack"]),
    "resource-spec of another feature": ({OLDER_KEY: '{"preferredCPUExclusivePolicy":"NUMANodeLevel"}'}, []),
    "Koordinator's resource-spec with a policy": ({KOORD_OLDER_KEY: SINGLE}, ["koordinator"]),
    "a near miss of resource-spec with a policy": ({"resource-specs": SINGLE}, ["ack"]),
    "any resource-spec": ({"example.com/resource-spec": "{}"}, []),
    "a result alone": ({"scheduling.koordinator.sh/resource-status": "{}"}, []),
    "kubectl's copy of the manifest": ({"kubectl.kubernetes.io/last-applied-configuration": f'{{"{SPEC_KEY}":1}}'}, []),
    "something else of NUMA": ({"example.com/numa-topology-policy": "x"}, []),
}


@pytest.mark.parametrize("annotations, names", MARKS.values(), ids=MARKS)
def test_mark(annotations, names):
    """The annotations mark the pod for these dialects."""
    assert [mark.dialect.name for mark in marked(annotations, ALL)] == names
    assert ALL.carries_mark(annotations) == bool(names)


def test_only_the_dialects_that_are_switched_on():
    """The key of a dialect that is off is neither a mark nor a near miss of another's."""
    only_ack = Vocabulary.of((ACK, KUBELET))
    assert not only_ack.carries_mark({KOORD_KEY: SINGLE})
    assert not only_ack.carries_mark({KOORD_OLDER_KEY: SINGLE})
    assert not Vocabulary.of((KUBELET,)).carries_mark({"numa-topology-spec": SINGLE})


def test_homes_are_those_that_the_wire_reads():
    """Every home of a dialect is parsed, and nothing else is."""
    assert {home.key for home in NUMA_SPEC_HOMES} == set(NUMA_SPEC_KEYS)
    assert {home.key for home in NUMA_SPEC_HOMES if home.shared} == {d.older_home for d in DIALECTS if d.older_home}


def test_values_are_those_that_the_wire_knows():
    """Policies of node labels are those of the spec."""
    assert set(dict(KOORDINATOR.policy_labels)["node.koordinator.sh/numa-topology-policy"]) == set(POLICIES)
    assert EXCLUSIVES[0] == "Required"


pieces = st.sampled_from(
    ["numa", "topology", "spec", "specs", "resource", "-", "_", "/", ".", " ", "SPEC", "Numa", "x", "cpuset-scheduler"]
)
keys = st.sampled_from([*NUMA_SPEC_KEYS, "cpuset-scheduler", "numa-topology-spec", "resource-spec", "a/b"]) | st.lists(
    pieces, max_size=8
).map("".join)
texts = st.sampled_from(["required", "true", "", SINGLE, "{}", "SINGLE numa", "numa_Topo", "NUMANodeLevel"])
vocabularies = st.sampled_from([ALL, Vocabulary.of((ACK,)), Vocabulary.of((KOORDINATOR,)), Vocabulary.of((KUBELET,))])


@given(annotations=st.dictionaries(keys, texts, max_size=3), vocabulary=vocabularies)
def test_cel_sees_the_same_marks(annotations, vocabulary):
    """The match condition is true exactly where Python sees a mark, and so is the list of dialects."""
    expression = mark_expression("object", vocabulary)
    carries = vocabulary.carries_mark(annotations)
    assert evaluate(expression, object=annotations) == carries
    assert bool(marked(annotations, vocabulary)) == carries


@given(
    annotations=st.dictionaries(keys, texts, max_size=2) | st.none(),
    before=st.dictionaries(keys, texts, max_size=2) | st.none(),
)
def test_validate_pods_looks_at_both_objects(annotations, before):
    """The condition of pods holds where the object or the old object carries a mark, maps there or not."""
    (condition,) = match_conditions()["validate-pods"]
    new = {"metadata": {} if annotations is None else {"annotations": annotations}, "spec": {"nodeSelector": {}}}
    old = None if before is None else {"metadata": {"annotations": before}, "spec": {}}
    wanted = ALL.carries_mark(annotations or {}) or ALL.carries_mark(before or {})
    assert evaluate(condition.expression, object=new, oldObject=old) == wanted


SPARSE = [{"metadata": {}}, {"metadata": {}, "spec": {}}, {"metadata": {}, "spec": {"containers": [{"name": "a"}]}}]


@pytest.mark.parametrize("webhook", [row.webhook for row in TABLE if row.looks != (Look.EVERYTHING,)])
@pytest.mark.parametrize("sparse", [None, *SPARSE, {"spec": {"template": {}}}, {"spec": {"jobTemplate": {"spec": {}}}}])
def test_conditions_bear_objects_without_the_maps(webhook, sparse):
    """No condition fails on an object that lacks a level, and none of these is called for."""
    for condition in match_conditions()[webhook]:
        assert not evaluate(condition.expression, object=sparse, oldObject=None)


TEMPLATES = {
    "Deployment": {"spec": {"template": raw_pod()}},
    "CronJob": {"spec": {"jobTemplate": {"spec": {"template": raw_pod()}}}},
    "PodTemplate": {"template": raw_pod()},
}


@pytest.mark.parametrize("raw", TEMPLATES.values(), ids=TEMPLATES)
def test_templates_are_found(raw):
    """A mark in the template of each kind of Kubernetes' own is seen."""
    (condition,) = match_conditions()["validate-workloads"]
    assert evaluate(condition.expression, object={"metadata": {}, **raw}, oldObject=None)


CAPACITY = {
    "a GPU": ({"nvidia.com/gpu": "1"}, True),
    "whole cores with memory": ({"cpu": "4", "memory": "1Gi"}, True),
    "whole cores alone": ({"cpu": "4"}, False),
    "a fraction": ({"cpu": "500m", "memory": "1Gi"}, False),
    "memory": ({"memory": "1Gi"}, False),
}


@pytest.mark.parametrize("limits, called", CAPACITY.values(), ids=CAPACITY)
def test_capacity_is_asked_of_devices_and_whole_cores(limits, called):
    """Without a mark, only what a kubelet may align is sent."""
    (condition,) = match_conditions()["capacity-pods"]
    container = {"name": "a", "resources": {"limits": limits}}
    for field in ("containers", "initContainers"):
        raw = {"metadata": {}, "spec": {field: [container]}}
        assert evaluate(condition.expression, object=raw) == called


LABELS = {
    "no labels": ({}, False),
    "another": ({"a": "b"}, False),
    "mode": ({"ack.node.gpu.schedule": "x"}, True),
    "policy": ({"node.koordinator.sh/numa-topology-policy": "None"}, True),
}


@pytest.mark.parametrize("labels, called", LABELS.values(), ids=LABELS)
def test_nodes_with_a_policy_label_are_sent(labels, called):
    """Only nodes with a label of the policy family are sent."""
    (condition,) = match_conditions()["validate-nodes"]
    assert evaluate(condition.expression, object={"metadata": {"labels": labels}}) == called


def test_conditions_are_within_the_limits_of_the_api_server():
    """At most 64 conditions with qualified names; endpoints that see everything have none."""
    for webhook, conditions in match_conditions().items():
        assert len(conditions) <= 64
        assert len({condition.name for condition in conditions}) == len(conditions)
        assert (not conditions) == (webhook == "bind")
