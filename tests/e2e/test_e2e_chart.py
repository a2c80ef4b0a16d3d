"""The chart on a real API server by real helm: its whole life, and its webhooks as they are called through Services."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane.binaries import HELM_VERSIONS, locate_helm
from controlplane.plane import ControlPlane
from controlplane.processes import wait_until
from support_pods import PROGRAMS, account_environment, account_kubeconfig, pod_command
from support_release import (
    API,
    CHART,
    HELM_SECONDS,
    KEY,
    TRUST_SECONDS,
    Installed,
    Release,
    marks,
    pod,
    serving,
    workload,
)


@pytest.fixture
def handled_by(release: Release, require: Callable[..., None]) -> Callable[[str], Release]:
    """`handled_by("3")` is the release in the hands of Helm 3, whatever the run's Helm is."""

    def handled(version: str) -> Release:
        require(*locate_helm(os.environ, version))
        return replace(release, helm_version=version)

    return handled


each_helm = pytest.mark.parametrize("version", HELM_VERSIONS, ids="helm-{}".format)


@each_helm
def test_life_of_a_release_leaves_nothing_behind(handled_by: Callable[[str], Release], version: str) -> None:
    """Install, upgrade with other values, upgrade without a change, roll back, uninstall."""
    release = handled_by(version)
    release.install()
    first = release.objects()
    assert f"Deployment/{release.fullname}-rules" in first
    assert f"ValidatingWebhookConfiguration/{release.fullname}" in first

    release.upgrade("--set", "enforcement=warn")
    assert release.failure_policies() == {"Ignore"}

    before = release.versions()
    release.upgrade("--set", "enforcement=warn")
    assert release.versions() == before

    release.helm("rollback", release.name, "1")
    assert release.failure_policies() == {"Ignore", "Fail"}
    assert wishes(release.objects()) == wishes(first)

    release.helm("uninstall", release.name)
    assert release.objects() == {}


def wishes(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What is wanted of each object: without its status, and without what of its metadata changes by itself."""
    return {
        name: {key: value for key, value in one.items() if key not in {"metadata", "status"}}
        | {"labels": one["metadata"].get("labels")}
        for name, one in objects.items()
    }


@each_helm
def test_upgrade_keeps_what_belongs_to_the_certificates(handled_by: Callable[[str], Release], version: str) -> None:
    """The Secret's data and caBundle are ours at run time: an upgrade, a rollback of the chart do not touch them."""
    release = handled_by(version)
    release.install()
    written = write_certificates(release)
    release.upgrade("--set", "webhooks.validate-pods.timeoutSeconds=4")
    release.upgrade("--set", "enforcement=warn")
    release.helm("rollback", release.name, "1")
    assert certificates(release) == written


@pytest.mark.parametrize("way", [
    pytest.param((), id="applied-as-before"),
    pytest.param(("--server-side=true",), id="applied-by-the-server"),
])  # fmt: skip
def test_release_of_helm_3_passes_to_helm_4(handled_by: Callable[[str], Release], way: tuple[str, ...]) -> None:
    """Upgrade with other values, upgrade without a change, roll back to what Helm 3 installed, uninstall."""
    handled_by("3").install()
    release = handled_by("4")
    write_certificates(release)
    first = release.objects()

    release.upgrade("--set", "enforcement=warn", *way)
    assert release.failure_policies() == {"Ignore"}
    before = release.versions()
    release.upgrade("--set", "enforcement=warn", *way)
    assert release.versions() == before

    release.helm("rollback", release.name, "1")
    assert wishes(release.objects()) == wishes(first)
    release.helm("uninstall", release.name)
    assert release.objects() == {}


def write_certificates(release: Release) -> tuple[Any, Any]:
    """Write what our servers write at run time: the Secret's data, and a caBundle; what is stored then."""
    plane = release.plane
    data = {"data": {"tls.crt": base64.b64encode(b"kept").decode()}}
    secret, configuration = _paths(release)
    plane.api("PATCH", secret, data, content_type="application/merge-patch+json").wanted()
    bundle = base64.b64encode(plane.ca_file.read_bytes()).decode()
    patch: Any = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    plane.api("PATCH", configuration, patch, content_type="application/json-patch+json").wanted()
    assert certificates(release) == (data["data"], bundle)
    return certificates(release)


def certificates(release: Release) -> tuple[Any, Any]:
    """The Secret's data and the first caBundle, as they are stored; None for what is not."""
    secret, configuration = map(release.plane.get, _paths(release))
    return secret.get("data"), configuration["webhooks"][0]["clientConfig"].get("caBundle")


def _paths(release: Release) -> tuple[str, str]:
    return (
        f"/api/v1/namespaces/{release.namespace}/secrets/{release.fullname}-tls",
        f"{API}/validatingwebhookconfigurations/{release.fullname}",
    )


@pytest.fixture
def installed(release: Release, tmp_path: Path) -> Iterator[Installed]:
    """The chart with its default values but for two ports, both roles running, and trusted by the API server."""
    with serving(release, tmp_path) as running:
        yield running


def test_marked_pods_are_judged_and_others_never_notice(installed: Installed, namespace: str) -> None:
    """The servers run with the chart's own command, files and rights, and are called through its Services."""
    plane = installed.release.plane
    refused = plane.apply([pod("broken", {KEY: "{", "cpuset-scheduler": "required"})], "-n", namespace, check=False)
    assert refused.returncode != 0
    assert "validate-pods.numa-admission.io" in refused.stderr
    assert "denied the request" in refused.stderr

    taken = plane.apply([pod("aligned", marks(), whole=True)], "-n", namespace)
    assert "created" in taken.stdout
    plain = plane.apply([pod("plain", {})], "-n", namespace)
    assert "created" in plain.stdout
    assert plain.stderr == ""
    # The release's own namespace is never judged, else its pods could not start without it.
    own = plane.apply([pod("broken", {KEY: "{"})], "-n", installed.release.namespace)
    assert "created" in own.stdout


def test_rules_down_stop_marked_pods_only(installed: Installed, namespace: str) -> None:
    """The outage drill: pods that are none of ours start, workloads are stored, marked pods wait."""
    plane = installed.release.plane
    installed.pods["rules"].kill()
    plain = plane.apply([pod("plain", {})], "-n", namespace)
    assert "created" in plain.stdout
    stored = plane.apply([workload("aligned")], "-n", namespace)
    assert "created" in stored.stdout
    marked = plane.apply([pod("aligned", marks(), whole=True)], "-n", namespace, check=False)
    assert marked.returncode != 0
    assert "failed calling webhook" in marked.stderr
    assert "validate-pods.numa-admission.io" in marked.stderr


def test_ledger_down_stops_nothing(installed: Installed, namespace: str) -> None:
    plane = installed.release.plane
    installed.pods["ledger"].kill()
    for name, annotations in (("plain", {}), ("aligned", marks())):
        assert "created" in plane.apply([pod(name, annotations, whole=True)], "-n", namespace).stdout


def test_certificates_are_made_by_the_rules_alone(installed: Installed) -> None:
    """With the chart's rights: the rules' account may write the Secret, the ledger's sees none, neither sees others.

    The Secret holds the key that signs, and the ledger's server has its account's token.
    """
    release = installed.release
    own = f"secrets/{release.fullname}-tls"
    assert release.may("rules", "update", own)
    assert not any(release.may("ledger", verb, own) for verb in ("get", "update"))
    assert not release.may("ledger", "list", "secrets")
    assert not release.may("rules", "get", "secrets/other")
    assert not release.may("rules", "create", "secrets")
    assert not release.may("rules", "list", "pods")
    assert release.may("ledger", "watch", "pods")
    assert not release.may("ledger", "delete", "pods")


def test_release_that_served_leaves_nothing_behind(installed: Installed) -> None:
    """Certificates and a checkpoint were written; an uninstall beside servers that still run takes all of it."""
    release, plane = installed.release, installed.release.plane
    assert plane.get(f"/api/v1/namespaces/{release.namespace}/secrets/{release.fullname}-tls")["data"]
    release.helm("uninstall", release.name)
    assert release.objects() == {}
    done = plane.kubectl("get", "cm,secret,lease,endpointslice", "-n", release.namespace, "-o", "name", check=True)
    assert done.stdout.split() == ["configmap/kube-root-ca.crt"]


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`numa-admission ARGUMENTS`, from the clone."""
    return subprocess.run(
        [PROGRAMS["numa-admission"], *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=HELM_SECONDS,
        cwd=CHART.parents[1],
    )


def test_audit_of_a_namespace_that_is_not_there_is_no_clean_one(control_plane: ControlPlane) -> None:
    done = run_command("audit", f"--kubeconfig={control_plane.kubeconfig()}", "-n", "misspelt")
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr == "numa-admission audit: There is no namespace misspelt.\n"


def test_audit_tells_of_a_live_cluster_who_would_be_refused(control_plane: ControlPlane, namespace: str) -> None:
    """A broken pod that ran before anything was installed."""
    plane = control_plane
    plane.apply([pod("broken", {KEY: "{", "cpuset-scheduler": "required"}), pod("plain", {})], "-n", namespace)
    done = run_command("audit", f"--kubeconfig={plane.kubeconfig()}", "-o", "json", "-n", namespace)
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
        return run_command("certs", *args, secret, f"--kubeconfig={kubeconfig}")

    before = certs("show")
    assert before.returncode == 0, before.stdout + before.stderr
    names = [f"--service={release.fullname}-{role}" for role in ("rules", "ledger")]
    done = certs("rotate", "--ask=leaf", f"--configurations={release.fullname}", *names)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("renew leaf")
    after = certs("show")
    assert after.returncode == 0
    assert after.stdout != before.stdout
    lacking = certs("show", "--service=elsewhere")
    assert lacking.returncode == 1
    assert "does not cover elsewhere" in lacking.stdout


@pytest.mark.parametrize("command", ["show", "rotate"])
def test_secret_that_is_not_there_is_told_and_not_made(release: Release, command: str) -> None:
    """By an admin, who may create it: a misspelt name must not become a second authority."""
    plane = release.plane
    arguments = [command, f"--secret={release.namespace}/misspelt", f"--kubeconfig={plane.kubeconfig()}", "--service=a"]
    more = ["--configurations=none"] if command == "rotate" else []
    done = run_command("certs", *arguments, *more)
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"There is no Secret {release.namespace}/misspelt." in done.stderr
    assert plane.api("GET", f"/api/v1/namespaces/{release.namespace}/secrets/misspelt").status == 404


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
