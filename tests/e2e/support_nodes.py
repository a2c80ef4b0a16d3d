"""One node of hollow kubelets, and what becomes of nodes: rebooted, cordoned, relabelled, removed and added again."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.client import MERGE_PATCH, Answer
from controlplane.plane import ControlPlane

STRATEGIC_PATCH = "application/strategic-merge-patch+json"
BOOT = "hollow.numa-admission/boot"
UNPLUGGED = "hollow.numa-admission/unplugged"
UNHEALTHY = "hollow.numa-admission/unhealthy"


@dataclass(frozen=True)
class Node:
    """A node by name; every method is one call of the API server, whose answer it returns."""

    plane: ControlPlane
    name: str

    @property
    def _path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    def stored(self) -> dict[str, Any]:
        """The node as stored."""
        found: dict[str, Any] = self.plane.get(self._path)
        return found

    def allocatable(self, resource: str) -> int:
        """So many of it the kubelet says that it can give out."""
        return int(self.stored()["status"]["allocatable"].get(resource, 0))

    def change(self, metadata: Mapping[str, Any] | None = None, spec: Mapping[str, Any] | None = None) -> Answer:
        """Change it; None as a value takes the key off."""
        body = {"metadata": dict(metadata or {}), "spec": dict(spec or {})}
        return self.plane.api("PATCH", self._path, body, content_type=MERGE_PATCH)

    def label(self, labels: Mapping[str, str | None]) -> Answer:
        """Put labels on, or (None) take them off."""
        return self.change(metadata={"labels": dict(labels)})

    def cordon(self, *, is_closed: bool) -> Answer:
        """Close it to the scheduler, or open it."""
        return self.change(spec={"unschedulable": is_closed or None})

    def say_ready(self, *, is_ready: bool) -> Answer:
        """Say so in its status: as its kubelet does, or the controller that has not heard of it for long."""
        condition = {"type": "Ready", "status": "True" if is_ready else "Unknown", "reason": "Hollow"}
        status = {"status": {"conditions": [condition]}}
        return self.plane.api("PATCH", f"{self._path}/status", status, content_type=STRATEGIC_PATCH)

    def reboot(self, *, unplugged: tuple[str, ...] = ()) -> Answer:
        """Boot the machine; the device plugins of ``unplugged`` do not come before ``plug``."""
        missing = json.dumps(unplugged) if unplugged else None
        return self.change(metadata={"annotations": {BOOT: uuid.uuid4().hex, UNPLUGGED: missing}})

    def plug(self) -> Answer:
        """The device plugins that were late come."""
        return self.change(metadata={"annotations": {UNPLUGGED: None}})

    def fall_ill(self, devices: Mapping[str, tuple[str, ...]]) -> Answer:
        """These devices, by resource, are ill, and no others."""
        return self.change(metadata={"annotations": {UNHEALTHY: json.dumps(devices) if devices else None}})

    def remove(self) -> dict[str, Any]:
        """Delete it; what was stored is returned."""
        stored = self.stored()
        self.plane.api("DELETE", self._path).wanted()
        return stored

    def add_again(self, stored: Mapping[str, Any]) -> None:
        """Register it as it was, under the same name."""
        kept = {key: stored["metadata"][key] for key in ("name", "labels")}
        body = {**stored, "metadata": kept, "spec": {}}
        self.plane.api("POST", "/api/v1/nodes", body).wanted()
        # Admission taints every new node as not ready; the controller that would take the taint off is not run.
        self.change(spec={"taints": None}).wanted()
