"""A whole guarded cluster: control plane, hollow kubelets, and our server as the process that follows it.

Its nodes stand in pools of one: a test takes a pool for itself, so that the room it counts on is its own.
"""

import json
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from controlplane.binaries import Binaries
from controlplane.client import Answer
from controlplane.plane import ControlPlane
from controlplane.processes import free_ports, wait_until
from controlplane.starting import start
from hollow_nodes import Hollow, hollow_nodes
from support_server import WebhookServer, registered, running_server
from support_truth import WITHIN_SECONDS, until

GPU = "aliyun.com/gpu"
CLASS_LABEL = "hollow.numa-admission/class"
MACHINE_LABEL = {"machine": "two-by-four"}
CLAIM_SECONDS = 5.0
"""How long a claim lives that no watch confirms (``CapacityRules.claim_seconds``)."""
ADMISSION_ERRORS = {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"}


def hollow_class(name: str) -> dict[str, Any]:
    """One node with two NUMA nodes of 16 CPUs and 4 GPUs, single-numa-node; in the hollow kubelets' words."""
    return {
        "name": name,
        "count": 1,
        "labels": MACHINE_LABEL,
        "layout": {
            "numa_nodes": 2,
            "cores_per_numa": 16,
            "threads_per_core": 1,
            "memory_bytes_per_numa": 1 << 36,
            "devices": {GPU: {"per_numa": 4}},
            # 200 creates in parallel shall wait for GPUs, not for this.
            "max_pods": 400,
        },
        "kubelet": {
            "topology_manager_policy": "single-numa-node",
            "topology_manager_scope": "pod",
            "cpu_manager_policy": "static",
            "reserved_system_cpu_ids": [0, 16],
            "memory_manager_policy": "None",
        },
    }


def settings_class() -> dict[str, Any]:
    """The same machine in our settings' words."""
    return {
        "name": "two-by-four",
        "matchLabels": MACHINE_LABEL,
        "layout": {
            "numaNodes": 2,
            "coresPerNUMANode": 16,
            "threadsPerCore": 1,
            "memoryPerNUMANode": 1 << 36,
            "devices": {GPU: 4},
        },
        "kubelet": {
            "topologyManagerPolicy": "single-numa-node",
            "topologyManagerScope": "pod",
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": "0,16",
        },
    }


@dataclass(frozen=True)
class Cluster:
    """A control plane and hollow kubelets; ``pool`` hands out nodes of one's own."""

    plane: ControlPlane
    hollow: Hollow
    pools: Iterator[str]

    def pool(self) -> str:
        """The class label's value of a node that no other test uses."""
        return next(self.pools)

    def create(self, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Answer:
        """Create a pod as the admin, a person."""
        query = "?dryRun=All" if dry_run else ""
        return self.plane.api("POST", f"/api/v1/namespaces/{namespace}/pods{query}", body)

    def fits(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Whether the pod would be admitted now, by a server dry run; false where capacity refuses it."""
        answer = self.create(namespace, body, dry_run=True)
        if answer.status == 201:
            return True
        assert "[CAPACITY_" in answer.body.decode(), answer.body
        return False

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The pod as stored; None where there is none."""
        answer = self.plane.api("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        return None if answer.status == 404 else answer.wanted().json()

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        """All pods of the namespace."""
        found: list[dict[str, Any]] = self.plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found

    def phase(self, namespace: str, name: str) -> str:
        """The pod's phase; ``Gone`` where there is none."""
        pod = self.get(namespace, name)
        return "Gone" if pod is None else str(pod["status"]["phase"])

    def runs(self, namespace: str, name: str) -> None:
        """Wait until the pod runs."""
        until(lambda: self.phase(namespace, name) == "Running", f"{name} to run")

    def delete(self, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        """Delete the pod, and wait until it is gone where a kubelet or force ends it."""
        query = "" if grace_seconds is None else f"?gracePeriodSeconds={grace_seconds}"
        self.plane.api("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}{query}").wanted()
        until(lambda: self.get(namespace, name) is None, f"{name} to be gone")

    def admission_errors(self) -> list[dict[str, Any]]:
        """The hollow kubelets' refusals that are NUMA's."""
        return [line for line in self.hollow.lines("refused") if line["reason"] in ADMISSION_ERRORS]


@dataclass(frozen=True)
class Guarded(Cluster):
    """Such a cluster with our server as a process."""

    server: WebhookServer

    def log_lines(self, namespace: str) -> list[dict[str, Any]]:
        """What our server has logged about a namespace."""
        text = self.server.running.log.read_text()
        said = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]
        return [line for line in said if line.get("namespace") == namespace]


def pod(name: str, pool: str, gpus: int, **more: Any) -> dict[str, Any]:
    """A Guaranteed pod that asks for so many GPUs, and no more CPUs than matter, on the node of ``pool``."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**spec(pool, gpus), **more}}


def spec(pool: str, gpus: int) -> dict[str, Any]:
    """The spec of such a pod, for templates."""
    amounts = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)}
    return {
        "nodeSelector": {CLASS_LABEL: pool},
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}],
    }


def workload(kind: str, name: str, pool: str, gpus: int, replicas: int = 1) -> dict[str, Any]:
    """A Deployment, StatefulSet or Job of such pods."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec(pool, gpus)}
    metadata = {"name": name}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        inner = {"parallelism": replicas, "completions": replicas, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": inner}
    inner = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        inner["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": inner}


@contextmanager
def guarded_cluster(
    binaries: Binaries, folder: Path, *, pools: int, outcomes: Mapping[str, str] | None = None
) -> Iterator[Guarded]:
    """Start it all; returns once our server has read the cluster and is asked."""
    names = [f"pool-{at}" for at in range(pools)]
    with ExitStack() as stack:
        plane = stack.enter_context(start(binaries, folder / "plane"))
        classes = {"classes": [hollow_class(name) for name in names]}
        hollow = stack.enter_context(hollow_nodes(plane.kubeconfig(), classes, folder))
        (probes,) = free_ports(1)
        settings = {
            "server": {"role": "both", "probeBind": f"127.0.0.1:{probes}", "threads": 32, "drainSeconds": 0},
            "capacity": {"machineClasses": [settings_class()], "outcomes": dict(outcomes or {})},
            "cluster": {"live": True, "kubeconfig": str(plane.kubeconfig())},
        }
        server_folder = folder / "server"
        server_folder.mkdir()
        text = yaml.safe_dump(settings, sort_keys=False)
        server = stack.enter_context(running_server(server_folder, settings=text))
        wait_until(lambda: _is_ready(probes), what="readiness", within_seconds=WITHIN_SECONDS, running=server.running)
        stack.enter_context(registered(plane, server))
        yield Guarded(plane, hollow, iter(names), server)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def fresh_namespace(plane: ControlPlane, stem: str) -> Iterator[str]:
    """A namespace of one's own; what is in it is ended by force at the end."""
    readable = re.sub(r"[^a-z0-9]+", "-", stem.lower().removeprefix("test_"))[:40].strip("-")
    name = f"{readable}-{time.time_ns() % 16**6:06x}"
    plane.create_namespace(name)
    yield name
    path = f"/api/v1/namespaces/{name}"
    plane.api("DELETE", path)
    plane.api("DELETE", f"{path}/pods?gracePeriodSeconds=0").wanted()
