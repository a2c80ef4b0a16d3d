"""The little of CEL that our match conditions use, read as Python.

That is: has, exists, matches, startsWith, size, in, and, or, not.

Stricter than CEL in one way: an error on the left of ``||`` or ``&&`` is not forgiven by the right.
"""

import re
from typing import Any

_MATCHES = re.compile(r"((?:string\()?[\w.]+(?:\[(?:k|'[^']*')\])?\)?)\.matches\(('(?:[^'\\]|\\.)*')\)")
_EXISTS = re.compile(r"([\w.]+)\.exists\((\w), ")


class Level(dict):
    """A map whose members are also attributes, as in CEL; a missing one raises."""

    def __getattr__(self, name: str) -> Any:
        """Return the member ``name``."""
        return self[name]


def levelled(value: Any) -> Any:
    """Return JSON with every map as a ``Level``."""
    if isinstance(value, dict):
        return Level({key: levelled(item) for key, item in value.items()})
    return [levelled(item) for item in value] if isinstance(value, list) else value


def evaluate(expression: str, **variables: Any) -> bool:
    """Return what ``expression`` is for the variables (``object``, ``oldObject``), given as JSON or None."""
    names = {name: levelled(value) for name, value in variables.items()}
    names.update(null=None, re=re, string=str, size=len)
    return bool(eval(_python(expression), {"__builtins__": {"any": any, "bool": bool}, **names}))  # noqa: S307 - our own text


def _python(expression: str) -> str:
    text = re.sub(r"has\(([\w.]+)\.(\w+)\)", r"('\2' in \1)", expression)
    text = _MATCHES.sub(r"bool(re.search(\2, \1))", text)
    text = text.replace(".startsWith(", ".startswith(").replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?=\()", " not ", text)
    while (found := _EXISTS.search(text)) is not None:
        end = _closing(text, found.end())
        body = text[found.end() : end]
        text = f"{text[: found.start()]}any(({body}) for {found[2]} in {found[1]}){text[end + 1 :]}"
    return text


def _closing(text: str, start: int) -> int:
    """Return where the bracket closes that is open at ``start``, texts in quotes passed over."""
    depth, quoted = 1, False
    for position in range(start, len(text)):
        character = text[position]
        if character == "'":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return position
    raise AssertionError(f"no closing bracket in {text[start:]}")
