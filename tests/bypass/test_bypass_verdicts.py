"""Ways around the rules that somebody has tried on some webhook: classes 5C-1 to 5C-23, and 5C-37.

What needs more than a request (a second webhook, namespaces, a controller) is tried on a real API server in
`tests/e2e/test_e2e_bypass.py`; `test_bypass_complete.py` says that no class is left out.
"""

import pytest
from bypass_world import CONTROLLER, errors, mutated, review, running, validated
from support.builders import ABSENT, KOORD_KEY, OLDER_KEY, SINGLE, SPEC_KEY, container, raw_koordinator_pod, raw_pod

from webhook.core.decisions import RequireNodeLabel, SetAnnotation
from webhook.core.findings import Family
from webhook.core.modes import Mode, RuleModes, Rules
from webhook.wire.webhook_configurations import Target, webhook_configurations

HALF = {"cpu": "1500m"}
BEST_EFFORT = '{"numaTopologyPolicy":"BestEffort"}'
BAD = {SPEC_KEY: '{"numaTopologyPolicy":"Single"}'}
"""Annotations that every pod is refused for."""
RESULT = "scheduling.koordinator.sh/resource-status"


def half(name="half", **raw):
    """A container with a fraction of a core and no GPU."""
    return container(name, cpu=None, gpu=None, requests=HALF, limits=HALF, raw=raw)


def on(annotations):
    """A running pod's update to other annotations."""
    return review(running(annotations=annotations), running())


def template_of(pod):
    return {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}


def ray(version):
    """A RayCluster with a worker group whose pods are refused."""
    group = {"groupName": "g", "replicas": 0, "template": template_of(raw_pod(annotations=BAD))}
    cluster = {"apiVersion": f"ray.io/{version}", "kind": "RayCluster", "spec": {"workerGroupSpecs": [None, group]}}
    return review(cluster, resource="rayclusters", group="ray.io", kind="RayCluster", version=version)


REFUSED = [
    pytest.param(
        review(running(containers=[container(requests=HALF, limits=HALF)]), running(), subresource="resize"),
        {"CPU_NOT_WHOLE"},
        id="5C-2 a resize to a fraction of a core",
    ),
    pytest.param(
        review(running(containers=[container(limits={"cpu": "25"})]), running(), subresource="resize"),
        {"CPU_NOT_EQUAL"},
        id="5C-2 a resize to a limit above the request",
    ),
    *(
        pytest.param(
            review(
                {"metadata": {"name": "example", "annotations": {key: value}}, "target": {"name": "gpu-1"}},
                resource=resource,
                subresource=subresource,
                kind="Binding",
            ),
            {"BINDING_CARRIES_MARK"},
            id=f"5C-3 {what} by {resource}/{subresource}".rstrip("/"),
        )
        for resource, subresource in (("pods", "binding"), ("bindings", ""))
        for what, key, value in (
            ("another policy", SPEC_KEY, BEST_EFFORT),
            ("a near miss of the key", SPEC_KEY.upper(), SINGLE),
            ("the companion", "cpuset-scheduler", "true"),
            ("the older home", OLDER_KEY, SINGLE),
        )
    ),
    pytest.param(on({SPEC_KEY: BEST_EFFORT}), {"UPDATE_SCHEDULED"}, id="5C-5 the policy of a running pod is changed"),
    pytest.param(on({SPEC_KEY: ABSENT}), {"UPDATE_SCHEDULED"}, id="5C-5 the policy of a running pod is removed"),
    pytest.param(
        on({"cpuset-scheduler": ABSENT}), {"UPDATE_SCHEDULED"}, id="5C-5 the companion of a running pod is removed"
    ),
    pytest.param(
        review(running(), running(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT})),
        {"UPDATE_SCHEDULED"},
        id="5C-5 a policy is added to a running pod",
    ),
    pytest.param(
        review(raw_pod(annotations=BAD), raw_pod()), {"POLICY_UNKNOWN"}, id="5C-5 a waiting pod is judged anew"
    ),
    pytest.param(
        review(raw_pod(spec={"initContainers": [half()]})), {"CPU_NOT_WHOLE"}, id="5C-6 a fractional init container"
    ),
    pytest.param(
        review(raw_pod(spec={"initContainers": [half(restartPolicy="Always")]})),
        {"CPU_NOT_WHOLE"},
        id="5C-6 a fractional sidecar",
    ),
    pytest.param(
        review(raw_pod(containers=[container(), half("istio-proxy")])),
        {"CPU_NOT_WHOLE"},
        id="5C-7 a container that another webhook added is in the object that validate sees",
    ),
    pytest.param(
        review(raw_pod(containers=[container(limits={"cpu": "25"})], spec={"nodeName": "gpu-1"})),
        {"CPU_NOT_EQUAL"},
        id="5C-8 a pod that names its node itself",
    ),
    pytest.param(
        review(raw_pod(annotations=BAD, spec={"schedulerName": "mine"})),
        {"POLICY_UNKNOWN"},
        id="5C-9 a scheduler of one's own",
    ),
    pytest.param(
        review(raw_koordinator_pod(containers=[half()], spec={"schedulerName": "mine"})),
        {"CPU_SUM_NOT_WHOLE"},
        id="5C-9 a scheduler of one's own in Koordinator's dialect",
    ),
    pytest.param(
        review(raw_pod(annotations=BAD, spec={"schedulingGates": [{"name": "later"}]})),
        {"POLICY_UNKNOWN"},
        id="5C-10 a gate",
    ),
    *(
        pytest.param(
            review(raw_pod(annotations={**BAD, **annotations}, labels=labels)),
            {"POLICY_UNKNOWN"},
            id=f"5C-12 {what} on the object",
        )
        for what, annotations, labels in (
            ("an opt-out label", {}, {"numa-admission/ignore": "true", "admission.kubernetes.io/ignore": "true"}),
            ("an opt-out annotation", {"numa-admission/ignore": "true"}, {}),
        )
    ),
    *(
        pytest.param(
            review(
                raw_pod(
                    annotations=BAD,
                    metadata={
                        "ownerReferences": [
                            {"apiVersion": "v1", "kind": owner, "name": "x", "uid": "1", "controller": True}
                        ]
                    },
                )
            ),
            {"POLICY_UNKNOWN"},
            id=f"5C-13 a forged owner of kind {owner}",
        )
        for owner in ("ReplicaSet", "DaemonSet", "Node", "Job")
    ),
    *(
        pytest.param(
            review(raw_pod(annotations=BAD), userInfo={"username": user, "groups": groups}),
            {"POLICY_UNKNOWN"},
            id=f"5C-14 {user} of {', '.join(groups)}",
        )
        for user, groups in (
            ("admin", ["system:masters"]),
            (CONTROLLER, ["system:serviceaccounts:kube-system"]),
            ("system:node:gpu-1", ["system:nodes"]),
            ("system:admin", []),
        )
    ),
    pytest.param(
        review(
            running(
                annotations={SPEC_KEY: BEST_EFFORT},
                metadata=(gone := {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}),
            ),
            running(metadata=gone),
        ),
        {"UPDATE_SCHEDULED"},
        id="5C-15 a pod that is being deleted",
    ),
    pytest.param(
        review(raw_pod(annotations=BAD), raw_pod()),
        {"POLICY_UNKNOWN"},
        id="5C-16 a good old object excuses nothing in the new one",
    ),
    pytest.param(
        review(
            raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"Other"}'}),
            raw_pod(annotations=BAD),
        ),
        {"POLICY_UNKNOWN"},
        id="5C-16 a bad old object excuses only what is unchanged",
    ),
    *(
        pytest.param(ray(version), {"POLICY_UNKNOWN"}, id=f"5C-17 RayCluster {version}")
        for version in ("v1", "v1alpha1")
    ),
    pytest.param(
        review(
            raw_pod(
                annotations=BAD,
                metadata={
                    "ownerReferences": [
                        {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "w", "uid": "1"}
                    ]
                },
            )
        ),
        {"POLICY_UNKNOWN"},
        id="5C-18 the pods of a kind that the table does not know",
    ),
    pytest.param(
        review(raw_pod(annotations=BAD, metadata={"name": None, "generateName": "x-", "namespace": None}), name=""),
        {"POLICY_UNKNOWN"},
        id="5C-19 neither name nor namespace in the object",
    ),
    *(
        pytest.param(review(raw_pod(annotations={SPEC_KEY: text})), {code}, id=f"5C-20 {what}")
        for what, text, code in (
            ("a key in another case", '{"NUMATOPOLOGYPOLICY":"SingleNUMANode"}', "SPEC_KEY_MISSPELT"),
            (
                "a key twice",
                '{"numaTopologyPolicy":"SingleNUMANode","numaTopologyPolicy":"BestEffort"}',
                "SPEC_KEY_TWICE",
            ),
            (
                "a key twice by case",
                '{"numaTopologyPolicy":"SingleNUMANode","numatopologypolicy":"BestEffort"}',
                "SPEC_KEY_TWICE",
            ),
            (
                "a key with the long s",
                '{"numaTopologyPolicy":"Restricted","\u017fingleNUMANodeExclusive":"Required"}',
                "SPEC_KEY_MISSPELT",
            ),
            ("a key with escapes", '{"numaTopologyPolic\\u0059":"SingleNUMANode"}', "SPEC_KEY_MISSPELT"),
            ("null", '{"numaTopologyPolicy":null}', "SPEC_VALUE_NULL"),
            ("a number that JSON has not", '{"numaTopologyPolicy":NaN}', "SPEC_NOT_JSON"),
            ("a list on top", '["SingleNUMANode"]', "SPEC_NOT_OBJECT"),
            ("depth", '{"numaTopologyPolicy":"SingleNUMANode","x":' + "[" * 9 + "]" * 9 + "}", "SPEC_TOO_DEEP"),
            ("length", '{"numaTopologyPolicy":"SingleNUMANode","x":"' + "x" * 5000 + '"}', "SPEC_TOO_LONG"),
        )
    ),
    *(
        pytest.param(
            review(raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT, key: SINGLE})),
            {"SPEC_HOME_MISSPELT"},
            id=f"5C-21 {key!r}",
        )
        for key in (
            SPEC_KEY.upper(),
            f"{SPEC_KEY} ",
            f"{SPEC_KEY}s",
            "scheduling.alibaba.com/numa-topology-spec",
            "numa-topology-spec",
            "scheduling.alibabacloud.com/numaTopologySpec",
        )
    ),
    *(
        pytest.param(
            review(raw_pod(containers=[container(requests={"cpu": text}, limits={"cpu": text})])),
            {"CPU_NOT_WHOLE"},
            id=f"5C-22 half a core as {text}",
        )
        for text in ("0.5", ".5", "500m", "500e-3", "5E-1", "500000u", "500000000n", "+0.5", "0.5e0")
    ),
    *(
        pytest.param(review(raw_pod(annotations={key: "{}"})), {"RESULT_PRESET"}, id=f"5C-23 {key}")
        for key in (RESULT, "scheduling.koordinator.sh/device-allocated", "cpuset", "topology.kubernetes.io/gpu-group")
    ),
    pytest.param(
        review(
            running(
                annotations=BAD,
                metadata={
                    "annotations": {
                        **raw_pod(annotations=BAD)["metadata"]["annotations"],
                        "kubernetes.io/config.source": "file",
                    }
                },
            )
        ),
        {"POLICY_UNKNOWN"},
        id="5C-37 another annotation of static pods makes no mirror",
    ),
]


@pytest.mark.parametrize(("body", "codes"), REFUSED)
def test_is_refused(body, codes):
    """The way around is found, by the rule that it would get around."""
    decision = validated(body)
    assert codes <= errors(decision)
    assert not decision.allowed


PASSES = [
    pytest.param(
        review(
            running(spec={"ephemeralContainers": [{"name": "debug"}]}), running(), subresource="ephemeralcontainers"
        ),
        id="5C-1 a debug container",
    ),
    pytest.param(
        review(
            running(annotations=BAD, spec={"ephemeralContainers": [{"name": "debug"}]}),
            running(annotations=BAD),
            subresource="ephemeralcontainers",
        ),
        id="5C-1 a debug container on a pod that was bad before",
    ),
    pytest.param(
        review(running(containers=[container(cpu="25")]), running(), subresource="resize"),
        id="5C-2 a resize to whole cores",
    ),
    pytest.param(
        review(
            {"metadata": {"name": "example"}, "target": {"name": "gpu-1"}},
            resource="pods",
            subresource="binding",
            kind="Binding",
        ),
        id="5C-3 a binding without annotations",
    ),
    pytest.param(
        review(running(metadata={"finalizers": []}), running(metadata={"finalizers": ["a/b"]})),
        id="5C-15 a finalizer goes",
    ),
    *(
        pytest.param(
            review(raw_pod(containers=[container(requests={"cpu": text}, limits={"cpu": "4"})])),
            id=f"5C-22 four cores as {text}",
        )
        for text in ("4", "4000m", "4e0", "4E0", "0.004k", "4.0", "+4", "4000000u", 4, " 4 ")
    ),
    pytest.param(
        review(raw_pod(annotations={**BAD, "kubernetes.io/config.mirror": "x"}, spec={"nodeName": "gpu-1"})),
        id="5C-37 a mirror pod, which the kubelet runs anyway",
    ),
]


@pytest.mark.parametrize("body", PASSES)
def test_passes_without_a_refusal(body):
    """What only looks like a way around is let in, and not changed."""
    assert errors(validated(body)) == set()
    assert mutated(body).edits == ()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(review(raw_pod(spec={"nodeName": "gpu-1"})), "NODE_NAME_PRESET", id="5C-8 a preset node"),
        pytest.param(review(raw_pod(spec={"schedulerName": "mine"})), "SCHEDULER_UNKNOWN", id="5C-9 ACK"),
        pytest.param(
            review(raw_koordinator_pod(spec={"schedulerName": "default-scheduler"})),
            "SCHEDULER_UNKNOWN",
            id="5C-9 Koordinator",
        ),
        pytest.param(
            review(raw_pod(spec={"resources": {"requests": {"cpu": "24"}}})),
            "CPU_POD_LEVEL",
            id="5C-6 pod-level resources",
        ),
        pytest.param(
            review(raw_pod(spec={"overhead": {"cpu": "250m"}})), "CPU_OVERHEAD_NOT_WHOLE", id="5C-6 an overhead"
        ),
        pytest.param(
            review(raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"SingleNUMANode","x":1}'})),
            "SPEC_KEY_UNKNOWN",
            id="5C-20 a foreign key",
        ),
        pytest.param(
            review(raw_pod(annotations={RESULT: "{}"}), raw_pod()),
            "RESULT_CHANGED",
            id="5C-23 a result while nobody has said who writes them",
        ),
    ],
)
def test_is_warned_of(body, code):
    """What is not proven to be wrong is said and let in."""
    decision = validated(body)
    assert decision.allowed
    assert code in {finding.code for finding in decision.findings}


WRITER = "system:serviceaccount:kube-system:scheduler"


@pytest.mark.parametrize(
    ("user", "refused"),
    [
        (WRITER, False),
        (f"{WRITER}2", True),
        (WRITER.upper(), True),
        (f" {WRITER}", True),
        ("system:serviceaccount:kube-system", True),
    ],
    ids=lambda value: f"5C-14 {value!r}" if isinstance(value, str) else "",
)
def test_writers_of_results_are_matched_exactly(user, refused):
    """Neither a prefix nor another case is the scheduler."""
    body = review(running(annotations={RESULT: "{}"}), running(), userInfo={"username": user})
    decision = validated(body, Rules(result_writers=frozenset({WRITER})))
    assert errors(decision) == ({"RESULT_CHANGED"} if refused else set())


@pytest.mark.parametrize(
    "namespace_of_object",
    [
        pytest.param("lenient", id="5C-19 the object says another namespace than the request"),
        pytest.param(None, id="5C-19 the object says no namespace"),
    ],
)
def test_the_request_s_namespace_counts(namespace_of_object):
    """Whose rules count is told by the API server, never by the object."""
    off = {"lenient": dict.fromkeys(Family, Mode.OFF)}
    rules = Rules(modes=RuleModes(namespaces=off))
    bad = raw_pod(annotations=BAD, metadata={"namespace": namespace_of_object})
    assert not validated(review(bad), rules).allowed
    assert validated(review(bad, namespace="lenient"), rules).allowed


@pytest.mark.parametrize(
    ("body", "edits"),
    [
        pytest.param(review(raw_pod(spec={"nodeSelector": {}, "nodeName": "gpu-1"})), (), id="5C-8 a preset node"),
        pytest.param(
            review(raw_pod(spec={"nodeSelector": {}, "schedulingGates": [{"name": "later"}]})),
            (RequireNodeLabel("ack.node.gpu.schedule", ("topology",)),),
            id="5C-10 a gated pod's affinity may be tightened",
        ),
        pytest.param(
            review(
                raw_pod(
                    annotations={SPEC_KEY: '{"numaTopologyPolicy":"SingleNUMANode",}'},
                    spec={"nodeSelector": {}, "nodeName": "gpu-1"},
                    metadata={
                        "ownerReferences": [
                            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
                        ]
                    },
                )
            ),
            (SetAnnotation(SPEC_KEY, SINGLE),),
            id="5C-37 a DaemonSet's pod is repaired and gets no affinity",
        ),
        pytest.param(
            review(
                raw_pod(annotations={KOORD_KEY: ABSENT, "kubernetes.io/config.mirror": "x"}, spec={"nodeSelector": {}})
            ),
            (),
            id="5C-37 a mirror pod is not touched",
        ),
    ],
)
def test_mutate_does_no_more_than_it_may(body, edits):
    """The edits are these and no other."""
    assert mutated(body).edits == edits


@pytest.mark.parametrize("subresource", ["status", "eviction", "scale", "log"], ids=lambda name: f"5C-4 {name}")
def test_what_must_not_wait_is_not_matched(subresource):
    """Neither by its name nor by a wildcard."""
    resources = {
        resource
        for configuration in _configurations()
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
        for resource in rule["resources"]
    }
    assert "pods" in resources
    assert not {each for each in resources if "*" in each or each.endswith(f"/{subresource}")}


@pytest.mark.parametrize(
    "configuration", range(2), ids=["5C-11 mutating: namespaces by name", "5C-11 validating: namespaces by name"]
)
def test_only_a_label_that_the_api_server_sets_keeps_a_namespace_out(configuration):
    """A label that a tenant can write would be a way out; so would any object selector."""
    for webhook in _configurations()[configuration]["webhooks"]:
        keys = {each["key"] for each in webhook["namespaceSelector"].get("matchExpressions", [])}
        assert keys == {"kubernetes.io/metadata.name"}
        assert "matchLabels" not in webhook["namespaceSelector"]
        assert "objectSelector" not in webhook


def _configurations():
    return webhook_configurations(
        "numa-admission", Target(url="https://x"), ca_bundle="eA==", excluded_namespaces=("kube-system",)
    )
