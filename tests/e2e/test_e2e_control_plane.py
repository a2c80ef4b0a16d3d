"""The control plane of the tests is a real one: what other end-to-end tests rest on."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from controlplane.binaries import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Binaries
from controlplane.plane import ControlPlane
from controlplane.processes import StartError
from controlplane.settling import REGISTRATION, wait_for_webhooks
from controlplane.starting import start

GPU = "aliyun.com/gpu"


def gpu_pod(name: str, node_label: str, gpus: int) -> dict[str, Any]:
    resources = {"limits": {"cpu": "4", "memory": "8Gi", GPU: str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"test/node": node_label},
            "containers": [{"name": "main", "image": "registry.test/trainer:1", "resources": resources}],
        },
    }


def add_labelled_node(plane: ControlPlane) -> str:
    """Add a GPU node that only pods of this test select; its name is the value of its label `test/node`."""
    name = f"gpu-{uuid.uuid4().hex[:8]}"
    plane.add_gpu_node(name, cpu=128, memory="1Ti", gpus={GPU: 8}, labels={"test/node": name})
    return name


def test_client_and_server_are_of_the_version_that_was_built(control_plane):
    versions = json.loads(control_plane.kubectl("version", "-o", "json", check=True).stdout)
    told = {versions["clientVersion"]["gitVersion"], versions["serverVersion"]["gitVersion"]}
    assert told == {control_plane.version}


def test_all_programs_run_after_the_start(control_plane):
    assert control_plane.fleet.names() == (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER)


def test_the_scheduler_binds_a_pod_to_the_node_that_has_its_gpus(control_plane, namespace):
    node = add_labelled_node(control_plane)
    control_plane.apply([gpu_pod("trainer", node, gpus=8)], "-n", namespace, user="alice")
    control_plane.kubectl(
        "wait", "-n", namespace, "pod/trainer", f"--for=jsonpath={{.spec.nodeName}}={node}", "--timeout=60s", check=True
    )


def test_a_pod_that_asks_for_more_gpus_than_the_node_has_stays_unscheduled(control_plane, namespace):
    node = add_labelled_node(control_plane)
    control_plane.apply([gpu_pod("greedy", node, gpus=9)], "-n", namespace)
    condition = "--for=condition=PodScheduled=False"
    control_plane.kubectl("wait", "-n", namespace, "pod/greedy", condition, "--timeout=60s", check=True)
    conditions = control_plane.get(f"/api/v1/namespaces/{namespace}/pods/greedy")["status"]["conditions"]
    assert [f"Insufficient {GPU}" in each["message"] for each in conditions if each["type"] == "PodScheduled"] == [True]


def test_a_deployment_makes_its_pods(control_plane, namespace):
    pod = gpu_pod("workers", add_labelled_node(control_plane), gpus=1)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "workers"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "workers"}},
            "template": {"metadata": {"labels": {"app": "workers"}}, "spec": pod["spec"]},
        },
    }
    control_plane.apply([deployment], "-n", namespace, user="alice")
    wait = ("wait", "-n", namespace, "deployment/workers", "--for=jsonpath={.status.replicas}=3", "--timeout=60s")
    control_plane.kubectl(*wait, check=True)
    pods = control_plane.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dworkers")["items"]
    assert [pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods] == ["ReplicaSet"] * 3


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_objects_outlive_the_api_server(control_plane, namespace, end):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    control_plane.api("POST", path, {"metadata": {"name": "kept"}, "data": {"key": "value"}}).wanted()
    before = control_plane.get(f"{path}/kept")
    if end == "kill":
        control_plane.kill_apiserver()
        assert control_plane.kubectl("get", "--raw", "/readyz").returncode != 0
    control_plane.restart_apiserver()
    assert control_plane.get(f"{path}/kept") == before


@pytest.mark.parametrize(
    ("user", "verb", "resource", "allowed"),
    [
        pytest.param("admin", "delete", "nodes", True, id="admin may delete nodes"),
        pytest.param("alice", "create", "pods", True, id="alice may create pods"),
        pytest.param("alice", "create", "pods/eviction", True, id="alice may evict"),
        pytest.param("alice", "patch", "deployments.apps/scale", True, id="alice may scale"),
        pytest.param("alice", "delete", "nodes", False, id="alice may not delete nodes"),
        pytest.param("alice", "create", "pods/binding", False, id="alice may not bind"),
        pytest.param("mallory", "list", "pods", False, id="a stranger may not list pods"),
    ],
)
def test_users_have_the_rights_they_are_known_for(control_plane, user, verb, resource, allowed):
    resource, _, subresource = resource.partition("/")
    args = [f"--subresource={subresource}"] if subresource else []
    answer = control_plane.kubectl("auth", "can-i", verb, resource, *args, user=user)
    assert answer.stdout.strip() == ("yes" if allowed else "no"), answer.stderr


def test_a_webhook_is_called_once_it_has_settled_and_no_more_once_its_end_has(control_plane, namespace):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    configuration = {
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "nobody.controlplane.test",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    secret = {"metadata": {"generateName": "bait-"}}

    def create_secret() -> int:
        return control_plane.api("POST", f"/api/v1/namespaces/{namespace}/secrets", secret).status

    collection = f"{REGISTRATION}/validatingwebhookconfigurations"
    control_plane.api("POST", collection, configuration).wanted()
    wait_for_webhooks(control_plane)
    while_registered = create_secret()
    control_plane.api("DELETE", f"{collection}/{namespace}").wanted()
    wait_for_webhooks(control_plane)
    assert (while_registered, create_secret()) == (500, 201)


def test_a_plane_without_controllers_still_takes_pods_and_leaves_nothing_running(
    control_plane_binaries: Binaries, tmp_path: Path
):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "registry.test/any:1"}]}
    with start(control_plane_binaries, tmp_path, components=()) as plane:
        plane.api("POST", "/api/v1/namespaces/default/pods", pod).wanted(201)
        started = [plane.fleet.get(name) for name in plane.fleet.names()]
    assert [running.name for running in started] == [ETCD, APISERVER]
    assert not any(running.alive for running in started)


def test_a_failed_start_tells_the_end_of_the_log(control_plane_binaries: Binaries, tmp_path: Path):
    flags = {APISERVER: ("--no-such-flag",)}
    with (
        pytest.raises(StartError, match=r"(?s)^kube-apiserver ended with 1 .*unknown flag: --no-such-flag"),
        start(control_plane_binaries, tmp_path, components=(), extra_flags=flags),
    ):
        pass
