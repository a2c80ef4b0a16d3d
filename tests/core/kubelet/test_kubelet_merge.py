"""The fast ways to a merged hint agree with the kubelet's own walk over every combination."""

from hypothesis import given, settings
from hypothesis import strategies as st
from literal_merge import literal_merge

from webhook.core.kubelet.best_effort import best_effort_hint
from webhook.core.kubelet.hints import Ask, ListedAsk
from webhook.core.kubelet.merge import MaskOrder, intersections, merge
from webhook.core.kubelet.reduced import preferred_mask
from webhook.core.kubelet.tables import MembersIn
from webhook.core.machine import TopologyPolicy
from webhook.core.masks import mask_of, members

POLICIES = [TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE]
NODES = 4
EVERY = (1 << NODES) - 1

hints = st.tuples(st.one_of(st.none(), st.integers(1, EVERY)), st.booleans())
lists = st.lists(
    st.one_of(
        st.just(((None, True),)),
        st.just(()),
        st.lists(hints, min_size=1, max_size=6, unique_by=lambda hint: hint[0]).map(tuple),
    ),
    max_size=3,
)
distances = st.one_of(
    st.just(()),
    st.lists(st.lists(st.integers(10, 13), min_size=NODES, max_size=NODES), min_size=NODES, max_size=NODES).map(
        lambda rows: tuple(map(tuple, rows))
    ),
)


@settings(max_examples=400, deadline=None)
@given(lists, st.sampled_from(POLICIES), distances)
def test_merge_is_the_best_of_all_combinations(one, policy, table):
    """Any hints, any policy, with and without distances."""
    assert merge(one, EVERY, policy, MaskOrder(table)) == literal_merge(one, EVERY, policy, table)


@given(st.lists(st.lists(st.integers(1, EVERY), min_size=1, max_size=8), min_size=1, max_size=4))
def test_intersections_are_those_of_one_mask_of_each_list(one):
    """The transform finds exactly what walking the product finds."""
    expected = {EVERY}
    for masks in one:
        expected = {left & mask for left in expected for mask in masks}
    assert intersections(one, EVERY) == expected


@st.composite
def spread_asks(draw) -> Ask:
    """One resource: members over some of the NUMA nodes, some of them of several nodes, some to reuse."""
    count = draw(st.integers(1, 8))
    universe = draw(st.integers(1, EVERY))
    homes = [draw(st.integers(1, EVERY)) & universe or universe & -universe for _ in range(count)]
    by_numa = [mask_of(m for m, home in enumerate(homes) if home >> node & 1) for node in range(NODES)]
    table = MembersIn(by_numa)
    free = draw(st.integers(0, (1 << count) - 1))
    reused = draw(st.integers(0, (1 << count) - 1)) & ~free if draw(st.booleans()) else 0
    request = draw(st.integers(0, count + 1))
    width = next(
        (
            size
            for size in range(1, universe.bit_count() + 1)
            if any(
                table[mask].bit_count() >= request
                for mask in range(1, EVERY + 1)
                if not mask & ~universe and mask.bit_count() == size
            )
        ),
        universe.bit_count(),
    )
    possible = (free | reused).bit_count() >= request
    return Ask("r", table, universe, width, free, request - reused.bit_count(), reused, is_possible=possible)


listed_asks = st.lists(
    st.tuples(st.integers(1, EVERY), st.booleans()), min_size=1, max_size=6, unique_by=lambda hint: hint[0]
).map(lambda found: ListedAsk("l", EVERY, tuple(found), min(mask.bit_count() for mask, _ in found)))

asks = st.lists(st.one_of(spread_asks(), spread_asks(), listed_asks), max_size=3)


@settings(max_examples=400, deadline=None)
@given(asks, st.sampled_from(POLICIES), distances)
def test_reduced_rules_are_the_full_enumeration(one, policy, table):
    """A preferred mask is found iff the merge of all hints is preferred, and it is the same one."""
    only_single = policy is TopologyPolicy.SINGLE_NUMA_NODE
    order = MaskOrder(() if only_single else table)
    (mask, preferred), _ = literal_merge([ask.hints() for ask in one], EVERY, policy, table)
    found = preferred_mask(one, EVERY, order, only_single=only_single)
    assert found == ((EVERY if mask is None else mask) if preferred else None)


@settings(max_examples=400, deadline=None)
@given(asks, distances)
def test_best_effort_is_the_full_enumeration(one, table):
    """Where no mask is preferred by all, the mask found quickly is the merged one."""
    order = MaskOrder(table)
    if preferred_mask(one, EVERY, order, only_single=False) is not None:
        return
    expected = literal_merge([ask.hints() for ask in one], EVERY, TopologyPolicy.BEST_EFFORT, table)[0]
    assert best_effort_hint(one, EVERY, order) == expected


def test_hints_come_narrow_first_and_by_the_lowest_nodes():
    """The order of the kubelet's own lists."""
    table = MembersIn((0b0011, 0b1100, 0b110000))
    ask = Ask("gpu", table, 0b111, 1, 0b111111, 2)
    nodes = [list(members(mask)) for mask, _ in ask.hints()]
    assert nodes == [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]
