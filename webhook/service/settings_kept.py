"""The settings that one server has in force, where the next of its processes finds them."""

import hashlib
import mmap
import struct
from typing import Final

MOST_BYTES: Final = 1 << 20
"""What a settings file may have."""
_HEAD = struct.Struct(">32sI")
"""SHA-256 and length of what follows."""


class KeptContent:
    """The content that was taken over last, in memory that a fork shares: made before it, for all workers of a server.

    A worker that dies while the file is bad must not take those with it that the file had before: its successor knows
    the file as it was at the server's start and as it is now.
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._memory = mmap.mmap(-1, _HEAD.size + MOST_BYTES)

    def keep(self, content: bytes) -> None:
        """Keep ``content``, at most ``MOST_BYTES``, in place of what is kept."""
        whole = _HEAD.pack(hashlib.sha256(content).digest(), len(content)) + content
        self._memory[: len(whole)] = whole

    def read(self) -> bytes | None:
        """Return what is kept; None where nothing is, or where it is being written right now."""
        digest, size = _HEAD.unpack(self._memory[: _HEAD.size])
        content = self._memory[_HEAD.size : _HEAD.size + size]
        return content if hashlib.sha256(content).digest() == digest else None
