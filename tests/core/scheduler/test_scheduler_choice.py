"""The choice without trying every combination agrees with the merge that does, and so do the reasons."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scheduler_cases import machine, machines, pod, pods, state_of, states

from webhook.core.demand import CpuBinding
from webhook.core.scheduler import Scoring
from webhook.core.scheduler.cards import cards_of
from webhook.core.scheduler.choice import MOST_COMBINATIONS, Choice
from webhook.core.scheduler.exclusive import Occupants
from webhook.core.scheduler.hints import MOST_SETS, Hint, sets_of_width, sets_within, walked_widths
from webhook.core.scheduler.merge import Terms, is_better, merge
from webhook.core.scheduler.policies import POLICIES, effective_exclusive
from webhook.core.scheduler.request import WholeCpusError, request_of
from webhook.core.scheduler.zones import zones_of


def choice_of(on, state, demand, policy, *, bound, scoring=Scoring.LEAST_ALLOCATED) -> Choice:
    request = request_of(on, replace(demand, cpu_binding=CpuBinding.CPUS if bound else CpuBinding.NONE))
    exclusive = effective_exclusive(demand.numa_policy, demand.numa_exclusive)
    terms = Terms(policy, on.all_numa, exclusive, Occupants.of(state.cpusets, on.cpus.numa_cpus))
    return Choice(terms, zones_of(on, state, request), cards_of(on, state, request), scoring)


def literally(choice: Choice):
    """Return the merge of the choice's hints; a side without any stands for "no preference"."""
    return merge(choice.terms, [*choice.hints(), ("", None)])


@settings(max_examples=250, deadline=None)
@given(st.data(), machines(), pods(), st.sampled_from(POLICIES))
def test_choice_is_what_trying_every_combination_finds(data, on, demand, policy):
    """Same verdict, same NUMA nodes, same words; the device side's own shortage comes before."""
    state, scoring = data.draw(states(on)), data.draw(st.sampled_from(Scoring))
    try:
        choice = choice_of(on, state, demand, policy, bound=data.draw(st.booleans()), scoring=scoring)
    except WholeCpusError:
        assume(False)
    assume(not choice.cards.shortage(policy))
    found, expected = choice.make(), literally(choice)
    assert (found.admits, found.preferred, found.reasons) == (expected.admits, expected.preferred, expected.reasons)
    resources = len(choice.hints())
    if found.preferred or len(sets_within(on.all_numa)) ** resources <= MOST_COMBINATIONS:
        assert not found.admits or found.numa_mask == expected.numa_mask


def test_best_effort_that_is_too_wide_to_try_keeps_what_exclusivity_alone_takes_the_preference_from():
    """On eight NUMA nodes, all shared, a pod of CPUs and GPUs still sits on one; unaligned it gets all of them."""
    on = machine(8, 8, gpus=1)
    shared = [0b1 << 8 * node | 0b1 << 8 * (node + 1) for node in range(0, 8, 2)]
    assert len(sets_within(on.all_numa)) ** 2 > MOST_COMBINATIONS
    kept = choice_of(on, state_of(on, bound=shared), pod(2, 1, policy="BestEffort"), "BestEffort", bound=True).make()
    assert (kept.numa_mask, kept.preferred, kept.admits) == (1, False, True)
    wide = choice_of(on, state_of(on), pod(12, 1, policy="BestEffort"), "BestEffort", bound=True).make()
    assert (wide.numa_mask, wide.admits) == (on.all_numa, True)


def test_sets_are_tried_by_width_and_then_by_their_lowest_nodes():
    """{0,3} comes before {1,2}, though its mask is the higher number."""
    assert sets_within(0b1111)[:4] == (1, 2, 4, 8)
    assert sets_of_width(0b1111, 2) == (0b11, 0b101, 0b1001, 0b110, 0b1010, 0b1100)
    assert sets_of_width(0b1010, 2) == (0b1010,)


def test_sets_that_are_walked_stay_few_on_any_machine():
    """All of them on up to twelve NUMA nodes, at least the single nodes on any."""
    assert walked_widths((1 << 12) - 1) == range(1, 13)
    for nodes in range(13, 65):
        assert len(sets_within((1 << nodes) - 1)) <= MOST_SETS
        assert walked_widths((1 << nodes) - 1)[0] == 1


def test_restricted_is_never_refused_by_sets_that_were_not_walked():
    """On 16 NUMA nodes a pod that needs ten of them is let through, on all."""
    on = machine(16, 2, gpus=0)
    assert walked_widths(on.all_numa)[-1] < 10
    merged = choice_of(on, state_of(on), pod(20, policy="Restricted"), "Restricted", bound=True).make()
    assert (merged.admits, merged.preferred, merged.numa_mask) == (True, False, on.all_numa)


@pytest.mark.parametrize(
    "new, old, better",
    [
        pytest.param((0b110, True), (0b1, False), True, id="preferred before narrow"),
        pytest.param((0b1, False), (0b110, True), False, id="and never the other way"),
        pytest.param((0b1, True, 0), (0b110, True, 900), True, id="narrow before the score"),
        pytest.param((0b110, True, 0), (0b1001, True, 900), True, id="a lower mask replaces whatever the score"),
        pytest.param((0b1001, True, 1), (0b110, True, 0), True, id="and so does a higher score"),
        pytest.param((0b1001, True, 0), (0b110, True, 0), False, id="an equal one does not"),
    ],
)
def test_which_later_hint_replaces_an_earlier_one(new, old, better):
    """The order of 2.4, which is no total order: what comes later has the advantage."""
    assert is_better(Hint(*new), Hint(*old)) is better
