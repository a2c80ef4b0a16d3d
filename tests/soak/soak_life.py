"""Random life in a cluster: pods and workloads that come and go in every way, and nodes that change."""

import random
import time
from collections import Counter
from http.client import HTTPException
from typing import Any

from controlplane.client import Answer, ApiError
from controlplane.plane import ControlPlane
from support_crds import DEVICES, gpus
from support_guarded import CLASS_LABEL, GPU, MACHINE_LABEL, spec, workload
from support_nodes import Node

MOST_PODS = 60
"""Stored at a time: about twice what runs on the soak's nodes."""
QUIET_SECONDS = 2.0
"""From one stage of a reboot to the next: the bindings that were on their way when the node was closed have arrived."""


class Life:
    """One step after the other; what cannot be done (the pod has just gone) is no fault."""

    def __init__(self, plane: ControlPlane, space: str, nodes: list[Node], seed: int) -> None:
        self._plane = plane
        self._space = space
        self._nodes = nodes
        self._random = random.Random(seed)
        self._count = 0
        self._booting: tuple[Node, int, float] | None = None
        """The node that is being rebooted, how far that has come, and since when."""
        self.reboots = 0
        self.done: Counter[str] = Counter()
        """What was done how often, by name and HTTP status."""

    def step(self) -> None:
        """Do one thing."""
        steps = {
            self._create: 10,
            self._create_same_name: 1,
            self._create_dry: 1,
            self._workload: 1,
            self._delete: 5,
            self._delete_by_force: 1,
            self._evict: 3,
            self._end_workload: 1,
            self._change_node: 1,
            self._boot: 2,
            self._device: 1,
            self._guest: 1,
        }
        (step,) = self._random.choices(list(steps), list(steps.values()))
        try:
            answer = step()
        except (OSError, HTTPException, ApiError):
            self.done[f"{step.__name__} unanswered"] += 1
            return
        if answer is not None:
            self.done[f"{step.__name__} {answer.status}"] += 1

    def _pods(self) -> list[dict[str, Any]]:
        answer = self._plane.api("GET", f"/api/v1/namespaces/{self._space}/pods")
        return list(answer.json()["items"]) if answer.status == 200 else []

    def _body(self) -> dict[str, Any]:
        self._count += 1
        metadata: dict[str, Any] = {"name": f"p{self._count}"}
        if self._random.random() < 0.3:
            metadata["annotations"] = {"hollow.numa-admission/run-seconds": str(self._random.randint(1, 20))}
        return {"metadata": metadata, "spec": self._spec()}

    def _spec(self) -> dict[str, Any]:
        drawn = spec("", self._random.choice([1, 1, 1, 2, 2, 3, 4]))
        amounts = drawn["containers"][0]["resources"]
        cpu = str(self._random.choice([1, 2, 4]))
        amounts["limits"] = amounts["requests"] = {**amounts["limits"], "cpu": cpu}
        drawn["nodeSelector"] = dict(MACHINE_LABEL)
        if self._random.random() < 0.1:
            drawn["nodeSelector"] = {CLASS_LABEL: self._random.choice(["pool-0", "nowhere"])}
        if self._random.random() < 0.05:
            drawn["schedulingGates"] = [{"name": "soak.example/wait"}]
        return drawn

    def _post(self, body: dict[str, Any], query: str = "") -> Answer:
        return self._plane.api("POST", f"/api/v1/namespaces/{self._space}/pods{query}", body)

    def _create(self) -> Answer | None:
        if len(self._pods()) >= MOST_PODS:
            return self._delete()
        return self._post(self._body())

    def _create_dry(self) -> Answer:
        return self._post(self._body(), "?dryRun=All")

    def _create_same_name(self) -> Answer | None:
        pods = self._pods()
        if not pods:
            return None
        body = self._body()
        body["metadata"]["name"] = self._random.choice(pods)["metadata"]["name"]
        return self._post(body)

    def _workload(self) -> Answer:
        self._count += 1
        body = workload("Deployment", f"d{self._count}", "", 1, self._random.randint(1, 3))
        body["spec"]["template"]["spec"] = {**self._spec(), "schedulingGates": None}
        return self._plane.api("POST", f"/apis/apps/v1/namespaces/{self._space}/deployments", body)

    def _end_workload(self) -> Answer | None:
        path = f"/apis/apps/v1/namespaces/{self._space}/deployments"
        answer = self._plane.api("GET", path)
        if answer.status != 200 or not answer.json()["items"]:
            return None
        name = self._random.choice(answer.json()["items"])["metadata"]["name"]
        return self._plane.api("DELETE", f"{path}/{name}?propagationPolicy=Background")

    def _one(self) -> str:
        pods = self._pods()
        return f"/api/v1/namespaces/{self._space}/pods/{self._random.choice(pods)['metadata']['name']}" if pods else ""

    def _delete(self) -> Answer | None:
        path = self._one()
        return self._plane.api("DELETE", path) if path else None

    def _delete_by_force(self) -> Answer | None:
        path = self._one()
        return self._plane.api("DELETE", f"{path}?gracePeriodSeconds=0") if path else None

    def _evict(self) -> Answer | None:
        path = self._one()
        if not path:
            return None
        metadata = {"name": path.rpartition("/")[2], "namespace": self._space}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        return self._plane.api("POST", f"{path}/eviction", body)

    def _change_node(self) -> Answer:
        """Cordon a node, or let it in again, or label it; one that is being rebooted stays closed."""
        node = self._random.choice(self._nodes)
        action = self._random.choice(["close", "open", "open", "label"])
        if action == "label" or (self._booting and node == self._booting[0]):
            return node.label({"soak": str(self._random.randint(0, 3))})
        return node.cordon(is_closed=action == "close")

    def _boot(self) -> Answer | None:
        """Take one node a stage further: closed, away and booted, back, its device plugin there, open.

        A plugin that is late costs the pods that ran, never those that come: nothing is sent there meanwhile.
        """
        node, stage, since = self._booting or (self._random.choice(self._nodes), 0, 0.0)
        if time.monotonic() - since < QUIET_SECONDS:
            return None
        answer = [
            lambda: node.cordon(is_closed=True),
            lambda: node.say_ready(is_ready=False),
            lambda: node.reboot(unplugged=self._random.choice([(), (GPU,)])),
            lambda: node.say_ready(is_ready=True),
            node.plug,
            lambda: node.cordon(is_closed=False),
        ][stage]()
        if answer.status == 200:
            self.reboots += stage == 2
            self._booting = (node, stage + 1, time.monotonic()) if stage < 5 else None
        return answer

    def _device(self) -> Answer | None:
        """Take a node's Device away, or put one there; all GPUs in it are well, as the node's plugin says."""
        node = self._random.choice(self._nodes)
        if DEVICES.get(self._plane, node.name) is not None:
            return self._plane.api("DELETE", DEVICES.path(node.name))
        DEVICES.put(self._plane, node.name, gpus())
        return None

    def _guest(self) -> Answer:
        """A node without a kubelet that comes and goes; nothing is sent there, for nobody would answer."""
        path = "/api/v1/nodes/guest"
        if self._plane.api("GET", path).status == 200:
            return self._plane.api("DELETE", path)
        room = {"cpu": "8", "memory": "32Gi", GPU: "8", "pods": "10"}
        status = {"capacity": room, "allocatable": room}
        node = {"metadata": {"name": "guest"}, "spec": {"unschedulable": True}, "status": status}
        return self._plane.api("POST", "/api/v1/nodes", node)
