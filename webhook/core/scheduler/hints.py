"""Hints of one resource: sets of NUMA nodes that can take the pod, in the scheduler's order and in its words."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations, islice
from math import comb
from typing import Final, NamedTuple

from webhook.core.masks import mask_of, members


class Hint(NamedTuple):
    """A set of NUMA nodes that one resource could come from."""

    numa_mask: int | None
    """None: any."""
    preferred: bool
    score: int = 0
    unsatisfied: bool = False


DONT_CARE = Hint(None, preferred=True)
IMPOSSIBLE = Hint(None, preferred=False, unsatisfied=True)

ResourceHints = tuple[str, Sequence[Hint] | None]
"""A resource's name and its hints; None: it has no opinion; empty: no set can take it."""


@lru_cache(maxsize=256)
def sets_of_width(universe: int, width: int) -> tuple[int, ...]:
    """Return the masks of exactly ``width`` NUMA nodes of ``universe`` in the order in which they are tried.

    That is by the lowest nodes, not by the mask's value: {0,3} before {1,2}.
    """
    return tuple(mask_of(combination) for combination in combinations(members(universe), width))


MOST_SETS: Final = 4096
"""Sets of NUMA nodes that are walked: all of them up to 12 nodes, the narrow ones beyond (the scheduler itself would
walk 2**32 sets of a machine with 32). What was not walked is never refused."""

MOST_TOLD: Final = 32
"""Sets that a text names: all of up to five NUMA nodes. The scheduler itself would list the 255 of eight nodes for each
resource, which nobody reads and which costs most of a refusal's time."""


@lru_cache(maxsize=64)
def walked_widths(universe: int) -> range:
    """Return the widths whose sets are walked, ascending."""
    count = universe.bit_count()
    walked = width = 0
    while width < count and (width == 0 or walked + comb(count, width + 1) <= MOST_SETS):
        width += 1
        walked += comb(count, width)
    return range(1, width + 1)


@lru_cache(maxsize=64)
def sets_within(universe: int) -> tuple[int, ...]:
    """Return every walked mask of NUMA nodes of ``universe`` in the order in which they are tried."""
    return tuple(mask for width in walked_widths(universe) for mask in sets_of_width(universe, width))


def in_words(resource: str, hints: Iterable[Hint]) -> str:
    """Return what the scheduler says of a resource that it could not align: ``cpu prefer [01 10] among [01 10 11]``."""
    possible = [hint for hint in islice(hints, MOST_TOLD + 1) if not hint.unsatisfied]
    more = " ..." if len(possible) > MOST_TOLD else ""
    del possible[MOST_TOLD:]
    preferred = " ".join(mask_in_words(hint.numa_mask) for hint in possible if hint.preferred)
    among = " ".join(mask_in_words(hint.numa_mask) for hint in possible)
    return f"{resource} prefer [{preferred}] among [{among}{more}]"


@lru_cache(maxsize=4096)
def mask_in_words(numa_mask: int | None) -> str:
    """Return a mask in binary, NUMA 0 rightmost, padded to pairs of digits; the scheduler pads 4, 16, 64... too little.

    (koordinator-sh/koordinator:pkg/util/bitmask/bitmask.go, ``String``: greater than the power, not equal to it.)
    """
    if numa_mask is None:
        return "<nil>"
    length = (numa_mask - 1).bit_length()
    digits = max(2, length + length % 2)
    return f"{numa_mask:0{digits}b}"
