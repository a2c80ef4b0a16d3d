"""Text with tones: what a drawing is made of, so that colour is the terminal's business and nobody else's."""

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final


class Tone(enum.Enum):
    """What a piece of text is, for whoever colours it."""

    PLAIN = "plain"
    TITLE = "title"
    FRAME = "frame"
    QUIET = "quiet"
    FREE = "free"
    RESERVED = "reserved"
    BROKEN = "broken"
    HELD = "held"
    ASKED = "asked"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line; ``hue`` tells holders apart where the tone is HELD or ASKED."""

    text: str
    tone: Tone = Tone.PLAIN
    hue: int = 0


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters of a drawing, each one column wide."""

    free: str
    reserved: str
    broken: str
    crowd: str
    """Stands for every holder that has no letter of its own."""
    unknown: str
    across: str
    down: str
    corners: str
    """Top left, top right, bottom left, bottom right."""
    good: str
    bad: str
    cut: str


UNICODE: Final = Signs("·", "▒", "✗", "+", "?", "─", "│", "╭╮╰╯", "→", "✗", "…")
ASCII: Final = Signs(".", "#", "!", "+", "?", "-", "|", "++++", "->", "x", "~")


def text_of(line: Line) -> str:
    """Return a line without its tones."""
    return "".join(span.text for span in line)


def width_of(line: Iterable[Span]) -> int:
    """Return how many columns a line takes; every character takes one."""
    return sum(len(span.text) for span in line)


def shown(text: str, width_columns: int, signs: Signs) -> str:
    """Return ``text`` cut to ``width_columns``, each character that is not printable ASCII as a question mark."""
    clean = "".join(character if character.isascii() and character.isprintable() else "?" for character in text)
    return clean if len(clean) <= width_columns else clean[: max(0, width_columns - 1)] + signs.cut


def flow(items: Iterable[Line], width_columns: int, gap: str = "   ") -> Iterator[Line]:
    """Yield ``items`` side by side in lines of at most ``width_columns``; one that is wider stands alone."""
    line: list[Span] = []
    for item in items:
        if line and width_of(line) + len(gap) + width_of(item) > width_columns:
            yield tuple(line)
            line = []
        line.extend((Span(gap), *item) if line else item)
    if line:
        yield tuple(line)


def wrap(words: str, width_columns: int) -> Iterator[str]:
    """Yield ``words`` in lines of at most ``width_columns``, broken at spaces; a longer word stands alone."""
    line = ""
    for word in words.split(" "):
        if line and len(line) + 1 + len(word) > width_columns:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield line
