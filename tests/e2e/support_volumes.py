"""Volumes of a pod as folders, filled from the cluster and laid out as the kubelet does it."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from controlplane.plane import ControlPlane

from certs.directory import DirectoryStore


@dataclass(frozen=True)
class Volume:
    """One volume of a pod: a ConfigMap's, a Secret's, or an empty one."""

    plane: ControlPlane
    namespace: str
    wanted: Mapping[str, Any]
    """As the pod's spec has it."""
    path: Path

    def fill(self) -> bool:
        """Make the folder hold what the cluster holds now; all files of a change appear in one step.

        False where the Secret, or a key of it that the pod wants, is not there: the folder stays as it is, and a pod
        that is about to start waits.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if "configMap" in self.wanted:
            self._swap({name: text.encode() for name, text in self._data("configmaps", "configMap", "name").items()})
        if "secret" in self.wanted:
            data = self._data("secrets", "secret", "secretName")
            items = self.wanted["secret"]["items"]
            if any(item["key"] not in data for item in items):
                return False
            self._swap({item["path"]: base64.b64decode(data[item["key"]]) for item in items})
        return True

    def _data(self, collection: str, kind: str, name_key: str) -> dict[str, str]:
        name = self.wanted[kind][name_key]
        answer = self.plane.api("GET", f"/api/v1/namespaces/{self.namespace}/{collection}/{name}")
        if kind == "secret" and answer.status == HTTPStatus.NOT_FOUND:
            return {}
        return answer.wanted().json().get("data") or {}

    def _swap(self, files: dict[str, bytes]) -> None:
        folder = DirectoryStore(self.path)
        held = folder.read()
        if held.data != files:
            folder.write(files, held.version)
