"""Between the Secret's data and values, and back."""

from dataclasses import replace
from datetime import timedelta

import pytest
from certs_world import NAMES, START, seconds
from hypothesis import given
from hypothesis import strategies as st

from certs.holdings import OUR_KEYS, Holdings, data_of, holdings_of
from certs.pki import Pair, mint_authority, mint_leaf

SIGNER, NEXT, OLDER = (mint_authority(START, seconds(86400)) for _ in range(3))
LEAF = mint_leaf(SIGNER, NAMES, START, seconds(86400))

pairs = st.none() | st.sampled_from([SIGNER, NEXT])
moments = st.none() | st.integers(0, 10**10).map(lambda number: START + timedelta(microseconds=number))
everything = st.builds(
    Holdings,
    leaf=st.none() | st.just(LEAF),
    signer=pairs,
    next_signer=pairs,
    anchors=st.lists(st.sampled_from([one.certificate for one in (SIGNER, NEXT, OLDER)])).map(tuple),
    trusted_since=moments,
    switched_at=moments,
    faults=st.just(()),
)
odd_contents = st.binary(max_size=60) | st.sampled_from(
    [b"[]", b'{"trustedSince":1}', b'{"trustedSince":"2026-01-01"}', b"[" * 9999]
)


@given(everything)
def test_what_is_written_is_read_back(held: Holdings):
    """And writing it again changes no byte, so that a look at our own work finds nothing to repair."""
    data = data_of(held, {})
    read = holdings_of(data)

    assert replace(read, anchors=()) == replace(held, anchors=())
    assert set(read.trusted) == set(held.trusted)
    assert data_of(read, data) == data
    assert set(data) <= OUR_KEYS


def test_what_others_keep_in_the_secret_stays():
    held = Holdings(LEAF, SIGNER)
    data = data_of(held, {"keystore.p12": b"theirs", "next-signer.key": b"ours, and over"})

    assert data["keystore.p12"] == b"theirs"
    assert "next-signer.key" not in data


@given(st.dictionaries(st.sampled_from(sorted(OUR_KEYS)), odd_contents, max_size=8))
def test_no_content_of_a_secret_raises(data: dict[str, bytes]):
    held = holdings_of(data)

    assert held.trusted_since is None
    assert all(str(fault).endswith(".") for fault in held.faults)


@pytest.mark.parametrize("which", ["tls.key", "signer.key"])
def test_one_unreadable_part_does_not_hide_the_others(which: str):
    data = {**data_of(Holdings(LEAF, SIGNER), {}), which: b"broken"}
    held = holdings_of(data)

    assert [fault.code for fault in held.faults] == ["unreadable"]
    assert (held.leaf is None, held.signer is None) == (which == "tls.key", which == "signer.key")
    assert held.anchors == (SIGNER.certificate,)


def test_a_repr_of_the_holdings_shows_no_key(leaf: Pair):
    assert b"PRIVATE" in leaf.key_pem
    assert "PRIVATE" not in repr(Holdings(leaf, SIGNER, trusted_since=START + timedelta(days=1)))
