"""Hollow kubelets on a real API server, with the stock scheduler and controllers."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from controlplane.binaries import locate  # noqa: E402
from controlplane.plane import ControlPlane  # noqa: E402
from controlplane.processes import wait_until  # noqa: E402
from controlplane.starting import ALL_COMPONENTS, needed_programs, start  # noqa: E402
from hollow_nodes import Hollow, OracleMissingError, hollow_nodes, oracle_binary  # noqa: E402

pytestmark = pytest.mark.e2e

TOPOLOGY_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "noderesourcetopologies.topology.node.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"},
    },
    "spec": {
        "group": "topology.node.k8s.io",
        "names": {
            "kind": "NodeResourceTopology",
            "plural": "noderesourcetopologies",
            "singular": "noderesourcetopology",
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory) -> Iterator[ControlPlane]:
    binaries = locate(os.environ)
    if missing := binaries.missing(needed_programs(ALL_COMPONENTS)):
        pytest.skip(f"{', '.join(missing)} not found: run `make controlplane` once to build them.")
    with start(binaries, tmp_path_factory.mktemp("plane")) as plane:
        plane.apply([TOPOLOGY_CRD])
        plane.wait_for_definitions([TOPOLOGY_CRD["metadata"]["name"]])
        yield plane


@pytest.fixture(scope="module")
def hollow(plane, tmp_path_factory) -> Iterator[Hollow]:
    try:
        oracle_binary()
    except OracleMissingError as fault:
        pytest.skip(str(fault))
    flags = ["--topologies", "--topology-delay", "300ms", "--log-admitted"]
    with hollow_nodes(plane.kubeconfig(), HERE / "gpu8.yaml", tmp_path_factory.mktemp("hollow"), flags) as hollow:
        yield hollow


def pod(name, cpu, gpus, node=None, seconds=None, **spec):
    """A Guaranteed pod; with a node it goes there past the scheduler."""
    amounts = {"cpu": str(cpu), "memory": "1Gi", "aliyun.com/gpu": str(gpus)}
    body = {"containers": [{"name": "main", "image": "none", "resources": {"limits": amounts}}], **spec}
    if node:
        body["nodeName"] = node
    annotations = {"hollow.numa-admission/run-seconds": str(seconds)} if seconds is not None else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


@dataclass(frozen=True)
class Watcher:
    """Waits for what the hollow kubelets do, and fails at once where they have ended."""

    plane: ControlPlane
    hollow: Hollow

    def until(self, question, what):
        wait_until(question, what=what, within_seconds=20, running=self.hollow.running)

    def pod(self, name):
        """The pod, or None."""
        answer = self.plane.api("GET", f"/api/v1/namespaces/default/pods/{name}")
        return answer.json() if answer.status == 200 else None

    def phase(self, name, wanted):
        """The pod once it is in this phase."""
        self.until(lambda: (self.pod(name) or {"status": {}})["status"].get("phase") == wanted, f"{name} {wanted}")
        return self.pod(name)


@pytest.fixture(scope="module")
def watcher(plane, hollow) -> Watcher:
    return Watcher(plane, hollow)


@pytest.fixture
def clean(plane) -> Iterator[None]:
    yield
    plane.kubectl("delete", "deployment,job,pod", "--all", "-n", "default", "--wait=true", check=True)


@pytest.mark.usefixtures("clean")
class TestHollowNodes:
    """What a kubelet does with pods, seen through the API."""

    def test_nodes_are_ready_and_carry_their_devices(self, plane, hollow, watcher):
        node = plane.get("/api/v1/nodes/gpu-single-0")
        assert node["status"]["allocatable"]["aliyun.com/gpu"] == "8"
        assert node["status"]["allocatable"]["cpu"] == "124"
        assert node["metadata"]["labels"]["ack.node.gpu.schedule"] == "topology"
        assert not node["spec"].get("taints")
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        assert plane.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-single-0")

    def test_a_pod_that_fits_runs_and_frees_its_place_when_deleted(self, plane, hollow, watcher):
        plane.apply([pod("fits", 60, 4)])
        found = watcher.phase("fits", "Running")
        assert found["status"]["containerStatuses"][0]["ready"]
        active = hollow.metrics()["active"]
        plane.kubectl("delete", "pod", "fits", "-n", "default", "--wait=false", check=True)
        watcher.until(lambda: watcher.pod("fits") is None, "the end of the pod")
        assert hollow.metrics()["active"] == active - 1

    def test_a_pod_that_the_scheduler_binds_blindly_fails_with_the_kubelets_reason(self, plane, hollow, watcher):
        plane.apply([pod("spread", 10, 6)])
        found = watcher.phase("spread", "Failed")
        assert found["status"]["reason"] == "TopologyAffinityError"
        assert found["status"]["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
        assert [line for line in hollow.lines("refused") if line["pod"] == "default/spread"]
        assert "TopologyAffinityError" in plane.kubectl("get", "events", "-n", "default", check=True).stdout

    def test_a_pod_with_a_run_time_succeeds_and_makes_room(self, plane, hollow, watcher):
        plane.apply([pod("short", 60, 4, node="gpu-single-1", seconds=0.5, restartPolicy="Never")])
        watcher.phase("short", "Succeeded")
        plane.apply([pod("next", 60, 4, node="gpu-single-1"), pod("after", 60, 4, node="gpu-single-1")])
        watcher.phase("next", "Running")
        watcher.phase("after", "Running")

    def test_a_pod_past_its_deadline_fails(self, plane, hollow, watcher):
        plane.apply([pod("late", 2, 1, activeDeadlineSeconds=1)])
        assert watcher.phase("late", "Failed")["status"]["reason"] == "DeadlineExceeded"

    def test_ill_devices_shrink_the_node_and_refuse(self, plane, hollow, watcher):
        key = "hollow.numa-admission/unhealthy"
        ill = json.dumps({"aliyun.com/gpu": ["0", "1", "4"]})
        plane.kubectl("annotate", "node", "gpu-single-0", f"{key}={ill}", check=True)
        wanted = "jsonpath={.status.allocatable.aliyun\\.com/gpu}=5"
        plane.kubectl("wait", "node/gpu-single-0", f"--for={wanted}", "--timeout=20s", check=True)
        plane.apply([pod("sick", 8, 4, node="gpu-single-0")])
        assert watcher.phase("sick", "Failed")["status"]["reason"] == "TopologyAffinityError"
        plane.kubectl("annotate", "node", "gpu-single-0", f"{key}-", check=True)
        plane.kubectl("wait", "node/gpu-single-0", f"--for={wanted[:-1]}8", "--timeout=20s", check=True)

    def test_a_job_completes_by_its_pods_run_time(self, plane, hollow, watcher):
        template = pod("unused", 4, 1, seconds=0.2, restartPolicy="Never")
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {
                "completions": 3,
                "parallelism": 3,
                "template": {
                    "metadata": {"annotations": template["metadata"]["annotations"]},
                    "spec": template["spec"],
                },
            },
        }
        plane.apply([job])
        plane.kubectl("wait", "job/job", "-n", "default", "--for=condition=Complete", "--timeout=30s", check=True)

    def test_the_topology_object_follows_what_runs(self, plane, hollow, watcher):
        def free(name):
            answer = plane.api("GET", "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/gpu-restricted-0")
            zones = answer.json()["zones"] if answer.status == 200 else []
            return sum(int(r["available"]) for zone in zones for r in zone["resources"] if r["name"] == name)

        watcher.until(lambda: free("aliyun.com/gpu") == 8, "a report of the empty node")
        plane.apply([pod("counted", 20, 2, node="gpu-restricted-0")])
        watcher.phase("counted", "Running")
        watcher.until(lambda: free("aliyun.com/gpu") == 6, "a report of the pod")
        assert free("cpu") == 128 - 2 - 20
