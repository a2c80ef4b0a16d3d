"""Columns of numbers and labels over all nodes, answered as bit masks: node *i* is bit *i*.

A decision over 10,000 nodes is a handful of ANDs of 1,250-byte integers instead of a walk over the nodes. Each question
"which nodes have at least x" is kept as a mask once it was asked; a changed node flips its own bit in the kept masks.
"""

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from webhook.core.masks import members

Key = TypeVar("Key", bound=Hashable)

# Distinct amounts asked of one column that are kept. A cluster runs a few dozen pod shapes; a kept mask costs 1.2 kB
# per 10,000 nodes, and an event touches those masks only whose amount lies between the old and the new number.
KEPT_AMOUNTS = 128

# A slot that is looked at by itself costs as much as about 15 in a scan over all 10,000 (0.9 us against 0.06).
_SCANNED_AS_ONE: Final = 32

_AS_DIGITS = bytes.maketrans(b"\x00\x01", b"01")


class Column:
    """One number per node slot, and the masks of "at least" questions asked of it."""

    __slots__ = ("_amounts", "_at_least", "values")

    def __init__(self, slots: int) -> None:
        """Start with zero for each of ``slots`` slots."""
        self.values = [0] * slots
        """The numbers by slot; to be changed by ``set`` only."""
        self._at_least: OrderedDict[int, int] = OrderedDict()
        self._amounts: list[int] = []
        """The keys of the masks, ascending."""

    def grow(self, slots: int) -> None:
        """Hold at least ``slots`` slots; new ones are zero."""
        self.values.extend([0] * (slots - len(self.values)))

    def set(self, slot: int, value: int) -> None:
        """Set the number of ``slot``."""
        old = self.values[slot]
        if old == value:
            return
        self.values[slot] = value
        amounts, low, high = self._amounts, min(old, value), max(old, value)
        at = bisect_right(amounts, low)
        if at < len(amounts) and amounts[at] <= high:
            bit = 1 << slot
            for amount in amounts[at : bisect_right(amounts, high, at)]:
                self._at_least[amount] ^= bit

    def at_least(self, amount: int) -> int:
        """Return the mask of slots whose number is ``amount`` or more."""
        mask = self._at_least.get(amount)
        if mask is None:
            mask = self._between_kept(amount)
            if len(self._at_least) >= KEPT_AMOUNTS:
                self._amounts.remove(self._at_least.popitem(last=False)[0])
            insort(self._amounts, amount)
            self._at_least[amount] = mask
        else:
            self._at_least.move_to_end(amount)
        return mask

    def _between_kept(self, amount: int) -> int:
        """Return the mask of an amount that is not kept: only slots between its neighbours' masks are looked at."""
        at = bisect_right(self._amounts, amount)
        if at:
            above = self._at_least[self._amounts[at]] if at < len(self._amounts) else 0
            open_slots = self._at_least[self._amounts[at - 1]] & ~above
            if open_slots.bit_count() * _SCANNED_AS_ONE < len(self.values):
                return above | _mask_of_slots(slot for slot in members(open_slots) if self.values[slot] >= amount)
        digits = bytes(map(amount.__le__, reversed(self.values))).translate(_AS_DIGITS)
        return int(digits, 2) if digits else 0


class Sets(Generic[Key]):
    """For each key the mask of node slots that are in its set; empty sets are forgotten."""

    __slots__ = ("_masks",)

    def __init__(self) -> None:
        """Start with no sets."""
        self._masks: dict[Key, int] = {}

    def __getitem__(self, key: Key) -> int:
        """Return the mask of ``key``'s set; 0 where it is empty."""
        return self._masks.get(key, 0)

    def items(self) -> Iterable[tuple[Key, int]]:
        """Return (key, mask) of every non-empty set."""
        return self._masks.items()

    def add(self, key: Key, slot: int) -> None:
        """Put ``slot`` into the set of ``key``."""
        self._masks[key] = self._masks.get(key, 0) | 1 << slot

    def remove(self, key: Key, slot: int) -> None:
        """Take ``slot`` out of the set of ``key``."""
        mask = self._masks.get(key, 0) & ~(1 << slot)
        if mask:
            self._masks[key] = mask
        else:
            self._masks.pop(key, None)


class LabelColumn:
    """One label key over all nodes: the mask of each value, and of all nodes that carry the key."""

    __slots__ = ("_masks", "present")

    def __init__(self, values: Mapping[int, str]) -> None:
        """Start from ``values``: slot -> value of every node that carries the key."""
        bits: dict[str, list[int]] = {}
        for slot, value in values.items():
            bits.setdefault(value, []).append(slot)
        self._masks = {value: _mask_of_slots(slots) for value, slots in bits.items()}
        self.present = _mask_of_slots(values)

    def set(self, slot: int, old: str | None, new: str | None) -> None:
        """Change the value of ``slot`` from ``old`` to ``new``; None: the key is absent."""
        if old == new:
            return
        bit = 1 << slot
        if old is not None:
            left = self._masks[old] & ~bit
            if left:
                self._masks[old] = left
            else:
                del self._masks[old]
            self.present &= ~bit
        if new is not None:
            self._masks[new] = self._masks.get(new, 0) | bit
            self.present |= bit

    def any_of(self, values: Iterable[str]) -> int:
        """Return the mask of nodes whose value is one of ``values``."""
        mask = 0
        for value in values:
            mask |= self._masks.get(value, 0)
        return mask

    def items(self) -> Iterable[tuple[str, int]]:
        """Return (value, mask) of every value that a node carries."""
        return self._masks.items()


def _mask_of_slots(slots: Iterable[int]) -> int:
    """Return the mask of ``slots`` without building one long integer per slot."""
    ordered = sorted(slots)
    if not ordered:
        return 0
    buffer = bytearray(ordered[-1] // 8 + 1)
    for slot in ordered:
        buffer[slot >> 3] |= 1 << (slot & 7)
    return int.from_bytes(buffer, "little")
