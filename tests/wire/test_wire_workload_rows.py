"""Rows of the table of kinds from the settings."""

import pytest
from hypothesis import given
from support.json_values import values_with

from webhook.wire.workload_kinds import Count, TemplateRule, WorkloadKind, WorkloadKindError
from webhook.wire.workload_rows import workload_kind_from

ROW = {
    "group": "example.com",
    "kind": "Fleet",
    "templates": [
        {
            "path": "spec.groups[].roles.*.template",
            "replicas": [
                "spec.replicas",
                {"path": "spec.groups[].size", "default": 0, "atMost": "spec.groups[].roles.*.cap"},
                {"default": 2, "lessOneWhere": "spec.single"},
            ],
        },
        {"path": "spec.inline", "inline": True, "metadata": ["metadata", "spec.inline"]},
    ],
}


def test_a_row_of_the_settings_is_the_same_value_as_one_in_code():
    assert workload_kind_from(ROW) == WorkloadKind(
        "example.com",
        "Fleet",
        (
            TemplateRule(
                "spec.groups[].roles.*.template",
                (
                    Count("spec.replicas"),
                    Count("spec.groups[].size", 0, "spec.groups[].roles.*.cap"),
                    Count(default=2, less_one_where="spec.single"),
                ),
            ),
            TemplateRule("spec.inline", (), inline=True, metadata=("metadata", "spec.inline")),
        ),
    )


def test_a_row_says_its_plural_its_scope_and_what_is_filled_in():
    template = {"path": "spec.template", "partial": True}
    raw = {"group": "g", "kind": "Proxy", "plural": "proxies", "clusterScoped": True, "templates": [template]}
    row = workload_kind_from(raw)
    assert row == WorkloadKind(
        "g", "Proxy", (TemplateRule("spec.template", partial=True),), cluster_scoped=True, plural="proxies"
    )
    assert row.resource == "proxies"


@pytest.mark.parametrize(
    ("raw", "faults"),
    [
        ([], ["workload: found a list, wanted a map."]),
        (
            {"templates": [{}]},
            [
                "workload.kind: found nothing, wanted a kind such as",
                "workload.templates[0].path: found nothing, wanted a path such as",
            ],
        ),
        ({"kind": "A"}, ["workload.templates: found none, wanted at least one."]),
        (
            {"kind": 3, "templates": [{"path": "spec..x"}], "versions": []},
            [
                "workload.kind: found the number 3, wanted a text.",
                "workload.versions: found an unknown key, wanted one of group, kind, templates,",
                'workload.templates[0].path: found the text "spec..x", wanted a path such as',
            ],
        ),
        (
            {"kind": "A", "templates": [{"path": "spec.a[].t", "replicas": ["spec.b[].n", 5, {"default": True}]}]},
            [
                "workload.templates[0].replicas[1]: found the number 5, wanted a map.",
                "workload.templates[0].replicas[2].default: found true, wanted a whole number.",
                "workload.templates[0].replicas[0].path: found other wildcards than in spec.a[].t",
            ],
        ),
        (
            {"kind": "A", "templates": [{"path": "spec.t", "metadata": ["spec.*"]}, 1]},
            [
                "workload.templates[0].metadata: found a wildcard in spec.*",
                "workload.templates[1]: found the number 1, wanted a map.",
            ],
        ),
    ],
    ids=["not a map", "nothing", "no templates", "types, keys and paths", "counts", "metadata"],
)
def test_every_fault_is_said_at_once(raw, faults):
    with pytest.raises(WorkloadKindError) as refused:
        workload_kind_from(raw)
    said = str(refused.value).splitlines()
    assert len(said) == len(faults)
    for fault in faults:
        assert any(line.startswith(fault) and line.endswith(".") for line in said), (fault, said)


@given(values_with(["group", "kind", "templates", "path", "replicas", "default", "inline", "metadata", "atMost"]))
def test_anything_is_a_row_or_a_declared_error(raw):
    try:
        assert workload_kind_from(raw).templates
    except WorkloadKindError as refused:
        assert str(refused)  # noqa: PT017 - either outcome is right
