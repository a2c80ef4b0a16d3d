"""Settings that change on a live release: the same processes answer otherwise, and nothing that is bad gets in."""

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from controlplane.binaries import HELM_3, locate_helm
from controlplane.processes import wait_until
from support_pods import LOOPBACK, LocalPod, lead_to_loopback
from support_release import CHART, KEY, Installed, Release, marks, pod, serving

GPU = "aliyun.com/gpu"
WITHIN_SECONDS = 60.0
CLASS = {
    "name": "two-by-four",
    "matchLabels": {"machine": "two-by-four"},
    "layout": {"numaNodes": 2, "coresPerNUMANode": 16, "memoryPerNUMANode": "256Gi", "devices": {GPU: 4}},
    "kubelet": {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,16",
    },
}


@dataclass(frozen=True)
class Live:
    """An installed release, and what its servers say."""

    installed: Installed
    namespace: str

    def upgrade(self, *values: str) -> None:
        """Helm upgrade with these values besides those of the installation, and the kubelet's part."""
        release = self.installed.release
        # Helm 4 applies as one of several writers; the others here are the test's, which leads Services to loopback.
        conflicts = () if locate_helm(os.environ)[1] == HELM_3 else ("--force-conflicts",)
        release.helm("upgrade", release.name, str(CHART), "--reuse-values", *conflicts, *values)
        for role in self.installed.pods:
            lead_to_loopback(release.plane, release.namespace, f"{release.fullname}-{role}")
        self.bring()

    def write(self, text: str) -> None:
        """Put this in the rules' settings, as an admin with an editor would, and the kubelet's part."""
        release = self.installed.release
        path = f"/api/v1/namespaces/{release.namespace}/configmaps/{release.fullname}-settings"
        change = {"data": {"rules.yaml": text}}
        release.plane.api("PATCH", path, change, content_type="application/merge-patch+json").wanted()
        self.bring()

    def bring(self) -> None:
        """What a kubelet does within 90 s."""
        for each in self.installed.pods.values():
            each.refresh_volumes()

    def said(self, name: str, body: dict[str, Any]) -> str:
        """What a dry-run create of this pod is answered with; empty: it is taken without a word."""
        body["metadata"]["name"] = name
        done = self.installed.release.plane.apply([body], "-n", self.namespace, "--dry-run=server", check=False)
        return done.stderr

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for the servers."""
        running = self.installed.pods["rules"].fleet.get("server")
        wait_until(holds, what=what, within_seconds=WITHIN_SECONDS, running=running)

    def processes(self) -> dict[str, str]:
        """The worker processes of each role's server, and what its Deployment's pods are made from."""
        found = {}
        for role, each in self.installed.pods.items():
            number = each.fleet.get("server").process.pid
            workers = Path(f"/proc/{number}/task/{number}/children").read_text()
            generation = self.installed.release.deployment(role)["metadata"]["generation"]
            found[role] = f"{number} {workers} {generation}"
        return found

    def metric(self, role: str, name: str) -> float:
        """A metric of a role's server."""
        return metric(self.installed.pods[role], name)


def metric(of: LocalPod, name: str) -> float:
    """A metric of a pod's server by its name behind ``numa_admission_settings_``."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{of.ports[8080]}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"numa_admission_settings_{name} ")]
    return float(value)


@pytest.fixture
def live(release: Release, namespace: str, tmp_path: Path) -> Iterator[Live]:
    with serving(release, tmp_path) as installed:
        yield Live(installed, namespace)


def broken() -> dict[str, Any]:
    """A pod whose spec annotation is no JSON."""
    return pod("", {KEY: "{", "cpuset-scheduler": "required"}, whole=True)


def half() -> dict[str, Any]:
    """A pod whose spec is right and whose CPUs are not whole."""
    return pod("", marks())


def test_an_upgrade_changes_what_the_same_processes_answer(live: Live) -> None:
    """Enforcement, then one family's mode; no pod is rolled."""
    before = live.processes()
    assert "denied the request" in live.said("broken", broken())

    live.upgrade("--set", "enforcement=warn")
    live.until(lambda: "denied the request" not in live.said("broken", broken()), "a broken pod that is let in")
    assert "Warning: " in live.said("broken", broken())
    assert "Warning: " in live.said("half", half())

    live.upgrade("--set", "enforcement=deny,settings.rules.families.spec=warn")
    live.until(lambda: "denied the request" in live.said("half", half()), "a pod of half a core that is refused")
    assert "denied the request" not in live.said("broken", broken())
    assert live.processes() == before


def test_bad_settings_change_nothing_and_are_told(live: Live) -> None:
    before, hash_before = live.processes(), live.metric("rules", "hash")
    live.write("rules: {enforcement: warn, families: {cpu: dney}}\ncolour: red\n")
    live.until(lambda: live.metric("rules", "reload_failed") == 1, "the refusal of the settings")
    assert live.metric("rules", "hash") == hash_before
    assert "denied the request" in live.said("broken", broken())
    log = (live.installed.pods["rules"].folder / "server.log").read_text()
    (line,) = [each for each in map(json.loads, _json_lines(log)) if "faults" in each]
    assert len(line["faults"]) == 2

    live.upgrade("--set", "settings.rules.families.cpu=warn")
    live.until(lambda: live.metric("rules", "reload_failed") == 0, "the good settings")
    assert live.processes() == before


def test_the_ledger_takes_machine_classes_without_losing_itself(live: Live) -> None:
    """A class makes a pod impossible; its nodes are known at once, and the server is ready all the time."""
    plane, before = live.installed.release.plane, live.processes()
    name = f"{live.namespace}-gpu"
    plane.add_gpu_node(name, cpu=32, memory="512Gi", gpus={GPU: 8}, labels=CLASS["matchLabels"])
    try:
        assert "denied the request" not in live.said("wide", wide())
        live.upgrade("--set-json", f"settings.capacity.machineClasses={json.dumps([CLASS])}")
        live.until(lambda: "CAPACITY_NEVER" in live.said("wide", wide()), "a pod that no machine can take")
        assert "denied the request" in live.said("wide", wide())

        live.upgrade("--set", "settings.capacity.outcomes.never=warn")
        live.until(lambda: "denied the request" not in live.said("wide", wide()), "the outcome's new mode")
        assert "CAPACITY_NEVER" in live.said("wide", wide())
        assert live.processes() == before
    finally:
        plane.api("DELETE", f"/api/v1/nodes/{name}")


def test_what_needs_a_restart_rolls_the_pods_and_only_that(live: Live) -> None:
    """The Deployment has a new template, and the old process says that it waits."""
    before = live.processes()
    live.upgrade("--set", "settings.server.threads=9,settings.rules.families.cpu=warn,settings.rules.families.gpu=warn")
    live.until(lambda: live.metric("rules", "restart_needed") == 1, "the note of the old process")
    live.until(lambda: "denied the request" not in live.said("half", half()), "the rest of the settings")
    after = live.processes()
    assert {role: each.rpartition(" ")[0] for role, each in after.items()} == {
        role: each.rpartition(" ")[0] for role, each in before.items()
    }
    assert after != before, "the Deployments were changed"


def wide() -> dict[str, Any]:
    """A pod that wants five GPUs on one NUMA node."""
    body = pod("", marks(), whole=True)
    for amounts in body["spec"]["containers"][0]["resources"].values():
        amounts[GPU] = "5"
    return body


def _json_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("{")]
