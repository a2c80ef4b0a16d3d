"""Plain YAML scalars as kubectl reads them: by go-yaml v2, and the JSON that sigs.k8s.io/yaml makes of them.

Sources: go.yaml.in/yaml v2:resolve.go, sigs.k8s.io/yaml:yaml.go. It is neither YAML 1.1 nor 1.2: ``yes`` and ``y`` are
true, ``010`` and ``0o10`` are 8, ``1:30`` and a date are texts, ``1_000`` is a number.
"""

import re
from typing import Final

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_FINITE: Final = frozenset(
    {".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"}
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))",
    re.ASCII,
)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_LONGEST_NUMBER: Final = 400
"""Longer digit strings are beyond a 64-bit integer and a double anyway; Go reads them as texts or infinity."""

YamlScalar = str | bool | int | float | None


class NotFiniteError(ValueError):
    """``.nan`` or ``.inf``: YAML knows it, JSON does not, so kubectl refuses the file."""


def resolve_plain(text: str) -> YamlScalar:
    """Return what an unquoted scalar without a tag is.

    Raises:
        NotFiniteError: ``text`` is not a number or infinite.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text in _NOT_FINITE:
        raise NotFiniteError(f"{text} has no form in JSON, so kubectl refuses the document.")
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if text[0] != "." and not _DATE.fullmatch(text):
        integer = _integer(text.replace("_", ""))
        if integer is not None:
            return integer
    plain = text if text[0] == "." else text.replace("_", "")
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if number in {float("inf"), float("-inf")}:
            return text
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return text


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    base = next(name for name in _BASES if found[name] is not None)
    value = int(found["sign"] + found[base], _BASES[base])
    return value if -(2**63) <= value < 2**64 else None


def json_key(scalar: YamlScalar) -> str:
    """Return the JSON member name that sigs.k8s.io/yaml makes of a mapping's key."""
    match scalar:
        case None:
            return "null"
        case bool():
            return "true" if scalar else "false"
        case _:
            return str(scalar)
