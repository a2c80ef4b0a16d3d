"""The bind guard with a stock scheduler and the kubelet's own code: turned back, steered, bound; the short proof."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "proof"), str(TESTS / "oracle")]

from proof_run import Setup, run_once  # noqa: E402 - the path is set above
from proof_server import guarding  # noqa: E402 - as above
from proof_world import NAMESPACE, gpu_pod, only_on, prefers, small_world  # noqa: E402 - as above


@pytest.fixture(scope="module")
def world(control_plane_binaries, oracle, tmp_path_factory):
    with small_world(control_plane_binaries, tmp_path_factory.mktemp("guard"), nodes=10) as world:
        yield world


@pytest.fixture(scope="module")
def ledger(world, tmp_path_factory):
    with guarding(world.plane, tmp_path_factory.mktemp("ledger")) as ledger:
        yield ledger


@pytest.fixture
def clean(world, ledger):
    yield
    world.clear()
    assert world.errors() == []


def half(name, node, **more):
    """Three of four GPUs of a NUMA node: two of them leave one GPU on each, and a pod of two fits nowhere."""
    return gpu_pod(name, 3, 12, **only_on(node), **more)


@pytest.mark.usefixtures("clean")
class TestSteering:
    """A pod that the scheduler sends to a node whose kubelet would refuse it."""

    def test_it_is_bound_where_it_fits_and_says_why_it_waited(self, world):
        world.create(half("one", "single-0"), half("two", "single-0"))
        world.until(lambda: world.running("one", "two"), "the first two")
        world.create(gpu_pod("moved", 2, 8, **prefers("single-0")))
        world.until(lambda: world.running("moved"), "the steered pod", 30)
        pod = world.pod("moved")
        assert pod["spec"]["nodeName"] != "single-0"
        events = world.plane.kubectl("get", "events", "-n", NAMESPACE, check=True).stdout
        assert "BINDING_WOULD_FAIL" in events
        assert "steered to node" in events

    def test_it_waits_where_nothing_else_fits_and_is_bound_by_itself(self, world):
        world.create(half("one", "single-1"), half("two", "single-1"))
        world.until(lambda: world.running("one", "two"), "the first two")
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "waits"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "waits"}},
                "template": {
                    "metadata": {"labels": {"app": "waits"}},
                    "spec": gpu_pod("", 2, 8, **only_on("single-1"))["spec"],
                },
            },
        }
        world.plane.apply([deployment], "-n", NAMESPACE)

        def waiting():
            return [pod for pod in world.pods() if pod["metadata"].get("labels", {}).get("app") == "waits"]

        def turned_back(pod):
            conditions = pod["status"].get("conditions", ())
            return any("BINDING_WOULD_FAIL" in condition.get("message", "") for condition in conditions)

        world.until(lambda: any(turned_back(pod) for pod in waiting()), "a refusal in the pod's condition", 30)
        (pod,) = waiting()
        assert pod["status"]["phase"] == "Pending"
        world.plane.kubectl("delete", "pod", "one", "-n", NAMESPACE, "--wait=true", check=True)
        world.until(lambda: waiting()[0]["status"]["phase"] == "Running", "the waiting pod", 40)
        assert len(waiting()) == 1

    def test_a_node_that_the_scheduler_passes_over_is_given_up_for_another(self, world):
        # The guard knows nothing of ports; the scheduler filters nodes by them.
        port = {"ports": [{"containerPort": 80, "hostPort": 7777}]}

        def with_port(item):
            item["spec"]["containers"][0].update(port)
            return item

        allowed = only_on("single-2", "single-3", "single-4")
        both = {
            "affinity": {
                "nodeAffinity": {
                    **allowed["affinity"]["nodeAffinity"],
                    **prefers("single-2")["affinity"]["nodeAffinity"],
                }
            }
        }
        world.create(half("one", "single-2"), half("two", "single-2"))
        # Fuller than single-4, so that the guard would steer there first; but its port is taken.
        world.create(with_port(gpu_pod("port", 2, 8, **only_on("single-3"))))
        world.until(lambda: world.running("one", "two", "port"), "the first three")
        world.create(with_port(gpu_pod("moved", 2, 8, **both)))
        world.until(lambda: world.running("moved"), "the steered pod", 60)
        assert world.pod("moved")["spec"]["nodeName"] == "single-4"

    def test_a_pod_whose_volume_is_tied_to_the_refused_node_waits_there(self, world):
        # The scheduler ties a late-bound volume before the binding that we turn back: the pod cannot move any more.
        volume_class = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        common = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]}
        node = only_on("single-5")["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": node},
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "disk", "namespace": NAMESPACE},
            "spec": {**common, "resources": {"requests": {"storage": "1Gi"}}},
        }
        world.plane.apply([volume_class, volume, claim])
        world.create(half("one", "single-5"), half("two", "single-5"))
        world.until(lambda: world.running("one", "two"), "the first two")
        pod = gpu_pod("tied", 2, 8, volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}])
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/disk"}]
        world.create(pod)

        def turned_back():
            conditions = world.pod("tied")["status"].get("conditions", ())
            return any("BINDING_WOULD_FAIL" in condition.get("message", "") for condition in conditions)

        world.until(turned_back, "a refusal in the pod's condition", 30)
        world.plane.kubectl("delete", "pod", "one", "-n", NAMESPACE, "--wait=true", check=True)
        world.until(lambda: world.running("tied"), "the tied pod", 60)
        assert world.pod("tied")["spec"]["nodeName"] == "single-5"

    def test_spread_constraints_are_the_schedulers_and_the_pod_gets_where_both_agree(self, world):
        labels = {"app": "spread"}
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
            "nodeAffinityPolicy": "Honor",
        }
        world.create(half("one", "single-2"), half("two", "single-2"))
        world.until(lambda: world.running("one", "two"), "the first two")
        allowed = ("single-2", "single-3", "single-4")
        for number in range(2):
            pod = gpu_pod(f"spread-{number}", 2, 8, topologySpreadConstraints=[constraint], **only_on(*allowed))
            pod["metadata"]["labels"] = labels
            world.create(pod)
        world.until(lambda: world.running("spread-0", "spread-1"), "the spread pods", 60)
        nodes = {world.pod(f"spread-{number}")["spec"]["nodeName"] for number in range(2)}
        assert nodes == {"single-3", "single-4"}

    def test_a_preemption_keeps_its_own_nomination(self, world):
        high = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
        world.plane.apply([high])
        world.create(*(gpu_pod(f"low-{number}", 4, 8, **only_on("single-1")) for number in range(2)))
        world.until(lambda: world.running("low-0", "low-1"), "the low ones")
        world.create(gpu_pod("high", 4, 8, priorityClassName="high", **only_on("single-1")))
        world.until(lambda: world.running("high"), "the preempting pod", 40)
        assert len(world.pods()) == 2


@pytest.mark.usefixtures("clean")
class TestCrowd:
    """Many at once."""

    def test_of_200_parallel_creates_for_the_last_8_gpus_exactly_what_fits_runs(self, world):
        allowed = only_on("restricted-0")

        def create(number):
            body = gpu_pod(f"crowd-{number}", 2, 8, **allowed)
            return world.plane.api("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body).status

        with ThreadPoolExecutor(20) as pool:
            statuses = list(pool.map(create, range(200)))
        assert set(statuses) <= {201, 403}
        world.until(lambda: sum(pod["status"]["phase"] == "Running" for pod in world.pods()) == 4, "four pods", 60)
        assert world.errors() == []
        assert {pod["status"]["phase"] for pod in world.pods()} <= {"Running", "Pending"}


def test_the_proof_in_short_has_no_admission_error(oracle, control_plane_binaries, tmp_path):
    numbers = run_once(Setup(seed=5, nodes=15, seconds=60, load=1.3), tmp_path, with_us=True)
    assert numbers.errors == {}
    assert numbers.pods > 100
    assert numbers.gpu_use_end > 0.6
