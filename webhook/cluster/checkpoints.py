"""The checkpoint in the cluster: a few ConfigMaps, each whole by itself, each written only over what we have seen."""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Final

from webhook.cluster.client import Client
from webhook.cluster.errors import Conflict, NotFound

KEY: Final = "places"
LABEL: Final = "numa-admission/checkpoint"
CALL_SECONDS: Final = 5.0
MOST_BLOB_BYTES: Final = 700 << 10
"""A ConfigMap holds 1 MiB, base64 takes a third more."""


@dataclass(slots=True)
class CheckpointMaps:
    """ConfigMaps ``NAME-0``, ``NAME-1``, ...; a map belongs to one thread."""

    client: Client
    namespace: str
    name: str
    _versions: dict[int, str] = field(default_factory=dict)
    """The version of each map that we read or wrote last: the precondition of the next write."""

    @property
    def collection(self) -> str:
        """Where ConfigMaps of the namespace are."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def read(self, shard: int) -> bytes | None:
        """Return what map ``shard`` holds; None where it is not there or holds no checkpoint.

        Raises:
            ClusterError: the API server did not tell.
        """
        try:
            raw = self.client.get(f"{self.collection}/{self.name}-{shard}", timeout_seconds=CALL_SECONDS)
        except NotFound:
            self._versions.pop(shard, None)
            return None
        self._versions[shard] = str(raw["metadata"]["resourceVersion"])
        try:
            return base64.b64decode((raw.get("binaryData") or {})[KEY], validate=True)
        except (KeyError, TypeError, binascii.Error):
            return None

    def write(self, shard: int, blob: bytes) -> bool:
        """Replace map ``shard``; return False where another wrote it since we read or wrote it last.

        Raises:
            ClusterError: the API server did not answer, or refused.
        """
        name = f"{self.name}-{shard}"
        metadata: dict[str, Any] = {"name": name, "namespace": self.namespace, "labels": {LABEL: self.name}}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        body["binaryData"] = {KEY: base64.b64encode(blob).decode("ascii")}
        version = self._versions.get(shard)
        if version is None:
            # Asked first: who may write the maps of the chart may not create any, and would be refused without a why.
            self.read(shard)
            if shard in self._versions:
                return False
        try:
            if version is None:
                stored = self.client.post(self.collection, body, timeout_seconds=CALL_SECONDS)
            else:
                metadata["resourceVersion"] = version
                stored = self.client.put(f"{self.collection}/{name}", body, timeout_seconds=CALL_SECONDS)
        except NotFound:
            self._versions.pop(shard, None)
            return False
        except Conflict:
            self.read(shard)
            return False
        self._versions[shard] = str(stored["metadata"]["resourceVersion"])
        return True
