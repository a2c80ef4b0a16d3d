"""The loose reader is a strict JSON reader that also tells of commas and comments, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import any_value

from webhook.wire.loose_json import LooseJsonError, read_loose_json

DEPTH = 40


def _strict(text):
    """Return the value of strict JSON, or None: Python's reader without the constants that it knows too many."""

    def refuse(name):
        raise ValueError(name)

    try:
        return json.dumps(json.loads(text, parse_constant=refuse))
    except (ValueError, RecursionError):
        return None


JSON_PIECES = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"a"',
            '"',
            "1",
            "-",
            "0",
            ".5",
            "e9",
            "true",
            "null",
            "NaN",
            " ",
            "\n",
            "\t",
            "//",
            "/*",
            "*/",
            "#",
            "\\",
            "\\u00e9",
            "\x00",
            "é",
            "\u00a0",
            "'a'",
            "Infinity",
        ]
    ),
    max_size=14,
).map("".join)


@given(JSON_PIECES | st.text(max_size=20))
def test_without_repairs_it_reads_what_strict_json_reads(text):
    try:
        document = read_loose_json(text, max_depth=DEPTH)
    except LooseJsonError:
        assert _strict(text) is None
    else:
        strict = _strict(text)
        assert (strict is not None) == (not document.repairs)
        assert _strict(document.compact) is not None
        if strict is not None:
            assert _strict(document.compact) == strict


@given(any_value, st.data())
def test_commas_and_comments_put_in_are_left_out_again(value, data):
    compact = json.dumps(value, separators=(",", ":"))
    decorated, in_text, last = [], False, ""
    for character in compact:
        if character == '"' and last != "\\":
            in_text = not in_text
        if not in_text and character in "}]" and last not in "{[" and data.draw(st.booleans()):
            decorated.append(data.draw(st.sampled_from([",", " , ", ",/* c */", ", // c\n", "\n,# c\n"])))
        decorated.append(character)
        if not in_text and character in "{[,:" and data.draw(st.booleans()):
            decorated.append(data.draw(st.sampled_from([" ", "\n", "/**/", "# {,}\n", '// "\n'])))
        last = "" if last == "\\" else character
    document = read_loose_json("".join(decorated), max_depth=DEPTH)
    assert document.compact == compact


@pytest.mark.parametrize(
    ("text", "repairs", "compact"),
    [
        pytest.param('{"a": [1, 2,],}', ("a trailing comma",), '{"a":[1,2]}', id="trailing commas"),
        pytest.param('{"a":1} // end', ("a comment",), '{"a":1}', id="a comment without a line break at the end"),
        pytest.param('/* x */{"a":"// no"}', ("a comment",), '{"a":"// no"}', id="what looks like a comment in a text"),
        pytest.param('{"a":1, # c\n}', ("a comment", "a trailing comma"), '{"a":1}', id="both, in order of finding"),
        pytest.param('{"a":1e400}', (), '{"a":1e400}', id="a number that no machine number holds stays as written"),
    ],
)
def test_repairs(text, repairs, compact):
    document = read_loose_json(text, max_depth=4)
    assert (document.repairs, document.compact) == (repairs, compact)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{,}",
        "[,]",
        '{"a":1,,}',
        '{"a"}',
        '{"a":}',
        "{'a':1}",
        "{a:1}",
        "[1 2]",
        "01",
        "1.",
        "+1",
        "nul",
        "NaN",
        "-Infinity",
        '{"a":1}{}',
        "{",
        "[",
        "}",
        '"\n"',
        '"\\x"',
        '"\\u12"',
        "/*",
        "/",
        "//",
        "\ufeff{}",
        '{"a":1]',
    ],
)
def test_anything_else_is_refused_with_found_and_wanted(text):
    with pytest.raises(LooseJsonError) as refused:
        read_loose_json(text, max_depth=4)
    assert refused.value.found
    assert refused.value.wanted
    assert not refused.value.too_deep


def test_depth_is_bounded_and_told_apart():
    assert read_loose_json("[[[[1]]]]", max_depth=4).kind == "array"
    with pytest.raises(LooseJsonError) as refused:
        read_loose_json("[" * 4000, max_depth=4)
    assert refused.value.too_deep


def test_duplicates_and_order_are_kept():
    document = read_loose_json('{"b":1,"a":"\\u0041","b":{"c":[]}}', max_depth=4)
    assert [(key, value.kind, value.text, member) for key, value, member in document.members] == [
        ("b", "number", "", '"b":1'),
        ("a", "string", "A", '"a":"\\u0041"'),
        ("b", "object", "", '"b":{"c":[]}'),
    ]
