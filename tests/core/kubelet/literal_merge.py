"""The merge of hints as the kubelet has it: every combination, compared case by case (topologymanager/policy.go).

Slow on purpose: what the fast ways of ``webhook.core.kubelet`` are compared with.
"""

from itertools import product

from webhook.core.machine import TopologyPolicy
from webhook.core.masks import members

Hint = tuple[int | None, bool]


def narrower(one: int, other: int) -> bool:
    if one.bit_count() == other.bit_count():
        return one < other
    return one.bit_count() < other.bit_count()


def average_distance(distances: tuple[tuple[int, ...], ...], mask: int) -> float:
    nodes = list(members(mask))
    return sum(float(distances[a][b]) for a in nodes for b in nodes) / len(nodes) ** 2


def better(current: int, candidate: int, distances: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether ``candidate`` replaces ``current`` among equally preferred hints."""
    if current == candidate:
        return False
    if distances and current.bit_count() == candidate.bit_count():
        ours, theirs = average_distance(distances, current), average_distance(distances, candidate)
        return candidate < current if ours == theirs else theirs < ours
    return narrower(candidate, current)


def replaces(current: Hint | None, candidate: Hint, wanted: int, distances) -> bool:
    """``HintMerger.compare``, with the numbers of its cases."""
    if not candidate[0]:
        return False
    if current is None:
        return True
    if current[1] != candidate[1]:
        return candidate[1]
    if current[1]:
        return better(current[0], candidate[0], distances)
    ours, theirs = current[0].bit_count(), candidate[0].bit_count()
    if ours > wanted:  # case 1
        return better(current[0], candidate[0], distances)
    if ours == wanted:  # case 2
        return theirs == wanted and better(current[0], candidate[0], distances)
    if theirs > wanted:  # case 3a
        return False
    if theirs == wanted:  # case 3b
        return True
    if theirs != ours:  # cases 3ca, 3cb
        return theirs > ours
    return better(current[0], candidate[0], distances)  # case 3cc


def literal_merge(lists, all_numa: int, policy: TopologyPolicy, distances=()) -> tuple[Hint, bool]:
    """Return the merged hint and whether the pod is admitted."""
    lists = [list(one) or [(None, False)] for one in lists]
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        distances = ()
        lists = [[hint for hint in one if hint[1] and (hint[0] is None or hint[0].bit_count() == 1)] for one in lists]
    wanted = 0
    for one in lists:
        masks = [mask for mask, _ in one if mask is not None]
        if masks:
            wanted = max(wanted, min(mask.bit_count() for mask in masks))
    best: Hint | None = None
    for combination in product(*lists):
        masks = [mask for mask, _ in combination if mask is not None]
        merged = all_numa
        for mask in masks:
            merged &= mask
        preferred = all(hint[1] for hint in combination) and len(set(masks)) <= 1
        if replaces(best, (merged, preferred), wanted, distances):
            best = (merged, preferred)
    best = best or (all_numa, False)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE and best[0] == all_numa:
        best = (None, best[1])
    return best, best[1] or policy is TopologyPolicy.BEST_EFFORT
