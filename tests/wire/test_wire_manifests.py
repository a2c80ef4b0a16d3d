"""Manifests: JSON streams, and JSON that the YAML reader refuses."""

import json

import pytest

from webhook.wire.manifests import BrokenDocument, Document, Position, read_manifests
from webhook.wire.objects import raw_objects, read_objects


def values(text):
    """The value of each document; a broken one fails the test."""
    documents = list(read_manifests(text))
    assert all(isinstance(document, Document) for document in documents), documents
    return [document.value for document in documents]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a": 1}\n{"b": 2}\n', [{"a": 1}, {"b": 2}], id="one a line, as jq -c prints"),
        pytest.param('{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}], id="without any space"),
        pytest.param('---\n{"a": 1}\n---\n{"b": 2}\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}], id="between separators"),
        pytest.param(r'{"a": "\ud83d\ude00"}', [{"a": "\U0001f600"}], id="a pair of surrogates"),
        pytest.param(r'{"a": "\ud83d"}', [{"a": "\ufffd"}], id="half a pair, as Go reads it"),
        pytest.param(r'{"a": "\ude00\ud83d\ude00"}', [{"a": "\ufffd\U0001f600"}], id="half a pair before a pair"),
        pytest.param(r'{"a": "\\ud83d\\ude00"}', [{"a": r"\ud83d\ude00"}], id="escaped backslashes, no surrogates"),
        pytest.param(r'{"a": "\\\ud83d"}', [{"a": "\\\ufffd"}], id="a backslash before half a pair"),
        pytest.param(json.dumps({"k" * 2000: 1}), [{"k" * 2000: 1}], id="a key longer than YAML takes"),
        pytest.param('{"a": "\x7f"}', [{"a": "\x7f"}], id="a control character that JSON lets stand"),
        pytest.param("{a: 1}", [{"a": 1}], id="a flow mapping is no JSON, and YAML"),
    ],
)
def test_json_is_read_as_kubectl_reads_it(text, expected):
    assert values(text) == expected


def test_each_json_text_has_its_own_places():
    """Also where several stand in one line, and after a pair of surrogates."""
    text = '{"a": "\\ud83d\\ude00", "b": 1} {"c": 2}\n\n  {"d":\n    3}'
    first, second, third = read_manifests(text)
    assert (first.start, first.locate("b")) == (Position(1, 1), Position(1, 23))
    assert (second.start, second.locate("c")) == (Position(1, 31), Position(1, 32))
    assert (third.start, third.locate("d")) == (Position(3, 3), Position(3, 4))


@pytest.mark.parametrize(
    "text", ['{"a": 1} }', '{"a": NaN', '{"a" 1 "b"}', '{"a":' * 3000 + "1" + "}" * 3000], ids=lambda text: text[:10]
)
def test_what_is_neither_json_nor_yaml_is_one_broken_document(text):
    (document,) = read_manifests(text)
    assert isinstance(document, BrokenDocument)


POD = {"metadata": {"name": "p"}, "spec": {"containers": []}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"kind": "Pod"}, [("", "Pod")], id="an object"),
        pytest.param({"kind": "List", "items": [{"kind": "A"}, None, {"kind": "B"}]},
                     [("items[0]", "A"), ("items[2]", "B")], id="a List"),
        pytest.param({"kind": "List", "items": []}, [], id="an empty List"),
        pytest.param({"kind": "List"}, [], id="a List without items"),
        pytest.param({"kind": "AllowList", "spec": {}}, [("", "AllowList")], id="an object whose kind ends in List"),
        pytest.param({"kind": "PodList", "apiVersion": "v1", "items": [POD]}, [("items[0]", "Pod")], id="a typed list"),
        pytest.param({"kind": "PodList", "items": [{"kind": "Node"}]}, [("items[0]", "Node")], id="an item's own kind"),
        pytest.param({"kind": "List", "items": [POD]}, [("items[0]", "")], id="a List says no kind"),
        pytest.param({"kind": "List", "items": [1]}, [("items[0]", "")], id="an item that is no map"),
        pytest.param([], [("", "")], id="no map"),
    ],
)  # fmt: skip
def test_lists_give_their_objects(value, expected):
    assert [(found.path, found.kind) for found in read_objects(value)] == expected


def test_lists_in_lists_hide_nothing():
    value = {"kind": "Pod"}
    for _ in range(90):
        value = {"kind": "List", "items": [value]}
    ((path, raw),) = raw_objects(value)
    assert (path.count("items[0]"), raw) == (90, {"kind": "Pod"})


def test_pods_of_a_typed_list_are_read():
    (found,) = read_objects({"kind": "PodList", "apiVersion": "v1", "items": [POD]})
    assert (found.name, found.subject is None) == ("p", False)
