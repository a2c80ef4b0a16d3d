"""Read and mint: our own authority (ECDSA P-256), leaves for servers, and both back from PEM into frozen values."""

import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.faults import UnreadableError, WrongKeyError
from certs.names import Names

_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----"
_OTHER_BLOCK = re.compile(rb"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----\s.*?\s-----END (?P=kind)-----", re.DOTALL)
_LARGEST_PEM_BYTES = 1 << 20  # a Secret may hold 1 MiB in all (Kubernetes, "MaxSecretSize")
_LARGEST_BACKDATE = timedelta(hours=1)
"""For clocks that are behind: a replica refuses a pair that its own clock calls not yet valid, while the rotator goes
on and ends the old trust minutes later. kube-controller-manager's signer grants 5 minutes; a clock that is off by a
time zone is off by an hour."""
_BACKDATE_SHARE = 10  # and never more than a tenth of the lifetime, or a short certificate would be born old
_PARSE_FAULTS = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)  # what the library raises for bytes that are no certificate; they share no base class


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate and what we need of it. Equal if the DER bytes are equal."""

    fingerprint: str
    """SHA-256 of the DER form, 64 hex digits."""
    pem: bytes = field(compare=False, repr=False)
    """Normalised: one block, 64 columns, one trailing line feed."""
    subject: str = field(compare=False)
    not_before: datetime = field(compare=False)
    not_after: datetime = field(compare=False)
    names: Names = field(compare=False)
    is_authority: bool = field(compare=False)
    may_serve: bool = field(compare=False)
    """The extended key usage is absent or names server authentication."""
    parsed: x509.Certificate = field(compare=False, repr=False)

    @property
    def lifetime(self) -> timedelta:
        """Return not_after minus not_before."""
        return self.not_after - self.not_before

    def valid_at(self, moment: datetime) -> bool:
        """Return whether ``moment`` lies in the certificate's time, both ends included (RFC 5280 4.1.2.5)."""
        return self.not_before <= moment and not self.is_over_at(moment)

    def is_over_at(self, moment: datetime) -> bool:
        """Return whether the certificate's time has ended. By a clock that is behind, one in use may not have begun."""
        return moment > self.not_after

    def issued_by(self, authority: "Certificate") -> bool:
        """Return whether ``authority`` may sign, bears the issuer's name, and its key made the signature."""
        if not authority.is_authority:
            return False
        try:
            self.parsed.verify_directly_issued_by(authority.parsed)
        except Exception:  # noqa: BLE001 - ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm: all mean no
            return False
        return True


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, the intermediates that came with it, and its private key (never shown by ``repr``)."""

    certificate: Certificate
    chain: tuple[Certificate, ...] = ()
    key_pem: bytes = field(default=b"", repr=False)

    @property
    def certificates_pem(self) -> bytes:
        """Return leaf and intermediates as the PEM text of a ``tls.crt``."""
        return b"".join(certificate.pem for certificate in (self.certificate, *self.chain))


def read_certificates(pem: bytes, *, what: str = "The certificate") -> tuple[Certificate, ...]:
    """Return every certificate of the PEM text, in its order; text between blocks is skipped.

    Raises:
        UnreadableError: no certificate, a block that does not parse or is cut off, or one of another kind at the end.
    """
    if len(pem) > _LARGEST_PEM_BYTES:
        raise UnreadableError(f"{what} is {len(pem)} bytes long; at most {_LARGEST_PEM_BYTES} are read.")
    begun = pem.count(_BEGIN)
    if not begun:
        raise UnreadableError(f"{what} holds no PEM block of a certificate.")
    try:
        loaded = x509.load_pem_x509_certificates(pem)
        certificates = tuple(_facts(one) for one in loaded)
    except _PARSE_FAULTS as error:
        raise UnreadableError(f"{what} is not readable as PEM; it may be half-written.") from error
    behind = pem.rpartition(_END)[2].lstrip()
    if other := _OTHER_BLOCK.match(behind):
        raise UnreadableError(
            f"{what} holds a PEM block of another kind behind its last certificate: {other['kind'].decode()}. "
            "Wanted are certificates only, the leaf first; a key belongs in a file of its own."
        )
    if len(certificates) != begun or behind.startswith(b"-"):
        raise UnreadableError(f"{what} begins another PEM block after {len(certificates)}; it is cut off.")
    return certificates


def read_pair(certificate_pem: bytes, key_pem: bytes, *, what: str = "certificate") -> Pair:
    """Return the pair; the first certificate is the leaf, the rest its chain.

    Raises:
        UnreadableError: either part is no complete PEM, or the key is encrypted.
        WrongKeyError: both are readable, and the key is another certificate's.
    """
    leaf, *chain = read_certificates(certificate_pem, what=f"The {what}")
    key = read_key(key_pem, what=f"The key of the {what}")
    if _public_bytes(key.public_key()) != _public_bytes(leaf.parsed.public_key()):
        raise WrongKeyError(f"The key does not belong to the {what} ({leaf.subject}).")
    return Pair(leaf, tuple(chain), key_pem)


def read_key(key_pem: bytes, *, what: str = "The key") -> PrivateKeyTypes:
    """Return the private key.

    Raises:
        UnreadableError: not PEM, cut off, encrypted, or of a kind that the library does not know.
    """
    if len(key_pem) > _LARGEST_PEM_BYTES:
        raise UnreadableError(f"{what} is {len(key_pem)} bytes long; at most {_LARGEST_PEM_BYTES} are read.")
    try:
        return serialization.load_pem_private_key(key_pem, password=None)
    except TypeError as error:
        raise UnreadableError(f"{what} is encrypted; a server cannot ask for its password.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnreadableError(f"{what} is not readable as PEM; it may be half-written.") from error


def mint_authority(now: datetime, lifetime: timedelta, *, name: str = "numa-admission") -> Pair:
    """Return a new self-signed authority that may sign leaves only (path length 0).

    Its subject carries a piece of its key's hash, so that two authorities of an overlap never share a name: verifiers
    find an issuer by name first.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name[:48]} CA {key_id.digest.hex()[:8]}")])
    begin, end = _validity(now, lifetime)
    signed = (
        _builder(subject, subject, key, begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(key_id, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_facts(signed), (), _key_pem(key))


def mint_leaf(authority: Pair, names: Names, now: datetime, lifetime: timedelta) -> Pair:
    """Return a new server certificate for ``names``, signed by ``authority``; it never outlives its authority.

    Raises:
        ValueError: no name is given, a name does not fit a certificate, or the authority's time is over.
        UnreadableError: the authority's key is of a kind that we do not sign with.
    """
    if not names:
        raise ValueError("A server certificate needs at least one name.")
    signer = authority.certificate
    lifetime = min(lifetime, signer.not_after - now)
    if lifetime <= timedelta(0):
        raise ValueError(f"The authority {signer.subject} has expired and cannot sign.")
    key = ec.generate_private_key(ec.SECP256R1())
    begin, end = _validity(now, lifetime)
    first = (*names.dns, *names.ip)[0]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, first[:64])])  # for eyes only: verifiers read the SANs
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names.dns]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in names.ip]
    signed = (
        _builder(subject, signer.parsed.subject, key, begin, min(end, signer.not_after))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_authority_key_id(authority), critical=False)
        .sign(_signing_key(authority), hashes.SHA256())
    )
    return Pair(_facts(signed), (), _key_pem(key))


def _signing_key(authority: Pair) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    key = read_key(authority.key_pem, what="The key of the authority")
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise UnreadableError("The key of the authority is neither an elliptic-curve nor an RSA key.")
    return key


def _validity(now: datetime, lifetime: timedelta) -> tuple[datetime, datetime]:
    """Return begin and end in whole seconds, as X.509 has no smaller unit: never begins late, never ends late."""
    begin = now - min(_LARGEST_BACKDATE, lifetime / _BACKDATE_SHARE)
    return begin.replace(microsecond=0), (now + lifetime).replace(microsecond=0)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key_id(authority: Pair) -> x509.AuthorityKeyIdentifier:
    try:
        held = authority.certificate.parsed.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:  # an authority that we did not mint
        held = x509.SubjectKeyIdentifier.from_public_key(_signing_key(authority).public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(held)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_bytes(key: object) -> bytes:
    encode = getattr(key, "public_bytes", None)
    if encode is None:
        raise UnreadableError("The key is of a kind that cannot serve TLS.")
    encoded: bytes = encode(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _facts(parsed: x509.Certificate) -> Certificate:
    if parsed.serial_number < 0:
        raise ValueError("negative serial number")  # Go's clients refuse it (crypto/x509 since 1.23)
    extensions = parsed.extensions  # parsed lazily; raises ValueError on a malformed one
    names, is_authority, may_serve = Names(), False, True
    for extension in extensions:
        value = extension.value
        if isinstance(value, x509.SubjectAlternativeName):
            names = Names(
                dns=tuple(value.get_values_for_type(x509.DNSName)),
                ip=tuple(str(address) for address in value.get_values_for_type(x509.IPAddress)),
            )
        elif isinstance(value, x509.BasicConstraints):
            is_authority = value.ca
        elif isinstance(value, x509.ExtendedKeyUsage):
            may_serve = bool({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(value))
    return Certificate(
        fingerprint=hashlib.sha256(parsed.public_bytes(serialization.Encoding.DER)).hexdigest(),
        pem=parsed.public_bytes(serialization.Encoding.PEM),
        subject=parsed.subject.rfc4514_string(),
        not_before=parsed.not_valid_before_utc.astimezone(UTC),
        not_after=parsed.not_valid_after_utc.astimezone(UTC),
        names=names,
        is_authority=is_authority,
        may_serve=may_serve,
        parsed=parsed,
    )
