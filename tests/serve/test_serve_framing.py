"""Where a request ends, for every way in which its bytes may arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.serve.framing import Framing, FramingError
from webhook.serve.limits import Limits

LIMITS = Limits(max_head_bytes=200, max_body_bytes=1000, max_chunks=8)

WHOLE = [
    pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", id="no body"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", b"hello", id="a length"),
    pytest.param(b"POST / HTTP/1.1\r\ncontent-LENGTH:5\r\n\r\n", b"hello", id="a length in other case"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"", id="a length of 0"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: nine\r\n\r\n", b"", id="a length that is none"),
    pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", id="chunks"),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
        id="chunks with an extension and a trailer",
    ),
    pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n", b"", id="both"),
]

REFUSED = [
    pytest.param(b"GET / HTTP/1.1\r\nA: " + b"x" * 300, "431", id="an endless head"),
    pytest.param(b"GET / HTTP/1.1\r\nA: " + b"x" * 300 + b"\r\n\r\n", "431", id="a head that is too large"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413", id="a length over the limit"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 50 + b"\r\n\r\n", "413", id="a length of 50 digits"),
    pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n", "413", id="a chunk over the limit"),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"12c\r\n" + b"x" * 300 + b"\r\n") * 4,
        "413",
        id="chunks that add up to more than the limit",
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 9, "400", id="too many chunks"
    ),
    pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400", id="a chunk size that is none"),
    pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "400", id="a negative chunk size"),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 300, "400", id="an endless chunk size line"
    ),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 1000, "431", id="endless trailers"
    ),
]


def ends(raw: bytes, cuts: list[int]) -> list[int | None]:
    """Feed `raw` cut at `cuts` and return what the framing said after each piece."""
    framing, buffer, said, last = Framing(LIMITS), bytearray(), [], 0
    for cut in [*sorted(cuts), len(raw)]:
        buffer += raw[last:cut]
        last = cut
        said.append(framing.end(buffer) if buffer else None)
    return said


@pytest.mark.parametrize("head, body", WHOLE)
@given(data=st.data())
def test_the_end_is_found_when_the_last_byte_is_there_and_not_before(head, body, data):
    raw = head + body
    cuts = data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=8))
    *before, last = ends(raw, cuts)
    assert set(before) <= {None}
    assert last == len(raw)


@pytest.mark.parametrize("head, body", WHOLE)
def test_what_follows_a_request_is_left_to_the_next(head, body):
    assert Framing(LIMITS).end(bytearray(head + body + b"POST /next")) == len(head + body)


@pytest.mark.parametrize("raw, status", REFUSED)
@given(data=st.data())
def test_what_is_too_large_or_cannot_be_framed_is_refused_however_it_comes(raw, status, data):
    cuts = data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=4))
    with pytest.raises(FramingError) as refused:
        ends(raw, cuts)
    assert refused.value.status.startswith(status)
    assert refused.value.sentence.endswith(".")


@given(st.binary(max_size=600))
def test_no_bytes_raise_anything_else(raw):
    """Garbage ends in an end, in a wait for more, or in a FramingError."""
    try:
        end = Framing(LIMITS).end(bytearray(raw))
    except FramingError:
        return
    assert end is None or 0 < end <= len(raw)


def test_expect_continue_and_the_missing_bytes_are_seen():
    framing = Framing(LIMITS)
    buffer = bytearray(b"POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 10\r\n\r\nabc")
    assert framing.end(buffer) is None
    assert (framing.expects_continue, framing.missing(buffer)) == (True, 7)
