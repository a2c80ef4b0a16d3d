"""Where a request ends in the bytes that have arrived: framing only, no I/O, so that no thread waits for a client.

Gunicorn's own parser reads the whole request afterwards and has the last word on what is valid; a disagreement can
only end in a closed connection, for the parser never sees bytes beyond the end found here.
"""

import re

from webhook.serve.limits import Limits

_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_FIELDS = re.compile(rb"\r\n(content-length|transfer-encoding|expect)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_HEX = re.compile(rb"[0-9A-Fa-f]{1,8}")
_MAX_CHUNK_LINE_BYTES = 256
_MAX_TRAILER_BYTES = 4096


class FramingError(Exception):
    """The request cannot be read to its end; it is answered and the connection closed.

    ``status`` is the HTTP status line's code and reason, ``sentence`` the answer's body.
    """

    def __init__(self, status: str, sentence: str) -> None:
        """Keep ``status`` and ``sentence``."""
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Framing:
    """Finds the end of the first request in a growing buffer; ``restart`` for the next request."""

    __slots__ = ("_chunks", "_head_bytes", "_limits", "_position", "body_bytes", "expects_continue", "is_chunked")

    def __init__(self, limits: Limits) -> None:
        """Start before the first byte of a request."""
        self._limits = limits
        self.restart()

    def restart(self) -> None:
        """Forget the request; the buffer now starts with the next one."""
        self._head_bytes = 0
        self._position = 0
        self._chunks = 0
        self.body_bytes: int | None = None
        """The announced length of the body; None before the head is read and for a chunked body."""
        self.is_chunked = False
        self.expects_continue = False

    @property
    def has_head(self) -> bool:
        """Whether the head has been read."""
        return self._head_bytes > 0

    def end(self, buffer: bytearray) -> int | None:
        """Return the number of bytes of the first request in ``buffer``, or None while it is not complete.

        Raises:
            FramingError: it is too large or cannot be framed.
        """
        if not self._head_bytes and not self._read_head(buffer):
            return None
        if self.is_chunked:
            return self._end_of_chunks(buffer)
        end = self._head_bytes + (self.body_bytes or 0)
        return end if len(buffer) >= end else None

    def missing(self, buffer: bytearray) -> int:
        """Return how many bytes are known to be missing; 0 where that is not known."""
        return max(self._head_bytes + (self.body_bytes or 0) - len(buffer), 0)

    def _read_head(self, buffer: bytearray) -> bool:
        found = buffer.find(_HEAD_END, self._position)
        if found < 0:
            if len(buffer) > self._limits.max_head_bytes:
                raise self._head_too_large()
            self._position = max(len(buffer) - len(_HEAD_END) + 1, 0)
            return False
        if found > self._limits.max_head_bytes:
            raise self._head_too_large()
        self._head_bytes = self._position = found + len(_HEAD_END)
        length: int | None = None
        for match in _FIELDS.finditer(buffer, 0, found):
            name, value = match.group(1).lower(), match.group(2).strip()
            if name == b"content-length" and value.isdigit():
                length = int(value[:20])
            elif name == b"transfer-encoding":
                self.is_chunked = True
            elif name == b"expect":
                self.expects_continue = value.lower() == b"100-continue"
        # Both a length and chunks are refused by the parser; no more than the head needs to be read for that.
        if self.is_chunked and length is not None:
            self.is_chunked, length = False, 0
        if length is not None and length > self._limits.max_body_bytes:
            raise self._body_too_large(length)
        self.body_bytes = None if self.is_chunked else length or 0
        return True

    def _end_of_chunks(self, buffer: bytearray) -> int | None:
        while True:
            line_end = buffer.find(_LINE_END, self._position, self._position + _MAX_CHUNK_LINE_BYTES)
            if line_end < 0:
                if len(buffer) - self._position >= _MAX_CHUNK_LINE_BYTES:
                    raise FramingError("400 Bad Request", "The size line of a chunk is too long.")
                return None
            size_text = bytes(buffer[self._position : line_end]).partition(b";")[0].strip()
            if not _HEX.fullmatch(size_text):
                raise FramingError("400 Bad Request", "The size of a chunk is not a hexadecimal number.")
            size = int(size_text, 16)
            if size == 0:
                return self._end_of_trailers(buffer, line_end)
            after = line_end + len(_LINE_END) + size + len(_LINE_END)
            if after - self._head_bytes > self._limits.max_body_bytes:
                raise self._body_too_large(after - self._head_bytes)
            if len(buffer) < after:
                return None
            self._chunks += 1
            if self._chunks > self._limits.max_chunks:
                raise FramingError("400 Bad Request", f"The body has more than {self._limits.max_chunks} chunks.")
            self._position = after

    def _end_of_trailers(self, buffer: bytearray, line_end: int) -> int | None:
        found = buffer.find(_HEAD_END, line_end)  # no trailers: the line's own end is the first half of it
        if found >= 0:
            return found + len(_HEAD_END)
        if len(buffer) - line_end > _MAX_TRAILER_BYTES:
            raise FramingError("431 Request Header Fields Too Large", "The trailer fields are too long.")
        return None

    def _head_too_large(self) -> FramingError:
        limit = self._limits.max_head_bytes
        return FramingError(
            "431 Request Header Fields Too Large", f"The request line and header fields are over {limit} bytes."
        )

    def _body_too_large(self, found: int) -> FramingError:
        limit = self._limits.max_body_bytes
        return FramingError(
            "413 Content Too Large", f"The body has {found} bytes or more; at most {limit} bytes are read."
        )
