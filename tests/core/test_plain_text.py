"""Text of strangers comes out on one line, printable, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.core.plain_text import plain, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a pod named x-1", "a pod named x-1", id="ordinary text is left alone"),
        pytest.param('节点 \U0001f600 \\ "q"', '节点 \U0001f600 \\ "q"', id="Chinese text, emoji, quotes, backslash"),
        pytest.param("a\nb\r\tc", r"a\nb\r\tc", id="line breaks and tabs"),
        pytest.param(
            "\x1b[31mred\x00\x7f\x9b", r"\x1b[31mred\x00\x7f\x9b", id="terminal escapes and controls of 7 and 8 bits"
        ),
        pytest.param("a\u202eb\u2066c\u200fd", r"a\u202eb\u2066c\u200fd", id="bidirectional overrides"),
        pytest.param("a\u2028b\u2029\u0085", r"a\u2028b\u2029\x85", id="other line separators"),
        pytest.param("a\u200bb\ufeff\u00ad", r"a\u200bb\ufeff\xad", id="characters without width"),
        pytest.param("a\u00a0b", r"a\xa0b", id="a space that only looks like one"),
        pytest.param("\ud800x", r"\ud800x", id="a lone surrogate"),
    ],
)
def test_what_cannot_be_printed_is_escaped(text, shown):
    assert plain(text) == shown
    assert quoted(text) == f'"{shown}"'


def test_what_is_cut_is_counted():
    assert plain("x" * 100, 60) == "x" * 35 + "... (65 characters more)"


def test_an_escape_is_never_cut_in_two():
    cut = plain("\x00" * 100, 50)
    assert cut == r"\x00" * 6 + "... (94 characters more)"


@given(st.text(st.characters(), max_size=400), st.integers(40, 300))
def test_any_text_is_printable_and_bounded(text, limit):
    shown = plain(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    assert shown.encode().decode() == shown
