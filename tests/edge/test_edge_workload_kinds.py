"""Any object of a workload kind, through the application: a verdict, never a fault of ours."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import POD_NAMES, values_with
from support.workload_objects import object_with

from webhook.edge.app import create_app
from webhook.service.logs import open_log
from webhook.service.settings import Settings
from webhook.service.wiring import build_services
from webhook.wire.workload_kinds import EACH_ITEM, EACH_MEMBER, steps_of
from webhook.wire.workload_table import STANDARD_ROWS

TEMPLATES = [(row, rule) for row in STANDARD_ROWS for rule in row.templates]
NAMES = {step for _row, rule in TEMPLATES for step in steps_of(rule.path)} - {EACH_ITEM, EACH_MEMBER}
REMOVED = object()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The application with the settings' defaults."""
    with (tmp_path_factory.mktemp("log") / "log").open("wb") as stream:
        yield create_app(build_services(Settings(), open_log(stream, "info"))).test_client()


def _places(value, path=()):
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from _places(member, (*path, key))


def _is_sent(value):
    """Whether an API server can send it: text that is no UTF-8 never reaches it."""
    return not any("\ud800" <= character <= "\udfff" for character in json.dumps(value, ensure_ascii=False))


@st.composite
def objects(draw):
    """A row, an object that is right, and the same with one value removed or replaced by any JSON."""
    row, rule = draw(st.sampled_from(TEMPLATES))
    right = object_with(row, rule, f"{row.group}/v1")
    changed = copy.deepcopy(right)
    *path, last = draw(st.sampled_from([place for place in _places(right) if place]))
    holder = changed
    for key in path:
        holder = holder[key]
    value = draw(st.just(REMOVED) | st.none() | values_with({*POD_NAMES, *NAMES}).filter(_is_sent))
    if value is REMOVED:
        del holder[last]
    else:
        holder[last] = value
    return row, right, changed


def _ask(client, endpoint, row, new, old=None):
    request = {
        "uid": "705ab4f5",
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "team",
        "resource": {"group": row.group, "version": "v1", "resource": f"{row.kind.lower()}s"},
        "kind": {"group": row.group, "version": "v1", "kind": row.kind},
        "object": new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    reply = client.post(endpoint, data=json.dumps(review), content_type="application/json")
    assert reply.status_code == 200, (reply.text, new)
    return reply.get_json()["response"]


@settings(max_examples=300, deadline=None)
@given(objects())
def test_one_wrong_value_gets_a_verdict(client, drawn):
    """A refusal names a field; what is left of the right object is judged on an update as well."""
    row, right, changed = drawn
    for endpoint in ("/validate", "/capacity"):
        for response in (_ask(client, endpoint, row, changed), _ask(client, endpoint, row, changed, right)):
            if not response["allowed"]:
                assert response["status"]["code"] == 403
                assert ": " in response["status"]["message"]
                assert "[UNEXPECTED" not in response["status"]["message"]


@pytest.mark.parametrize(("row", "rule"), TEMPLATES, ids=[f"{row.kind} {rule.path}" for row, rule in TEMPLATES])
def test_what_is_right_passes_without_a_word_but_of_the_operator(client, row, rule):
    right = object_with(row, rule, f"{row.group}/v1")
    response = _ask(client, "/validate", row, right)
    assert response["allowed"]
    assert all("[CPU_ADDED_CONTAINER]" in warning for warning in response.get("warnings", []))
    # Which member of a map gets one is not said by the row alone.
    assert not response.get("warnings") or rule.added


@settings(max_examples=200, deadline=None)
@given(objects())
def test_a_change_back_to_what_is_right_is_never_refused(client, drawn):
    row, right, changed = drawn
    assert _ask(client, "/validate", row, right, changed)["allowed"]
