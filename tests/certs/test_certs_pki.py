"""Minting and reading back: what a certificate must carry, and what no reader may let through."""

from datetime import timedelta

import pytest
from certs_world import NAMES, START, seconds
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given
from hypothesis import strategies as st

from certs.faults import CertificateError, UnreadableError, WrongKeyError
from certs.names import names_of, service_names
from certs.pki import Pair, mint_authority, mint_leaf, read_certificates, read_key, read_pair


def test_a_leaf_passes_an_independent_verifier_for_each_of_its_names(authority: Pair):
    """The webpki verifier of the cryptography library, which is as strict as Go's, accepts chain and names."""
    names = service_names("rules", "numa", extra_dns=["localhost"])
    leaf = mint_leaf(authority, names, START, seconds(86400)).certificate

    for name in names.dns:
        builder = PolicyBuilder().store(Store([authority.certificate.parsed])).time(START)
        chain = builder.build_server_verifier(x509.DNSName(name)).verify(leaf.parsed, [])
        assert chain == [leaf.parsed, authority.certificate.parsed]


def test_service_names_are_the_four_of_a_service_and_the_extra_ones():
    """The API server dials svc.ns.svc; the others are for people and monitoring."""
    names = service_names("rules", "numa", extra_dns=["LOCALHOST.", "rules"], extra_ip=["127.0.0.1", "::0001"])

    assert names.dns == ("rules", "rules.numa", "rules.numa.svc", "rules.numa.svc.cluster.local", "localhost")
    assert names.ip == ("127.0.0.1", "::1")


@pytest.mark.parametrize("bad", [{"dns": [""]}, {"dns": ["bücher"]}, {"ip": ["localhost"]}, {"ip": ["10.0.0.0/8"]}])
def test_a_name_that_no_certificate_can_carry_is_refused(bad: dict[str, list[str]]):
    with pytest.raises(ValueError, match=r"."):
        names_of(**bad)


def test_a_pair_is_read_back_as_it_was_minted(leaf: Pair):
    read = read_pair(leaf.certificates_pem, leaf.key_pem)

    assert read == leaf
    assert read.certificate.names == NAMES
    assert read.certificate.not_after == START + timedelta(days=10)
    assert not read.certificate.is_authority
    assert read.certificate.may_serve


def test_no_repr_shows_a_key(authority: Pair):
    assert "PRIVATE" not in repr(authority)
    assert authority.key_pem.splitlines()[1].decode() not in repr(authority)


def test_two_authorities_never_share_a_name(authority: Pair, other_authority: Pair):
    """Verifiers find an issuer by name first; in an overlap both are in one bundle."""
    assert authority.certificate.subject != other_authority.certificate.subject


def test_a_leaf_never_outlives_its_authority(authority: Pair):
    leaf = mint_leaf(authority, NAMES, START + timedelta(days=29), timedelta(days=90))

    assert leaf.certificate.not_after == authority.certificate.not_after


@pytest.mark.parametrize(
    ("lifetime", "backdate"),
    [
        pytest.param(timedelta(seconds=60), timedelta(seconds=6), id="a minute: a tenth"),
        pytest.param(timedelta(hours=10), timedelta(hours=1), id="ten hours: one"),
        pytest.param(timedelta(days=3650), timedelta(hours=1), id="ten years: one hour too"),
    ],
)
def test_the_begin_is_set_back_for_clocks_that_are_behind(lifetime: timedelta, backdate: timedelta):
    certificate = mint_authority(START, lifetime).certificate

    assert certificate.not_before == START - backdate
    assert certificate.not_after == START + lifetime


def test_an_expired_authority_does_not_sign(authority: Pair):
    with pytest.raises(ValueError, match="has expired and cannot sign"):
        mint_leaf(authority, NAMES, START + timedelta(days=31), timedelta(days=1))


def test_a_certificate_without_names_is_not_minted(authority: Pair):
    with pytest.raises(ValueError, match="at least one name"):
        mint_leaf(authority, names_of(), START, timedelta(days=1))


def test_an_authority_of_somebody_else_signs_too():
    """A cluster's own CA: RSA, and without the key identifier that ours have."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "corporate")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, START, START + timedelta(days=9))
    signed = builder.add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())
    pem = signed.public_bytes(serialization.Encoding.PEM)
    corporate = read_pair(pem, _pem_of(key))

    leaf = mint_leaf(corporate, NAMES, START, timedelta(days=1))

    assert leaf.certificate.issued_by(corporate.certificate)


def test_a_signer_of_a_strange_kind_is_a_declared_error():
    key = ed25519.Ed25519PrivateKey.generate()
    strange = Pair(mint_authority(START, timedelta(days=1)).certificate, (), _pem_of(key))

    with pytest.raises(UnreadableError, match="neither an elliptic-curve nor an RSA key"):
        mint_leaf(strange, NAMES, START, timedelta(days=1))


def test_the_key_of_another_certificate_is_refused(leaf: Pair, authority: Pair):
    with pytest.raises(WrongKeyError, match=r"The key does not belong to the certificate \(CN=rules.numa.svc\)\."):
        read_pair(leaf.certificates_pem, authority.key_pem)


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(leaf: Pair):
    key = ec.generate_private_key(ec.SECP256R1())
    sealed = _pem_of(key, serialization.BestAvailableEncryption(b"secret"))

    with pytest.raises(UnreadableError, match="is encrypted"):
        read_pair(leaf.certificates_pem, sealed)


@pytest.mark.parametrize(("kind", "found"), [
    pytest.param(serialization.PrivateFormat.PKCS8, "PRIVATE KEY", id="PKCS 8"),
    pytest.param(serialization.PrivateFormat.TraditionalOpenSSL, "EC PRIVATE KEY", id="of the curve's own kind"),
])  # fmt: skip
def test_key_behind_the_certificates_is_told_for_what_it_is(leaf: Pair, kind: serialization.PrivateFormat, found: str):
    """Some programs want both in one file; half of a key behind them is a file that is still being written."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    with pytest.raises(
        UnreadableError, match=rf"^The file .+ last certificate: {found}\. Wanted are certificates only"
    ):
        read_certificates(leaf.certificates_pem + pem, what="The file")
    with pytest.raises(UnreadableError, match="it is cut off"):
        read_certificates(leaf.certificates_pem + pem[:-10], what="The file")


def test_every_cut_of_a_chain_is_seen(leaf: Pair, authority: Pair):
    """A file that is still being written: whatever part of it is there, it is not taken for the whole."""
    whole = leaf.certificate.pem + authority.certificate.pem
    complete = {len(leaf.certificate.pem) + missing for missing in (-1, 0)} | {len(whole) - 1}  # the line feed is spare

    for length in range(len(whole)):
        if length in complete:
            continue
        with pytest.raises(UnreadableError):
            read_certificates(whole[:length])


def test_every_cut_of_a_key_is_seen(leaf: Pair):
    for length in range(len(leaf.key_pem) - 1):
        with pytest.raises(UnreadableError):
            read_key(leaf.key_pem[:length])


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(st.binary(max_size=200), st.integers(0, 900), st.integers(0, 255))
def test_no_bytes_raise_anything_but_the_declared_errors(garbage: bytes, place: int, value: int):
    """Garbage alone, and a good certificate with one byte changed or garbage inside."""
    pem = mint_authority(START, timedelta(days=1)).certificate.pem
    place %= len(pem)
    spoilt = pem[:place] + bytes([value]) + pem[place + 1 :]
    for text in (garbage, spoilt, pem[:place] + garbage + pem[place:]):
        for reader in (read_certificates, read_key):
            try:
                reader(text)
            except CertificateError as error:
                assert str(error).endswith(".")  # noqa: PT017 - both ends are good: read, or said why not


def _pem_of(key, encryption: serialization.KeySerializationEncryption | None = None) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption or serialization.NoEncryption()
    )
