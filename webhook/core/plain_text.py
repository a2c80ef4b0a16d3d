"""Text of strangers made fit to print: in a message, a warning, a log line or a terminal.

The API server drops a warning that holds a control character without a trace
(kubernetes/apimachinery:pkg/util/net/http.go, ``NewWarningHeader``); a terminal obeys escape sequences; a bidirectional
override shows a reader something else than what is stored; a lone surrogate cannot be encoded at all.
"""

from typing import Final

DEFAULT_LIMIT_CHARACTERS: Final = 200
_LEAST_LIMIT_CHARACTERS: Final = 40
"""Room for the marker of what was cut and a few characters before it."""


def plain(text: str, limit_characters: int = DEFAULT_LIMIT_CHARACTERS) -> str:
    r"""Return ``text`` on one line and at most ``limit_characters`` long (at least 40).

    Every character that Python calls not printable (control, format, surrogate, private and unassigned characters, and
    every separator but the space) stands as its escape, such as ``\n`` or ``\u202e``. What is cut is counted:
    ``abc... (4812 characters more)``. Work is bounded by the limit, not by the text.
    """
    if len(text) <= limit_characters and text.isprintable():
        return text
    limit_characters = max(limit_characters, _LEAST_LIMIT_CHARACTERS)
    pieces: list[str] = []
    ends = [0]
    for character in text[: limit_characters + 1]:
        piece = character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        pieces.append(piece)
        ends.append(ends[-1] + len(piece))
    if len(pieces) == len(text) and ends[-1] <= limit_characters:
        return "".join(pieces)
    # The marker's own length depends on how much is cut, by at most the digits of len(text): room is kept for them.
    room = limit_characters - len(f"... ({len(text)} characters more)")
    kept = max(count for count, end in enumerate(ends) if end <= room)
    return "".join(pieces[:kept]) + f"... ({len(text) - kept} characters more)"


def quoted(text: str, limit_characters: int = DEFAULT_LIMIT_CHARACTERS) -> str:
    """Return ``text`` as ``plain`` does, between double quotes."""
    return f'"{plain(text, limit_characters)}"'
