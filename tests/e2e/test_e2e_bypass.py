"""Ways around the rules that need a real API server: classes of `practice` 5C, each named by its test's first line."""

import json
from collections.abc import Iterator

import pytest
from controlplane.client import MERGE_PATCH
from controlplane.plane import ControlPlane
from support.builders import OLDER_KEY, SINGLE, SPEC_KEY, container, raw_pod
from support_other_team import sidecar_injected
from support_server import registered, running_server

RULES_ONLY = ("--without=capacity-pods", "--without=capacity-workloads", "--without=bind")
BAD = {SPEC_KEY: '{"numaTopologyPolicy":"Single"}'}
BEST_EFFORT = '{"numaTopologyPolicy":"BestEffort"}'


@pytest.fixture(scope="module")
def judged(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The stateless webhooks of one server, in force for the whole module."""
    with (
        running_server(tmp_path_factory.mktemp("webhook-server"), extra=("--role", "rules")) as server,
        registered(control_plane, server, RULES_ONLY),
    ):
        yield control_plane


@pytest.fixture
def node(judged: ControlPlane, namespace: str) -> Iterator[str]:
    """A node with eight GPUs and the label of the NUMA mode, for one test."""
    name = f"{namespace}-node"
    label = {"ack.node.gpu.schedule": "topology", "test-node": name}
    judged.add_gpu_node(name, cpu="64", memory="256Gi", gpus={"aliyun.com/gpu": 8}, labels=label)
    yield name
    judged.kubectl("delete", "node", name, check=True)


def manifest(namespace, name="p", **changes):
    """A pod that keeps every rule, with `changes` as `support.builders.raw_pod` takes them."""
    pod = raw_pod(**changes)
    pod["metadata"] |= {"name": name, "namespace": namespace}
    for each in pod["spec"]["containers"]:
        each.setdefault("image", "busybox")
    return pod


def pods(namespace):
    return f"/api/v1/namespaces/{namespace}/pods"


def create(plane, namespace, **changes):
    """Create the pod `p`; what it is as stored."""
    return plane.api("POST", pods(namespace), manifest(namespace, **changes)).wanted(201).json()


def patched(plane, namespace, patch, subresource=""):
    return plane.api("PATCH", f"{pods(namespace)}/p{subresource}", patch, content_type=MERGE_PATCH)


def is_refused(answer, code):
    """Whether the answer is our refusal, with this code in its message."""
    return answer.status == 403 and f"[{code}]" in answer.json()["message"]


def test_debug_containers_carry_nothing_else_in(judged, namespace, node):
    """5C-1 ephemeralcontainers: debugging works, and whatever else the object says is not stored."""
    stored = create(judged, namespace, spec={"nodeName": node})
    stored["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox"}]
    stored["metadata"]["annotations"][SPEC_KEY] = BEST_EFFORT
    stored["spec"]["containers"][0]["image"] = "other"
    judged.api("PUT", f"{pods(namespace)}/p/ephemeralcontainers", stored).wanted(200)
    now = judged.get(f"{pods(namespace)}/p")
    assert now["spec"]["ephemeralContainers"][0]["name"] == "debug"
    assert now["metadata"]["annotations"][SPEC_KEY] == SINGLE
    assert now["spec"]["containers"][0]["image"] == "busybox"


def test_a_resize_keeps_the_rules(judged, namespace, node):
    """5C-2 resize: a fraction of a core and an unequal limit are refused, whole cores pass."""
    stored = create(
        judged,
        namespace,
        spec={"nodeName": node, "containers": [{**container(memory="1Gi"), "image": "busybox"}]},
    )
    amounts = stored["spec"]["containers"][0]["resources"]
    running = {"name": "example", "ready": True, "restartCount": 0, "image": "busybox", "imageID": "x", "started": True}
    running |= {"state": {"running": {}}, "resources": amounts, "allocatedResources": amounts["requests"]}
    # The API server takes a resize only once a kubelet has told what the containers have.
    status = {"phase": "Running", "qosClass": "Guaranteed", "containerStatuses": [running]}
    patched(judged, namespace, {"status": status}, "/status").wanted(200)

    def resized(request, limit):
        changes = {"requests": {**amounts["requests"], "cpu": request}, "limits": {**amounts["limits"], "cpu": limit}}
        patch = {"spec": {"containers": [{"name": "example", "resources": changes}]}}
        return judged.api(
            "PATCH",
            f"{pods(namespace)}/p/resize",
            patch,
            content_type="application/strategic-merge-patch+json",
        )

    assert is_refused(resized("1500m", "1500m"), "CPU_NOT_WHOLE")
    assert resized("20", "24").status in {403, 422}  # the API server itself keeps the QoS class
    assert resized("20", "20").wanted(200).json()["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "20"


@pytest.mark.parametrize(
    "annotation",
    [{SPEC_KEY: BEST_EFFORT}, {SPEC_KEY.upper(): SINGLE}, {OLDER_KEY: SINGLE}, {"cpuset-scheduler": "true"}],
    ids=["the policy", "a near miss", "the older home", "the companion"],
)
@pytest.mark.parametrize("path", ["pods/p/binding", "bindings"])
def test_a_binding_carries_no_annotation_of_ours(judged, namespace, node, path, annotation):
    """5C-3 binding: by either endpoint, for the API server would copy them into the pod."""
    create(judged, namespace, spec={"schedulerName": "nobody"})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "annotations": annotation},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    assert is_refused(judged.api("POST", f"/api/v1/namespaces/{namespace}/{path}", binding), "BINDING_CARRIES_MARK")
    assert "nodeName" not in judged.get(f"{pods(namespace)}/p")["spec"]


def test_annotations_of_a_running_pod_stay(judged, namespace, node):
    """5C-5 UPDATE: by patch, replace and server-side apply."""
    stored = create(judged, namespace, spec={"nodeName": node})
    assert is_refused(
        patched(judged, namespace, {"metadata": {"annotations": {SPEC_KEY: BEST_EFFORT}}}), "UPDATE_SCHEDULED"
    )
    assert is_refused(patched(judged, namespace, {"metadata": {"annotations": {SPEC_KEY: None}}}), "UPDATE_SCHEDULED")
    stored["metadata"]["annotations"] = {}
    assert is_refused(judged.api("PUT", f"{pods(namespace)}/p", stored), "UPDATE_SCHEDULED")
    applied = manifest(namespace, annotations={SPEC_KEY: BEST_EFFORT}, spec={"nodeName": node})
    done = judged.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(applied))
    assert done.returncode == 1
    assert "[UPDATE_SCHEDULED]" in done.stderr
    assert judged.get(f"{pods(namespace)}/p")["metadata"]["annotations"][SPEC_KEY] == SINGLE


def test_a_policy_cannot_be_put_on_a_running_pod(judged, namespace, node):
    """5C-5 UPDATE: nor under a name that only looks like ours."""
    plain = manifest(namespace, spec={"nodeName": node})
    del plain["metadata"]["annotations"]
    judged.api("POST", pods(namespace), plain).wanted(201)
    assert is_refused(patched(judged, namespace, {"metadata": {"annotations": {SPEC_KEY: SINGLE}}}), "UPDATE_SCHEDULED")
    misspelt = {"metadata": {"annotations": {f"{SPEC_KEY}s": SINGLE}}}
    assert is_refused(patched(judged, namespace, misspelt), "SPEC_HOME_MISSPELT")


def test_another_webhook_s_sidecar_is_found(judged, namespace, tmp_path):
    """5C-7 a sidecar that comes after our mutating webhook: validate sees the final object."""
    half = {"name": "mesh", "image": "mesh", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}}
    with sidecar_injected(judged, tmp_path, namespace, half):
        answer = judged.api("POST", pods(namespace), manifest(namespace))
        assert is_refused(answer, "CPU_NOT_WHOLE")
        assert "spec.containers[1]" in answer.json()["message"]
        plain = manifest(namespace, "plain")
        del plain["metadata"]["annotations"]
        judged.api("POST", pods(namespace), plain).wanted(201)
    judged.api("POST", pods(namespace), manifest(namespace)).wanted(201)


def test_a_preset_node_gets_no_affinity(judged, namespace, node):
    """5C-8 nodeName: the kubelet would check an affinity again and refuse the pod for good; the user is warned."""
    pod = manifest(namespace, spec={"nodeSelector": {}, "nodeName": node})
    done = judged.apply(json.dumps(pod))
    assert "[NODE_NAME_PRESET]" in done.stderr
    assert "affinity" not in judged.get(f"{pods(namespace)}/p")["spec"]


@pytest.mark.parametrize(
    "label",
    [
        "numa-admission/ignore=true",
        "admission.kubernetes.io/ignore=true",
        "numa-admission.io/exclude=true",
        "kubernetes.io/metadata.name=kube-system",
    ],
)
def test_a_namespace_cannot_leave_by_a_label(judged, namespace, label):
    """5C-11 opt-out by namespace label: the only label that counts is the API server's own."""
    judged.kubectl("label", "namespace", namespace, label, "--overwrite")  # the last one is refused or put right
    assert is_refused(judged.api("POST", pods(namespace), manifest(namespace, annotations=BAD)), "POLICY_UNKNOWN")


def test_nobody_is_exempt_by_who_they_say_they_are(judged, namespace):
    """5C-14 userInfo: masters, controllers and whoever is impersonated are judged alike."""
    for user, groups in (
        ("system:serviceaccount:kube-system:replicaset-controller", ("system:serviceaccounts:kube-system",)),
        ("system:admin", ("system:masters",)),
        ("system:kube-scheduler", ("system:masters",)),
    ):
        flags = [f"--as={user}", *(f"--as-group={group}" for group in (*groups, "system:masters"))]
        body = json.dumps(manifest(namespace, annotations=BAD))
        done = judged.kubectl("create", "-f", "-", *flags, input=body)
        assert done.returncode == 1
        assert "[POLICY_UNKNOWN]" in done.stderr


def test_a_pod_that_is_being_deleted_is_still_judged(judged, namespace, node):
    """5C-15 deletionTimestamp and a finalizer: no change of policy, and the finalizer can always go."""
    create(judged, namespace, spec={"nodeName": node}, metadata={"finalizers": ["test.example/hold"]})
    judged.api("DELETE", f"{pods(namespace)}/p?gracePeriodSeconds=0").wanted()
    assert judged.get(f"{pods(namespace)}/p")["metadata"]["deletionTimestamp"]
    changed = {"metadata": {"annotations": {SPEC_KEY: BEST_EFFORT}}}
    assert is_refused(patched(judged, namespace, changed), "UPDATE_SCHEDULED")
    patched(judged, namespace, {"metadata": {"finalizers": None}}).wanted(200)
    assert judged.api("GET", f"{pods(namespace)}/p").status == 404


@pytest.fixture(scope="module")
def ray(judged: ControlPlane) -> Iterator[str]:
    """A RayCluster definition with two versions, which keeps whatever is written."""
    open_schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "rayclusters", "singular": "raycluster", "kind": "RayCluster", "listKind": "RayClusterList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayclusters.ray.io"},
        "spec": {
            "group": "ray.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {"name": name, "served": True, "storage": name == "v1", "schema": open_schema}
                for name in ("v1", "v1alpha1")
            ],
        },
    }
    judged.apply([definition])
    judged.wait_for_definitions(["rayclusters.ray.io"])
    yield "rayclusters"
    judged.kubectl("delete", "crd", "rayclusters.ray.io", check=True)


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_every_version_of_a_custom_kind_is_judged(judged, namespace, ray, version):
    """5C-17 other CRD versions: the same verdict, at the template's own path."""
    pod = raw_pod(annotations=BAD)
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    cluster = {
        "apiVersion": f"ray.io/{version}",
        "kind": "RayCluster",
        "metadata": {"name": "r"},
        "spec": {"workerGroupSpecs": [{"groupName": "g", "replicas": 0, "template": template}]},
    }
    path = f"/apis/ray.io/{version}/namespaces/{namespace}/{ray}"
    answer = judged.api("POST", path, cluster)
    assert is_refused(answer, "POLICY_UNKNOWN")
    assert "spec.workerGroupSpecs[0].template.metadata.annotations" in answer.json()["message"]
    template["metadata"]["annotations"][SPEC_KEY] = SINGLE
    judged.api("POST", path, cluster).wanted(201)


def test_each_object_of_a_list_is_judged(judged, namespace):
    """5C-18 a List: the good ones are stored, the bad one is refused."""
    items = [manifest(namespace, "good"), manifest(namespace, "bad", annotations=BAD)]
    done = judged.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert done.returncode == 1
    assert "[POLICY_UNKNOWN]" in done.stderr
    assert [pod["metadata"]["name"] for pod in judged.get(pods(namespace))["items"]] == ["good"]


def test_generated_names_and_namespaces_of_the_path(judged, namespace):
    """5C-19 generateName and no namespace in the object."""
    pod = manifest(namespace, annotations=BAD)
    del pod["metadata"]["name"], pod["metadata"]["namespace"]
    pod["metadata"]["generateName"] = "g-"
    assert is_refused(judged.api("POST", pods(namespace), pod), "POLICY_UNKNOWN")


def test_an_exemption_in_a_tenant_s_namespace_is_ignored(judged, namespace):
    """5C-36 exemption objects: settings under our own name, put where a tenant may write."""
    settings = {"settings.yaml": f"rules: {{namespaces: {{{namespace}: {{spec: 'off'}}}}}}"}
    for name in ("numa-admission", "numa-admission-settings"):
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": settings}
        judged.api("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map).wanted(201)
    assert is_refused(judged.api("POST", pods(namespace), manifest(namespace, annotations=BAD)), "POLICY_UNKNOWN")


def test_daemon_set_pods_get_no_affinity_and_are_judged(judged, namespace, node):
    """5C-37 DaemonSet: its pods keep the one affinity that ties them to their node; a bad template is refused."""
    pod = raw_pod(spec={"nodeSelector": {"test-node": node}})
    pod["spec"]["containers"][0]["image"] = "busybox"
    template = {
        "metadata": {"labels": {"app": "d"}, "annotations": pod["metadata"]["annotations"]},
        "spec": {**pod["spec"], "tolerations": [{"operator": "Exists"}]},
    }
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }
    judged.apply([daemon_set])
    judged.kubectl("wait", "--for=create", "pod", "-l", "app=d", "-n", namespace, "--timeout=60s", check=True)
    (stored,) = judged.get(f"{pods(namespace)}?labelSelector=app=d")["items"]
    (term,) = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert set(term) == {"matchFields"}

    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    done = judged.kubectl("apply", "-f", "-", input=json.dumps(daemon_set))
    assert done.returncode == 1
    assert "[CPU_NOT_WHOLE]" in done.stderr
