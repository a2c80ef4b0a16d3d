"""The chart on a real API server by real helm: its whole life, and its webhooks as they are called through Services."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane.binaries import HELM
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import wait_until
from controlplane.settling import wait_for_webhooks
from support_pods import (
    LocalPod,
    account_environment,
    account_kubeconfig,
    lead_to_loopback,
    local_ports,
    pod_command,
    quiet_ports,
    start_pod,
    unique,
)

CHART = Path(__file__).parents[2] / "helm" / "numa-admission"
HELM_SECONDS = 120.0
TRUST_SECONDS = 60.0
API = "/apis/admissionregistration.k8s.io/v1"
KEY = "scheduling.alibabacloud.com/numa-topology-spec"


@dataclass(frozen=True)
class Release:
    """A release of the chart, by real helm with the admin's rights."""

    plane: ControlPlane
    name: str
    namespace: str

    @property
    def fullname(self) -> str:
        """What its objects are named after."""
        return f"{self.name}-numa-admission"

    def helm(self, *args: str) -> str:
        """Run helm in the release's namespace and return its output; raises AssertionError where it fails."""
        command = [str(self.plane.binaries.path(HELM)), f"--kubeconfig={self.plane.kubeconfig()}"]
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
        kinds = "cm,secret,sa,svc,deploy,pdb,networkpolicy,role,rolebinding,pod"
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


@pytest.fixture
def release(control_plane: ControlPlane) -> Iterator[Release]:
    """A namespace for a release; whatever is left of it goes at the end."""
    if control_plane.binaries.missing((HELM,)):
        sentence = f"helm is not in {control_plane.binaries.folder}: run `make controlplane` to build it."
        if os.environ.get("NUMA_ADMISSION_REQUIRE_E2E") == "1":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    one = Release(control_plane, unique("numa"), unique("numa-system"))
    control_plane.create_namespace(one.namespace)
    yield one
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        control_plane.api("DELETE", f"{API}/{kind}/{one.fullname}")
    control_plane.api("DELETE", f"/api/v1/namespaces/{one.namespace}").wanted()
    for kind in ("clusterroles", "clusterrolebindings"):
        selector = f"labelSelector=app.kubernetes.io%2Finstance%3D{one.name}"
        control_plane.api("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}?{selector}").wanted()
    wait_for_webhooks(control_plane)


def test_life_of_a_release_leaves_nothing_behind(release: Release) -> None:
    """Install, upgrade with other values, upgrade without a change, roll back, uninstall."""
    release.install()
    first = release.objects()
    assert f"Deployment/{release.fullname}-rules" in first
    assert f"ValidatingWebhookConfiguration/{release.fullname}" in first

    release.upgrade("--set", "enforcement=warn")
    assert _policies(release) == {"Ignore"}

    before = release.versions()
    release.upgrade("--set", "enforcement=warn")
    assert release.versions() == before

    release.helm("rollback", release.name, "1")
    assert _policies(release) == {"Ignore", "Fail"}
    assert set(release.objects()) == set(first)

    release.helm("uninstall", release.name)
    assert release.objects() == {}


def test_upgrade_keeps_what_belongs_to_the_certificates(release: Release) -> None:
    """The Secret's data and caBundle are ours at run time: an upgrade, a rollback of the chart do not touch them."""
    release.install()
    secret = f"/api/v1/namespaces/{release.namespace}/secrets/{release.fullname}-tls"
    plane = release.plane
    data = {"tls.crt": base64.b64encode(b"kept").decode()}
    plane.api("PATCH", secret, {"data": data}, content_type="application/merge-patch+json").wanted()
    patch: Any = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": _some_bundle(plane)}]
    path = f"{API}/validatingwebhookconfigurations/{release.fullname}"
    plane.api("PATCH", path, patch, content_type="application/json-patch+json").wanted()

    release.upgrade("--set", "webhooks.validate-pods.timeoutSeconds=4")
    release.upgrade("--set", "enforcement=warn")
    release.helm("rollback", release.name, "1")

    assert plane.get(secret)["data"] == data
    assert plane.get(path)["webhooks"][0]["clientConfig"]["caBundle"] == _some_bundle(plane)


@dataclass(frozen=True)
class Installed:
    """A release whose pods run as processes."""

    release: Release
    pods: dict[str, LocalPod]


@pytest.fixture
def installed(release: Release, tmp_path: Path) -> Iterator[Installed]:
    """The chart with its default values but for two ports, both roles running, and trusted by the API server."""
    plane = release.plane
    rules_port, ledger_port = quiet_ports(2)
    release.install("--set", f"rules.servicePort={rules_port},ledger.servicePort={ledger_port}")
    pods: dict[str, LocalPod] = {}
    with ExitStack() as stack:
        for role, port in (("rules", rules_port), ("ledger", ledger_port)):
            lead_to_loopback(plane, release.namespace, f"{release.fullname}-{role}")
            deployment = _deployment(release, role)
            pods[role] = start_pod(plane, deployment, tmp_path / role, local_ports(deployment, port))
            stack.callback(pods[role].kill)
        wait_until(
            lambda: _is_trusted(release),
            what="caBundle in every webhook",
            within_seconds=TRUST_SECONDS,
            running=pods["rules"].fleet.get("certificates"),
        )
        wait_for_webhooks(plane)
        yield Installed(release, pods)


def test_marked_pods_are_judged_and_others_never_notice(installed: Installed, namespace: str) -> None:
    """The servers run with the chart's own command, files and rights, and are called through its Services."""
    plane = installed.release.plane
    refused = plane.apply([_pod("broken", {KEY: "{", "cpuset-scheduler": "required"})], "-n", namespace, check=False)
    assert refused.returncode != 0
    assert "validate-pods.numa-admission.io" in refused.stderr
    assert "denied the request" in refused.stderr

    taken = plane.apply([_pod("aligned", _marks(), whole=True)], "-n", namespace)
    assert "created" in taken.stdout
    plain = plane.apply([_pod("plain", {})], "-n", namespace)
    assert "created" in plain.stdout
    assert plain.stderr == ""
    # The release's own namespace is never judged, else its pods could not start without it.
    own = plane.apply([_pod("broken", {KEY: "{"})], "-n", installed.release.namespace)
    assert "created" in own.stdout


def test_rules_down_stop_marked_pods_only(installed: Installed, namespace: str) -> None:
    """The outage drill: pods that are none of ours start, workloads are stored, marked pods wait."""
    plane = installed.release.plane
    installed.pods["rules"].kill()
    plain = plane.apply([_pod("plain", {})], "-n", namespace)
    assert "created" in plain.stdout
    stored = plane.apply([_workload("aligned")], "-n", namespace)
    assert "created" in stored.stdout
    marked = plane.apply([_pod("aligned", _marks(), whole=True)], "-n", namespace, check=False)
    assert marked.returncode != 0
    assert "failed calling webhook" in marked.stderr
    assert "validate-pods.numa-admission.io" in marked.stderr


def test_ledger_down_stops_nothing(installed: Installed, namespace: str) -> None:
    plane = installed.release.plane
    installed.pods["ledger"].kill()
    for name, annotations in (("plain", {}), ("aligned", _marks())):
        assert "created" in plane.apply([_pod(name, annotations, whole=True)], "-n", namespace).stdout


def test_certificates_are_made_by_the_rules_alone(installed: Installed) -> None:
    """With the chart's rights: the rules' account may write the Secret, the ledger's may not, neither sees others."""
    plane, namespace = installed.release.plane, installed.release.namespace
    fullname = installed.release.fullname

    def may(role: str, verb: str, what: str) -> bool:
        account = f"system:serviceaccount:{namespace}:{fullname}-{role}"
        return plane.kubectl("auth", "can-i", verb, what, f"--as={account}", "-n", namespace).returncode == 0

    own = f"secrets/{fullname}-tls"
    assert may("rules", "update", own)
    assert not may("ledger", "update", own)
    assert not may("rules", "get", "secrets/other")
    assert not may("rules", "create", "secrets")
    assert not may("rules", "list", "pods")
    assert may("ledger", "watch", "pods")
    assert not may("ledger", "delete", "pods")


def test_release_that_served_leaves_nothing_behind(installed: Installed) -> None:
    """Certificates and a checkpoint were written; an uninstall beside servers that still run takes all of it."""
    release, plane = installed.release, installed.release.plane
    assert plane.get(f"/api/v1/namespaces/{release.namespace}/secrets/{release.fullname}-tls")["data"]
    release.helm("uninstall", release.name)
    assert release.objects() == {}
    done = plane.kubectl("get", "cm,secret,lease,endpointslice", "-n", release.namespace, "-o", "name", check=True)
    assert done.stdout.split() == ["configmap/kube-root-ca.crt"]


def test_audit_tells_of_a_live_cluster_who_would_be_refused(control_plane: ControlPlane, namespace: str) -> None:
    """A broken pod that ran before anything was installed."""
    plane = control_plane
    plane.apply([_pod("broken", {KEY: "{", "cpuset-scheduler": "required"}), _pod("plain", {})], "-n", namespace)
    command = [sys.executable, "-m", "webhook.cli.audit", f"--kubeconfig={plane.kubeconfig()}", "-o", "json"]
    done = subprocess.run(
        [*command, "-n", namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=HELM_SECONDS,
        cwd=CHART.parents[1],
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["totals"] == {"pods": 2, "workloads": 0, "refused": 1}
    assert {row["owner"]["name"] for row in found["findings"]} == {"broken"}


def test_certificates_are_shown_and_renewed_from_the_command_line(installed: Installed, tmp_path: Path) -> None:
    """With the account of the rules' pods, whose rights are enough."""
    release, plane = installed.release, installed.release.plane
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(account_kubeconfig(plane, release.namespace, f"{release.fullname}-rules"))
    secret = f"--secret={release.namespace}/{release.fullname}-tls"

    def certs(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "webhook.cli.certs", *args, secret, f"--kubeconfig={kubeconfig}"]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=HELM_SECONDS, cwd=CHART.parents[1]
        )

    before = certs("show")
    assert before.returncode == 0, before.stdout + before.stderr
    names = [f"--service={release.fullname}-{role}" for role in ("rules", "ledger")]
    done = certs("rotate", "--ask=leaf", f"--configurations={release.fullname}", *names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("renew leaf")
    after = certs("show")
    assert after.returncode == 0
    assert after.stdout != before.stdout


def test_pod_of_helm_test_finds_what_it_wants(installed: Installed, tmp_path: Path) -> None:
    """Its own command with its own account's rights; helm makes the account when `helm test` runs, here we do."""
    release, plane = installed.release, installed.release.plane
    hooks = [each for each in yaml.safe_load_all(release.helm("get", "hooks", release.name)) if each]
    (pod,) = [each for each in hooks if each["kind"] == "Pod"]
    others = [each for each in hooks if each["kind"] != "Pod"]
    plane.apply(others)
    try:
        command = pod_command(pod["spec"]["containers"][0])
        account = account_environment(plane, release.namespace, pod["spec"]["serviceAccountName"], tmp_path / "account")
        wait_until(
            lambda: _may_create_pods(plane, release.namespace, pod["spec"]["serviceAccountName"]),
            what="the rights of the test's account",
            within_seconds=TRUST_SECONDS,
            running=installed.pods["rules"].fleet.get("server"),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HELM_SECONDS, env=account)
    finally:
        for each in others:
            plane.kubectl("delete", each["kind"], each["metadata"]["name"], "-n", each["metadata"]["namespace"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "validate-pods.numa-admission.io" in done.stdout


def _may_create_pods(plane: ControlPlane, namespace: str, account: str) -> bool:
    who = f"--as=system:serviceaccount:{namespace}:{account}"
    return plane.kubectl("auth", "can-i", "create", "pods", who, "-n", "default").returncode == 0


def _deployment(release: Release, role: str) -> dict[str, Any]:
    path = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/{release.fullname}-{role}"
    found: dict[str, Any] = release.plane.get(path)
    return found


def _entries(release: Release) -> list[dict[str, Any]]:
    return [
        entry
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        for entry in release.plane.get(f"{API}/{kind}/{release.fullname}")["webhooks"]
    ]


def _policies(release: Release) -> set[str]:
    return {entry["failurePolicy"] for entry in _entries(release)}


def _is_trusted(release: Release) -> bool:
    return all(entry["clientConfig"].get("caBundle") for entry in _entries(release))


def _some_bundle(plane: ControlPlane) -> str:
    return base64.b64encode(plane.ca_file.read_bytes()).decode()


def _marks() -> dict[str, str]:
    return {KEY: json.dumps({"numaTopologyPolicy": "SingleNUMANode"}), "cpuset-scheduler": "required"}


def _pod(name: str, annotations: dict[str, str], *, whole: bool = False) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": _spec("4" if whole else "100m"),
    }


def _workload(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}, "annotations": _marks()}, "spec": _spec("4")}
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
