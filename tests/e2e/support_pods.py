"""Pods of a rendered Deployment as local processes: their own command, arguments, environment and files.

There is no kubelet and no container runtime here, so this does their part, and only that: volumes become folders,
the pod's address and ports become ones of loopback, and the service account's token becomes a kubeconfig with that same
token (a client in a pod finds both at a fixed path, which a process cannot have). `support_kubelet` does it for every
pod that is bound.
"""

import random
import re
import socket
import sys
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import yaml
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import Fleet, Running, StartError, start_process, wait_until
from support_server import PROGRAM
from support_volumes import Volume

READY_SECONDS = 60.0
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
LOOPBACK = "127.0.0.1"
# The image's programs, as they are installed here.
PROGRAMS = MappingProxyType({"numa-admission": PROGRAM, "python": sys.executable})


@dataclass(frozen=True)
class LocalPod:
    """One pod's containers as processes."""

    fleet: Fleet
    folder: Path
    ports: Mapping[int, int]
    """Container port to the port of loopback that stands for it."""
    volumes: tuple[Volume, ...]

    def refresh_volumes(self) -> None:
        """Bring changed ConfigMaps and Secrets into the containers, as a kubelet does within some 90 s."""
        for each in self.volumes:
            each.fill()

    def stop(self) -> None:
        """End all containers as a deleted pod's."""
        self.fleet.stop_all()

    def kill(self) -> None:
        """End all containers at once, as a node that loses its power."""
        for name in self.fleet.names():
            self.fleet.get(name).kill()


@dataclass(frozen=True)
class Place:
    """Where a pod's containers run."""

    plane: ControlPlane
    namespace: str
    account: str
    folder: Path
    volumes: Mapping[str, Path]
    ports: Mapping[int, int]
    address: str = LOOPBACK
    """The address of loopback that stands for the pod's."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """What the pod is told of itself (fieldRef); what is not named here is the address."""


def start_pod(plane: ControlPlane, deployment: Mapping[str, Any], folder: Path, ports: Mapping[int, int]) -> LocalPod:
    """Start a pod of the Deployment as it is stored in the cluster; returns once all its containers are ready.

    Raises StartError or AssertionError, with the end of a container's log, where one does not become ready.
    """
    spec = deployment["spec"]["template"]["spec"]
    namespace = deployment["metadata"]["namespace"]
    folder.mkdir(parents=True)
    volumes = [Volume(plane, namespace, each, folder / "volumes" / each["name"]) for each in spec["volumes"]]
    for each in volumes:
        assert each.fill(), f"nothing that volume {each.wanted['name']} could hold is there"
    paths = {each.wanted["name"]: each.path for each in volumes}
    place = Place(plane, namespace, spec["serviceAccountName"], folder, paths, ports)
    for container in spec.get("initContainers", ()):
        running = start_container(place, container)
        code = running.process.wait(READY_SECONDS)
        assert code == 0, f"init container {container['name']} ended with {code}:\n{running.log_tail()}"
        running.kill()
    fleet = Fleet()
    try:
        for container in spec["containers"]:
            running = fleet.add(start_container(place, container))
            _wait_ready(running, container, ports)
    except BaseException:
        fleet.stop_all()
        raise
    return LocalPod(fleet, folder, ports, tuple(volumes))


def quiet_ports(count: int) -> tuple[int, ...]:
    """Distinct free ports of loopback that no outgoing connection is given: they stay free until a server takes them.

    Between choosing a Service's port and starting its server lies an installation, seconds in which API server and
    clients open many connections, each from a port of Linux' own range (32768 and above).
    """
    found: list[int] = []
    for port in random.sample(range(20000, 30000), 1000):
        with socket.socket() as one:
            try:
                one.bind((LOOPBACK, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return tuple(found)
    raise StartError(f"There are no {count} free ports.")


def local_ports(deployment: Mapping[str, Any], admission_port: int | None = None) -> dict[int, int]:
    """A free port for each of the containers' ports; the admission port may be given. Host ports are what they are."""
    wanted = {
        port["containerPort"]: port["name"]
        for container in deployment["spec"]["template"]["spec"]["containers"]
        for port in container.get("ports", ())
    }
    if deployment["spec"]["template"]["spec"].get("hostNetwork"):
        return {number: number for number in wanted}
    free = dict(zip(wanted, quiet_ports(len(wanted)), strict=True))
    return {
        number: admission_port if admission_port and name == "admission" else free[number]
        for number, name in wanted.items()
    }


def start_container(place: Place, container: Mapping[str, Any]) -> Running:
    """Start a container's process; its log is NAME.log in the pod's folder, a restarted one goes on in it."""
    mounts = {mount["mountPath"]: place.volumes[mount["name"]] for mount in container.get("volumeMounts", ())}
    words = [*container["command"], *container.get("args", ())]
    command = [_local(word, mounts, place) for word in words]
    command[0] = PROGRAMS[command[0]]
    environment = {
        **scrubbed_environment(place.folder),
        **{each["name"]: each.get("value") or _told(place, each) for each in container.get("env", ())},
        "TMPDIR": str(mounts["/tmp"]),  # noqa: S108 - the container's
        # The image has the package installed; here it is found beside the tests.
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    if TOKEN_MOUNT in mounts:
        kubeconfig = mounts[TOKEN_MOUNT] / "kubeconfig"
        if not kubeconfig.exists():
            kubeconfig.write_text(account_kubeconfig(place.plane, place.namespace, place.account))
        environment["KUBECONFIG"] = str(kubeconfig)
    log = place.folder / f"{container['name']}.log"
    return start_process(container["name"], command, log, environment)


def _told(place: Place, variable: Mapping[str, Any]) -> str:
    return place.fields.get(variable["valueFrom"]["fieldRef"]["fieldPath"], place.address)


def _local(word: str, mounts: Mapping[str, Path], place: Place) -> str:
    """A word of the command line with the container's paths, addresses and ports replaced by ours, each once."""
    paths = "|".join(re.escape(mount) for mount in sorted(mounts, key=len, reverse=True))
    if paths:
        word = re.sub(rf"(?<![^=])({paths})(?=/|$)", lambda found: str(mounts[found[1]]), word)
    address = re.fullmatch(r"(.*=)?(?:0\.0\.0\.0|\$\(POD_IP\)):(\d+)", word)
    return f"{address[1] or ''}{place.address}:{place.ports[int(address[2])]}" if address else word


def pod_command(container: Mapping[str, Any]) -> list[str]:
    """The command line of a container that names neither files nor ports."""
    command = [*container["command"], *container.get("args", ())]
    return [PROGRAMS[command[0]], *command[1:]]


def account_environment(plane: ControlPlane, namespace: str, account: str, folder: Path) -> dict[str, str]:
    """What a pod of this service account finds: the API server's address, and token and trust in a folder."""
    folder.mkdir()
    (folder / "token").write_text(_token(plane, namespace, account))
    (folder / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    where = urlsplit(plane.server_url)
    return {
        **scrubbed_environment(folder),
        "KUBERNETES_SERVICE_HOST": str(where.hostname),
        "KUBERNETES_SERVICE_PORT": str(where.port),
        "SERVICE_ACCOUNT_DIRECTORY": str(folder),
    }


def _token(plane: ControlPlane, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = plane.api("POST", path, {"spec": {"expirationSeconds": 3600}}).wanted().json()
    return str(answer["status"]["token"])


def account_kubeconfig(plane: ControlPlane, namespace: str, account: str) -> str:
    """A kubeconfig with a fresh token of the service account: the rights that the chart gives it and no others."""
    token = _token(plane, namespace, account)
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": plane.server_url, "certificate-authority": str(plane.ca_file)}}
            ],
            "users": [{"name": "account", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "account", "namespace": namespace}}],
            "current-context": "test",
        }
    )


def _wait_ready(running: Running, container: Mapping[str, Any], ports: Mapping[int, int]) -> None:
    """Wait as the kubelet does: for the readiness probe; a container without one is ready once it runs."""
    probe = container.get("readinessProbe")
    if probe is None:
        return
    (number,) = [port["containerPort"] for port in container["ports"] if port["name"] == probe["httpGet"]["port"]]
    address = f"http://{LOOPBACK}:{ports[number]}{probe['httpGet']['path']}"
    wait_until(lambda: says_yes(address), what=f"a yes from {address}", within_seconds=READY_SECONDS, running=running)


def says_yes(address: str) -> bool:
    """Whether a GET of this address is answered with 200 now."""
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310 - of loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def lead_to_loopback(plane: ControlPlane, namespace: str, service: str) -> None:
    """Make the Service lead the API server to loopback, since there is no pod network: ExternalName localhost."""
    change = {"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}}
    path = f"/api/v1/namespaces/{namespace}/services/{service}"
    plane.api("PATCH", path, change, content_type="application/merge-patch+json").wanted()


def unique(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}-{uuid.uuid4().hex[:6]}"
