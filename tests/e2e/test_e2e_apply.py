"""What a user reads and what is stored: kubectl against a real API server that calls our server."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from controlplane.plane import ControlPlane
from support.builders import KOORD_KEY, SINGLE, SPEC_KEY, raw_pod
from support_server import WebhookServer, registered, running_server

GUIDE = Path(__file__).parents[2] / "examples"
COMPACT = '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}'
LABEL_TERM = {"key": "ack.node.gpu.schedule", "operator": "In", "values": ["topology"]}


@pytest.fixture(scope="module")
def judged(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The stateless webhooks of one server, in force for the whole module."""
    with (
        running_server(tmp_path_factory.mktemp("webhook-server"), extra=("--role", "rules")) as server,
        _in_force(control_plane, server),
    ):
        yield control_plane


@contextmanager
def _in_force(plane: ControlPlane, server: WebhookServer) -> Iterator[ControlPlane]:
    without = [f"--without={name}" for name in ("capacity-pods", "capacity-workloads", "bind")]
    with registered(plane, server, tuple(without)):
        yield plane


def guide(name: str, namespace: str, *, image: str | None = None) -> str:
    """Return a manifest of the guide, in ``namespace``, with an image where it lacks one."""
    document = yaml.safe_load((GUIDE / f"{name}.yaml").read_text())
    document["metadata"]["namespace"] = namespace
    if document["kind"] == "Pod":
        document["metadata"].setdefault("name", "guide")
        document["spec"]["containers"][0]["image"] = image or "busybox"
    return yaml.safe_dump(document)


def pod_manifest(namespace: str, name: str, **changes) -> dict:
    """Return a pod that keeps every rule, with ``changes`` as ``support.builders.raw_pod`` takes them."""
    pod = raw_pod(**changes)
    pod["metadata"] |= {"name": name, "namespace": namespace}
    for container in pod["spec"]["containers"]:
        container.setdefault("image", "busybox")
    return pod


def stored(plane: ControlPlane, namespace: str, name: str) -> dict:
    return plane.get(f"/api/v1/namespaces/{namespace}/pods/{name}")


def required_terms(pod: dict) -> list[dict]:
    node = pod["spec"]["affinity"]["nodeAffinity"]
    return node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


class TestTheGuide:
    """The vendor guide's own manifests."""

    def test_its_pod_is_repaired_and_stored_and_applies_twice(self, judged, namespace):
        """The trailing comma goes, the affinity comes, each with a warning; a second apply changes nothing."""
        manifest = guide("guide-pod", namespace)
        first = judged.kubectl("apply", "-f", "-", input=manifest)
        assert first.returncode == 0, first.stderr
        assert "trailing comma" in first.stderr
        pod = stored(judged, namespace, "guide")
        assert pod["metadata"]["annotations"][SPEC_KEY] == COMPACT
        assert required_terms(pod) == [{"matchExpressions": [LABEL_TERM]}]

        second = judged.kubectl("apply", "-f", "-", input=manifest)
        assert second.returncode == 0, second.stderr
        again = stored(judged, namespace, "guide")
        assert again["metadata"]["annotations"][SPEC_KEY] == COMPACT
        assert again["spec"] == pod["spec"]

    def test_its_deployment_makes_repaired_pods(self, judged, namespace):
        """The template warns; the pods carry the policy in its right home and are not refused."""
        done = judged.kubectl("apply", "-f", "-", input=guide("guide-deployment-aligned", namespace))
        assert done.returncode == 0, done.stderr
        assert "resource-spec" in done.stderr
        judged.kubectl(
            "wait", "--for=create", "pod", "-l", "app=tgi-numa", "-n", namespace, "--timeout=30s", check=True
        )
        pods = judged.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app=tgi-numa")["items"]
        annotations = pods[0]["metadata"]["annotations"]
        assert json.loads(annotations[SPEC_KEY]) == {"numaTopologyPolicy": "SingleNUMANode"}
        assert annotations["cpuset-scheduler"] == "required"
        assert required_terms(pods[0]) == [{"matchExpressions": [LABEL_TERM]}]

    def test_its_plain_deployment_is_none_of_our_business(self, judged, namespace):
        """No warning, no annotation, no affinity."""
        done = judged.kubectl("apply", "-f", "-", input=guide("guide-deployment-basic", namespace))
        assert (done.returncode, done.stderr) == (0, "")
        judged.kubectl("wait", "--for=create", "pod", "-l", "app=tgi", "-n", namespace, "--timeout=30s", check=True)
        pod = judged.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app=tgi")["items"][0]
        assert "affinity" not in pod["spec"]

    @pytest.mark.parametrize(
        "flags",
        [("--dry-run=server",), ("--server-side",), ("--server-side", "--dry-run=server")],
        ids=["server dry run", "server-side apply", "both"],
    )
    def test_its_pod_by_other_ways_of_applying(self, judged, namespace, flags):
        """Dry run and server-side apply get the same repair and the same warnings, the same twice."""
        manifest = guide("guide-pod", namespace)
        for _ in range(2):
            done = judged.kubectl("apply", *flags, "-o", "json", "-f", "-", input=manifest)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["metadata"]["annotations"][SPEC_KEY] == COMPACT


class TestRefusals:
    """What a user reads when a pod or template is refused."""

    CASES = (
        ("unknown policy", {"annotations": {SPEC_KEY: '{"numaTopologyPolicy":"SingleNumaNode"}'}}, "POLICY_UNKNOWN"),
        ("misspelt key", {"annotations": {SPEC_KEY: '{"numatopologypolicy":"Restricted"}'}}, "SPEC_KEY_MISSPELT"),
        ("another feature's value", {"annotations": {"cpuset-scheduler": "true"}}, "CPUSET_OTHER_FEATURE"),
        ("a preset result", {"annotations": {"cpuset": "{}"}}, "RESULT_PRESET"),
        ("the GPU topology label", {"labels": {"gpu-topology": "job"}}, "CONFLICT_GPU_TOPOLOGY"),
        (
            "a selector that never matches",
            {"spec": {"nodeSelector": {"ack.node.gpu.schedule": "share"}}},
            "NODE_NEVER_MATCHES",
        ),
    )

    @pytest.mark.parametrize(("changes", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
    def test_are_printed_by_kubectl_with_their_code(self, judged, namespace, changes, code):
        """Each is refused at apply, exit code 1, with the sentence and its code."""
        done = judged.kubectl("apply", "-f", "-", input=json.dumps(pod_manifest(namespace, "broken", **changes)))
        assert done.returncode == 1
        assert 'admission webhook "validate-pods.numa-admission.io" denied the request' in done.stderr
        assert f"[{code}]" in done.stderr

    def test_say_every_finding_at_once(self, judged, namespace):
        """Three faults, three lines."""
        broken = pod_manifest(namespace, "broken", annotations={SPEC_KEY: '{"numaTopologyPolicy":"Singel"}'})
        amounts = broken["spec"]["containers"][0]["resources"]
        amounts["requests"] = {"cpu": "1500m", "nvidia.com/gpu": "1"}
        amounts["limits"] = {"cpu": "2", "nvidia.com/gpu": "1"}
        done = judged.kubectl("apply", "-f", "-", input=json.dumps(broken))
        assert done.returncode == 1
        codes = set(re.findall(r"\[([A-Z_]+)\]", done.stderr))
        assert {"POLICY_UNKNOWN", "CPU_NOT_WHOLE", "CPU_NOT_EQUAL", "GPU_OTHER_RESOURCE"} <= codes

    def test_reach_the_author_of_a_deployment(self, judged, namespace):
        """The template is refused at apply, not its pods minutes later."""
        pod = pod_manifest(namespace, "x", annotations={SPEC_KEY: "{}"})
        template = {"metadata": {**pod["metadata"], "labels": {"app": "x"}}, "spec": pod["spec"]}
        del template["metadata"]["name"], template["metadata"]["namespace"]
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "x", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
        }
        done = judged.kubectl("apply", "-f", "-", input=json.dumps(deployment))
        assert done.returncode == 1
        assert "spec.template.metadata.annotations" in done.stderr
        assert "[POLICY_MISSING]" in done.stderr


class TestLifeOfAPod:
    """What happens to a pod of ours after it is stored."""

    def test_labels_images_and_debug_are_never_held_up(self, judged, namespace):
        """Everything that a user does to a running pod of ours and that is none of our business works."""
        judged.apply(json.dumps(pod_manifest(namespace, "p")))
        judged.kubectl("label", "pod", "p", "team=a", "-n", namespace, check=True)
        judged.kubectl("annotate", "pod", "p", "note=b", "-n", namespace, check=True)
        judged.kubectl("set", "image", "pod/p", "example=busybox:2", "-n", namespace, check=True)
        judged.kubectl("debug", "p", "--image=busybox", "-c", "dbg", "--attach=false", "-n", namespace, check=True)
        assert stored(judged, namespace, "p")["spec"]["ephemeralContainers"][0]["name"] == "dbg"

    def test_the_policy_of_a_scheduled_pod_cannot_be_changed(self, judged, namespace):
        """Changed, removed or smuggled in by a Binding, it is refused."""
        judged.add_gpu_node(
            f"{namespace}-node",
            cpu="64",
            memory="256Gi",
            gpus={"aliyun.com/gpu": 8},
            labels={"ack.node.gpu.schedule": "topology"},
        )
        judged.apply(json.dumps(pod_manifest(namespace, "p", spec={"nodeName": f"{namespace}-node"})))
        for change in (f'{SPEC_KEY}={{"numaTopologyPolicy":"BestEffort"}}', f"{SPEC_KEY}-", "cpuset-scheduler-"):
            done = judged.kubectl("annotate", "--overwrite", "pod", "p", change, "-n", namespace)
            assert done.returncode == 1, change
            assert "[UPDATE_SCHEDULED]" in done.stderr
        judged.kubectl("delete", "node", f"{namespace}-node", check=True)

    def test_a_binding_cannot_smuggle_annotations(self, judged, namespace):
        """The API server copies a Binding's annotations to the pod, so ours are refused there."""
        judged.add_gpu_node(
            f"{namespace}-node",
            cpu="64",
            memory="256Gi",
            gpus={"aliyun.com/gpu": 8},
            labels={"ack.node.gpu.schedule": "topology"},
        )
        gated = pod_manifest(namespace, "p", spec={"schedulerName": "nobody"})
        judged.apply(json.dumps(gated))
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p", "annotations": {SPEC_KEY: SINGLE}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": f"{namespace}-node"},
        }
        answer = judged.api("POST", f"/api/v1/namespaces/{namespace}/pods/p/binding", binding)
        assert answer.status == 403
        assert "BINDING_CARRIES_MARK" in answer.json()["message"]
        del binding["metadata"]["annotations"]
        assert judged.api("POST", f"/api/v1/namespaces/{namespace}/pods/p/binding", binding).status == 201
        judged.kubectl("delete", "node", f"{namespace}-node", check=True)

    def test_koordinator_pods_get_no_rule_or_label_of_ack(self, judged, namespace):
        """A dialect's rules belong to its own pods."""
        pod = pod_manifest(namespace, "k")
        pod["metadata"]["annotations"] = {KOORD_KEY: SINGLE}
        pod["spec"]["schedulerName"] = "koord-scheduler"
        amounts = {"cpu": "1500m", "nvidia.com/gpu": "1"}
        pod["spec"]["containers"][0]["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
        judged.apply(json.dumps(pod))
        assert "affinity" not in stored(judged, namespace, "k")["spec"]
