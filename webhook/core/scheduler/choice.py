"""The scheduler's choice of NUMA nodes without trying every combination of hints.

A merged hint is preferred iff every resource prefers the same set, so only sets of one width are looked at, narrow ones
first, and exclusivity leaves some out. Only where none is left and the policy admits all the same (BestEffort) do the
combinations matter. ``tests/core/scheduler/test_scheduler_choice.py`` compares with ``merge``, which tries them all.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.core.scheduler.cards import Cards
from webhook.core.scheduler.hints import Hint, ResourceHints, sets_of_width, sets_within, walked_widths
from webhook.core.scheduler.merge import Merged, Terms, is_better, merge, unaligned_reason, unsatisfied_reasons
from webhook.core.scheduler.policies import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE
from webhook.core.scheduler.scoring import Scoring
from webhook.core.scheduler.zones import Zones

MOST_COMBINATIONS: Final = 4096
"""Combinations that are tried where BestEffort finds no preferred set: two resources on six NUMA nodes, about 10 ms.
Beyond, the pod is taken to get what it nearly always gets then: all NUMA nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One pod's choice on one node."""

    terms: Terms
    zones: Zones
    cards: Cards
    scoring: Scoring

    def make(self) -> Merged:
        """Return the NUMA nodes for the pod, or why there are none."""
        found = self._preferred(self.terms.allow)
        if found is not None:
            is_any = self.terms.policy == SINGLE_NUMA_NODE and found == self.terms.all_numa
            return Merged(None if is_any else found, preferred=True, admits=True)
        if self.terms.policy == BEST_EFFORT:
            return self._not_preferred()
        if self.terms.policy == RESTRICTED and self._is_cut_short():
            return Merged(self.terms.all_numa, preferred=False, admits=True)
        hints = self.hints(with_scores=False)
        unmet = unsatisfied_reasons(hints)
        reasons = unmet or (unaligned_reason(self.terms.policy, hints),)
        return Merged(None, preferred=False, admits=False, reasons=reasons, unmet=bool(unmet))

    def fails_by_exclusivity(self) -> bool:
        """Return whether the pod would be admitted, were it not for exclusivity."""
        return self._preferred(_anything) is not None

    def hints(self, *, with_scores: bool = True) -> Sequence[ResourceHints]:
        """Return every resource's hints, as the providers list them; scores cost the most, and no text has them."""
        cards = self.cards.hints(with_scores=with_scores) if self.cards.have_opinion else []
        return [*self.zones.hints(self.terms.policy, self.scoring if with_scores else None), *cards]

    def _preferred(self, allow: Callable[[int], bool]) -> int | None:
        if not self.zones.zones and not self.cards.have_opinion:
            return self.terms.all_numa if allow(self.terms.all_numa) else None
        for width in self._widths():
            candidates = [
                mask
                for mask in sets_of_width(self.terms.all_numa, width)
                if allow(mask) and self.zones.hint(mask) and (not self.cards.have_opinion or self.cards.hint(mask))
            ]
            if candidates:
                return self._best(candidates)
        return None

    def _widths(self) -> Iterable[int]:
        """Return the widths that every resource can prefer, ascending."""
        if self.terms.policy == SINGLE_NUMA_NODE:
            return (1,)
        cards = self.cards.width() if self.cards.have_opinion else None
        if self.cards.have_opinion and cards is None:
            return ()
        if self.terms.policy == RESTRICTED or not self.zones.zones:
            return walked_widths(self.terms.all_numa) if cards is None else (cards,)
        zones = self.zones.common_width()
        return () if zones is None or cards not in {None, zones} else (zones,)

    def _best(self, candidates: Sequence[int]) -> int:
        if len(candidates) == 1:
            return candidates[0]
        best: Hint | None = None
        for mask in candidates:
            score = self.zones.score(mask, self.scoring)
            score += self.cards.score(mask) if self.cards.have_opinion else 0
            hint = Hint(mask, preferred=True, score=score)
            if best is None or is_better(hint, best):
                best = hint
        return candidates[0] if best is None or best.numa_mask is None else best.numa_mask

    def _not_preferred(self) -> Merged:
        resources = len(self.zones.zones) + (len(self.cards.asked) if self.cards.have_opinion else 0)
        if len(sets_within(self.terms.all_numa)) ** resources <= MOST_COMBINATIONS and not self._is_cut_short():
            return merge(self.terms, self.hints())
        # What exclusivity alone keeps from being preferred is still the narrowest.
        narrowest = self._preferred(_anything)
        if narrowest is None or narrowest.bit_count() > 1:
            narrowest = self.terms.all_numa
        return Merged(narrowest, preferred=False, admits=True)

    def _is_cut_short(self) -> bool:
        """Return whether the machine has more sets of NUMA nodes than are walked."""
        return walked_widths(self.terms.all_numa)[-1] < self.terms.all_numa.bit_count()


def _anything(_: int) -> bool:
    return True
