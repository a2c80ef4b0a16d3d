"""A throw-away certificate authority: minted for one run, kept in that run's temporary folder, gone with it."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Tests run for minutes; a clock that is an hour behind the machine's own is forgiven.
LIFETIME = dt.timedelta(days=2)
BACKDATED = dt.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """The files of a certificate (PEM) and of its private key (PEM, PKCS 8)."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority whose files lie in one folder: `ca.crt` and what was issued."""

    folder: Path
    _certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @property
    def ca_file(self) -> Path:
        """The authority's own certificate (PEM)."""
        return self.folder / "ca.crt"

    def issue_server(self, stem: str, names: tuple[str, ...]) -> KeyPair:
        """A serving certificate for the DNS names and IP addresses, in STEM.crt and STEM.key."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue(stem, subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def issue_client(self, stem: str, user: str, groups: tuple[str, ...]) -> KeyPair:
        """A client certificate that the API server reads as this user in these groups, in STEM.crt and STEM.key."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(stem, subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        stem: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        pair = KeyPair(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")
        pair.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        write_private_key(pair.key, key)
        return pair


def create_authority(folder: Path, common_name: str = "control plane of a test") -> Authority:
    """Mint an authority; its certificate is written to `ca.crt` in the folder, its key stays in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    authority = Authority(folder, certificate, key)
    authority.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return authority


def create_signing_keys(folder: Path, stem: str) -> tuple[Path, Path]:
    """Mint a bare key pair, as service-account tokens are signed with: the files of private and public key (PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / f"{stem}.key", folder / f"{stem}.pub"
    write_private_key(private, key)
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def write_private_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a key for its owner's eyes only."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFETIME)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
