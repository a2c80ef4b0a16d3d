"""The checkpoint's bytes: the replayed places of a share of the nodes, compact, self-contained and checked.

A pod takes about 20 bytes before compression::

    blob    = "NLP1" generation:u64 crc32(packed):u32 packed        big endian
    packed  = zlib(body)
    body    = resources nodes
    list    = count:varint item...                                  resources, nodes, pods, ranges
    node    = name:text pods
    pod     = digest:8 bytes, CPUs: ranges, then for each resource of the list its devices: ranges
    range   = bits skipped since the last range:varint, bits set:varint

The digest stands for the UID (36 characters, and random, so it would not compress): two of 100,000 pods share one with
a chance of 1 in 3,000,000,000, and would have to be on one node to be mistaken for each other.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

MAGIC: Final = b"NLP1"
_HEAD: Final = struct.Struct(">4sQI")
_DIGEST_BYTES: Final = 8
_MOST_BODY_BYTES: Final = 64 << 20
_MOST_BIT: Final = 1 << 14
"""No machine has as many CPUs or devices; a damaged blob must not make us build huge numbers."""


class CheckpointError(ValueError):
    """The bytes are no checkpoint, or damaged."""


@dataclass(frozen=True, slots=True)
class SavedPlace:
    """What one pod holds on a node."""

    digest: bytes
    cpus: int
    devices: tuple[tuple[str, int], ...]


def digest_of(uid: str) -> bytes:
    """Return the eight bytes that stand for ``uid``."""
    return blake2b(uid.encode(), digest_size=_DIGEST_BYTES).digest()


def pack_node(name: str, places: Iterable[SavedPlace], resources: tuple[str, ...]) -> bytes:
    """Return one node's part of a body; ``resources`` gives the order of the devices."""
    out = bytearray()
    _put_text(out, name)
    kept = tuple(places)
    _put_varint(out, len(kept))
    for place in kept:
        out += place.digest
        _put_ranges(out, place.cpus)
        devices = dict(place.devices)
        for resource in resources:
            _put_ranges(out, devices.get(resource, 0))
    return bytes(out)


def seal(generation: int, resources: tuple[str, ...], nodes: Iterable[bytes]) -> bytes:
    """Return the blob of these nodes (``pack_node``)."""
    body = bytearray()
    _put_varint(body, len(resources))
    for resource in resources:
        _put_text(body, resource)
    parts = tuple(nodes)
    _put_varint(body, len(parts))
    packed = zlib.compress(bytes(body) + b"".join(parts), 1)
    return _HEAD.pack(MAGIC, generation, zlib.crc32(packed)) + packed


def unseal(blob: bytes) -> tuple[int, Mapping[str, tuple[SavedPlace, ...]]]:
    """Return the generation and the places by node.

    Raises:
        CheckpointError: the bytes are not what ``seal`` has made.
    """
    if len(blob) < _HEAD.size:
        raise CheckpointError("it is shorter than its head")
    magic, generation, checksum = _HEAD.unpack_from(blob)
    packed = blob[_HEAD.size :]
    if magic != MAGIC:
        raise CheckpointError("its format is not known")
    if zlib.crc32(packed) != checksum:
        raise CheckpointError("its checksum does not match")
    try:
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(packed, _MOST_BODY_BYTES)
    except zlib.error as error:
        raise CheckpointError("it cannot be unpacked") from error
    return generation, _Reader(body).nodes()


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def nodes(self) -> dict[str, tuple[SavedPlace, ...]]:
        resources = tuple(self._text() for _ in range(self._count()))
        return {self._text(): self._pods(resources) for _ in range(self._count())}

    def _pods(self, resources: tuple[str, ...]) -> tuple[SavedPlace, ...]:
        return tuple(
            SavedPlace(self._take(_DIGEST_BYTES), self._ranges(), tuple([(name, self._ranges()) for name in resources]))
            for _ in range(self._count())
        )

    def _take(self, count: int) -> bytes:
        at = self._at
        piece = self._body[at : at + count]
        if len(piece) < count:
            raise CheckpointError("it ends too early")
        self._at = at + count
        return piece

    def _varint(self) -> int:
        body, at = self._body, self._at
        value = shift = 0
        while True:
            if at >= len(body):
                raise CheckpointError("it ends too early")
            byte = body[at]
            at += 1
            if byte < 0x80:
                self._at = at
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 28:
                raise CheckpointError("a number is too long")

    def _count(self) -> int:
        count = self._varint()
        if count > len(self._body) - self._at:
            raise CheckpointError("a list is longer than the rest")
        return count

    def _text(self) -> str:
        try:
            return self._take(self._varint()).decode()
        except UnicodeDecodeError as error:
            raise CheckpointError("a name is no text") from error

    def _ranges(self) -> int:
        mask = at = 0
        for _ in range(self._count()):
            at += self._varint()
            length = self._varint()
            if at + length > _MOST_BIT:
                raise CheckpointError("a mask is too wide")
            mask |= ((1 << length) - 1) << at
            at += length
        return mask


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_text(out: bytearray, text: str) -> None:
    raw = text.encode()
    _put_varint(out, len(raw))
    out += raw


def _put_ranges(out: bytearray, mask: int) -> None:
    ranges: list[tuple[int, int]] = []
    while mask:
        skipped = (mask & -mask).bit_length() - 1
        mask >>= skipped
        length = (~mask & mask + 1).bit_length() - 1
        mask >>= length
        ranges.append((skipped, length))
    _put_varint(out, len(ranges))
    for skipped, length in ranges:
        _put_varint(out, skipped)
        _put_varint(out, length)
