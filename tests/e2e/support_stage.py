"""The chart at work: installed by helm, its pods run by our kubelet behind its Services, on a plane of one's own."""

import base64
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from controlplane.authority import KeyPair
from controlplane.binaries import APISERVER
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import Running, start_process, wait_until
from controlplane.settling import wait_for_webhooks
from support_creates import GPU, KUBELETS_POOL, SCHEDULER
from support_kubelet import LocalKubelet, PodLife
from support_pods import account_kubeconfig, lead_to_loopback, quiet_ports, unique
from support_release import Release

ROLES = ("rules", "ledger")
HERE = Path(__file__).parent
MACHINE_LABEL = {"machine": "two-by-four"}
NODES = 40
REPLICAS = 2
"""Of each role."""
WITHIN_SECONDS = 300.0
CALLS = "apiserver_admission_webhook_admission_duration_seconds_count"
FAILED_OPEN = "apiserver_admission_webhook_fail_open_count"
OURS = re.compile(r'name="([a-z-]+)\.numa-admission\.io"')


def until(
    plane: ControlPlane, question: Callable[[], object], what: str, within_seconds: float = WITHIN_SECONDS
) -> None:
    """Wait for something outside; the limit is only there so that a fault ends."""
    api_server = plane.fleet.get(APISERVER)
    wait_until(lambda: bool(question()), what=what, within_seconds=within_seconds, running=api_server)


def webhook_counts(plane: ControlPlane, metric: str) -> Counter[str]:
    """One of the API server's own counters, by our webhooks' names."""
    text = plane.api("GET", "/metrics").wanted().body.decode()
    found: Counter[str] = Counter()
    for line in text.splitlines():
        name = OURS.search(line)
        if line.startswith(f"{metric}{{") and name:
            found[name[1]] += int(float(line.rpartition(" ")[2]))
    return found


@dataclass
class Stage:
    """A release whose pods run, behind its Services."""

    plane: ControlPlane
    release: Release
    kubelet: LocalKubelet
    folder: Path
    propagation_seconds: float

    def until(self, question: Callable[[], object], what: str, within_seconds: float = WITHIN_SECONDS) -> None:
        """Wait for something outside; the limit is only there so that a fault ends."""
        until(self.plane, question, what, within_seconds)

    def ready(self) -> bool:
        """Whether every pod of both roles is ready, none is going, and a leader is known."""
        counts = [len(found) for role in ROLES for found in (self.kubelet.lives(role), self.kubelet.ready(role))]
        return counts == [REPLICAS] * 4 and self.leader() is not None

    def leader(self) -> PodLife | None:
        """The ledger pod that the slice names and that runs; None without."""
        namespace = self.release.namespace
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{self.release.fullname}-ledger-leader"
        answer = self.plane.api("GET", path)
        if answer.status != 200:
            return None
        (endpoint,) = answer.json()["endpoints"]
        (address,) = endpoint["addresses"]
        return next((life for life in self.kubelet.ready("ledger") if life.pod_ip == address), None)

    def certs(self, *args: str) -> str:
        """`numa-admission certs ARGS` with the rights of the rules' pods."""
        account = self.folder / "rules.kubeconfig"
        if not account.exists():
            name = f"{self.release.fullname}-rules"
            account.write_text(account_kubeconfig(self.plane, self.release.namespace, name))
        secret = f"{self.release.namespace}/{self.release.fullname}-tls"
        command = [sys.executable, "-m", "webhook.cli.certs", *args, f"--secret={secret}", f"--kubeconfig={account}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=HERE.parents[1])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rotate(self, what: str) -> None:
        """Begin a rotation ahead of its time, as the README says."""
        services = [f"--service={self.release.fullname}-{role}" for role in ROLES]
        propagation = f"--propagation={self.propagation_seconds}"
        self.certs("rotate", f"--ask={what}", f"--configurations={self.release.fullname}", propagation, *services)

    def secret(self) -> Mapping[str, str]:
        """The data of the certificates' Secret."""
        data: Mapping[str, str] = self.plane.get(
            f"/api/v1/namespaces/{self.release.namespace}/secrets/{self.release.fullname}-tls"
        )["data"]
        return data

    def serves_the_secret(self) -> bool:
        """Whether every server shows a new client the leaf that the Secret holds."""
        wanted = base64.b64decode(self.secret()["tls.crt"]).decode()
        return {life.served() for life in self.kubelet.lives()} == {wanted}


def add_nodes(plane: ControlPlane) -> None:
    """Machines with more GPUs than the stream's pods ever hold at once, and some whose kubelets align."""
    for number in range(NODES):
        pool = KUBELETS_POOL if number % 10 == 0 else {"ack.node.gpu.schedule": "topology"}
        labels = {**MACHINE_LABEL, **pool}
        plane.add_gpu_node(f"gpu-{number}", cpu=32, memory="512Gi", gpus={GPU: 8}, labels=labels)


@contextmanager
def staged(plane: ControlPlane, folder: Path, *, propagation_seconds: float) -> Iterator[Stage]:
    """Install the chart with two pods of each role and run it until the end of the block; it is trusted and ready.

    Its pods need nodes (`add_nodes`).
    """
    release = Release(plane, unique("numa"), unique("numa-system"))
    ports = dict(zip(ROLES, quiet_ports(len(ROLES)), strict=True))
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(_values(ports, propagation_seconds)))
    with ExitStack() as stack:
        plane.create_namespace(release.namespace)
        stack.callback(release.remove)
        release.install(f"--values={values}")
        services = [_front(plane, release, role, ports[role]) for role in ROLES]
        proxy = stack.enter_context(beside(plane, folder, "support_proxy", *services))
        kubelet = stack.enter_context(LocalKubelet(plane, release.namespace, release.name, folder / "pods"))
        stage = Stage(plane, release, kubelet, folder, propagation_seconds)
        stage.until(stage.ready, "the chart's pods")
        stage.until(release.is_trusted, "caBundle in every webhook")
        wait_for_webhooks(plane)
        assert proxy.alive, proxy.log_tail()
        yield stage


def _values(ports: Mapping[str, int], propagation_seconds: float) -> dict[str, Any]:
    layout = {
        "numaNodes": 2,
        "coresPerNUMANode": 16,
        "threadsPerCore": 1,
        "memoryPerNUMANode": 1 << 38,
        "devices": {GPU: 4},
    }
    kubelet = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,16",
    }
    machine = {"name": "two-by-four", "matchLabels": MACHINE_LABEL, "layout": layout, "kubelet": kubelet}
    return {
        "rules": {"servicePort": ports["rules"], "replicas": REPLICAS},
        "ledger": {"servicePort": ports["ledger"], "replicas": REPLICAS, "leaderElection": True},
        "certificates": {"propagationSeconds": propagation_seconds},
        "settings": {"capacity": {"machineClasses": [machine], "schedulers": ["default-scheduler", SCHEDULER]}},
    }


def _front(plane: ControlPlane, release: Release, role: str, port: int) -> str:
    """Lead the API server's calls of a Service to the proxy; returns what the proxy follows, and on which port.

    The endpoints of an ExternalName are nobody's business, so a Service with a selector gets a twin that has them.
    """
    name = f"{release.fullname}-{role}"
    path = f"/api/v1/namespaces/{release.namespace}/services"
    wanted = plane.get(f"{path}/{name}")["spec"]
    lead_to_loopback(plane, release.namespace, name)
    if "selector" in wanted:
        name = f"{name}-endpoints"
        spec = {"selector": wanted["selector"], "ports": wanted["ports"]}
        plane.api("POST", path, {"metadata": {"name": name}, "spec": spec}).wanted()
    return f"{release.namespace}/{name}={port}"


@contextmanager
def beside(plane: ControlPlane, folder: Path, module: str, *args: str) -> Iterator[Running]:
    """Run one of our programs that speak to the API server as the admin, until the end of the block."""
    pair = plane.client_certificate("admin")
    running = start_process(module, [*_command(plane, pair, module), *args], folder / f"{module}.log", _environment())
    try:
        yield running
    finally:
        running.kill()


def _command(plane: ControlPlane, pair: KeyPair, module: str) -> list[str]:
    command = [sys.executable, str(HERE / f"{module}.py"), f"--api-port={plane.ports.apiserver}"]
    return [*command, f"--ca={plane.ca_file}", f"--certificate={pair.certificate}", f"--key={pair.key}"]


def _environment() -> dict[str, str]:
    return {**scrubbed_environment(HERE), "PYTHONPATH": str(HERE.parents[1])}
