"""The first day of a reader of the chart's page: he does what it says, and his cluster does what clusters do.

Real helm, kubectl, controllers and scheduler; the pods of the release run as processes (`support_kubelet`), its
Services lead to addresses of loopback, each with the port that the chart's defaults name.
"""

import json
import random
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from controlplane.binaries import APISERVER
from controlplane.plane import ControlPlane
from controlplane.processes import wait_until
from controlplane.settling import wait_for_webhooks
from support.console_blocks import Step
from support_kubelet import LocalKubelet
from support_pods import PROGRAMS, account_environment, account_kubeconfig
from support_reader import COMMAND_SECONDS, ROOT, Reader
from support_release import KEY, Release, pod
from tcp_relay import Relay

NAME = "numa-admission"
ROLES = ("rules", "ledger")
SERVICE_PORT = 443
"""The chart's default, which the pages do not change."""
WITHIN_SECONDS = 120.0
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ReadersKubelet(LocalKubelet):
    """Also runs pods that end by themselves, as the one of `helm test`."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        """Take the release that the pages name."""
        super().__init__(plane, NAME, NAME, folder)
        self._tasks: dict[str, threading.Thread] = {}

    def _see(self, seen: Mapping[str, Any]) -> None:
        if seen["spec"]["restartPolicy"] != "Never":
            super()._see(seen)
            return
        uid = seen["metadata"]["uid"]
        if uid not in self._tasks:
            self._tasks[uid] = threading.Thread(target=self._run_to_its_end, args=(seen,), daemon=True)
            self._tasks[uid].start()

    def _run_to_its_end(self, seen: Mapping[str, Any]) -> None:
        metadata, (container,) = seen["metadata"], seen["spec"]["containers"]
        folder = self._folder / metadata["uid"]
        account = account_environment(self._plane, metadata["namespace"], seen["spec"]["serviceAccountName"], folder)
        command = [*container["command"], *container.get("args", ())]
        command[0] = PROGRAMS[command[0]]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS, env=account
        )
        (folder / "log").write_text(done.stdout + done.stderr)
        status = {"phase": "Succeeded" if done.returncode == 0 else "Failed"}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._plane.api("PATCH", path, {"status": status}, content_type=STRATEGIC_PATCH)

    def bring_settings(self) -> None:
        """Bring changed ConfigMaps into the pods that run."""
        for life in self.lives():
            life.bring_config_maps()

    def where(self, role: str) -> tuple[str, int] | None:
        """Where a ready pod of this role listens; None without."""
        for life in self.ready(role):
            return life.front
        return None


@dataclass
class FirstDay:
    """What the reader does, and what becomes of it."""

    plane: ControlPlane
    folder: Path
    reader: Reader
    kubelet: ReadersKubelet
    fronts: Mapping[str, str]
    """Role to the address of loopback that its Service leads to."""
    release: Release = field(init=False)

    def __post_init__(self) -> None:
        """Name the release as the pages do."""
        self.release = Release(self.plane, NAME, NAME)

    def follow(self, step: Step) -> str:
        """Do a step, and what happens in a cluster after it."""
        words = shlex.split(step.command.replace("\\\n", " "), comments=True)
        if "exec" in words:
            return self._follow_into_pod(step, words[words.index("--") + 1 :])
        printed = self.reader.run(step)
        if words[:2] in (["helm", "install"], ["helm", "upgrade"]):
            self._after_helm()
        return printed

    def follow_text(self, command: str) -> str:
        """Do something that stands in no console block."""
        return self.follow(Step("text", 0, "", command))

    def _follow_into_pod(self, step: Step, command: list[str]) -> str:
        """Run the command with what its container has: the rights of the rules' account."""
        kubeconfig = self.folder / "rules.kubeconfig"
        kubeconfig.write_text(account_kubeconfig(self.plane, NAME, f"{NAME}-rules"))
        done = subprocess.run(
            [PROGRAMS[command[0]], *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
            env={**self.reader.environment, "KUBECONFIG": str(kubeconfig)},
            cwd=ROOT,
        )
        self.reader.judge(step, done)
        return done.stdout

    def _after_helm(self) -> None:
        for role, address in self.fronts.items():
            self._lead(f"{NAME}-{role}", address)
        self.kubelet.bring_settings()
        self.until(lambda: all(self.kubelet.ready(role) for role in ROLES), "the chart's pods")
        self.until(self.release.is_trusted, "caBundle in every webhook")
        wait_for_webhooks(self.plane)

    def _lead(self, service: str, address: str) -> None:
        """Make the Service lead to loopback, in helm's name: else its next upgrade would meet a stranger's fields."""
        path = f"/api/v1/namespaces/{NAME}/services/{service}"
        stored = self.plane.get(path)
        spec = {key: stored["spec"][key] for key in ("ports", "selector") if key in stored["spec"]}
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {key: stored["metadata"][key] for key in ("name", "namespace", "labels", "annotations")},
            "spec": {**spec, "type": "ExternalName", "externalName": address},
        }
        self.plane.api("PATCH", f"{path}?fieldManager=helm&force=true", body, content_type=APPLY_PATCH).wanted()

    def until_refused(self) -> None:
        """Wait until a broken pod is refused, as it must be once `deny` has reached the servers."""
        self.until(lambda: self._says_no("validate-pods.numa-admission.io"), "the refusal of a broken pod")

    def _says_no(self, who: str) -> bool:
        broken = pod("broken", {KEY: "{", "cpuset-scheduler": "required"}, whole=True)
        done = self.plane.apply([broken], "-n", "default", "--dry-run=server", check=False)
        return done.returncode != 0 and who in done.stderr and "denied the request" in done.stderr

    def until(self, holds: Any, what: str) -> None:
        """Wait for the cluster."""
        wait_until(
            lambda: bool(holds()), what=what, within_seconds=WITHIN_SECONDS, running=self.plane.fleet.get(APISERVER)
        )

    def left_behind(self) -> list[str]:
        """Everything in the cluster that bears the release's label, and all of its namespace but what each has."""
        names = sorted(self.release.objects())
        done = self.plane.kubectl("get", "cm,secret,lease,endpointslice,sa,svc", "-n", NAME, "-o", "json", check=True)
        found = [f"{each['kind']}/{each['metadata']['name']}" for each in json.loads(done.stdout)["items"]]
        every_namespace_s = {"ConfigMap/kube-root-ca.crt", "ServiceAccount/default"}
        return [*names, *(each for each in found if each not in every_namespace_s)]


@contextmanager
def first_day(plane: ControlPlane, folder: Path, reader: Reader) -> Iterator[FirstDay]:
    """Give the reader a cluster without the chart; whatever he leaves there goes at the end."""
    network = f"127.{random.randrange(128, 255)}.{random.randrange(256)}"
    fronts = {role: f"{network}.{number}" for number, role in enumerate(ROLES, 1)}
    with ExitStack() as stack:
        kubelet = ReadersKubelet(plane, folder / "pods")
        for role, address in fronts.items():
            try:
                relay = Relay(lambda role=role: kubelet.where(role), (address, SERVICE_PORT))
            except PermissionError:
                pytest.skip(f"port {SERVICE_PORT} may not be taken here (net.ipv4.ip_unprivileged_port_start).")
            except OSError as error:
                raise AssertionError(f"{address}:{SERVICE_PORT}: {error}") from error
            stack.callback(relay.close)
        day = FirstDay(plane, folder, reader, kubelet, fronts)
        # A namespace that goes takes everything with it, and another day begins with none.
        path = f"/api/v1/namespaces/{NAME}"
        stack.callback(lambda: day.until(lambda: plane.api("GET", path).status == 404, "the namespace's end"))
        stack.callback(lambda: _remove(day))
        stack.enter_context(kubelet)
        yield day


def _remove(day: FirstDay) -> None:
    if day.plane.api("GET", f"/api/v1/namespaces/{NAME}").status == 404:
        return
    day.plane.api("DELETE", f"/api/v1/namespaces/{NAME}/pods?gracePeriodSeconds=0")
    day.release.remove()
    day.plane.api("DELETE", f"/api/v1/namespaces/{NAME}/pods?gracePeriodSeconds=0")
