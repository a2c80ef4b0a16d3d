"""A kubelet for the chart's own pods: whatever the real controllers and scheduler put on a node runs as processes here.

So a rolling restart is the Deployment controller's, endpoints are the EndpointSlice controller's, and only what needs a
machine is ours: start, probes, restarts of what died, and the end in its order (preStop, TERM, grace, KILL).
Each pod has an address 10.X.Y.N in the cluster (an EndpointSlice must not name loopback) and 127.X.Y.N here, where its
ports are the chart's; `support_proxy` leads from one to the other. Not played: liveness probes, and waiting longer
before each restart.
"""

import os
import random
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import yaml
from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from controlplane.processes import Running
from support_pods import Place, says_yes, start_container
from support_volumes import Volume

RELIST_SECONDS = 1.0
"""How often a real kubelet looks for containers that have died."""
LIST_SECONDS = 0.25
SECRETS_SECONDS = 4.0
"""How often changed Secrets are brought; a real kubelet takes up to 90 s. `hold_pair` makes a pod late."""
INIT_SECONDS = 60.0
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
KILLED = -signal.SIGKILL


class PodLife(threading.Thread):
    """One pod from its binding to its end."""

    def __init__(self, plane: ControlPlane, pod: Mapping[str, Any], folder: Path, network: str, number: int) -> None:
        """Take the pod as it is bound; ``start`` starts it."""
        super().__init__(name=pod["metadata"]["name"], daemon=True)
        self.pod = pod
        self.role = pod["metadata"]["labels"].get("app.kubernetes.io/component", "")
        self.containers: dict[str, Running] = {}
        self.exit_codes: dict[str, int] = {}
        """Of the containers of a pod that was ended in order; KILLED where the grace period was over."""
        self.is_ready = False
        self.fault: BaseException | None = None
        self._plane = plane
        self._path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self._folder = folder
        self.pod_ip = f"10.{network}.{number}"
        self.address = f"127.{network}.{number}"
        self._grace_seconds: float | None = None
        self._ending = threading.Event()
        self._is_halted = False
        self._has_started = False
        self._failures = 0
        self._restarts = 0
        self._holds_pair = False
        self._next_secrets = 0.0
        self._next_probe = 0.0

    @property
    def server(self) -> Running:
        """The container that answers admission calls."""
        return self.containers["server"]

    def served(self) -> str:
        """The certificate that the server shows to a new client now, PEM."""
        return ssl.get_server_certificate(self.front, timeout=5)

    @property
    def front(self) -> tuple[str, int]:
        """Where the server takes admission calls."""
        return self.address, self._port("admission")

    def bring_config_maps(self) -> None:
        """Bring changed ConfigMaps into the volumes, as a kubelet does within 90 s."""
        self._bring("configMap")

    def hold_pair(self) -> None:
        """Go on with the certificate that the pod has: its keeper stands still, or no Secret is brought to it."""
        self._holds_pair = True
        self._signal_keeper(signal.SIGSTOP)

    def release_pair(self) -> None:
        """Let the pod have the newest certificate again."""
        self._holds_pair = False
        self._signal_keeper(signal.SIGCONT)

    def probe(self, path: str) -> bool:
        """Whether the server's probe port says yes at this path now."""
        return says_yes(f"http://{self.address}:{self._port('probes')}{path}")

    def halt(self) -> None:
        """End all containers at once and start none again: the machine has lost its power."""
        self._is_halted = True
        for each in self.containers.values():
            each.kill()

    def end(self, grace_seconds: float) -> None:
        """The pod was deleted: end it in order."""
        self._grace_seconds = grace_seconds
        self._ending.set()

    def run(self) -> None:
        """Live."""
        try:
            place = self._prepare()
            while not self._ending.is_set():
                self._sync(place)
                self._ending.wait(RELIST_SECONDS)
            self._finish()
        except BaseException as fault:  # noqa: BLE001 - told by the test, whose thread is another
            self.fault = fault
        finally:
            for each in list(self.containers.values()):
                each.kill()

    def abandon(self) -> None:
        """End everything at once, the thread as well."""
        self._ending.set()
        for each in list(self.containers.values()):
            each.kill()

    def _prepare(self) -> Place:
        spec, metadata = self.pod["spec"], self.pod["metadata"]
        self._folder.mkdir(parents=True)
        namespace = metadata["namespace"]
        volumes = {}
        for each in spec["volumes"]:
            volume = Volume(self._plane, namespace, each, self._folder / "volumes" / each["name"])
            while not volume.fill() and not self._ending.wait(LIST_SECONDS):
                pass
            volumes[each["name"]] = volume.path
        self._translate(volumes.get("settings"))
        numbers = [port["containerPort"] for each in spec["containers"] for port in each.get("ports", ())]
        place = Place(
            self._plane,
            namespace,
            spec["serviceAccountName"],
            self._folder,
            volumes,
            {number: number for number in numbers},
            self.address,
            {"metadata.name": metadata["name"], "metadata.namespace": namespace},
        )
        for container in spec.get("initContainers", ()):
            running = start_container(place, container)
            code = running.process.wait(INIT_SECONDS)
            running.kill()
            if code != 0:
                raise AssertionError(f"init container {container['name']} ended with {code}:\n{running.log_tail()}")
        return place

    def _bring(self, kind: str) -> None:
        for each in self.pod["spec"]["volumes"]:
            path = self._folder / "volumes" / each["name"]
            if kind in each and path.exists():
                Volume(self._plane, self.pod["metadata"]["namespace"], each, path).fill()

    def _signal_keeper(self, number: signal.Signals) -> None:
        keeper = self.containers.get("certificates")
        if keeper is not None:
            os.kill(keeper.process.pid, number)

    def _translate(self, settings: Path | None) -> None:
        """A leader writes its address into a slice: the one that the cluster knows, which it cannot listen on here."""
        for file in settings.glob("ledger.yaml") if settings is not None else ():
            read = yaml.safe_load(file.read_text())
            if read.get("cluster", {}).get("service"):
                read["cluster"]["advertise"] = f"{self.pod_ip}:{self._port('admission')}"
                file.write_text(yaml.safe_dump(read))

    def _port(self, name: str) -> int:
        ports = (port for each in self.pod["spec"]["containers"] for port in each.get("ports", ()))
        return next(int(port["containerPort"]) for port in ports if port["name"] == name)

    def _sync(self, place: Place) -> None:
        died = False
        for container in self.pod["spec"]["containers"]:
            name = container["name"]
            running = self.containers.get(name)
            if running is not None and running.alive:
                continue
            died = died or running is not None
            if running is not None:
                running.kill()
                self._restarts += 1
            if not self._is_halted and not self._ending.is_set():
                self.containers[name] = start_container(place, container)
        if died:
            self._has_started = False
            self._failures = 0
            self._tell(is_ready=False)
        if time.monotonic() >= self._next_secrets and not self._holds_pair:
            self._next_secrets = time.monotonic() + SECRETS_SECONDS
            with suppress(OSError, ApiError):  # an API server that is away; the next time comes soon
                self._bring("secret")
        self._probe()

    def _probe(self) -> None:
        """Startup, then readiness, with the periods and thresholds that the pod names."""
        if time.monotonic() < self._next_probe:
            return
        (server,) = [each for each in self.pod["spec"]["containers"] if each["name"] == "server"]
        probe = server["readinessProbe" if self._has_started else "startupProbe"]
        self._next_probe = time.monotonic() + probe["periodSeconds"]
        answer = self.probe(probe["httpGet"]["path"])
        if not self._has_started:
            self._has_started = answer
            self._next_probe = 0.0 if answer else self._next_probe
            if answer:
                self._probe()
            return
        self._failures = 0 if answer else self._failures + 1
        self._tell(is_ready=answer or (self.is_ready and self._failures < probe["failureThreshold"]))

    def _tell(self, *, is_ready: bool) -> None:
        if is_ready == self.is_ready and self._has_started:
            return
        self.is_ready = is_ready
        word = "True" if is_ready else "False"
        running = {"running": {"startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
        statuses = [
            {
                "name": each["name"],
                "ready": is_ready,
                "restartCount": self._restarts,
                "image": each["image"],
                "imageID": "",
                "state": running,
            }
            for each in self.pod["spec"]["containers"]
        ]
        status = {
            "phase": "Running",
            "podIP": self.pod_ip,
            "podIPs": [{"ip": self.pod_ip}],
            "conditions": [{"type": kind, "status": word} for kind in ("Ready", "ContainersReady")],
            "containerStatuses": statuses,
        }
        self._plane.api("PATCH", f"{self._path}/status", {"status": status}, content_type=STRATEGIC_PATCH)

    def _finish(self) -> None:
        if self._grace_seconds is None:
            return  # abandoned
        deadline = time.monotonic() + self._grace_seconds
        threads = [
            threading.Thread(target=self._end_container, args=(each, deadline))
            for each in self.pod["spec"]["containers"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._plane.api("DELETE", f"{self._path}?gracePeriodSeconds=0")

    def _end_container(self, container: Mapping[str, Any], deadline: float) -> None:
        running = self.containers.get(container["name"])
        if running is None:
            return
        hook = container.get("lifecycle", {}).get("preStop")
        if hook is not None:
            subprocess.run(hook["exec"]["command"], check=True, timeout=max(deadline - time.monotonic(), 0.1))
        with suppress(ProcessLookupError):
            # The container's first process gets the signal, not all of them.
            os.kill(running.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(max(deadline - time.monotonic(), 0.1))
        self.exit_codes[container["name"]] = running.kill()


class LocalKubelet:
    """Runs every pod of one release that is bound to a node."""

    def __init__(self, plane: ControlPlane, namespace: str, instance: str, folder: Path) -> None:
        """Take the release; entering the block starts."""
        self._plane = plane
        self._folder = folder
        self._list = (
            f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Finstance%3D{instance}"
            "&fieldSelector=spec.nodeName!%3D"
        )
        # Two test runs on one machine must not meet.
        self._network = f"{random.randrange(64, 128)}.{random.randrange(256)}"
        self._lives: dict[str, PodLife] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def __enter__(self) -> Self:
        """Start to look for pods."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all pods at once."""
        self._stopping.set()
        self._thread.join()
        for life in self._lives.values():
            life.abandon()
        for life in self._lives.values():
            life.join()

    def lives(self, role: str | None = None) -> list[PodLife]:
        """The pods that run now, oldest first. Raises the fault of any pod that could not."""
        for life in self._lives.values():
            if life.fault is not None:
                raise AssertionError(f"pod {life.name}: {life.fault}") from life.fault
        return [life for life in self._lives.values() if life.is_alive() and role in (None, life.role)]

    def ended(self) -> Iterator[PodLife]:
        """The pods that were ended in order."""
        return (life for life in self._lives.values() if life.exit_codes)

    def ready(self, role: str) -> list[PodLife]:
        """Those of a role that are ready."""
        return [life for life in self.lives(role) if life.is_ready]

    def _run(self) -> None:
        while not self._stopping.wait(LIST_SECONDS):
            answer = _tried(lambda: self._plane.api("GET", self._list))
            if answer is None or answer.status != 200:
                continue  # an API server that is away; the next look comes soon
            for pod in answer.json()["items"]:
                self._see(pod)

    def _see(self, pod: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        life = self._lives.get(metadata["uid"])
        if life is None:
            number = len(self._lives) + 1
            life = PodLife(self._plane, pod, self._folder / metadata["name"], self._network, number)
            self._lives[metadata["uid"]] = life
            life.start()
        if "deletionTimestamp" in metadata:
            life.end(metadata["deletionGracePeriodSeconds"])


def _tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except OSError:
        return None
