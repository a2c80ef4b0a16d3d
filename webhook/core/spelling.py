"""Words of a sentence: quoted texts, cores in figures, lists; and how near two names are."""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

from webhook.core.plain_text import quoted
from webhook.core.quantity import NANOS, Quantity

SHOWN_CHARACTERS: Final = 80
_WORD = re.compile(r"[a-z0-9]+")
_LONGEST_KEY_CHARACTERS: Final = 317
"""A prefix of 253 characters, a slash, a name of 63: longer texts are no keys and never reach a cache."""
_CACHE_ENTRIES: Final = 4096
"""A cluster repeats few keys; full of the longest ones the cache holds less than three megabytes."""


def shown(text: str) -> str:
    """Return ``text`` fit to print (``plain_text``), cut to 80 characters, in double quotes."""
    return quoted(text, SHOWN_CHARACTERS)


def annotation_path(key: str) -> str:
    """Return the path of an annotation, its key in brackets and quotes."""
    return f"metadata.annotations[{shown(key)}]"


def label_path(key: str) -> str:
    """Return the path of a label, its key in brackets and quotes."""
    return f"metadata.labels[{shown(key)}]"


def figure(quantity: Quantity) -> str:
    """Return the exact amount in decimal figures: ``24``, ``1.5``, ``0.001``; in short scale beyond fifteen digits."""
    whole, rest = divmod(abs(quantity.nanos), NANOS)
    if whole >= 10**15:
        return str(quantity)
    sign = "-" if quantity.nanos < 0 else ""
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}"


def cores(quantity: Quantity) -> str:
    """Return an amount of CPU in words: ``1 core``, ``1.5 cores``."""
    return "1 core" if quantity.nanos == NANOS else f"{figure(quantity)} cores"


def whole_cores(count: int) -> str:
    """Return a number of cores in words: ``1 core``, ``2 cores``."""
    return counted(count, "core")


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number of things in words: ``1 pod``, ``2 pods``; ``nouns`` where the plural is more than an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {nouns or f'{noun}s'}"


def in_units(amount: int, unit: int, figures: int = 6) -> str:
    """Return ``amount / unit`` in so many figures; a quantity may be beyond every float (up to 10^1024)."""
    try:
        return f"{amount / unit:.{figures}g}"
    except OverflowError:
        return f"{(Decimal(amount) / unit).normalize():.{figures}g}"


def ended(text: str) -> str:
    """Return ``text`` with one period at its end: what libraries say of themselves has one or has none."""
    return f"{text.rstrip().removesuffix('.')}."


def one_of(words: Iterable[str]) -> str:
    """Return ``a``, ``a or b``, ``a, b or c``."""
    listed = list(words)
    return " or ".join(part for part in (", ".join(listed[:-1]), listed[-1]) if part) if listed else ""


def folded(text: str) -> str:
    """Return ``text`` without case, separators and spaces."""
    return _folded_key(text) if len(text) <= _LONGEST_KEY_CHARACTERS else _folded(text)


def _folded(text: str) -> str:
    return "".join(_WORD.findall(text.lower()))


_folded_key = lru_cache(maxsize=_CACHE_ENTRIES)(_folded)


def nearest(name: str, candidates: Sequence[str]) -> str:
    """Return the candidate that shares the most words with ``name``; the first of equals."""
    words = set(_WORD.findall(name.lower()))
    return max(candidates, key=lambda candidate: len(words & set(_WORD.findall(candidate.lower()))))


def near_names(name: str, others: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``others`` that look like ``name``, sorted: other case, prefix, separators, plural."""
    wanted = folded(name)
    return tuple(sorted(key for key in others if key != name and folded(key).removesuffix("s").endswith(wanted)))
