"""Our server as an operator starts it, with the ledger's role on a live cluster."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from controlplane.authority import Authority, create_authority
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import Running, free_ports, start_process, wait_until
from controlplane.settling import wait_for_webhooks
from proof_machines import settings_classes
from support.webhook_names import OF_THE_RULES

PROGRAM = str(Path(sys.executable).with_name("numa-admission"))


@dataclass(frozen=True)
class LedgerProcess:
    """A process that serves /capacity and /bind."""

    port: int
    probe_port: int
    running: Running

    def probe(self, path: str) -> str:
        """What the probe port answers; empty where it does not answer with 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probe_port}{path}", timeout=1) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def is_ready(self) -> bool:
        """Whether it has read the cluster."""
        return bool(self.probe("/readyz"))

    def leads(self) -> bool:
        """Whether it says that it leads."""
        return "numa_admission_leader 1.0" in self.probe("/metrics")

    def metric(self, name: str) -> float:
        """The sum over the labels of a metric; 0 where it is not there."""
        lines = [line for line in self.probe("/metrics").splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def settings_text(kubeconfig: Path, **cluster: Any) -> str:
    """Our settings, YAML: the ledger's role, the machine classes that the nodes' labels name, the cluster."""
    settings = {
        "server": {"role": "ledger", "threads": 32, "drainSeconds": 0},
        "capacity": {"machineClasses": settings_classes()},
        "cluster": {"live": True, "kubeconfig": str(kubeconfig), **cluster},
    }
    return yaml.safe_dump(settings, sort_keys=False)


def start_ledger(
    folder: Path, authority: Authority, kubeconfig: Path, *, port: int | None = None, **cluster: Any
) -> LedgerProcess:
    """Start one and return once it is ready; whoever starts it stops ``running``."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = authority.issue_server(f"server-{folder.name}", ("localhost", "127.0.0.1"))
    settings = folder / "settings.yaml"
    settings.write_text(settings_text(kubeconfig, **cluster))
    own, probes = free_ports(2)
    own = port or own
    command = [PROGRAM, "serve", "--bind", f"127.0.0.1:{own}", "--probe-bind", f"127.0.0.1:{probes}"]
    command += ["--settings", str(settings), "--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
    running = start_process(f"ledger {folder.name}", command, folder / "server.log", scrubbed_environment(folder))
    ledger = LedgerProcess(own, probes, running)
    try:
        wait_until(ledger.is_ready, what="readiness", within_seconds=60, running=running)
    except Exception:
        running.stop()
        raise
    return ledger


@contextmanager
def registered(plane: ControlPlane, port: int, authority: Authority) -> Iterator[None]:
    """Have the API server ask 127.0.0.1:port about creates and bindings until the block ends."""
    left_out = [flag for name in sorted(OF_THE_RULES) for flag in ("--without", name)]
    config = [PROGRAM, "webhook-config", "--url", f"https://127.0.0.1:{port}", "--ca", str(authority.ca_file)]
    done = subprocess.run([*config, *left_out], capture_output=True, text=True, check=True)
    plane.apply(done.stdout)
    wait_for_webhooks(plane)
    try:
        yield
    finally:
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=done.stdout, check=True)


@contextmanager
def guarding(plane: ControlPlane, folder: Path, **cluster: Any) -> Iterator[LedgerProcess]:
    """One process, registered, until the block ends."""
    authority = create_authority(folder / "keys", "ledger")
    ledger = start_ledger(folder / "ledger", authority, plane.kubeconfig(), **cluster)
    try:
        with registered(plane, ledger.port, authority):
            yield ledger
    finally:
        ledger.running.stop()
