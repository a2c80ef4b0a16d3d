"""Random walks over all events: nothing is lost or given twice, and a fresh list brings the ledger to the truth."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_walk import Walk

from webhook.core.ledger import events
from webhook.core.ledger.holdings import told
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import Certainty
from webhook.core.masks import members


def places_told(ledger: Ledger) -> dict:
    """Return what sources tell: whole places, and the told parts of the others."""
    result = {}
    for name, view in ledger.views.items():
        for entry in view.bound:
            known = told(view.record, entry.pod)
            if known is None:
                assert entry.certainty is not Certainty.CONFIRMED
            elif known.is_whole:
                assert entry.certainty is Certainty.CONFIRMED
                result[entry.uid] = (name, entry.holding)
            else:
                assert known.agrees(entry.holding)
                result[entry.uid] = (name, known.holding)
    return result


@pytest.mark.parametrize("seed", range(8))
def test_a_long_walk(seed):
    """Hundreds of events on one ledger keep the books straight."""
    walk = Walk(seed)
    for _ in range(250):
        walk.step()


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**9), st.integers(5, 60))
def test_a_fresh_list_brings_the_truth(seed, steps):
    """After missed, late and doubled events a list makes totals and told places those of a ledger made from it."""
    walk = Walk(seed)
    for _ in range(steps):
        walk.step()
    walk.list_all()
    walk.now += 100
    walk.apply(events.Elapsed())
    fresh = walk.fresh()
    assert set(walk.ledger.entries) == set(walk.pods) == set(fresh.entries)
    assert places_told(walk.ledger) == places_told(fresh)
    for name, view in fresh.views.items():
        ours = walk.ledger.views[name]
        assert ours.record == view.record
        assert {k: v for k, v in ours.bound_totals.items() if v} == {k: v for k, v in view.bound_totals.items() if v}
        assert {entry.uid for entry in ours.bound} == {entry.uid for entry in view.bound}
    assert walk.ledger.views.keys() == fresh.views.keys()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(5, 40))
def test_hearing_everything_again_changes_nothing(seed, steps):
    """Once the list is read, the same records a second time leave the ledger's content as it is."""
    walk = Walk(seed)
    for _ in range(steps):
        walk.step()
    walk.list_all()
    walk.now += 100
    walk.apply(events.Elapsed())
    bound = {name: (view.record, view.bound) for name, view in walk.ledger.views.items()}
    walk.list_all()
    assert {name: (view.record, view.bound) for name, view in walk.ledger.views.items()} == bound


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_the_index_marks_what_the_accounts_say(seed):
    """Guessed, freeing, known, ready and cordoned nodes are the same in the index as in the accounts."""
    walk = Walk(seed)
    for _ in range(40):
        walk.step()
    index, views = walk.ledger.index, walk.ledger.views
    assert set(index.names(index.present)) == set(views)
    guessed = {name for name, view in views.items() if view.is_guessed or walk.ledger.alternatives(name)}
    assert set(index.names(index.guessed)) == guessed
    assert set(index.names(index.freeing)) == {
        name for name, view in views.items() if any(entry.pod.is_deleting for entry in view.bound)
    }
    assert set(index.names(index.ready)) == {name for name, view in views.items() if view.record.facts.ready}
    assert set(index.names(index.cordoned)) == {n for n, view in views.items() if view.record.facts.unschedulable}
    assert index.tracked_resources == {
        layout.resource for slot in members(index.known) for layout in views[index.name(slot)].record.machine.devices
    }
