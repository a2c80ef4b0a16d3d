"""The webhook configurations whose ``caBundle`` is ours to keep; a ``certs.store.ConfigurationStore``."""

import base64
import binascii
from collections.abc import Sequence

from certs.bundle import PatchOperation
from certs.store import ConflictError, WebhookConfiguration
from webhook.cluster.client import JSON_PATCH, Client, Json
from webhook.cluster.errors import NotFound, Rejected
from webhook.cluster.secrets import store_errors

_API = "/apis/admissionregistration.k8s.io/v1"
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_CALL_SECONDS = 10.0
_UNPROCESSABLE = 422


class ClusterConfigurationStore:
    """Both configurations of one name. Needs the rights ``get`` and ``patch`` on them."""

    def __init__(self, client: Client, name: str) -> None:
        """Take the name that both configurations have; nothing is asked yet."""
        self._client = client
        self._name = name

    def read(self) -> Sequence[WebhookConfiguration]:
        """Return those of the two that exist.

        Raises:
            StoreError: see ``certs.store``.
        """
        found = []
        for kind in _KINDS:
            with store_errors():
                try:
                    one = self._client.get(self._path(kind), timeout_seconds=_CALL_SECONDS)
                except NotFound:
                    continue
            found.append(_configuration(kind, one))
        return tuple(found)

    def patch(self, configuration: WebhookConfiguration, operations: Sequence[PatchOperation]) -> None:
        """Apply a JSON Patch, which names the version it was made for.

        Raises:
            ConflictError: the configuration has changed or gone since it was read.
            StoreError: see ``certs.store``.
        """
        with store_errors():
            try:
                self._client.patch(
                    self._path(configuration.kind), list(operations), JSON_PATCH, timeout_seconds=_CALL_SECONDS
                )
            except Rejected as error:
                if error.status == _UNPROCESSABLE:  # a test of the patch failed: the entries are in another order now
                    raise ConflictError(f"{configuration.kind} {configuration.name} has changed: {error}.") from error
                raise

    def _path(self, kind: str) -> str:
        return f"{_API}/{kind.lower()}s/{self._name}"


def _configuration(kind: str, found: Json) -> WebhookConfiguration:
    metadata = found["metadata"]
    return WebhookConfiguration(
        kind=kind,
        name=str(metadata["name"]),
        version=str(metadata["resourceVersion"]),
        ca_bundles={str(entry["name"]): _bundle(entry) for entry in found.get("webhooks") or ()},
    )


def _bundle(entry: Json) -> bytes:
    try:
        return base64.b64decode(entry["clientConfig"].get("caBundle") or "", validate=True)
    except binascii.Error:  # the API server stores no such thing
        return b""
