"""What the door leaves unparsed makes no difference: verdicts with its look ahead and without are the same."""

import json

from bypass.bypass_world import RULES, review
from hypothesis import given
from hypothesis import strategies as st
from support.builders import bound, raw_pod
from test_rules_repair import annotations, specs

from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import Decision
from webhook.wire.reviews import decode_review

pods = st.builds(lambda marks, spec: raw_pod(annotations=marks, spec=spec), annotations, specs)
placed = st.one_of(pods, pods.map(bound))


def _decisions(body: bytes, wants) -> tuple[Decision, Decision]:
    ask = decode_review(body, wants=wants).ask
    return decide_validate(ask, RULES), decide_mutate(ask, RULES)


def _assert_same(body: bytes) -> None:
    assert _decisions(body, RULES.vocabulary.carries_mark) == _decisions(body, None)


@given(placed, placed)
def test_between_any_two_pods(new, old):
    _assert_same(review(new, old))


@given(placed, st.sampled_from(["status", "finalizers"]))
def test_between_equal_pods(pod, what):
    """Also a pod that was bad before us: an update that leaves it as it is passes and is not repaired."""
    new = json.loads(json.dumps(pod))
    if what == "status":
        new["status"] = {"phase": "Running"}
    else:
        new["metadata"]["finalizers"] = ["a/b"]
    _assert_same(review(new, pod))
    validated, mutated = _decisions(review(new, pod), None)
    assert (validated, mutated.edits) == (Decision(allowed=True), ())


@given(placed, placed)
def test_between_any_two_templates(new, old):
    """Scaling and labelling a workload are no change of its template."""

    def deployment(pod, replicas):
        template = {"metadata": pod["metadata"], "spec": pod["spec"]}
        return {"metadata": {"name": "d"}, "spec": {"replicas": replicas, "template": template}}

    kind = {"resource": "deployments", "group": "apps", "kind": "Deployment"}
    _assert_same(review(deployment(new, 1), deployment(old, 2), **kind))
    _assert_same(review(deployment(new, 1), deployment(new, 2), **kind))
