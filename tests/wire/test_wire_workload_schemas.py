"""The table of workload kinds beside the schemas of the projects that define them (``tests/wire/crds``)."""

import json
from pathlib import Path

import pytest

from webhook.wire.workload_kinds import EACH_ITEM, EACH_MEMBER, steps_of
from webhook.wire.workload_table import STANDARD_KINDS, STANDARD_ROWS

HERE = Path(__file__).parent / "crds"
OF_KUBERNETES = {"", "apps", "batch"}

NOT_JUDGED = {
    ("kueue.x-k8s.io", "Workload"): "Kueue makes it of an object that is judged",
    ("serving.knative.dev", "Configuration"): "made of a Service",
    ("serving.knative.dev", "Revision"): "made of a Service",
    ("argoproj.io", "AnalysisRun"): "its jobs measure a rollout",
    ("argoproj.io", "AnalysisTemplate"): "its jobs measure a rollout",
    ("argoproj.io", "ClusterAnalysisTemplate"): "its jobs measure a rollout",
}

SCHEMAS = [schema for file in ("schemas.json", "noted.json") for schema in json.loads((HERE / file).read_text())]
VERSIONS = [
    pytest.param(
        schema, version, id=f"{schema['group']}/{name} {schema['kind']} {schema['source'].partition('@')[0][-24:]}"
    )
    for schema in SCHEMAS
    for name, version in schema["versions"].items()
    if version["served"]
]


OF_OTHERS = [row for row in STANDARD_ROWS if row.group not in OF_KUBERNETES]


def _served(row):
    return [
        version
        for schema in SCHEMAS
        if (schema["group"], schema["kind"]) == (row.group, row.kind)
        for version in schema["versions"].values()
        if version["served"]
    ]


def _is_at(path, place):
    """Whether a path of the table leads to a place of a schema: a name of the table stands for one member of a map."""
    ours, theirs = steps_of(path), steps_of(place)
    return len(ours) == len(theirs) and all(
        mine == other or (other == EACH_MEMBER and mine != EACH_ITEM) for mine, other in zip(ours, theirs, strict=True)
    )


def _is_below(path, place):
    return any(_is_at(".".join(path.split(".")[:length]), place) for length in range(1, path.count(".") + 2))


def _row(schema):
    return STANDARD_KINDS.get((schema["group"], schema["kind"]))


def _pod_of(rule):
    return rule.path if rule.inline else f"{rule.path}.spec"


def _rules_with(row, version):
    """The rules of a row whose pods a version has, or may have where its schema is open."""
    open_places = version.get("open", [])
    return [
        rule
        for rule in row.templates
        if any(_is_at(_pod_of(rule), pod) for pod in version["pods"])
        or any(_is_below(_pod_of(rule), place) for place in open_places)
    ]


def test_every_kind_of_another_project_has_a_schema():
    """A row that no schema speaks of was written from memory."""
    known = {(schema["group"], schema["kind"]) for schema in SCHEMAS}
    assert {(row.group, row.kind) for row in OF_OTHERS} <= known


@pytest.mark.parametrize(("schema", "version"), VERSIONS)
def test_every_pod_of_a_schema_is_in_the_table(schema, version):
    row = _row(schema)
    if row is None:
        assert (schema["group"], schema["kind"]) in NOT_JUDGED
        return
    named = [_pod_of(rule) for rule in row.templates]
    assert [pod for pod in version["pods"] if not any(_is_at(path, pod) for path in named)] == []


@pytest.mark.parametrize("row", OF_OTHERS, ids=lambda row: row.kind)
def test_every_template_of_the_table_is_in_some_served_version(row):
    served = _served(row)
    assert all(any(rule in _rules_with(row, version) for version in served) for rule in row.templates)
    assert all(_rules_with(row, version) for version in served)


def _field(version, path):
    return next((kind for place, kind in version["fields"].items() if _is_at(path, place)), None)


def _counts(row, version):
    return [count for rule in _rules_with(row, version) for count in rule.counts if count.path]


@pytest.mark.parametrize(("schema", "version"), VERSIONS)
def test_counts_are_whole_numbers_with_the_default_of_the_schema(schema, version):
    row = _row(schema)
    fields = [(count, _field(version, count.path)) for count in _counts(row, version)] if row else []
    assert [
        (count.path, field, count.default)
        for count, field in fields
        if field not in (None, "integer", f"integer = {count.default}")
    ] == []


@pytest.mark.parametrize("row", OF_OTHERS, ids=lambda row: row.kind)
def test_every_count_of_the_table_is_in_some_served_version(row):
    """An older version may lack one: then the default holds, as for a group of v1alpha1's RayCluster."""
    paths = {path for rule in row.templates for count in rule.counts for path in (count.path, count.at_most) if path}
    known = {
        path
        for version in _served(row)
        for path in paths
        if _field(version, path) or any(_is_below(path, place) for place in version.get("open", []))
    }
    assert paths == known


@pytest.mark.parametrize(("schema", "version"), VERSIONS)
def test_a_surge_is_in_the_schema(schema, version):
    row = _row(schema)
    if row is not None and row.surge is not None:
        assert version["fields"].get(row.surge.path, "").startswith("int-or-string")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["kind"])
def test_plural_and_scope_are_as_the_webhook_entries_have_them(schema):
    row = _row(schema)
    assert schema["plural"] == f"{schema['kind'].lower()}s"
    assert row is None or row.cluster_scoped == (schema["scope"] == "Cluster")


@pytest.mark.parametrize(("schema", "version"), VERSIONS)
def test_annotations_of_templates_reach_the_webhook(schema, version):
    """Kueue, Knative and the operators keep them; a CRD that does not would hide every mark from the rules."""
    if _row(schema) is not None:
        assert version.get("marks_lost", []) == []


def test_what_is_not_judged_is_in_no_row_and_in_a_schema():
    assert not NOT_JUDGED.keys() & STANDARD_KINDS.keys()
    assert NOT_JUDGED.keys() <= {(schema["group"], schema["kind"]) for schema in SCHEMAS}
