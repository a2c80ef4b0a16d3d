"""The text of a NUMA spec annotation: what is exact, what is repairable, and each fault by its word."""

import json
from importlib.resources import files

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.wire.numa_spec import (
    EXCLUSIVES,
    MAX_SPEC_BYTES,
    NUMA_SPEC_HOMES,
    POLICIES,
    SpecHome,
    read_numa_spec,
    read_numa_specs,
    within_edits,
)

OWN = SpecHome("own")
SHARED = SpecHome("shared", shared=True)
EXACT = '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}'


def _kinds(text, home=OWN):
    return [problem.kind for problem in read_numa_spec(text, home).problems]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        pytest.param(EXACT, [], id="exact"),
        pytest.param('{"numaTopologyPolicy":"BestEffort"}', [], id="exclusive may be left out"),
        pytest.param(' {"numaTopology\\u0050olicy"\n:\t"Restricted"} ', [], id="escapes and white space of JSON"),
        pytest.param(EXACT[:-1] + ",}", ["repairable_json"], id="trailing comma"),
        pytest.param(EXACT + " # guide", ["repairable_json"], id="comment"),
        pytest.param('{"numaTopologyPolicy":"bestEffort",}', ["unknown_value", "not_json"], id="comma beside a fault"),
        pytest.param("", ["not_json"], id="empty"),
        pytest.param("SingleNUMANode", ["not_json"], id="the bare policy"),
        pytest.param("{'numaTopologyPolicy':'Restricted'}", ["not_json"], id="single quotes"),
        pytest.param('{"numaTopologyPolicy":NaN}', ["not_json"], id="NaN"),
        pytest.param('{"numaTopologyPolicy":Infinity}', ["not_json"], id="Infinity"),
        pytest.param("null", ["not_object"], id="null"),
        pytest.param("[]", ["not_object"], id="an array"),
        pytest.param(json.dumps(EXACT), ["not_object"], id="JSON in JSON"),
        pytest.param('{"a":[[[[1]]]]}', ["too_deep"], id="nested five deep"),
        pytest.param("{" * 4000, ["not_json"], id="a wall of brackets"),
        pytest.param("[" * 4000, ["too_deep"], id="a tower of brackets"),
        pytest.param('"' + "é" * 2100 + '"', ["too_long"], id="4,202 bytes in 2,102 characters"),
        pytest.param("{}", ["missing_policy"], id="no key"),
        pytest.param('{"singleNUMANodeExclusive":"Required"}', ["missing_policy"], id="exclusive alone"),
        pytest.param('{"numaTopologyPolicy":null}', ["null_value"], id="null policy"),
        pytest.param(
            '{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":null}', ["null_value"], id="null excl."
        ),
        pytest.param('{"numaTopologyPolicy":true}', ["wrong_type"], id="a boolean"),
        pytest.param('{"numaTopologyPolicy":["Restricted"]}', ["wrong_type"], id="a list of one"),
        pytest.param('{"numaTopologyPolicy":""}', ["unknown_value"], id="empty policy"),
        pytest.param('{"numaTopologyPolicy":"restricted"}', ["unknown_value"], id="policy in lower case"),
        pytest.param('{"numaTopologyPolicy":"Restricted "}', ["unknown_value"], id="policy with a space"),
        pytest.param('{"NUMATopologyPolicy":"Restricted"}', ["near_key"], id="key in another case"),
        pytest.param('{"numaTopologyPolicy ":"Restricted"}', ["near_key"], id="key with a space"),
        pytest.param('{"numa_topology_policy":"Restricted"}', ["near_key"], id="key in snake case"),
        pytest.param('{"numaTopologyPolicies":"Restricted"}', ["near_key"], id="key in the plural"),
        pytest.param(
            '{"\\u017fingleNUMANodeExclusive":"Required","numaTopologyPolicy":"Restricted"}', ["near_key"], id="long s"
        ),
        pytest.param('{"numaTopologyPolicy":"Restricted","x":1}', ["foreign_key"], id="foreign key"),
        pytest.param(
            '{"numaTopologyPolicy":"Restricted","numaTopologyPolicy":"BestEffort"}', ["duplicate_key"], id="twice"
        ),
        pytest.param(
            '{"numaTopologyPolicy":"Restricted","NumaTopologyPolicy":"BestEffort"}',
            ["duplicate_key", "near_key"],
            id="twice to a reader that ignores case",
        ),
        pytest.param(
            '{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Required","\\u017fingleNUMANodeExclusive":""}',
            ["duplicate_key", "near_key"],
            id="twice, once with the long s",
        ),
        pytest.param(
            '{"numaTopologyPolicy":"Restricted","k":1,"\\u212a":2}',
            ["foreign_key", "duplicate_key", "foreign_key"],
            id="a foreign key twice, once with the Kelvin sign",
        ),
    ],
)
def test_faults(text, kinds):
    spec = read_numa_spec(text, OWN)
    assert [problem.kind for problem in spec.problems] == kinds
    assert spec.is_exact == (set(kinds) <= {"foreign_key"})
    assert spec.is_repairable == (kinds == ["repairable_json"])
    assert (spec.compact is not None) == (spec.is_exact or spec.is_repairable)
    assert all(problem.found and problem.wanted for problem in spec.problems)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"numaTopologyPolicy":"single-numa-node"}', "SingleNUMANode"),
        ('{"numaTopologyPolicy":"BestEfort"}', "BestEffort"),
        ('{"numaTopologyPolicy":"None"}', "SingleNUMANode, Restricted or BestEffort"),
        ('{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"prefered"}', "Preferred"),
        ('{"numatopologypolicy":"Restricted"}', "numaTopologyPolicy"),
        ('{"numaTopologyPolicy":"Restricted","singleNumaExclusive":"Required"}', "only numaTopologyPolicy and "),
    ],
)
def test_a_near_miss_says_what_was_meant(text, wanted):
    [problem] = read_numa_spec(text, OWN).problems
    assert problem.wanted.startswith(wanted)


def test_the_values_and_the_compact_text_of_a_repairable_spec():
    text = '{\n  "x": [1.50, ],\n  "numaTopologyPolicy": "SingleNUMANode", # why\n}\n'
    spec = read_numa_spec(text, OWN)
    assert (spec.policy, spec.exclusive) == ("SingleNUMANode", None)
    assert spec.compact == '{"x":[1.50],"numaTopologyPolicy":"SingleNUMANode"}'
    assert _kinds(spec.compact) == ["foreign_key"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        pytest.param('{"preferredCPUBindPolicy":"FullPCPUs"}', None, id="another feature's spec"),
        pytest.param("{", None, id="unreadable, and no word of ours"),
        pytest.param('{"NUMATopologypolicy"', ["not_json"], id="unreadable, with a word of ours"),
        pytest.param(
            '{"numaTopologyPolicy":"Restricted","preferredCPUBindPolicy":"x"}', [], id="foreign keys belong there"
        ),
        pytest.param('{"numaTopologyPolicy":"Restrict"}', ["unknown_value"], id="judged as strictly"),
    ],
)
def test_a_shared_home(text, kinds):
    spec = read_numa_spec(text, SHARED)
    assert (None if spec is None else [problem.kind for problem in spec.problems]) == kinds


def test_from_a_shared_home_only_our_keys_are_carried_over():
    text = '{"preferredCPUBindPolicy":"FullPCPUs","numaTopologyPolicy":"Restricted",}'
    assert read_numa_spec(text, SHARED).compact == '{"numaTopologyPolicy":"Restricted"}'


def test_every_exact_home_is_read_in_order():
    annotations = {home.key: EXACT for home in reversed(NUMA_SPEC_HOMES)} | {"other": EXACT}
    assert [spec.key for spec in read_numa_specs(annotations)] == [home.key for home in NUMA_SPEC_HOMES]


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                *'{}[],:"',
                '"numaTopologyPolicy"',
                '"singleNUMANodeExclusive"',
                '"Restricted"',
                "null",
                "//",
                "\ud800",
                "1",
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text_is_read(text):
    for home in (OWN, SHARED):
        spec = read_numa_spec(text, home)
        if spec is not None and spec.compact is not None:
            again = read_numa_spec(spec.compact, home)
            assert (again.policy, again.exclusive, again.compact) == (spec.policy, spec.exclusive, spec.compact)
            assert again.is_exact


def test_hostile_but_legal_length_is_read():
    text = json.dumps({f"numaTopologyPolic{i:03}": i for i in range(120)})
    assert len(text) < MAX_SPEC_BYTES
    assert set(_kinds(text)) == {"near_key", "foreign_key", "missing_policy"} - {"missing_policy", "foreign_key"}


_values = st.sampled_from([*POLICIES, *EXCLUSIVES, "restricted", "", None, True, 1, [], {}])
_documents = st.dictionaries(
    st.sampled_from(["numaTopologyPolicy", "singleNUMANodeExclusive", "numatopologypolicy", "other", ""]),
    _values,
    max_size=4,
) | st.sampled_from([None, [], "x", 1, True])


@given(_documents)
def test_the_published_schema_and_the_parser_agree(document):
    schema = json.loads(files("webhook.wire").joinpath("numa-topology-spec.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    assert validator.is_valid(document) == (_kinds(json.dumps(document)) == [])


def _distance(left, right):
    """Return the plain edit distance by the textbook's table."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i, a in enumerate(left, 1):
        for j, b in enumerate(right, 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a != b))
    return table[-1][-1]


@given(st.text("ab", max_size=8), st.text("ab", max_size=8), st.integers(0, 4))
def test_the_banded_distance_is_the_distance(left, right, limit):
    assert within_edits(left, right, limit) == (_distance(left, right) <= limit)
