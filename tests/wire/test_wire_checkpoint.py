"""The checkpoint's bytes: what goes in comes out, and damage is noticed."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.wire.checkpoint import CheckpointError, SavedPlace, digest_of, pack_node, seal, unseal

RESOURCES = ("aliyun.com/gpu", "nvidia.com/gpu")
masks = st.integers(0, (1 << 512) - 1)
places = st.builds(
    SavedPlace,
    st.text(max_size=40).map(digest_of),
    masks,
    st.tuples(masks, masks).map(lambda pair: tuple(zip(RESOURCES, pair, strict=True))),
)
nodes = st.dictionaries(st.text(max_size=20), st.lists(places, max_size=5).map(tuple), max_size=5)


def blob_of(content, generation=7):
    """The blob of these nodes."""
    return seal(generation, RESOURCES, [pack_node(name, found, RESOURCES) for name, found in content.items()])


@given(nodes, st.integers(0, 2**64 - 1))
def test_what_goes_in_comes_out(content, generation):
    assert unseal(blob_of(content, generation)) == (generation, content)


@given(nodes, st.data())
def test_a_blob_cut_short_is_noticed(content, data):
    blob = blob_of(content)
    with pytest.raises(CheckpointError):
        unseal(blob[: data.draw(st.integers(0, len(blob) - 1))])


SOME = {
    f"node-{at}": tuple(
        SavedPlace(digest_of(f"{at}-{pod}"), 0b1011 << 70 * pod, ((RESOURCES[0], 1 << pod), (RESOURCES[1], 0)))
        for pod in range(at)
    )
    for at in range(4)
}


def is_read(blob):
    """Whether the bytes pass for a checkpoint."""
    try:
        unseal(blob)
    except CheckpointError:
        return False
    return True


def test_no_part_of_a_blob_passes_for_one():
    """Killed at any byte: whatever was stored until then is whole, or is noticed."""
    blob = blob_of(SOME)
    assert is_read(blob)
    assert [end for end in range(len(blob)) if is_read(blob[:end])] == []


def test_no_part_of_a_body_passes_for_one():
    """Nor where the envelope is right, as of a writer that was wrong about what it had to write."""
    blob = blob_of(SOME)
    body = zlib.decompress(blob[16:])
    cut = [zlib.compress(body[:end]) for end in range(len(body))]
    sealed = [struct.pack(">4sQI", b"NLP1", 7, zlib.crc32(packed)) + packed for packed in cut]
    assert [end for end, each in enumerate(sealed) if is_read(each)] == []


@given(nodes, st.data())
def test_a_changed_bit_is_noticed_or_changes_the_generation_only(content, data):
    blob = bytearray(blob_of(content))
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= 1 << data.draw(st.integers(0, 7))
    if 4 <= at < 12:
        assert unseal(bytes(blob))[1] == content
    else:
        with pytest.raises(CheckpointError):
            unseal(bytes(blob))


@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused(body):
    packed = zlib.compress(body)
    try:
        unseal(struct.pack(">4sQI", b"NLP1", 1, zlib.crc32(packed)) + packed)
    except CheckpointError:
        return


def test_a_pod_takes_few_bytes():
    mask = 0b1111 << 64 | 0b1111
    held = [
        SavedPlace(digest_of(str(number)), mask << 4 * number, ((RESOURCES[0], 1 << number),)) for number in range(8)
    ]
    assert len(pack_node("node-1", held, RESOURCES[:1])) < 8 * 20
