"""The trust bundle: equal sets give equal bytes, and the patch puts exactly them there."""

import base64

import pytest
from certs_world import START, MemoryConfigurations, seconds
from hypothesis import given
from hypothesis import strategies as st

from certs.bundle import behind, bundle_of, configuration_patch, normalised
from certs.faults import NotAnAuthorityError, UnreadableError
from certs.pki import Pair, mint_authority
from certs.store import ConflictError

AUTHORITIES = [mint_authority(START, seconds(86400)).certificate for _ in range(3)]


@given(st.lists(st.sampled_from(AUTHORITIES), min_size=1, max_size=6))
def test_the_bundle_of_a_set_is_one_text(drawn):
    """Order and doubles do not show, and reading the text back changes nothing."""
    bundle = bundle_of(drawn)

    assert bundle == bundle_of(sorted(set(drawn), key=lambda one: one.subject))
    assert bundle.count(b"BEGIN CERTIFICATE") == len(set(drawn))
    assert normalised(bundle) == bundle


def test_another_spelling_of_the_same_authorities_is_normalised():
    """Comments, carriage returns, doubles and another order, as issuers write them."""
    first, second, _ = AUTHORITIES
    spelt = b"# corporate\r\n" + second.pem.replace(b"\n", b"\r\n") + b"\n\n" + first.pem + second.pem

    assert normalised(spelt) == bundle_of([first, second])


def test_a_leaf_never_gets_into_the_bundle(leaf: Pair, authority: Pair):
    assert bundle_of([leaf.certificate, authority.certificate]) == authority.certificate.pem
    with pytest.raises(NotAnAuthorityError):
        normalised(leaf.certificate.pem)


@pytest.mark.parametrize("text", [b"", b"Cg==", AUTHORITIES[0].pem[:-40]])
def test_what_is_no_bundle_is_refused(text: bytes):
    with pytest.raises(UnreadableError):
        normalised(text)


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n", id="a placeholder"),
        pytest.param(AUTHORITIES[1].pem, id="another authority: not empty, and wrong"),
        pytest.param(AUTHORITIES[0].pem + b"\n", id="one byte more"),
    ],
)
def test_bytes_are_compared_and_not_emptiness(held: bytes):
    wanted = bundle_of([AUTHORITIES[0]])

    assert behind({"a": wanted, "b": held}, wanted) == ("b",)


def test_the_patch_changes_only_the_webhooks_that_need_it():
    wanted = bundle_of(AUTHORITIES)
    patch = configuration_patch({"a": wanted, "b": b""}, wanted, resource_version="7")

    assert patch == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": base64.b64encode(wanted).decode()},
    ]
    assert configuration_patch({"a": wanted}, wanted, resource_version="7") == []


@given(st.lists(st.sampled_from([b"", *(one.pem for one in AUTHORITIES)]), max_size=5))
def test_after_the_patch_every_webhook_holds_the_bundle(held: list[bytes]):
    """Applied to the object as JSON, and empty the second time."""
    wanted = bundle_of(AUTHORITIES[:2])
    configurations = MemoryConfigurations()
    configurations.add("mutating", [f"webhook-{index}" for index in range(len(held))])
    for webhook, bundle in zip(configurations.objects["mutating"]["webhooks"], held, strict=True):
        webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
    (read,) = configurations.read()
    patch = configuration_patch(read.ca_bundles, wanted, resource_version=read.version)
    if patch:
        configurations.patch(read, patch)

    assert set(configurations.bundles("mutating")) <= {wanted}
    (again,) = configurations.read()
    assert configuration_patch(again.ca_bundles, wanted) == []


def test_a_patch_made_for_an_older_version_conflicts():
    configurations = MemoryConfigurations()
    configurations.add("mutating", ["a"])
    (read,) = configurations.read()
    configurations.reset("mutating", b"theirs")

    with pytest.raises(ConflictError):
        configurations.patch(read, configuration_patch(read.ca_bundles, b"ours", resource_version=read.version))
