"""Sets of NUMA nodes, CPUs and devices as integers used as bit masks: bit *i* set means member *i* is in the set."""

from collections.abc import Iterable, Iterator


def mask_of(members: Iterable[int]) -> int:
    """Return the mask whose set bits are ``members`` (non-negative integers, any order, repeats allowed)."""
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def members(mask: int) -> Iterator[int]:
    """Yield the members of ``mask``, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def cpu_list(mask: int) -> str:
    """Return ``mask`` in the Linux CPU list format, such as ``0-3,8``; an empty mask is an empty string."""
    runs: list[str] = []
    start = previous = -2
    for member in members(mask):
        if member == previous + 1:
            previous = member
            continue
        if start >= 0:
            runs.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = member
    if start >= 0:
        runs.append(str(start) if start == previous else f"{start}-{previous}")
    return ",".join(runs)


# Above this an id is a slip or an attack: Linux ends at 8,192 (CONFIG_NR_CPUS); a mask is as long as its highest id.
HIGHEST_CPU_ID = 8191


class CpuListError(ValueError):
    """A text is no Linux CPU list; the message names the part and what is wanted."""


def parse_cpu_list(text: str) -> int:
    """Return the mask of a Linux CPU list such as ``0-3,8``; an empty text is the empty mask.

    Raises:
        CpuListError: a part is not ``N`` or ``N-M`` with 0 <= N <= M <= 8191.
    """
    mask = 0
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            raise CpuListError(f"{part!r} is not a CPU id or a range of them such as 0-3.")
        low, high = int(first[:6]), int((last or first)[:6])
        if not low <= high <= HIGHEST_CPU_ID:
            raise CpuListError(f"{part!r} is not a range of CPU ids from 0 to {HIGHEST_CPU_ID}.")
        mask |= ((1 << (high - low + 1)) - 1) << low
    return mask
