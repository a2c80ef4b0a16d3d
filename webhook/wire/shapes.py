"""Shapes of decoded JSON: what is there, and a note where it is not what was wanted.

Every reader here takes any value at all, returns the wanted shape or an empty one, and appends a ``Malformed`` where
the value has another shape. ``null`` is the same as absent, as it is for the API server's decoder.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from webhook.core.plain_text import plain, quoted
from webhook.core.pod import Malformed
from webhook.core.quantity import Quantity, QuantityError, parse_quantity

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


def map_in(holder: JsonMap, name: str, path: str, faults: list[Malformed]) -> JsonMap:
    """Return member ``name`` of ``holder``, which stands at ``path``, if it is a map, else an empty one.

    This and its like write the member's own path only for a fault: a pod has a hundred members, and few have faults.
    """
    value = holder.get(name)
    return value if isinstance(value, dict) else {} if value is None else read_map(value, child(path, name), faults)


def list_in(holder: JsonMap, name: str, path: str, faults: list[Malformed]) -> list[object]:
    """Return member ``name`` of ``holder`` if it is a list, else an empty one."""
    value = holder.get(name)
    return value if isinstance(value, list) else [] if value is None else read_list(value, child(path, name), faults)


def text_in(holder: JsonMap, name: str, path: str, faults: list[Malformed]) -> str:
    """Return member ``name`` of ``holder`` if it is a text, else an empty one."""
    value = holder.get(name)
    return value if isinstance(value, str) else "" if value is None else read_text(value, child(path, name), faults)


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
        if not isinstance(name, str):
            if amount is not None:
                faults.append(Malformed(keyed(path, str(name)), describe(name), "a key that is a text"))
        elif isinstance(amount, _QUANTITY_TYPES):
            try:
                amounts[name] = parse_quantity(amount)
            except QuantityError:
                faults.append(_no_quantity(path, name, amount))
        elif amount is not None:
            faults.append(_no_quantity(path, name, amount))
    return amounts


def quantities_in(holder: JsonMap, name: str, path: str, faults: list[Malformed]) -> Mapping[str, Quantity]:
    """Return the resource list that member ``name``, a word, of ``holder`` is, as ``read_quantities`` does."""
    value = holder.get(name)
    return {} if value is None else read_quantities(value, f"{path}.{name}", faults)


def _no_quantity(path: str, name: str, amount: object) -> Malformed:
    return Malformed(child(path, name), describe(amount), "a quantity such as 24, 1500m or 64Gi")
