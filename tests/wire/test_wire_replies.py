"""Replies as the API server takes them: every one passes its own checks, and nothing in it is dropped or cut there."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import server_rules

from webhook.core.decisions import Decision, RequireNodeLabel, SetAnnotation
from webhook.core.findings import Family, Finding, Severity
from webhook.wire.patches import PatchError
from webhook.wire.replies import (
    MAX_MESSAGE_CHARACTERS,
    SERVER_WARNING_BUDGET_CHARACTERS,
    WARNING_BUDGET_CHARACTERS,
    audit_annotations,
    encode_review,
    fitted_warnings,
    refusal_message,
)

RAW = {"metadata": {"name": "p"}, "spec": {}}
REQUEST = orjson.dumps({"request": {"uid": "call-1", "object": RAW}})
EDITS = (SetAnnotation("a/b", "c"), RequireNodeLabel("k", ("v",)))


def _finding(problem="It is 3, wanted 4.", severity=Severity.ERROR, path="spec.x"):
    return Finding("CODE", Family.CPU, severity, path, problem, next_step="Write 4.")


def _view(decision, raw_object=None, *, mutating=False):
    return server_rules.judge_reply(REQUEST, encode_review("call-1", decision, raw_object), mutating=mutating)


def test_a_plain_yes_says_nothing_else():
    assert orjson.loads(encode_review("call-1", Decision.allow())) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "call-1", "allowed": True},
    }


def test_a_refusal_says_every_finding_on_its_own_line_and_warns_beside_it():
    findings = (_finding(), _finding("It has\na break."), _finding("It may not work.", Severity.WARNING))
    view = _view(Decision.of(findings))
    assert (view.allowed, view.code) == (False, 403)
    assert view.message.splitlines() == [
        'admission webhook "numa-admission.example.com" denied the request: spec.x: It is 3, wanted 4. Write 4. [CODE]',
        r"spec.x: It has\na break. Write 4. [CODE]",
    ]
    assert view.warnings == ("spec.x: It may not work. Write 4. [CODE]",)


def test_a_refusal_without_a_finding_says_whose_fault_it_is():
    assert "fault of numa-admission" in _view(Decision(allowed=False)).message


def test_a_change_is_a_patch_for_mutate_alone():
    decision = Decision.change(EDITS, warnings=("Repaired.",), audit={"repair": "comma"})
    view = _view(decision, RAW, mutating=True)
    assert view.object["metadata"]["annotations"] == {"a/b": "c"}
    assert view.audit == {"numa-admission.example.com/repair": "comma"}
    assert view.warnings == ("Repaired.",)
    assert _view(decision, mutating=False).patch == ()


def test_edits_that_hold_already_are_no_patch():
    patched = _view(Decision.change(EDITS), RAW, mutating=True).object
    reply = orjson.loads(encode_review("call-1", Decision.change(EDITS), patched))
    assert set(reply["response"]) == {"uid", "allowed"}


def test_a_refusal_never_carries_a_patch():
    decision = Decision(allowed=False, findings=(_finding(),), edits=EDITS)
    reply = orjson.loads(encode_review("call-1", decision, RAW))
    assert set(reply["response"]) == {"uid", "allowed", "status"}


def test_a_patch_that_cannot_be_made_is_the_declared_error():
    with pytest.raises(PatchError):
        encode_review("call-1", Decision.change(EDITS), {"metadata": []})


def test_warnings_beyond_the_budget_are_counted_not_lost():
    said = [f"warning {number} " + "x" * 90 for number in range(50)]
    kept = fitted_warnings(said, WARNING_BUDGET_CHARACTERS)
    assert kept[:-1] == said[: len(kept) - 1]
    assert kept[-1].startswith(f"... and {50 - (len(kept) - 1)} more warnings: ")
    assert sum(map(len, kept)) <= WARNING_BUDGET_CHARACTERS
    assert 3 * WARNING_BUDGET_CHARACTERS <= SERVER_WARNING_BUDGET_CHARACTERS


def test_warnings_are_said_once_and_none_is_empty():
    assert fitted_warnings(["a", "", "b", "a"], 100) == ["a", "b"]


def test_a_warning_of_any_length_leaves_a_beginning():
    [warning] = fitted_warnings(["x" * 10_000], WARNING_BUDGET_CHARACTERS)
    assert warning.startswith("xxxxx")
    assert warning.endswith("characters more)")


def test_a_message_beyond_the_limit_counts_what_it_leaves_out():
    message = refusal_message([_finding(f"Container {number} is wrong." + " x" * 50) for number in range(1000)])
    assert len(message) <= MAX_MESSAGE_CHARACTERS
    lines = message.split("\n")
    assert lines[-1].startswith(f"... and {1000 - len(lines) + 1} more findings: ")


def test_the_first_line_of_a_refusal_is_informative_at_200_characters():
    head = refusal_message([_finding(), _finding()])[:200]
    assert "spec.x: It is 3, wanted 4." in head


@pytest.mark.parametrize(
    ("key", "sent"),
    [("rule", "rule"), ("a/b c", "a-b-c"), ("-x-", "x"), ("", "unnamed"), ("é", "unnamed"), ("k" * 80, "k" * 63)],
)
def test_audit_keys_are_names_that_the_server_takes(key, sent):
    assert audit_annotations({key: "v\n"}) == {sent: r"v\n"}


_texts = st.text(st.characters(), max_size=80)
_findings = st.builds(
    Finding, st.just("CODE"), st.sampled_from(Family), st.sampled_from(Severity), _texts, _texts, next_step=_texts
)


@given(
    st.builds(
        Decision,
        allowed=st.booleans(),
        findings=st.lists(_findings, max_size=30).map(tuple),
        warnings=st.lists(_texts | st.text("\n", max_size=2), max_size=40).map(tuple),
        edits=st.sampled_from([(), EDITS]),
        audit=st.dictionaries(_texts, _texts, max_size=4),
    ),
    st.booleans(),
)
def test_the_server_takes_any_reply(decision, mutating):
    view = _view(decision, RAW if mutating else None, mutating=mutating)
    assert view.allowed == decision.allowed
    assert view.code == (200 if decision.allowed else 403)
    assert all(line.isprintable() for line in view.message.split("\n"))
    assert len(view.message.split("\n")) <= max(1, len(decision.errors))
