"""Where certificates and bundles live: what the rotator asks of its surroundings, as protocols.

    StoreError
    ├── ConflictError      somebody else wrote in between: look again
    ├── ForbiddenError     we may not; an admin must act
    └── UnavailableError   no answer, a time-out, a full disk: try again later

An implementation wraps its library's errors into these, sets a time limit of at most 10 seconds to every call, and
makes its message a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from certs.bundle import PatchOperation


class StoreError(Exception):
    """Base of what a store may raise; only its subclasses are used."""


class ConflictError(StoreError):
    """The object is not the version any more that the caller read."""


class ForbiddenError(StoreError):
    """The caller lacks the right to read or write the object."""


class UnavailableError(StoreError):
    """The store did not answer, or not in time, or could not do it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret's data and the version that a write must name. A Secret that does not exist is empty with version ""."""

    data: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    version: str = ""


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """One Mutating- or ValidatingWebhookConfiguration, as far as trust goes."""

    kind: str
    name: str
    version: str
    """metadata.resourceVersion."""
    ca_bundles: Mapping[str, bytes]
    """Webhook name to decoded ``caBundle`` (``b""`` where there is none), in the order of the ``webhooks`` list."""


class SecretStore(Protocol):
    """The one Secret that holds our certificates."""

    def read(self) -> Secret:
        """Return the newest data and its version, from the source and not from a cache.

        Raises:
            StoreError: see the tree above.
        """
        ...

    def write(self, data: Mapping[str, bytes], version: str) -> str:
        """Replace all data if the Secret still has ``version`` ("": if it does not exist), and return the new version.

        Raises:
            ConflictError: the Secret has another version, or exists already.
            StoreError: see the tree above.
        """
        ...


class ConfigurationStore(Protocol):
    """The webhook configurations whose ``caBundle`` is ours to keep."""

    def read(self) -> Sequence[WebhookConfiguration]:
        """Return those that exist, from the source and not from a cache.

        Raises:
            StoreError: see the tree above.
        """
        ...

    def patch(self, configuration: WebhookConfiguration, operations: Sequence[PatchOperation]) -> None:
        """Apply a JSON Patch (``certs.bundle.configuration_patch``) to the configuration.

        Raises:
            ConflictError: it has changed or gone since it was read (HTTP 409, 422, 404).
            StoreError: see the tree above.
        """
        ...


class NoConfigurations:
    """A configuration store without any: for development, and where something else injects the bundle."""

    def read(self) -> Sequence[WebhookConfiguration]:
        """Return nothing."""
        return ()

    def patch(self, configuration: WebhookConfiguration, operations: Sequence[PatchOperation]) -> None:
        """Refuse: there is nothing to patch."""
        raise ConflictError(f"There is no configuration {configuration.name} to apply {len(operations)} changes to.")
