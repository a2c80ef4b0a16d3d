"""Shapes of decoded JSON: what is there, and a note where it is not what was wanted.

Every reader here takes any value at all, returns the wanted shape or an empty one, and appends a ``Malformed`` where
the value has another shape. ``null`` is the same as absent, as it is for the API server's decoder.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from webhook.core.pod import Malformed
from webhook.core.quantity import Quantity, QuantityError, parse_quantity
from webhook.wire.plain_text import plain, quoted

JsonMap = Mapping[str, object]

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_KEY_LIMIT_CHARACTERS: Final = 320
"""The longest legal key: a prefix of 253 characters, a slash, a name of 63."""
_QUANTITY_TYPES: Final = (str, int, float)
_LONGEST_INTEGER_BITS: Final = 1024
"""Python refuses to print an integer of more than 4,300 digits, and nobody wants to read one."""


def child(path: str, key: str) -> str:
    """Return the path of member ``key``: ``spec.cpu``, or ``limits["aliyun.com/gpu"]`` where the key is no word."""
    if _IDENTIFIER.fullmatch(key):
        return f"{path}.{key}" if path else key
    return keyed(path, key)


def keyed(path: str, key: str) -> str:
    """Return the path of member ``key`` with the key in brackets and quotes, as annotations and labels are named."""
    return f"{path}[{quoted(key, _KEY_LIMIT_CHARACTERS)}]"


def describe(value: object) -> str:
    """Return a few words for any JSON value, safe to print: ``a list``, ``the number 3``, ``the text "abc"``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {quoted(value, 80)}"
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (int, float)):
        return f"the number {plain(str(value), 80)}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a map"
    return f"a value of type {type(value).__name__}"


def read_map(value: object, path: str, faults: list[Malformed]) -> JsonMap:
    """Return ``value`` if it is a map, else an empty one."""
    if isinstance(value, dict):
        return value
    if value is not None:
        faults.append(Malformed(path, describe(value), "a map"))
    return {}


def read_list(value: object, path: str, faults: list[Malformed]) -> list[object]:
    """Return ``value`` if it is a list, else an empty one."""
    if isinstance(value, list):
        return value
    if value is not None:
        faults.append(Malformed(path, describe(value), "a list"))
    return []


def read_text(value: object, path: str, faults: list[Malformed]) -> str:
    """Return ``value`` if it is a text, else an empty one."""
    if isinstance(value, str):
        return value
    if value is not None:
        faults.append(Malformed(path, describe(value), "a text"))
    return ""


def read_count(value: object, path: str, faults: list[Malformed]) -> int | None:
    """Return ``value`` if it is a whole number of 0 or more, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if value is not None:
        faults.append(Malformed(path, describe(value), "a whole number of 0 or more"))
    return None


def read_text_map(value: object, path: str, faults: list[Malformed]) -> Mapping[str, str]:
    """Return the members of ``value`` whose keys and values are texts (labels, annotations, a node selector)."""
    entries = read_map(value, path, faults)
    items: Iterable[tuple[object, object]] = entries.items()  # keys too: YAML has keys that are no texts
    for key, entry in items:
        if not isinstance(entry, str) or not isinstance(key, str):
            break
    else:
        return entries  # type: ignore[return-value] # every key and value has just been looked at
    texts: dict[str, str] = {}
    for key, entry in items:
        if not isinstance(key, str):
            faults.append(Malformed(keyed(path, str(key)), describe(key), "a key that is a text"))
        elif isinstance(entry, str):
            texts[key] = entry
        elif entry is not None:
            faults.append(Malformed(keyed(path, key), describe(entry), "a text"))
    return texts


def read_quantities(value: object, path: str, faults: list[Malformed]) -> Mapping[str, Quantity]:
    """Return the readable members of a resource list; ``null`` is absent, a number is read as its text."""
    amounts: dict[str, Quantity] = {}
    items: Iterable[tuple[object, object]] = read_map(value, path, faults).items()
    for name, amount in items:
        if amount is None:
            continue
        if not isinstance(name, str):
            faults.append(Malformed(keyed(path, str(name)), describe(name), "a key that is a text"))
            continue
        quantity = _quantity(amount)
        if quantity is None:
            faults.append(Malformed(child(path, name), describe(amount), "a quantity such as 24, 1500m or 64Gi"))
        else:
            amounts[name] = quantity
    return amounts


def _quantity(amount: object) -> Quantity | None:
    """Return the quantity that ``amount`` is, or None."""
    if not isinstance(amount, _QUANTITY_TYPES):
        return None
    try:
        return parse_quantity(amount)
    except QuantityError:
        return None
