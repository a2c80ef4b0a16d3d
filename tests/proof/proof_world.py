"""A small cluster of hollow 8-GPU nodes for tests: a control plane, nodes, and pods by a few words."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.binaries import Binaries
from controlplane.plane import ControlPlane
from controlplane.starting import start
from hollow_nodes import Hollow, hollow_nodes
from proof_machines import GPU, hollow_classes
from proof_watch import ADMISSION_ERRORS

NAMESPACE = "default"


@dataclass(frozen=True)
class World:
    """A control plane with hollow nodes."""

    plane: ControlPlane
    hollow: Hollow

    def pods(self) -> list[dict[str, Any]]:
        """Every pod of the namespace."""
        return self.plane.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]

    def pod(self, name: str) -> dict[str, Any]:
        """One pod."""
        return self.plane.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def create(self, *objects: dict[str, Any]) -> None:
        """Create pods; the API server takes each of them."""
        for item in objects:
            self.plane.api("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", item).wanted(201)

    def until(self, question: Callable[[], bool], what: str, within_seconds: float = 60) -> float:
        """Wait for it; returns how many seconds it took."""
        begin = time.monotonic()
        while not question():
            waited = time.monotonic() - begin
            assert waited < within_seconds, f"{what} was awaited {waited:.0f} s; pods: {self.summary()}"
            time.sleep(0.1)
        return time.monotonic() - begin

    def running(self, *names: str) -> bool:
        """Whether these pods run."""
        return all(self.pod(name)["status"].get("phase") == "Running" for name in names)

    def errors(self) -> list[str]:
        """Pods that their kubelet refused."""
        return [pod["metadata"]["name"] for pod in self.pods() if pod["status"].get("reason") in ADMISSION_ERRORS]

    def summary(self) -> Counter[tuple[str, str]]:
        """Pods by phase and reason."""
        return Counter((pod["status"].get("phase", ""), pod["status"].get("reason", "")) for pod in self.pods())

    def clear(self) -> None:
        """Take every pod away."""
        self.plane.kubectl("delete", "deployment,job,pod", "--all", "-n", NAMESPACE, "--wait=true", check=True)


@contextmanager
def small_world(binaries: Binaries, folder: Path, nodes: int = 10) -> Iterator[World]:
    """The cluster, until the block ends; nodes are called single-N, restricted-N and numa8-N."""
    folder.mkdir(parents=True, exist_ok=True)
    with start(binaries, folder / "plane", components={"scheduler", "controller-manager"}) as plane:
        plane.create_namespace("system")
        with hollow_nodes(plane.kubeconfig(), hollow_classes(), folder, ["--nodes", str(nodes)]) as hollow:
            yield World(plane, hollow)


def gpu_pod(name: str, gpus: int, cpus: int, **spec: Any) -> dict[str, Any]:
    """A Guaranteed pod."""
    amounts = {"cpu": str(cpus), "memory": "1Gi", GPU: str(gpus)}
    containers = [{"name": "main", "image": "none", "resources": {"limits": amounts, "requests": amounts}}]
    body = {"containers": containers, "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def prefers(node: str) -> dict[str, Any]:
    """Affinity of a pod that the stock scheduler puts on ``node`` whenever it may."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def only_on(*nodes: str) -> dict[str, Any]:
    """Affinity of a pod that may go to ``nodes`` alone."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
