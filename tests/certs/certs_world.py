"""What the certificate tests share: a clock that moves when told, a Secret and configurations with their history."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.names import Names, names_of
from certs.pki import Pair, read_pair
from certs.policy import Policy
from certs.store import ConflictError, Secret, WebhookConfiguration

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NAMES = names_of(["rules.numa.svc"])


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def policy(names: Names = NAMES, **changed: Any) -> Policy:
    return Policy(names=names, **changed)


def mint_for_clients(authority: Pair, now: datetime, lifetime: timedelta) -> Pair:
    """Return a certificate for clients, without any alternative name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a client")])
    issuer = authority.certificate.parsed.subject
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), 7, now, now + lifetime)
    builder = builder.add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    signer = serialization.load_pem_private_key(authority.key_pem, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    pem = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return read_pair(pem, key_pem)


@dataclass
class MovingClock:
    """A clock that stands still until it is moved."""

    now: datetime = START

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.now

    def forward(self, number: float) -> None:
        """Move on by a number of seconds."""
        self.now += seconds(number)


@dataclass
class MemorySecrets:
    """A Secret with its every version, and the moment of each."""

    clock: MovingClock = field(default_factory=MovingClock)
    history: list[tuple[datetime, dict[str, bytes]]] = field(default_factory=list)
    before_write: Callable[[], None] = lambda: None

    @property
    def data(self) -> dict[str, bytes]:
        """Return the newest data."""
        return self.history[-1][1] if self.history else {}

    def read(self) -> Secret:
        """Return the newest data and version."""
        return Secret(dict(self.data), str(len(self.history)) if self.history else "")

    def write(self, data: Mapping[str, bytes], version: str) -> str:
        """Write under the conflict check."""
        self.before_write()
        if version != self.read().version:
            raise ConflictError("The Secret has another version.")
        self.history.append((self.clock(), dict(data)))
        return self.read().version

    def put(self, data: Mapping[str, bytes]) -> None:
        """Write as somebody else does: whatever the version."""
        self.history.append((self.clock(), dict(data)))


@dataclass
class MemoryConfigurations:
    """Webhook configurations as JSON objects; patches are applied to them as the API server does."""

    clock: MovingClock = field(default_factory=MovingClock)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: dict[str, list[tuple[datetime, tuple[bytes, ...]]]] = field(default_factory=dict)
    before_patch: Callable[[str], None] = lambda _name: None

    def add(self, name: str, webhooks: Sequence[str], bundle: bytes = b"") -> None:
        """Create a configuration."""
        self.objects[name] = {
            "metadata": {"name": name, "resourceVersion": "1"},
            "webhooks": [{"name": webhook, "clientConfig": _client(bundle)} for webhook in webhooks],
        }
        self._note(name)

    def reset(self, name: str, bundle: bytes = b"") -> None:
        """Put another bundle there, as a GitOps tool does."""
        for webhook in self.objects[name]["webhooks"]:
            webhook["clientConfig"] = _client(bundle)
        self._bump(name)

    def bundles(self, name: str) -> tuple[bytes, ...]:
        """Return the bundle of each webhook of a configuration."""
        return tuple(_held(webhook) for webhook in self.objects[name]["webhooks"])

    def read(self) -> Sequence[WebhookConfiguration]:
        """Return all configurations."""
        return tuple(
            WebhookConfiguration(
                "MutatingWebhookConfiguration",
                name,
                held["metadata"]["resourceVersion"],
                {webhook["name"]: _held(webhook) for webhook in held["webhooks"]},
            )
            for name, held in self.objects.items()
        )

    def patch(self, configuration: WebhookConfiguration, operations: Sequence[Mapping[str, str]]) -> None:
        """Apply a JSON Patch, whole or not at all."""
        self.before_patch(configuration.name)
        held = self.objects[configuration.name]
        changes: list[Callable[[], None]] = []
        for operation in operations:
            *parents, last = operation["path"].split("/")[1:]
            target: Any = held
            for part in parents:
                target = target[int(part)] if isinstance(target, list) else target[part]
            if operation["path"] == "/metadata/resourceVersion":
                assert operation["op"] == "replace"
                if target[last] != operation["value"]:
                    raise ConflictError("409")
            elif operation["op"] == "test":
                if target[last] != operation["value"]:
                    raise ConflictError("422")
            else:
                assert operation["op"] == "add"
                changes.append(lambda target=target, last=last, op=operation: target.update({last: op["value"]}))
        for change in changes:
            change()
        self._bump(configuration.name)

    def _bump(self, name: str) -> None:
        metadata = self.objects[name]["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        self._note(name)

    def _note(self, name: str) -> None:
        self.history.setdefault(name, []).append((self.clock(), self.bundles(name)))


def _client(bundle: bytes) -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"name": "rules", "namespace": "numa"}}
    return {**client, "caBundle": base64.b64encode(bundle).decode()} if bundle else client


def _held(webhook: Mapping[str, Any]) -> bytes:
    return base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
