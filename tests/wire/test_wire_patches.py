"""Edits become a minimal JSON Patch on the raw object: nothing of the user's is replaced, and twice is once."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import server_rules
from support.json_values import fuzzed_pods, patchable_pods

from webhook.core.decisions import RequireNodeLabel, SetAnnotation
from webhook.wire.patches import PatchError, apply_patch, build_patch, escaped, proven_patch, shows
from webhook.wire.pods import read_pod

LABEL = RequireNodeLabel("ack.node.gpu.schedule", ("topology",))
EXPRESSION = {"key": "ack.node.gpu.schedule", "operator": "In", "values": ["topology"]}
REQUIRED = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"


def _with_terms(terms):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"affinity": {"nodeAffinity": required, "podAntiAffinity": {"kept": 1}}}}


def _terms(raw):
    node_affinity = raw["spec"]["affinity"]["nodeAffinity"]
    return node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


NEW_TERM = {"op": "add", "path": REQUIRED, "value": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}}
NEW_AFFINITY = {"op": "add", "path": "/spec/affinity", "value": {}}
NEW_NODE_AFFINITY = {"op": "add", "path": "/spec/affinity/nodeAffinity", "value": {}}


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        pytest.param({}, [NEW_AFFINITY, NEW_NODE_AFFINITY, NEW_TERM], id="no affinity: one level at a time"),
        pytest.param({"affinity": None}, [NEW_AFFINITY, NEW_NODE_AFFINITY, NEW_TERM], id="null is absent"),
        pytest.param({"affinity": {"podAffinity": {}}}, [NEW_NODE_AFFINITY, NEW_TERM], id="the user's affinity stays"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            [NEW_TERM],
            id="the user's preferences stay",
        ),
    ],
)
def test_a_label_is_required_where_no_term_is(spec, patch):
    raw = {"spec": spec}
    assert proven_patch(raw, [LABEL]) == patch
    assert _terms(apply_patch(raw, patch)) == [{"matchExpressions": [EXPRESSION]}]


OTHER = {"key": "zone", "operator": "In", "values": ["a"]}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            [{"matchExpressions": [OTHER]}, {"matchExpressions": [OTHER]}],
            [{"matchExpressions": [OTHER, EXPRESSION]}, {"matchExpressions": [OTHER, EXPRESSION]}],
            id="terms are ORed, so each gets it",
        ),
        pytest.param(
            [{}, None, {"matchExpressions": []}, {"matchExpressions": [OTHER]}],
            [{}, None, {"matchExpressions": []}, {"matchExpressions": [OTHER, EXPRESSION]}],
            id="an empty term matches nothing and stays so",
        ),
        pytest.param([{}], [{}], id="only empty terms: nothing is added"),
        pytest.param([], [], id="no term matches nothing"),
        pytest.param(
            [{"matchFields": [FIELD]}, {"matchFields": [FIELD], "matchExpressions": None}],
            [{"matchFields": [FIELD], "matchExpressions": [EXPRESSION]}] * 2,
            id="a term of fields takes expressions beside them",
        ),
        pytest.param([{"matchExpressions": [EXPRESSION]}], [{"matchExpressions": [EXPRESSION]}], id="already demanded"),
        pytest.param(
            [{"matchExpressions": [{**EXPRESSION, "values": ["topology", "share"]}]}],
            [{"matchExpressions": [{**EXPRESSION, "values": ["topology", "share"]}, EXPRESSION]}],
            id="a wider demand of the user is narrowed",
        ),
        pytest.param(
            [{"matchExpressions": [{**EXPRESSION, "values": []}]}],
            [{"matchExpressions": [{**EXPRESSION, "values": []}, EXPRESSION]}],
            id="a demand for no value at all is none that we could rely on",
        ),
        pytest.param(
            [{"matchExpressions": [{"key": "ack.node.gpu.schedule", "operator": "Exists"}]}],
            [{"matchExpressions": [{"key": "ack.node.gpu.schedule", "operator": "Exists"}, EXPRESSION]}],
            id="another operator is not the demand",
        ),
    ],
)
def test_a_label_is_anded_into_terms(before, after):
    raw = _with_terms(before)
    patched = apply_patch(raw, proven_patch(raw, [LABEL]))
    assert _terms(patched) == after
    assert patched["spec"]["affinity"]["podAntiAffinity"] == {"kept": 1}


KEY = "scheduling.alibabacloud.com/numa~spec"
POINTER = "/metadata/annotations/scheduling.alibabacloud.com~1numa~0spec"


@pytest.mark.parametrize(
    ("raw", "patch"),
    [
        pytest.param(
            {},
            [
                {"op": "add", "path": "/metadata", "value": {}},
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": POINTER, "value": "new"},
            ],
            id="parents are made",
        ),
        pytest.param(
            {"metadata": {"annotations": None}},
            [
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": POINTER, "value": "new"},
            ],
            id="null annotations",
        ),
        pytest.param(
            {"metadata": {"annotations": {"a": "b"}}}, [{"op": "add", "path": POINTER, "value": "new"}], id="added"
        ),
        pytest.param(
            {"metadata": {"annotations": {KEY: "old"}}},
            [{"op": "replace", "path": POINTER, "value": "new"}],
            id="replaced",
        ),
        pytest.param({"metadata": {"annotations": {KEY: "new"}}}, [], id="already so"),
    ],
)
def test_an_annotation_is_set(raw, patch):
    assert proven_patch(raw, [SetAnnotation(KEY, "new")]) == patch


def test_parents_are_made_once_for_several_edits():
    patch = proven_patch({"spec": {}}, [SetAnnotation("a", "1"), SetAnnotation("b", "2"), LABEL])
    assert [operation["path"] for operation in patch] == [
        "/metadata", "/metadata/annotations", "/metadata/annotations/a", "/metadata/annotations/b",
        "/spec/affinity", "/spec/affinity/nodeAffinity", REQUIRED,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "edit"),
    [
        ({"metadata": []}, SetAnnotation("a", "b")),
        ({"metadata": {"annotations": "x"}}, SetAnnotation("a", "b")),
        ({"spec": {"affinity": []}}, LABEL),
        ({"spec": {"affinity": {"nodeAffinity": {REQUIRED.rpartition("/")[2]: 1}}}}, LABEL),
        (_with_terms({}), LABEL),
    ],
)
def test_a_place_of_a_wrong_type_is_never_overwritten(raw, edit):
    with pytest.raises(PatchError, match=r"found .*, wanted"):
        proven_patch(raw, [edit])


def test_an_edit_that_does_not_come_out_is_not_sent():
    with pytest.raises(PatchError, match="does not show"):
        proven_patch({}, [SetAnnotation("a", "1"), SetAnnotation("a", "2")])


@pytest.mark.parametrize("required", [{}, {"nodeSelectorTerms": None}, {"nodeSelectorTerms": []}], ids=str)
def test_no_term_matches_nothing_and_holds_up_no_other_edit(required):
    """The API server refuses such a pod itself; what else is to be edited is."""
    raw = {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}}
    annotation = SetAnnotation("cpuset-scheduler", "required")
    label = RequireNodeLabel("ack.node.gpu.schedule", ("topology",))
    assert proven_patch(raw, [annotation, label]) == build_patch(raw, [annotation])


edits = st.lists(
    st.builds(SetAnnotation, st.sampled_from(["cpuset-scheduler", "x/y~z", "new/key"]), st.text(max_size=4))
    | st.builds(
        RequireNodeLabel,
        st.just("ack.node.gpu.schedule"),
        st.sampled_from([("topology",), ("topology", "default")]),
    ),
    max_size=3,
    unique_by=lambda edit: edit.key,
)


@given(patchable_pods, edits)
def test_twice_is_once_and_the_server_agrees(raw, wanted):
    before = copy.deepcopy(raw)
    patch = proven_patch(raw, wanted)
    patched = apply_patch(raw, patch)
    assert raw == before
    assert patched == server_rules.apply_patch(raw, patch)
    assert build_patch(patched, wanted) == []
    assert all(shows(patched, edit) for edit in wanted if patch)


@given(patchable_pods, edits)
def test_only_our_fields_are_touched(raw, wanted):
    patched = apply_patch(raw, proven_patch(raw, wanted))
    for document in (raw, patched):
        assert document.get("unknownField") == raw.get("unknownField")
    before, after = read_pod(raw), read_pod(patched)
    ours = {edit.key for edit in wanted}
    assert {k: v for k, v in after.annotations.items() if k not in ours} == {
        k: v for k, v in before.annotations.items() if k not in ours
    }
    assert (after.labels, after.name, after.containers) == (before.labels, before.name, before.containers)
    if before.required_terms is not None:
        for old, new in zip(before.required_terms, after.required_terms, strict=True):
            assert new.expressions[: len(old.expressions)] == old.expressions
            assert (new.fields, new.is_empty) == (old.fields, old.is_empty)


@given(fuzzed_pods, edits)
def test_any_object_is_patched_or_refused_with_the_declared_error(raw, wanted):
    if isinstance(raw, dict):
        try:
            patch = proven_patch(raw, wanted)
        except PatchError as refused:
            assert str(refused).isprintable()  # noqa: PT017 - either outcome is right
        else:
            assert apply_patch(raw, patch) == server_rules.apply_patch(raw, patch)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "copy", "path": "/a"},
        {"op": "add"},
        {"op": "add", "path": ""},
        {"op": "replace", "path": "/absent", "value": 1},
        {"op": "remove", "path": "/absent"},
        {"op": "add", "path": "/absent/x", "value": 1},
        {"op": "add", "path": "/text/x", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "add", "path": "/list/-/x", "value": 1},
    ],
    ids=str,
)
def test_an_operation_without_its_place_is_refused(operation):
    with pytest.raises(PatchError):
        apply_patch({"list": [1, 2], "text": "x"}, [operation])


@pytest.mark.parametrize(
    ("operation", "patched"),
    [
        ({"op": "add", "path": "/list/0", "value": 0}, {"list": [0, 1, 2]}),
        ({"op": "add", "path": "/list/2", "value": 3}, {"list": [1, 2, 3]}),
        ({"op": "add", "path": "/list/-", "value": 3}, {"list": [1, 2, 3]}),
        ({"op": "replace", "path": "/list/1", "value": 9}, {"list": [1, 9]}),
        ({"op": "remove", "path": "/list/0"}, {"list": [2]}),
        ({"op": "remove", "path": "/list"}, {}),
        ({"op": "add", "path": "/a~1b~01", "value": 1}, {"list": [1, 2], "a/b~1": 1}),
    ],
    ids=str,
)
def test_operations(operation, patched):
    assert apply_patch({"list": [1, 2]}, [operation]) == patched


@given(st.text("~/01a", max_size=8))
def test_an_escaped_name_is_one_step(name):
    assert apply_patch({}, [{"op": "add", "path": f"/{escaped(name)}", "value": 1}]) == {name: 1}
