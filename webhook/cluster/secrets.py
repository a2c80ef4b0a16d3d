"""The one Secret that holds our certificates, in the cluster; a ``certs.store.SecretStore``."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from certs.store import ConflictError, ForbiddenError, Secret, UnavailableError
from webhook.cluster.client import Client
from webhook.cluster.errors import ClusterError, Conflict, Forbidden, NotFound

_CALL_SECONDS = 10.0


class ClusterSecretStore:
    """Reads and replaces one Secret, with the version that was read. Needs the rights ``get`` and ``update`` on it."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        """Take the Secret's place; nothing is asked yet."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{name}"

    def read(self) -> Secret:
        """Return the newest data; a Secret that does not exist is empty.

        Raises:
            StoreError: see ``certs.store``.
        """
        with store_errors():
            try:
                found = self._client.get(self._path, timeout_seconds=_CALL_SECONDS)
            except NotFound:
                return Secret()
        data = found.get("data") or {}
        return Secret(
            {str(name): _decoded(value) for name, value in data.items()}, str(found["metadata"]["resourceVersion"])
        )

    def write(self, data: Mapping[str, bytes], version: str) -> str:
        """Replace all data if the Secret still has ``version``; create it where that is empty.

        Raises:
            ConflictError: the Secret has another version, exists already, or has gone.
            StoreError: see ``certs.store``.
        """
        encoded = {name: base64.b64encode(content).decode("ascii") for name, content in data.items()}
        with store_errors():
            if not version:
                metadata = {"name": self._name, "namespace": self._namespace}
                stored = self._client.post(
                    self._path.rpartition("/")[0],
                    {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded},
                    timeout_seconds=_CALL_SECONDS,
                )
            else:
                # What others wrote beside the data (Helm's labels, owners) stays; an update without it would drop it.
                current = self._client.get(self._path, timeout_seconds=_CALL_SECONDS)
                current["metadata"]["resourceVersion"] = version
                stored = self._client.put(self._path, {**current, "data": encoded}, timeout_seconds=_CALL_SECONDS)
        return str(stored["metadata"]["resourceVersion"])


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn the client's errors into those that ``certs`` knows."""
    try:
        yield
    except (Conflict, NotFound) as error:
        raise ConflictError(_sentence(error)) from error
    except Forbidden as error:
        raise ForbiddenError(_sentence(error)) from error
    except ClusterError as error:
        raise UnavailableError(_sentence(error)) from error


def _sentence(error: ClusterError) -> str:
    text = str(error)
    return text if text.endswith(".") else f"{text}."


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error:  # the API server stores no such thing
        return b""
