"""The running control plane as a test sees it."""

import http.client
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane import flags
from controlplane.authority import KeyPair
from controlplane.binaries import APISERVER, CONTROLLER_MANAGER, KUBECTL, Binaries
from controlplane.client import MERGE_PATCH, Answer, create_client
from controlplane.objects import gpu_node
from controlplane.processes import Fleet, start_process, wait_until
from controlplane.rights import wait_for_rights
from controlplane.users import ADMIN, Users

# Three seconds on a machine that does nothing else; a hundred were seen beside two builds.
READY_SECONDS = 180.0
KUBECTL_SECONDS = 120.0
# An API server that is asked to end first drains the open watches, its controllers' too, for up to a minute.
DRAIN_SECONDS = 2.0


@dataclass(frozen=True)
class ControlPlane:
    """Real Kubernetes programs on loopback; `controlplane.starting.start` makes one.

    Attributes:
        folder: Temporary folder of keys, kubeconfigs, the store and `logs/`.
        binaries: The programs that run.
        version: The API server's version, such as `v1.37.2`.
        components: What runs beside etcd and kube-apiserver.
        extra_flags: Flags by program that were added to ours; where a flag stands twice, the later one counts.
    """

    folder: Path
    binaries: Binaries
    version: str
    components: frozenset[str]
    extra_flags: Mapping[str, tuple[str, ...]]
    users: Users
    ports: flags.Ports
    files: flags.Files
    fleet: Fleet

    @property
    def server_url(self) -> str:
        """The API server's address, https://127.0.0.1:PORT."""
        return self.users.server_url

    @property
    def ca_file(self) -> Path:
        """The certificate (PEM) that the API server's clients trust."""
        return self.users.authority.ca_file

    @property
    def logs(self) -> Path:
        """The folder of the programs' logs, NAME.log; a restarted program goes on in its file."""
        return self.folder / "logs"

    def client_certificate(self, user: str, groups: tuple[str, ...] | None = None) -> KeyPair:
        """A client certificate of the user; groups None means the usual ones (admin, alice, system:node:*), or none."""
        return self.users.certificate(user, groups)

    def kubeconfig(self, user: str = ADMIN, groups: tuple[str, ...] | None = None) -> Path:
        """The path of the user's kubeconfig."""
        return self.users.kubeconfig(user, groups)

    def kubectl(
        self,
        *args: str,
        user: str = ADMIN,
        input: str | None = None,  # noqa: A002 - the name that subprocess.run has
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl as this user, in a home folder of its own.

        Raises AssertionError with both of its outputs where `check` is set and it does not end with 0.
        """
        command = [str(self.binaries.path(KUBECTL)), f"--kubeconfig={self.kubeconfig(user)}", *args]
        done = subprocess.run(
            command,
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=KUBECTL_SECONDS,
            env=scrubbed_environment(self.folder),
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def apply(
        self, objects: str | Iterable[Mapping[str, Any]], *args: str, user: str = ADMIN, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """`kubectl apply` of a YAML text or of objects, with further arguments such as `--server-side`."""
        text = objects if isinstance(objects, str) else as_list(objects)
        return self.kubectl("apply", "-f", "-", *args, user=user, input=text, check=check)

    def api(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        user: str = ADMIN,
        content_type: str = "application/json",
    ) -> Answer:
        """One plain call of the API server, much cheaper than kubectl; `.wanted()` on the answer demands a success."""
        return self.users.client(user).call(method, path, body, content_type=content_type)

    def get(self, path: str, *, user: str = ADMIN) -> Any:
        """The JSON at a path such as `/api/v1/nodes/gpu-1`. Raises ApiError where the answer is not a success."""
        return self.api("GET", path, user=user).wanted().json()

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace, and wait until pods may be created in it."""
        metadata = {"name": name, "labels": dict(labels or {})}
        self.api("POST", "/api/v1/namespaces", {"metadata": metadata}).wanted()
        self.wait_for_service_account(name)

    def wait_for_service_account(self, namespace: str) -> None:
        """Wait for the namespace's default account, without which its pods are refused; at once without controllers."""
        if CONTROLLER_MANAGER not in self.components:
            return
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_until(
            lambda: self.api("GET", path).status == http.client.OK,
            what=f"the service account of namespace {namespace}",
            within_seconds=READY_SECONDS,
            running=self.fleet.get(CONTROLLER_MANAGER),
        )

    def wait_for_definitions(self, names: Iterable[str]) -> None:
        """Wait until the API server serves the resources of these CustomResourceDefinitions.

        `kubectl wait` ends with an error where it finds the conditions of a new definition still null.
        """
        for name in names:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            wait_until(
                lambda: _is_established(self.get(path)),  # noqa: B023 - asked before the next name
                what=f"the definition {name}",
                within_seconds=READY_SECONDS,
                running=self.fleet.get(APISERVER),
            )

    def add_gpu_node(
        self,
        name: str,
        *,
        cpu: str | int,
        memory: str,
        gpus: Mapping[str, int],
        labels: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Create a Ready node with these resources, for example `gpus={"aliyun.com/gpu": 8}`; the node as stored.

        No kubelet runs on it: pods that are bound to it stay Pending.
        """
        node = gpu_node(name, cpu=cpu, memory=memory, gpus=gpus, labels=labels or {})
        self.api("POST", "/api/v1/nodes", node).wanted()
        # Admission taints every new node as not ready; the controller that would take the taint off is not run.
        path = f"/api/v1/nodes/{name}"
        answer = self.api("PATCH", path, {"spec": {"taints": None}}, content_type=MERGE_PATCH).wanted()
        stored: dict[str, Any] = answer.json()
        return stored

    def kill_apiserver(self) -> None:
        """End the API server as a crash would; the store stays."""
        self.fleet.get(APISERVER).kill()

    def restart_apiserver(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Stop the API server, where it runs, start it again on its port, and wait until it is ready.

        What has not ended by itself after the time to drain is killed.
        """
        self.fleet.get(APISERVER).stop(drain_seconds)
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready. Raises StartError where it does not become so."""
        with_controllers = CONTROLLER_MANAGER in self.components
        self.start_program(APISERVER, flags.apiserver(self.ports, self.files, with_controllers=with_controllers))
        admin = self.users.client(ADMIN)
        wait_until(
            lambda: admin.answers("/readyz"),
            what="a yes from /readyz",
            within_seconds=READY_SECONDS,
            running=self.fleet.get(APISERVER),
        )
        wait_for_rights(admin, self.fleet.get(APISERVER))

    def wait_healthy(self, name: str, port: int) -> None:
        """Wait until the health page of the program's own says yes."""
        anyone = create_client(port, self.ca_file)
        wait_until(
            lambda: anyone.answers("/healthz"),
            what="a yes from /healthz",
            within_seconds=READY_SECONDS,
            running=self.fleet.get(name),
        )

    def start_program(self, name: str, ours: list[str]) -> None:
        """Start one of the programs with our flags and the extra ones; its log is NAME.log."""
        command = [str(self.binaries.path(name)), *ours, *self.extra_flags.get(name, ())]
        log = self.logs / f"{name}.log"
        self.fleet.add(start_process(name, command, log, scrubbed_environment(self.folder)))


def _is_established(definition: Mapping[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def as_list(objects: Iterable[Mapping[str, Any]]) -> str:
    """Objects as the JSON of one `List`, which kubectl reads."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def scrubbed_environment(home: Path) -> dict[str, str]:
    """An environment that knows nothing of the person who runs the tests: no KUBECONFIG, no proxy, no home."""
    return {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
