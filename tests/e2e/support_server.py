"""Our server as an operator starts it: a process with a certificate, and its configurations in the API server."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from controlplane.authority import KeyPair, create_authority
from controlplane.client import Client, create_client
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import Fleet, Running, free_ports, start_process, wait_until
from controlplane.settling import wait_for_webhooks

# The program that pip installed beside the Python that runs the tests.
PROGRAM = str(Path(sys.executable).with_name("numa-admission"))
READY_SECONDS = 30.0
COMMAND_SECONDS = 60.0
SERVING_NAMES = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class WebhookServer:
    """A server of ours that answers on loopback over TLS."""

    url: str
    ca_file: Path
    running: Running

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    @property
    def client(self) -> Client:
        """A client that trusts its certificate."""
        return create_client(self.port, self.ca_file)


def serve_command(port: int, pair: KeyPair, settings: Path | None, extra: tuple[str, ...]) -> list[str]:
    """The command line that starts the server: the one place that knows its options."""
    command = [PROGRAM, "serve", "--bind", f"127.0.0.1:{port}"]
    command += ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
    if settings is not None:
        command += ["--settings", str(settings)]
    return [*command, *extra]


def configuration_command(server: WebhookServer, extra: tuple[str, ...]) -> list[str]:
    """The command line that prints the webhook configurations which call this server: likewise the one place."""
    return [PROGRAM, "webhook-config", "--url", server.url, "--ca", str(server.ca_file), *extra]


@contextmanager
def running_server(
    folder: Path, *, settings: str | None = None, extra: tuple[str, ...] = ()
) -> Iterator[WebhookServer]:
    """Run the server with this settings text (YAML) until the end of the block; its log is `server.log` in the folder.

    Raises StartError, with the end of the log, where it does not come to answer.
    """
    authority = create_authority(folder / "keys", "webhook server of a test")
    pair = authority.issue_server("server", SERVING_NAMES)
    settings_file = None
    if settings is not None:
        settings_file = folder / "settings.yaml"
        settings_file.write_text(settings)
    (port,) = free_ports(1)
    command = serve_command(port, pair, settings_file, extra)
    with Fleet() as fleet:
        running = fleet.add(start_process("server", command, folder / "server.log", scrubbed_environment(folder)))
        server = WebhookServer(f"https://127.0.0.1:{port}", authority.ca_file, running)
        wait_until(lambda: _answers(server), what="an answer over TLS", within_seconds=READY_SECONDS, running=running)
        try:
            yield server
        finally:
            running.kill()  # in order it would wait for the API server to close its connections


@contextmanager
def registered(plane: ControlPlane, server: WebhookServer, extra: tuple[str, ...] = ()) -> Iterator[str]:
    """Have the API server call this server until the end of the block; yields the configurations as they were applied.

    Both ends wait until the API server has taken the change in.
    """
    done = subprocess.run(
        configuration_command(server, extra), capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
    )
    assert done.returncode == 0, done.stderr
    plane.apply(done.stdout)
    try:
        wait_for_webhooks(plane)
        yield done.stdout
    finally:
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=done.stdout, check=True)
        wait_for_webhooks(plane)


def _answers(server: WebhookServer) -> bool:
    """Whether anything comes back over TLS and HTTP, whatever its status."""
    try:
        server.client.call("GET", "/", within_seconds=2)
    except (OSError, HTTPException):
        return False
    return True
