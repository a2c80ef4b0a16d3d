"""A pod's JSON becomes a ``Pod``; what cannot be read is noted with its path and never raised."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from support.json_values import POD_NAMES, fuzzed_pods, values_with

from webhook.core.pod import ContainerKind, Malformed, Operator
from webhook.core.quantity import parse_quantity
from webhook.wire.pods import read_pod

FULL = yaml.safe_load("""
metadata:
  namespace: own
  name: p
  generateName: p-
  uid: u-1
  deletionTimestamp: "2026-11-29T14:17:18Z"
  labels: {app: x}
  annotations:
    cpuset-scheduler: required
    scheduling.alibabacloud.com/numa-topology-spec: '{"numaTopologyPolicy":"Restricted"}'
    kubernetes.io/config.mirror: abc
  ownerReferences:
  - {kind: Node, name: n}
  - {kind: ReplicaSet, name: rs, controller: true}
spec:
  nodeName: n1
  nodeSelector: {zone: a}
  schedulerName: koord-scheduler
  priority: 9000
  priorityClassName: high
  schedulingGates: [{name: gate}]
  resourceClaims: [{name: c}]
  overhead: {cpu: 250m}
  resources: {limits: {cpu: "4"}}
  tolerations: [{key: k, operator: Equal, value: v, effect: NoSchedule}, {operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: a, operator: In, values: [x, y]}, {key: b, operator: Near}]
        - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
        - {}
        - null
  initContainers:
  - {name: i, resources: {requests: {cpu: 1}}}
  - {name: s, restartPolicy: Always}
  containers:
  - name: c
    resources: {requests: {cpu: 24.5, memory: null}, limits: {cpu: "24", aliyun.com/gpu: "4"}, claims: [{name: c}]}
  ephemeralContainers: [{name: dbg}]
status: {phase: Running}
""")


def test_every_field_is_read():
    pod = read_pod(FULL)
    assert (pod.namespace, pod.name, pod.generate_name, pod.uid, pod.labels) == ("own", "p", "p-", "u-1", {"app": "x"})
    assert pod.annotations["cpuset-scheduler"] == "required"
    assert [spec.policy for spec in pod.numa_specs] == ["Restricted"]
    assert [(c.name, c.kind, c.path, c.claims) for c in pod.containers] == [
        ("i", ContainerKind.INIT, "spec.initContainers[0]", False),
        ("s", ContainerKind.SIDECAR, "spec.initContainers[1]", False),
        ("c", ContainerKind.APP, "spec.containers[0]", True),
        ("dbg", ContainerKind.EPHEMERAL, "spec.ephemeralContainers[0]", False),
    ]
    assert pod.containers[0].requests == {"cpu": parse_quantity("1")}
    assert pod.containers[2].requests == {"cpu": parse_quantity("24500m")}
    assert pod.containers[2].limits == {"cpu": parse_quantity("24"), "aliyun.com/gpu": parse_quantity("4")}
    assert (pod.pod_requests, pod.pod_limits) == (None, {"cpu": parse_quantity("4")})
    assert pod.overhead == {"cpu": parse_quantity("250m")}
    assert (pod.node_name, pod.node_selector, pod.scheduler_name) == ("n1", {"zone": "a"}, "koord-scheduler")
    assert (pod.priority, pod.priority_class_name, pod.scheduling_gates) == (9000, "high", ("gate",))
    assert [(t.key, t.operator, t.value, t.effect) for t in pod.tolerations] == [
        ("k", "Equal", "v", "NoSchedule"),
        ("", "Exists", "", ""),
    ]
    assert (pod.owner_kind, pod.owner_name) == ("ReplicaSet", "rs")
    assert (pod.has_resource_claims, pod.is_mirror, pod.is_deleting, pod.phase) == (True, True, True, "Running")
    assert pod.malformed == ()


def test_terms_keep_their_places():
    terms = read_pod(FULL).required_terms
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    assert [term.path for term in terms] == [f"{path}[{i}]" for i in range(4)]
    assert [term.is_empty for term in terms] == [False, False, True, True]
    assert [(r.key, r.operator, r.values, r.path) for r in terms[0].expressions] == [
        ("a", Operator.IN, ("x", "y"), f"{path}[0].matchExpressions[0]"),
        ("b", "Near", (), f"{path}[0].matchExpressions[1]"),
    ]
    assert [r.key for r in terms[1].fields] == ["metadata.name"]


def test_the_namespace_of_the_request_stands_above_the_objects():
    assert read_pod(FULL, namespace="asked").namespace == "asked"


@pytest.mark.parametrize("raw", [{}, None, {"spec": None, "metadata": None}, {"spec": {"containers": None}}])
def test_null_and_missing_are_an_empty_pod(raw):
    pod = read_pod(raw)
    assert (pod.containers, pod.required_terms, pod.malformed) == ((), None, ())


@pytest.mark.parametrize(
    ("raw", "malformed"),
    [
        pytest.param([], Malformed("", "a list", "a map"), id="the pod"),
        pytest.param({"spec": "x"}, Malformed("spec", 'the text "x"', "a map"), id="spec"),
        pytest.param(
            {"spec": {"containers": {"a": 1}}}, Malformed("spec.containers", "a map", "a list"), id="containers"
        ),
        pytest.param(
            {"metadata": {"annotations": {"cpuset-scheduler": True}}},
            Malformed('metadata.annotations["cpuset-scheduler"]', "true", "a text"),
            id="an unquoted true as an annotation",
        ),
        pytest.param(
            {"metadata": {"labels": {"a\nb": 3}}},
            Malformed('metadata.labels["a\\nb"]', "the number 3", "a text"),
            id="a key with a line break",
        ),
        pytest.param(
            {"metadata": {"annotations": {1: "x"}}},
            Malformed('metadata.annotations["1"]', "the number 1", "a key that is a text"),
            id="a key of YAML that is no text",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": {"aliyun.com/gpu": "four"}}}]}},
            Malformed(
                'spec.containers[0].resources.limits["aliyun.com/gpu"]',
                'the text "four"',
                "a quantity such as 24, 1500m or 64Gi",
            ),
            id="a quantity that is none",
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": True}}},
            Malformed("spec.overhead.cpu", "true", "a quantity such as 24, 1500m or 64Gi"),
            id="a boolean as a quantity",
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": 10**5000}}},
            Malformed("spec.overhead.cpu", "a number of 16610 bits", "a quantity such as 24, 1500m or 64Gi"),
            id="a number of 5,000 digits",
        ),
        pytest.param(
            {"spec": {"resources": {"requests": []}}},
            Malformed("spec.resources.requests", "a list", "a map"),
            id="pod level",
        ),
        pytest.param(
            {"spec": {"priority": "high"}}, Malformed("spec.priority", 'the text "high"', "a whole number"), id="prio"
        ),
        pytest.param(
            {"spec": {"affinity": {"nodeAffinity": []}}},
            Malformed("spec.affinity.nodeAffinity", "a list", "a map"),
            id="aff.",
        ),
    ],
)
def test_what_cannot_be_read_is_noted(raw, malformed):
    assert read_pod(raw).malformed == (malformed,)


@given(fuzzed_pods | values_with(POD_NAMES))
def test_any_json_is_read(raw):
    pod = read_pod(raw)
    for fault in pod.malformed:
        assert f"{fault.path}{fault.found}{fault.wanted}".isprintable()


def test_the_guides_own_pod():
    text = (Path(__file__).parents[1] / "recorded/pod-create-apply.mutating.json").read_text()
    pod = read_pod(json.loads(text)["request"]["object"])
    [spec] = pod.numa_specs
    assert spec.is_repairable
    assert (spec.policy, spec.exclusive) == ("SingleNUMANode", "Preferred")


def _toleration(state, seconds=300):
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


@pytest.mark.parametrize(
    "tolerations",
    [
        pytest.param([_toleration("not-ready"), _toleration("unreachable")], id="as the API server adds them"),
        pytest.param([_toleration("unreachable"), _toleration("not-ready")], id="in the other order"),
        pytest.param([_toleration("not-ready", 0), _toleration("unreachable", 0)], id="with other seconds"),
        pytest.param([_toleration("not-ready")], id="one of them"),
        pytest.param([_toleration("not-ready"), _toleration("unreachable"), _toleration("x")], id="with another"),
    ],
)
def test_usual_tolerations_are_read_as_any_other(tolerations):
    """The two that nearly every pod has are known at a glance, and come out the same."""
    read = read_pod({"spec": {"tolerations": tolerations}}).tolerations
    assert [(each.key, each.operator, each.value, each.effect) for each in read] == [
        (each["key"], each["operator"], "", each["effect"]) for each in tolerations
    ]
