"""A pod whose affinity is no map gets no patch that could not be applied."""

import pytest
from support.builders import raw_pod

from webhook.core.decide import decide_mutate
from webhook.core.decisions import Ask, Operation
from webhook.core.modes import Rules
from webhook.wire.patches import apply_patch, proven_patch
from webhook.wire.pods import read_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ODD = {
    "a text for affinity": {"affinity": "x"},
    "a list for nodeAffinity": {"affinity": {"nodeAffinity": [1]}},
    "a number for the required part": {"affinity": {"nodeAffinity": {REQUIRED: 3}}},
    "a map for the terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {}}}}},
    "a number among the terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [3]}}}},
}


@pytest.mark.parametrize("spec", ODD.values(), ids=ODD)
def test_nothing_is_added_where_nothing_can_be_added_to(spec):
    """Mutate leaves it to validate to say what is wrong, and never fails over it."""
    raw = raw_pod(spec=spec)
    decision = decide_mutate(Ask(Operation.CREATE, "team", "p", read_pod(raw), resource="pods"), Rules())
    patch = proven_patch(raw, decision.edits)
    assert apply_patch(raw, patch)["spec"]["affinity"] == raw["spec"]["affinity"]
