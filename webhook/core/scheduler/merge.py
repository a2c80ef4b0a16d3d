"""How the scheduler merges hints into one set of NUMA nodes, rule by rule (2.4): every combination is tried.

It is what ``choice`` is compared with, and what ``choice`` falls back to. It departs from the kubelet's merge: a merged
set narrower than one of its parts is *unsatisfied*, exclusivity clears "preferred", and scores decide between sets of
one width.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from webhook.core.scheduler.exclusive import Occupants
from webhook.core.scheduler.hints import DONT_CARE, IMPOSSIBLE, Hint, ResourceHints, in_words
from webhook.core.scheduler.policies import BEST_EFFORT, SINGLE_NUMA_NODE


@dataclass(frozen=True, slots=True)
class Terms:
    """What a pod and a node bring to the merge beside the hints."""

    policy: str
    """One of ``policies.POLICIES``."""
    all_numa: int
    exclusive: str = ""
    occupants: Occupants = field(default_factory=Occupants)

    def allow(self, numa_mask: int) -> bool:
        """Return whether exclusivity lets the pod onto ``numa_mask``."""
        return self.occupants.admit(numa_mask, self.exclusive)


@dataclass(frozen=True, slots=True)
class Merged:
    """The set of NUMA nodes for the pod, and whether the policy admits it."""

    numa_mask: int | None
    """None: no affinity, so that no NUMA node is recorded for the pod."""
    preferred: bool
    admits: bool
    unsatisfied: bool = False
    reasons: tuple[str, ...] = ()
    """The scheduler's words; empty where it admits."""
    unmet: bool = False
    """The reasons name resources that no set of NUMA nodes can take."""


def merge(terms: Terms, hints: Sequence[ResourceHints]) -> Merged:
    """Return the merge of ``hints``, one entry per resource."""
    everything = terms.all_numa
    unmet = unsatisfied_reasons(hints)
    if unmet and terms.policy != BEST_EFFORT:
        nowhere = None if terms.policy == SINGLE_NUMA_NODE else everything
        return Merged(nowhere, preferred=False, admits=False, reasons=unmet, unmet=True)
    lists = [_filled(one) for _, one in hints]
    if terms.policy == SINGLE_NUMA_NODE:
        lists = [[hint for hint in one if _is_single(hint)] for one in lists]
    best = _best(terms, lists)
    if terms.policy == BEST_EFFORT:
        if best.unsatisfied:
            best = Hint(everything, best.preferred)
        return Merged(best.numa_mask, best.preferred, admits=True)
    if terms.policy == SINGLE_NUMA_NODE and best.numa_mask == everything:
        best = Hint(None, best.preferred)
    reasons = () if best.preferred else (unaligned_reason(terms.policy, hints),)
    return Merged(best.numa_mask, best.preferred, best.preferred, best.unsatisfied, reasons)


def unsatisfied_reasons(hints: Iterable[ResourceHints]) -> tuple[str, ...]:
    """Return what the scheduler says of each resource that no set of NUMA nodes can take."""
    return tuple(f"Unsatisfied NUMA {resource}" for resource, one in hints if one is not None and not one)


def unaligned_reason(policy: str, hints: Iterable[ResourceHints]) -> str:
    """Return what the scheduler says where each resource could be had, but not where all are preferred."""
    words = sorted(in_words(resource, one) for resource, one in hints if one)
    return f"Unaligned NUMA Hint cause {(',' if policy == SINGLE_NUMA_NODE else ' & ').join(words)}"


def is_better(new: Hint, old: Hint) -> bool:
    """Return whether a later merged hint replaces an earlier one.

    Preferred, then fewer NUMA nodes; with as many nodes, the lower mask or the higher score: either suffices.
    """
    if new.preferred is not old.preferred:
        return new.preferred
    mask, other = new.numa_mask or 0, old.numa_mask or 0
    if mask.bit_count() != other.bit_count():
        return mask.bit_count() < other.bit_count()
    return mask < other or new.score > old.score


def _filled(hints: Sequence[Hint] | None) -> Sequence[Hint]:
    if hints is None:
        return (DONT_CARE,)
    return hints or (IMPOSSIBLE,)


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.numa_mask is None or hint.numa_mask.bit_count() == 1)


def _best(terms: Terms, lists: Sequence[Sequence[Hint]]) -> Hint:
    best = Hint(terms.all_numa, preferred=False)
    for combination in product(*lists):
        merged = _merged(terms, combination)
        if merged.numa_mask and is_better(merged, best):
            best = merged
    return best


def _merged(terms: Terms, combination: Sequence[Hint]) -> Hint:
    masks = [hint.numa_mask for hint in combination if hint.numa_mask is not None]
    result = terms.all_numa
    for mask in masks:
        result &= mask
    widest = max((mask.bit_count() for mask in masks), default=result.bit_count())
    return Hint(
        result,
        preferred=all(hint.preferred for hint in combination)
        and all(mask == masks[0] for mask in masks)
        and bool(result)
        and terms.allow(result),
        score=sum(hint.score for hint in combination if hint.numa_mask == result),
        unsatisfied=widest != result.bit_count() or any(hint.unsatisfied for hint in combination),
    )
