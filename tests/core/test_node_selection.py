"""Node selection by table; ``test_against_kubernetes`` has the random comparison with Go's own."""

from dataclasses import replace

import pytest

from webhook.core.node_selection import (
    Contradiction,
    Ineligible,
    NodeFacts,
    Taint,
    contradicts_label,
    demands_label,
    ineligibility,
    matches_node_selector,
    matches_terms,
    tolerates,
    tolerates_cordon,
    untolerated,
)
from webhook.core.pod import NodeSelectorTerm, Operator, Pod, Requirement, Toleration
from webhook.core.selectors import is_label_key, is_label_value, text_of

LABEL = "ack.node.gpu.schedule"
NODE = NodeFacts("gpu-1", {LABEL: "topology", "zone": "a", "count": "8", "signed": "+8", "huge": "9223372036854775808"})
GPU_TAINT = Taint("gpu", "true", "NoSchedule")


def requirement(text: str) -> Requirement:
    """Return ``key Operator value,value`` as a requirement with a path."""
    key, operator, *values = text.split(" ")
    known = {member.value: member for member in Operator}
    listed = tuple(values[0].split(",")) if values else ()
    return Requirement(key, known.get(operator, operator), listed, path=f"path of {key}")


def term(*texts: str, fields: tuple[str, ...] = ()) -> NodeSelectorTerm:
    """Return a term of such requirements."""
    return NodeSelectorTerm(tuple(map(requirement, texts)), tuple(map(requirement, fields)), path="path of term")


EXPRESSIONS = [
    ("zone In a,b", True),
    ("zone In b", False),
    ("rack In a", False),
    ("zone NotIn b", True),
    ("zone NotIn a", False),
    ("rack NotIn a", True),
    ("zone Exists", True),
    ("rack Exists", False),
    ("rack DoesNotExist", True),
    ("zone DoesNotExist", False),
    ("count Gt 7", True),
    ("count Gt 8", False),
    ("count Lt 9", True),
    ("rack Lt 9", False),
    ("signed Gt 7", True),
    ("huge Gt 7", False),
    ("zone Gt 1", False),
    ("zone in a", False),
    ("zone In", False),
    ("rack NotIn", False),
    ("zone Exists a", False),
    ("count Gt x", False),
    ("count Gt 1,2", False),
    ("zone/x/y DoesNotExist", False),
    ("zone NotIn -b", False),
]


@pytest.mark.parametrize("text, expected", EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_an_expression_matches_as_in_kubernetes(text: str, expected: bool) -> None:
    """What Kubernetes cannot parse matches nothing, not even by NotIn or DoesNotExist."""
    assert matches_terms((term(text),), NODE.labels, NODE.name) is expected


TERMS = [
    ("no term", (), False),
    ("an empty term", (term(),), False),
    ("an empty term beside a matching one", (term(), term("zone Exists")), True),
    ("ANDed in a term", (term("zone In a", "count Gt 9"),), False),
    ("ORed between terms", (term("zone In b"), term("count Gt 7")), True),
    ("the node's name", (term(fields=("metadata.name In gpu-1",)),), True),
    ("another name", (term(fields=("metadata.name In gpu-2",)),), False),
    ("not this name", (term(fields=("metadata.name NotIn gpu-1",)),), False),
    ("two names", (term(fields=("metadata.name In gpu-1,gpu-2",)),), False),
    ("a field by Exists", (term(fields=("metadata.name Exists",)),), False),
    ("another field", (term(fields=("metadata.uid In gpu-1",)),), False),
    ("a spoilt requirement last", (term("zone In a", "zone in a"),), False),
    ("a spoilt term beside a good one", (term("zone in a"), term("zone In a")), True),
]


@pytest.mark.parametrize("terms, expected", [row[1:] for row in TERMS], ids=[row[0] for row in TERMS])
def test_terms_are_ored_and_their_requirements_anded(terms: tuple[NodeSelectorTerm, ...], expected: bool) -> None:
    assert matches_terms(terms, NODE.labels, NODE.name) is expected


@pytest.mark.parametrize(
    "selector, expected",
    [({}, True), ({"zone": "a"}, True), ({"zone": "a", "rack": "1"}, False), ({"zone": ""}, False)],
)
def test_a_node_selector_wants_every_entry(selector: dict[str, str], expected: bool) -> None:
    assert matches_node_selector(selector, NODE.labels) is expected


TOLERATIONS = [
    (("gpu", "Equal", "true", "NoSchedule"), True),
    (("gpu", "", "true", ""), True),
    (("gpu", "Equal", "false", ""), False),
    (("gpu", "Exists", "", ""), True),
    (("", "Exists", "", ""), True),
    (("", "Exists", "", "NoExecute"), False),
    (("", "Equal", "true", ""), True),
    (("cpu", "Exists", "", ""), False),
    (("gpu", "exists", "", ""), False),
    (("gpu", "Gt", "1", ""), False),
]


@pytest.mark.parametrize("fields, expected", TOLERATIONS, ids=[" ".join(fields) for fields, _ in TOLERATIONS])
def test_a_toleration_tolerates(fields: tuple[str, str, str, str], expected: bool) -> None:
    assert tolerates(Toleration(*fields), GPU_TAINT) is expected


@pytest.mark.parametrize(
    "operator, wanted, found, expected",
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "-6", True),
        ("Lt", "05", "1", False),
        ("Gt", "5", "", False),
    ],
)
def test_numeric_tolerations_need_the_gate(operator: str, wanted: str, found: str, expected: bool) -> None:
    """The toleration's number is the bound, the taint's is measured; a leading nought is no number."""
    toleration, taint = Toleration("sla", operator, wanted, ""), Taint("sla", found, "NoSchedule")
    assert tolerates(toleration, taint, comparison_operators=True) is expected
    assert not tolerates(toleration, taint)


def test_the_first_untolerated_taint_is_named_and_a_preference_is_none() -> None:
    taints = (Taint("soft", "", "PreferNoSchedule"), GPU_TAINT, Taint("bad", "", "NoExecute"))
    assert untolerated((), taints) == GPU_TAINT
    assert untolerated((), taints, ("NoExecute",)) == taints[2]
    assert untolerated((Toleration("gpu", "Exists", "", ""),), taints) == taints[2]
    assert untolerated((), taints[:1]) is None


def test_a_cordon_is_tolerated_by_its_taint() -> None:
    assert tolerates_cordon((Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),))
    assert not tolerates_cordon((Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoExecute"),))


CORDONED = replace(NODE, unschedulable=True)
TAINTED = replace(NODE, taints=(GPU_TAINT,))
ELIGIBLE = [
    ("a plain pod", Pod(), NODE, None),
    ("selector and affinity met", Pod(node_selector={"zone": "a"}, required_terms=(term("count Gt 1"),)), NODE, None),
    ("named here", Pod(node_name="gpu-1"), NODE, None),
    ("named elsewhere", Pod(node_name="gpu-2"), NODE, Ineligible("node_name", "gpu-1", "gpu-2")),
    ("not ready", Pod(), replace(NODE, ready=False), Ineligible("not_ready", "gpu-1")),
    ("cordoned", Pod(), CORDONED, Ineligible("unschedulable", "gpu-1")),
    ("cordoned, tolerated", Pod(tolerations=(Toleration("", "Exists", "", ""),)), CORDONED, None),
    ("cordoned, named here", Pod(node_name="gpu-1"), CORDONED, None),
    ("selector unmet", Pod(node_selector={"zone": "b"}), NODE, Ineligible("node_selector", "gpu-1", "zone=b")),
    ("affinity unmet", Pod(required_terms=(term("zone In b"),)), NODE, Ineligible("affinity", "gpu-1")),
    ("affinity empty", Pod(required_terms=()), NODE, Ineligible("affinity", "gpu-1")),
    ("tainted", Pod(), TAINTED, Ineligible("taint", "gpu-1", "gpu=true:NoSchedule")),
    ("tainted, named here", Pod(node_name="gpu-1"), TAINTED, None),
    (
        "NoExecute, named here",
        Pod(node_name="gpu-1"),
        replace(NODE, taints=(Taint("bad", "", "NoExecute"),)),
        Ineligible("taint", "gpu-1", "bad:NoExecute"),
    ),
]


@pytest.mark.parametrize("pod, node, expected", [row[1:] for row in ELIGIBLE], ids=[row[0] for row in ELIGIBLE])
def test_a_pod_is_eligible_or_the_reason_is_named(pod: Pod, node: NodeFacts, expected: Ineligible | None) -> None:
    assert ineligibility(pod, node) == expected
    if expected is not None:
        assert expected.sentence.startswith("Node gpu-1 ")
        assert expected.sentence.endswith(".")
        assert expected.detail in expected.sentence


DEMANDS = [
    ("nothing", Pod(), False),
    ("node selector", Pod(node_selector={LABEL: "topology"}), True),
    ("another value", Pod(node_selector={LABEL: "default"}), False),
    ("every term", Pod(required_terms=(term(f"{LABEL} In topology"), term("zone In a", f"{LABEL} In topology"))), True),
    ("one term of two", Pod(required_terms=(term(f"{LABEL} In topology"), term("zone In a"))), False),
    ("an empty term counts for nothing", Pod(required_terms=(term(f"{LABEL} In topology"), term())), True),
    ("more values than wanted", Pod(required_terms=(term(f"{LABEL} In topology,default"),)), False),
    ("only that it exists", Pod(required_terms=(term(f"{LABEL} Exists"),)), False),
    ("only what it is not", Pod(required_terms=(term(f"{LABEL} NotIn default"),)), False),
]


@pytest.mark.parametrize("pod, expected", [row[1:] for row in DEMANDS], ids=[row[0] for row in DEMANDS])
def test_a_label_is_demanded_already(pod: Pod, expected: bool) -> None:
    assert demands_label(pod, LABEL, ("topology",)) is expected


def test_a_demand_of_fewer_values_meets_one_of_more() -> None:
    pod = Pod(required_terms=(term(f"{LABEL} In topology"),))
    assert demands_label(pod, LABEL, ("topology", "numa"))


CONTRADICTIONS = [
    ("nothing", Pod(), ()),
    ("the selector agrees", Pod(node_selector={LABEL: "topology"}), ()),
    (
        "the selector differs",
        Pod(node_selector={LABEL: "default"}),
        (Contradiction(f'spec.nodeSelector["{LABEL}"]', f"{LABEL}=default"),),
    ),
    (
        "another value",
        Pod(required_terms=(term("zone In a", f"{LABEL} In default,share"),)),
        (Contradiction(f"path of {LABEL}", f"{LABEL} In [default, share]"),),
    ),
    (
        "excluded, absent, compared",
        Pod(required_terms=(term(f"{LABEL} NotIn topology"), term(f"{LABEL} DoesNotExist"), term(f"{LABEL} Gt 1"))),
        (
            Contradiction(f"path of {LABEL}", f"{LABEL} NotIn [topology]"),
            Contradiction(f"path of {LABEL}", f"{LABEL} DoesNotExist"),
            Contradiction(f"path of {LABEL}", f"{LABEL} Gt [1]"),
        ),
    ),
    ("one term is open", Pod(required_terms=(term(f"{LABEL} DoesNotExist"), term("zone In a"))), ()),
    (
        "an empty term is closed",
        Pod(required_terms=(term(),)),
        (Contradiction("path of term", "(no requirement at all)"),),
    ),
    ("a name may fit", Pod(required_terms=(term(fields=("metadata.name In gpu-9",)),)), ()),
    (
        "an unknown operator",
        Pod(required_terms=(term("zone in a"),)),
        (Contradiction("path of zone", "zone in [a]"),),
    ),
    (
        "a spoilt field",
        Pod(required_terms=(term("zone In a", fields=("metadata.name Exists",)),)),
        (Contradiction("path of metadata.name", "metadata.name Exists"),),
    ),
]


@pytest.mark.parametrize("pod, expected", [row[1:] for row in CONTRADICTIONS], ids=[row[0] for row in CONTRADICTIONS])
def test_a_contradiction_is_quoted_for_every_term(pod: Pod, expected: tuple[Contradiction, ...]) -> None:
    assert contradicts_label(pod, LABEL, "topology") == expected


@pytest.mark.parametrize("pod", [row[1] for row in CONTRADICTIONS], ids=[row[0] for row in CONTRADICTIONS])
def test_a_contradicted_pod_matches_no_node_with_the_label(pod: Pod) -> None:
    """Neither the node at hand nor one with nothing but the label meets a pod that is said to contradict it."""
    nodes = [NODE, NodeFacts("bare", {LABEL: "topology"})]
    if contradicts_label(pod, LABEL, "topology"):
        assert all(ineligibility(pod, node) is not None for node in nodes)


@pytest.mark.parametrize(
    "key, expected",
    [
        ("a", True),
        ("x.y/a", True),
        ("x.y/", False),
        ("/a", False),
        ("X/a", False),
        ("a" * 64, False),
        ("a" * 10**6, False),
    ],
    ids=lambda value: str(value)[:9],
)
def test_label_keys(key: str, expected: bool) -> None:
    assert is_label_key(key) is expected


@pytest.mark.parametrize(
    "value, expected",
    [("", True), ("a_b.c-D", True), ("-a", False), ("a b", False), ("a" * 63, True), ("a" * 64, False)],
    ids=lambda value: str(value)[:9],
)
def test_label_values(value: str, expected: bool) -> None:
    assert is_label_value(value) is expected


def test_a_requirement_is_written_for_people() -> None:
    assert text_of(requirement("zone NotIn a,b")) == "zone NotIn [a, b]"
    assert text_of(requirement("zone Exists")) == "zone Exists"
