"""The score by which one set of NUMA nodes is preferred to another of the same width (``numaScoringStrategy``)."""

import enum
from collections.abc import Iterable


class Scoring(enum.Enum):
    """The two strategies; Koordinator's default is the first. ACK's setting is not known."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"

    def score(self, amounts: Iterable[tuple[int, int, int]]) -> int:
        """Return 0 to 100 for a set; ``amounts`` is (free, total, asked) of CPU and memory, each of weight one."""
        shares: list[int] = []
        for free, total, asked in amounts:
            if total > 0:
                used = min(total, total - free + asked)
                shares.append((used if self is Scoring.MOST_ALLOCATED else total - used) * 100 // total)
        return sum(shares) // len(shares) if shares else 0
