"""What mutate changes, what it leaves, and that a second time changes nothing."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import (
    ABSENT,
    GUIDE_COMPACT,
    GUIDE_SPEC,
    KOORD_KEY,
    OLDER_KEY,
    SINGLE,
    SPEC_KEY,
    ask,
    bound,
    raw_koordinator_pod,
    raw_pod,
)

from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import RequireNodeLabel, SetAnnotation
from webhook.core.findings import Family
from webhook.core.modes import Mode, RuleModes, Rules
from webhook.wire.patches import apply_patch, proven_patch
from webhook.wire.pods import read_pod

RULES = Rules()
MODE = "ack.node.gpu.schedule"
LABEL = RequireNodeLabel(MODE, ("topology",))
FREE = {"nodeSelector": {}}


def affinity(*terms):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}


def zone(key="zone", operator="In", *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def edits(new, old=None, rules=RULES, **more):
    return list(decide_mutate(ask(read_pod(new), None if old is None else read_pod(old), **more), rules).edits)


def owned(kind):
    return {"ownerReferences": [{"kind": kind, "name": "x", "controller": True, "apiVersion": "apps/v1", "uid": "u"}]}


CREATES = {
    "a good pod": (raw_pod(), []),
    "the guide's pod": (
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC}, spec=FREE),
        [SetAnnotation(SPEC_KEY, GUIDE_COMPACT), LABEL],
    ),
    "the guide's Deployment": (
        raw_pod(
            annotations={SPEC_KEY: ABSENT, OLDER_KEY: '{\n  "numaTopologyPolicy": "SingleNUMANode"\n}\n'}, spec=FREE
        ),
        [SetAnnotation(SPEC_KEY, SINGLE), LABEL],
    ),
    "cpuset-scheduler missing": (
        raw_pod(annotations={"cpuset-scheduler": ABSENT}),
        [SetAnnotation("cpuset-scheduler", "required")],
    ),
    "everything at once": (
        raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT, OLDER_KEY: GUIDE_SPEC}, spec=FREE),
        [SetAnnotation(SPEC_KEY, GUIDE_COMPACT), SetAnnotation("cpuset-scheduler", "required"), LABEL],
    ),
    "no annotations but another feature's": (
        raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": "true"}, spec=FREE),
        [],
    ),
    "valid JSON is left as it is written": (
        raw_pod(annotations={SPEC_KEY: '{ "numaTopologyPolicy" : "Restricted" }'}),
        [],
    ),
    "a misspelt policy is no guess of ours": (
        raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"SingleNumaNode",}', "cpuset-scheduler": ABSENT}),
        [],
    ),
    "a misspelt key is no guess of ours": (
        raw_pod(annotations={SPEC_KEY: ABSENT, "numa-topology-spec": GUIDE_SPEC}),
        [],
    ),
    "another cpuset-scheduler is left": (raw_pod(annotations={"cpuset-scheduler": "true"}), []),
    "a misspelt cpuset-scheduler is left": (
        raw_pod(annotations={"cpuset-scheduler": ABSENT, "cpuset-schedulers": "required"}),
        [],
    ),
    "both homes: the older is left": (raw_pod(annotations={OLDER_KEY: GUIDE_SPEC}), []),
    "affinity of another label": (raw_pod(spec=affinity(zone("zone", "In", "a"))), [LABEL]),
    "every term demands it": (raw_pod(spec=affinity(zone(MODE, "In", "topology"))), []),
    "one term does not": (raw_pod(spec=affinity(zone(MODE, "In", "topology"), zone("zone", "In", "a"))), [LABEL]),
    "only an empty term": (raw_pod(spec=affinity({})), []),
    "a selector that can never match": (raw_pod(spec={"nodeSelector": {MODE: "cgpu"}}), []),
    "node preset": (raw_pod(spec={"nodeSelector": {}, "nodeName": "gpu-1"}), []),
    "made by a DaemonSet": (
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC}, spec=FREE, metadata=owned("DaemonSet")),
        [SetAnnotation(SPEC_KEY, GUIDE_COMPACT)],
    ),
    "made by a Job": (raw_pod(spec=FREE, metadata=owned("Job")), [LABEL]),
    "a mirror pod": (
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC, "kubernetes.io/config.mirror": "x"}, spec=FREE),
        [],
    ),
    "Koordinator: text only, never ACK's label": (
        raw_koordinator_pod(annotations={KOORD_KEY: GUIDE_SPEC}),
        [SetAnnotation(KOORD_KEY, GUIDE_COMPACT)],
    ),
}


@pytest.mark.parametrize("raw, wanted", CREATES.values(), ids=CREATES)
def test_create(raw, wanted):
    """These edits are made, and no others."""
    assert edits(raw) == wanted


@pytest.mark.parametrize("raw, wanted", CREATES.values(), ids=CREATES)
def test_each_edit_is_told(raw, wanted):
    """One warning of one line and one audit annotation go with each edit."""
    decision = decide_mutate(ask(read_pod(raw)), RULES)
    assert decision.allowed
    assert len(decision.warnings) == len(decision.audit) == len(wanted)
    for warning in decision.warnings:
        assert warning.isprintable()
        assert warning.endswith(".")
        assert len(warning) <= 120
    assert all(len(key) <= 63 for key in decision.audit)


UPDATES = {
    "the guide's file again": (
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC}, spec=FREE),
        raw_pod(annotations={SPEC_KEY: GUIDE_COMPACT}, spec=affinity(zone(MODE, "In", "topology"))),
        [SetAnnotation(SPEC_KEY, GUIDE_COMPACT), LABEL],
    ),
    "the guide's file again, on a scheduled pod": (
        bound(raw_pod(annotations={SPEC_KEY: GUIDE_SPEC}, spec=FREE)),
        bound(raw_pod(annotations={SPEC_KEY: GUIDE_COMPACT}, spec=affinity(zone(MODE, "In", "topology")))),
        [SetAnnotation(SPEC_KEY, GUIDE_COMPACT), LABEL],
    ),
    "the old text is given back, not ours": (
        raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"SingleNUMANode",}'}),
        raw_pod(annotations={SPEC_KEY: '{ "numaTopologyPolicy": "SingleNUMANode" }'}),
        [SetAnnotation(SPEC_KEY, '{ "numaTopologyPolicy": "SingleNUMANode" }')],
    ),
    "a new meaning is not restored": (
        raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":"BestEffort",}'}),
        raw_pod(),
        [],
    ),
    "replaced without cpuset-scheduler": (
        raw_pod(annotations={"cpuset-scheduler": ABSENT}),
        raw_pod(),
        [SetAnnotation("cpuset-scheduler", "required")],
    ),
    "replaced without the carried annotation": (
        raw_pod(annotations={SPEC_KEY: ABSENT, OLDER_KEY: SINGLE}),
        raw_pod(annotations={OLDER_KEY: SINGLE}),
        [SetAnnotation(SPEC_KEY, SINGLE)],
    ),
    "what the old pod did not have is not added": (
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC, "cpuset-scheduler": ABSENT}, spec=FREE),
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC, "cpuset-scheduler": ABSENT}, spec=FREE),
        [],
    ),
    "a mark that is new is not repaired": (
        raw_pod(annotations={SPEC_KEY: GUIDE_SPEC}, spec=FREE),
        raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT}, spec=FREE),
        [],
    ),
    "only a label changed": (raw_pod(labels={"a": "b"}, spec=FREE), raw_pod(spec=FREE), []),
}


@pytest.mark.parametrize("new, old, wanted", UPDATES.values(), ids=UPDATES)
def test_update_restores(new, old, wanted):
    """An update gets back what the old pod had, and nothing else."""
    assert edits(new, old) == wanted


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize", "status", "eviction"])
def test_subresources_are_left(subresource):
    """Mutate touches pods only, never a subresource."""
    new, old, _ = UPDATES["the guide's file again"]
    assert edits(new, old, subresource=subresource) == []


@pytest.mark.parametrize(
    "family, left", [(Family.SPEC, [LABEL]), (Family.NODE, [SetAnnotation(SPEC_KEY, GUIDE_COMPACT)])], ids=str
)
def test_a_family_that_is_off_is_not_repaired(family, left):
    """Off means left alone, in the namespaces that say so."""
    raw, _ = CREATES["the guide's pod"]
    rules = Rules(modes=RuleModes(namespaces={"team": {family: Mode.OFF}}))
    assert edits(raw, rules=rules) == left
    assert len(edits(raw, rules=rules, namespace="other")) == 2


texts = st.sampled_from(
    [
        SINGLE,
        GUIDE_SPEC,
        '{"numaTopologyPolicy":"Restricted" // x\n}',
        '{"numaTopologyPolicy":"BestEffort","gang":"a",}',
        '{"numaTopologyPolicy":"bestEffort",}',
        '{"preferredCPUBindPolicy":"FullPCPUs","numaTopologyPolicy":"SingleNUMANode",}',
        "{}",
        "",
        "[",
    ]
)
terms = st.sampled_from(
    [{}, zone("zone", "In", "a"), zone(MODE, "In", "topology"), zone(MODE, "NotIn", "topology"), zone(MODE, "Exists")]
)
specs = st.one_of(
    st.just(FREE),
    st.just({"nodeSelector": {MODE: "topology"}}),
    st.just({"nodeSelector": {}, "nodeName": "gpu-1"}),
    st.lists(terms, min_size=1, max_size=3).map(lambda listed: affinity(*listed)),
)
annotations = st.fixed_dictionaries(
    {},
    optional={
        SPEC_KEY: texts | st.just(ABSENT),
        OLDER_KEY: texts,
        KOORD_KEY: texts,
        "cpuset-scheduler": st.sampled_from(["true", ABSENT]),
        "numa-topology-spec": texts,
    },
)


def patched(raw, old=None):
    """Return the pod as mutate makes it, through the real patch."""
    return apply_patch(raw, proven_patch(raw, edits(raw, old)))


@given(annotations=annotations, spec=specs)
def test_twice_is_once(annotations, spec):
    """A pod that was mutated is not mutated again, whatever it was."""
    once = patched(raw_pod(annotations=annotations, spec=spec))
    assert edits(once) == []


@given(annotations=annotations, spec=specs)
def test_what_can_be_repaired_is_repaired(annotations, spec):
    """After mutate, validate never says that mutate was missed."""
    once = read_pod(patched(raw_pod(annotations=annotations, spec=spec)))
    for finding in decide_validate(ask(once), RULES).findings:
        assert "was missed" not in str(finding)


@given(annotations=annotations, spec=specs)
def test_the_same_file_twice_passes(annotations, spec):
    """A pod that was let in is let in again when its file is applied as it was, scheduled meanwhile or not."""
    raw = raw_pod(annotations=annotations, spec=spec)
    stored = patched(raw)
    if not decide_validate(ask(read_pod(stored)), RULES).allowed:
        return
    companion = "cpuset-scheduler"
    was_added = companion in stored["metadata"]["annotations"] and companion not in raw["metadata"]["annotations"]
    for place in (lambda each: each, bound):
        if was_added and (place is bound or spec.get("nodeName")):
            # A whole object without the companion reads as its removal, which a scheduled pod is refused.
            again = patched(place(copy.deepcopy(raw)), place(stored))
            found = decide_validate(ask(read_pod(again), read_pod(place(stored))), RULES).findings
            assert [finding.code for finding in found] == ["UPDATE_SCHEDULED"]
            continue
        again = patched(place(copy.deepcopy(raw)), place(stored))
        assert decide_validate(ask(read_pod(again), read_pod(place(stored))), RULES).findings == ()
