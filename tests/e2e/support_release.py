"""Releases of the chart on a real API server: installed by real helm, their pods run as processes."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.binaries import locate_helm
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import wait_until
from controlplane.settling import wait_for_webhooks
from support_pods import LocalPod, lead_to_loopback, local_ports, quiet_ports, start_pod

CHART = Path(__file__).parents[2] / "helm" / "numa-admission"
HELM_SECONDS = 120.0
TRUST_SECONDS = 60.0
API = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
KEY = "scheduling.alibabacloud.com/numa-topology-spec"


@dataclass(frozen=True)
class Release:
    """A release of the chart, by real helm with the admin's rights."""

    plane: ControlPlane
    name: str
    namespace: str
    helm_version: str = ""
    """Of the Helm that handles it from here on; empty: the run's."""

    @property
    def fullname(self) -> str:
        """What its objects are named after."""
        return self.name if "numa-admission" in self.name else f"{self.name}-numa-admission"

    def helm(self, *args: str) -> str:
        """Run helm in the release's namespace and return its output; raises AssertionError where it fails."""
        binaries, program = locate_helm(os.environ, self.helm_version)
        command = [str(binaries.path(program)), f"--kubeconfig={self.plane.kubeconfig()}"]
        done = subprocess.run(
            [*command, *args, "--namespace", self.namespace],
            capture_output=True,
            text=True,
            check=False,
            timeout=HELM_SECONDS,
            env=scrubbed_environment(self.plane.folder),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, *args: str) -> None:
        """Helm install; does not wait for pods, for no kubelet runs them."""
        self.helm("install", self.name, str(CHART), *args)

    def upgrade(self, *args: str) -> None:
        """Helm upgrade with these values only."""
        self.helm("upgrade", self.name, str(CHART), "--reset-values", *args)

    def objects(self) -> dict[str, dict[str, Any]]:
        """Everything in the cluster that bears the release's label, by a readable name."""
        kinds = "cm,secret,sa,svc,deploy,pdb,networkpolicy,role,rolebinding,lease,pod"
        label = f"app.kubernetes.io/instance={self.name}"
        of_cluster = "clusterrole,clusterrolebinding,mutatingwebhookconfiguration,validatingwebhookconfiguration"
        found: list[dict[str, Any]] = []
        for kind in (kinds, of_cluster):
            done = self.plane.kubectl("get", kind, "-A", "-l", label, "-o", "json", check=True)
            found += json.loads(done.stdout)["items"]
        return {f"{each['kind']}/{each['metadata']['name']}": each for each in found if each["kind"] != "Pod"}

    def versions(self) -> dict[str, str]:
        """Each object's generation, where it has one, else its version: what changes when its wishes do."""
        # A Deployment's status is written by its controller all the time.
        return {
            name: str(each["metadata"].get("generation") or each["metadata"]["resourceVersion"])
            for name, each in self.objects().items()
        }

    def deployment(self, role: str) -> dict[str, Any]:
        """The role's Deployment as it is stored."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.fullname}-{role}"
        found: dict[str, Any] = self.plane.get(path)
        return found

    def entries(self) -> list[dict[str, Any]]:
        """The entries of both webhook configurations."""
        return [
            entry for kind in CONFIGURATIONS for entry in self.plane.get(f"{API}/{kind}/{self.fullname}")["webhooks"]
        ]

    def failure_policies(self) -> set[str]:
        """All failure policies of its webhooks."""
        return {entry["failurePolicy"] for entry in self.entries()}

    def is_trusted(self) -> bool:
        """Whether every webhook has a caBundle."""
        return all(entry["clientConfig"].get("caBundle") for entry in self.entries())

    def may(self, role: str, verb: str, what: str) -> bool:
        """Whether the role's account may do this in the release's namespace."""
        account = f"--as=system:serviceaccount:{self.namespace}:{self.fullname}-{role}"
        return self.plane.kubectl("auth", "can-i", verb, what, account, "-n", self.namespace).returncode == 0

    def remove(self) -> None:
        """Take away whatever is left of it, its namespace too; the API server no longer calls it afterwards."""
        plane = self.plane
        for kind in CONFIGURATIONS:
            plane.api("DELETE", f"{API}/{kind}/{self.fullname}")
        plane.api("DELETE", f"/api/v1/namespaces/{self.namespace}").wanted()
        for kind in ("clusterroles", "clusterrolebindings"):
            selector = f"labelSelector=app.kubernetes.io%2Finstance%3D{self.name}"
            plane.api("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}?{selector}").wanted()
        wait_for_webhooks(plane)


@dataclass(frozen=True)
class Installed:
    """A release whose pods run as processes."""

    release: Release
    pods: Mapping[str, LocalPod]


@contextmanager
def serving(
    release: Release, folder: Path, *values: str, roles: tuple[str, ...] = ("rules", "ledger")
) -> Iterator[Installed]:
    """Install the chart with these helm arguments and run one pod of each role until the end of the block.

    Nothing but the Services' ports is added to the values. Returns once the API server trusts the servers.
    """
    ports = dict(zip(roles, quiet_ports(len(roles)), strict=True))
    chosen = ",".join(f"{role}.servicePort={port}" for role, port in ports.items())
    release.install(*values, "--set", chosen)
    with running_pods(release, folder, ports) as pods:
        yield Installed(release, pods)


@contextmanager
def running_pods(release: Release, folder: Path, service_ports: Mapping[str, int]) -> Iterator[dict[str, LocalPod]]:
    """Run a pod of each role of an installed release behind its Service's port."""
    pods: dict[str, LocalPod] = {}
    with ExitStack() as stack:
        for role, port in service_ports.items():
            lead_to_loopback(release.plane, release.namespace, f"{release.fullname}-{role}")
            deployment = release.deployment(role)
            pods[role] = start_pod(release.plane, deployment, folder / role, local_ports(deployment, port))
            stack.callback(pods[role].kill)
        wait_until(
            release.is_trusted,
            what="caBundle in every webhook",
            within_seconds=TRUST_SECONDS,
            running=pods["rules"].fleet.get("server"),
        )
        wait_for_webhooks(release.plane)
        yield pods


def marks() -> dict[str, str]:
    """Annotations that ask for one NUMA node, without a fault."""
    return {KEY: json.dumps({"numaTopologyPolicy": "SingleNUMANode"}), "cpuset-scheduler": "required"}


def pod(name: str, annotations: dict[str, str], *, whole: bool = False) -> dict[str, Any]:
    """A pod; `whole` asks for four CPUs and a GPU, as the rules want it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": _spec("4" if whole else "100m"),
    }


def workload(name: str) -> dict[str, Any]:
    """A Deployment without replicas whose template is marked and without a fault."""
    template = {"metadata": {"labels": {"app": name}, "annotations": marks()}, "spec": _spec("4")}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def _spec(cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    if cpu == "4":
        amounts["aliyun.com/gpu"] = "1"
    container = {"name": "main", "image": "none.invalid/none", "resources": {"limits": amounts, "requests": amounts}}
    return {"containers": [container]}
