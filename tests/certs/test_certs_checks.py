"""Each fault of a certificate as a value with a sentence."""

from datetime import datetime, timedelta

import pytest
from certs_world import NAMES, START, mint_for_clients, seconds
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs import faults as tree
from certs.checks import chains_to, faults_of_authority, faults_of_server, faults_of_trust
from certs.faults import CertificateError
from certs.names import Names, names_of, uncovered
from certs.pki import Pair, mint_authority, mint_leaf, read_certificates


@pytest.mark.parametrize(
    ("moment", "required", "wanted"),
    [
        pytest.param(START, NAMES, [], id="good"),
        pytest.param(START - timedelta(hours=1), NAMES, [], id="good in its first second"),
        pytest.param(START + timedelta(days=10), NAMES, [], id="good in its last second"),
        pytest.param(START - timedelta(minutes=61), NAMES, ["not_yet_valid"], id="before its time"),
        pytest.param(START + timedelta(days=10, seconds=1), NAMES, ["expired"], id="after its time"),
        pytest.param(START, names_of(["x.y"], ["10.0.0.1"]), ["missing_name"], id="another name"),
        pytest.param(START + timedelta(days=11), names_of(["x"]), ["expired", "missing_name"], id="two at once"),
    ],
)
def test_faults_of_a_server(leaf: Pair, moment: datetime, required: Names, wanted: list[str]):
    found = faults_of_server(leaf.certificate, moment, required)

    assert [fault.code for fault in found] == wanted
    assert all(str(fault).endswith(".") for fault in found)


def test_a_certificate_for_clients_or_without_names_does_not_serve(authority: Pair):
    bare = mint_for_clients(authority, START, timedelta(days=1)).certificate

    assert [fault.code for fault in faults_of_server(bare, START, Names())] == ["missing_name", "wrong_use"]


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        pytest.param(["a.b.svc"], ["a.b.svc"], (), id="exact"),
        pytest.param(["A.B.svc"], ["a.b.svc"], (), id="case does not matter"),
        pytest.param(["*.b.svc"], ["a.b.svc"], (), id="wildcard for one label"),
        pytest.param(["*.svc"], ["a.b.svc"], ("a.b.svc",), id="wildcard is not for two labels"),
        pytest.param(["*.b.svc"], ["b.svc"], ("b.svc",), id="wildcard is not for none"),
        pytest.param(["*"], ["a"], ("a",), id="a bare wildcard is for nothing"),
        pytest.param([], ["b", "a"], ("b", "a"), id="no names"),
    ],
)
def test_which_names_are_covered(held: list[str], wanted: list[str], missing: tuple[str, ...]):
    assert uncovered(names_of(wanted), Names(dns=tuple(held))) == missing


def test_trust_goes_through_the_chain_that_the_server_sends(authority: Pair):
    root, intermediate = _tiers()
    leaf = mint_leaf(intermediate, NAMES, START, seconds(3600))
    sent = Pair(leaf.certificate, (intermediate.certificate,), leaf.key_pem)

    assert faults_of_trust(sent, [root.certificate], START) == ()
    assert [one.code for one in faults_of_trust(leaf, [root.certificate], START)] == ["unknown_issuer"]
    assert [one.code for one in faults_of_trust(sent, [authority.certificate], START)] == ["unknown_issuer"]
    assert not chains_to(leaf.certificate, sent.chain, [root.certificate], START + timedelta(days=1)), "root expired"


def test_authorities_that_sign_each_other_end_the_search(authority: Pair):
    first, second = _tiers()
    circle = (first.certificate, second.certificate, first.certificate)

    leaf = mint_leaf(second, NAMES, START, seconds(60)).certificate

    assert not chains_to(leaf, circle, [authority.certificate], START)


def test_a_leaf_is_no_authority(leaf: Pair, authority: Pair):
    assert [fault.code for fault in faults_of_authority(leaf.certificate, START)] == ["not_an_authority"]
    assert faults_of_authority(authority.certificate, START) == ()
    assert not leaf.certificate.issued_by(leaf.certificate)


def test_the_tree_of_faults_is_closed_and_each_has_its_own_code():
    """The tree that is drawn at the top of the module is the tree that is there."""
    kinds = [kind for kind in vars(tree).values() if isinstance(kind, type) and issubclass(kind, CertificateError)]
    leaves = [kind for kind in kinds if kind is not CertificateError]

    assert len({kind.code for kind in leaves}) == len(leaves) == 8
    assert all(kind.__name__ in (tree.__doc__ or "") for kind in kinds)
    assert set(CertificateError.__subclasses__()) == set(leaves)


def _tiers() -> tuple[Pair, Pair]:
    """Return a root of an hour and an intermediate authority that it signed."""
    root = mint_authority(START, seconds(3600))
    below = mint_authority(START, seconds(7200))
    builder = x509.CertificateBuilder(
        root.certificate.parsed.subject,
        below.certificate.parsed.subject,
        below.certificate.parsed.public_key(),
        9,
        START,
        START + timedelta(days=2),
    )
    builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(below.certificate.parsed.public_key()), critical=False
    )
    signed = builder.sign(serialization.load_pem_private_key(root.key_pem, None), hashes.SHA256())
    intermediate = read_certificates(signed.public_bytes(serialization.Encoding.PEM))[0]
    return root, Pair(intermediate, (), below.key_pem)
