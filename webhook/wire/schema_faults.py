"""Documents against our published JSON Schemas: every fault at once, in words, each with its path."""

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource

from webhook.core.plain_text import plain
from webhook.core.pod import Malformed
from webhook.wire.shapes import child, describe

MACHINE_CLASS_SCHEMA: Final = "machine-class.schema.json"
PICTURE_SCHEMA: Final = "cluster-picture.schema.json"
UNKNOWN_KEY: Final = "an unknown key"
"""``found`` of a fault that is a key which the schema does not know."""

_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "null",
}

_BOUNDS: Final = frozenset(
    {"minimum", "maximum", "minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
)
"""Keywords whose fault is not told by a title that does not name the bound."""


@lru_cache(maxsize=8)
def validator_of(schema_name: str) -> Draft202012Validator:
    """Return the validator of a schema of this package; it may refer to ``machine-class.schema.json``."""
    registry: Registry[Any] = Registry().with_resource(
        MACHINE_CLASS_SCHEMA, Resource.from_contents(read_schema(MACHINE_CLASS_SCHEMA))
    )
    return Draft202012Validator(read_schema(schema_name), registry=registry)


def read_schema(schema_name: str) -> dict[str, object]:
    """Return a schema of this package."""
    text = files("webhook.wire").joinpath(schema_name).read_text(encoding="utf-8")
    schema: dict[str, object] = json.loads(text)
    return schema


def read_by_schema(validator: Draft202012Validator, written: object) -> tuple[object, tuple[Malformed, ...]]:
    """Return ``written`` without keys that have no value, and everything about it that its schema forbids.

    A key without a value (``pods:`` with nothing behind it, as Helm and people write) is as if it were not there; an
    unknown key is told all the same.
    """
    value = without_nulls(written)
    unknown = [fault for fault in schema_faults(validator, written) if fault.found == UNKNOWN_KEY]
    return value, tuple(dict.fromkeys([*unknown, *schema_faults(validator, value)]))


def without_nulls(value: object) -> object:
    """Return ``value`` without the keys of maps whose value is null; an item of a list that is null stays."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def schema_faults(validator: Draft202012Validator, value: object) -> tuple[Malformed, ...]:
    """Return everything about ``value`` that its schema forbids; paths as findings write them.

    A schema's ``title`` says what is wanted where its keywords would say it badly.
    """
    found: dict[tuple[str, str], Malformed] = {}
    for error in validator.iter_errors(value):
        for fault in _faults(error):
            found.setdefault((fault.path, fault.wanted), fault)
    return tuple(found.values())


def _faults(error: ValidationError) -> Iterator[Malformed]:
    path = ""
    for step in error.absolute_path:
        path = f"{path}[{step}]" if isinstance(step, int) else child(path, str(step))
    here, rule = error.instance, error.validator_value
    schema = error.schema if isinstance(error.schema, dict) else {}
    match error.validator:
        case "required" if isinstance(here, dict) and isinstance(rule, list):
            for key in rule:
                if key not in here:
                    yield Malformed(child(path, key), "nothing", _title_of(schema, key))
        case "additionalProperties" if isinstance(here, dict):
            known = list(schema.get("properties", {}))
            for key in here:
                if key not in known:
                    yield Malformed(child(path, str(key)), UNKNOWN_KEY, _one_of(str(key), known))
        case _:
            yield Malformed(path, _found(error), _wanted(error, schema))


def _found(error: ValidationError) -> str:
    here = error.instance
    match error.validator:
        case "minItems" | "maxItems" | "minProperties" | "maxProperties" if isinstance(here, (list, dict)):
            return f"{describe(here)} with {len(here)} in it"
        case "maxLength" if isinstance(here, str):
            return f"a text of {len(here)} characters"
        case "uniqueItems":
            return "a list that names something twice"
        case _:
            return describe(here)


def _wanted(error: ValidationError, schema: Mapping[str, object]) -> str:
    rule, here = error.validator_value, error.instance
    title = schema.get("title")
    if isinstance(title, str) and not (error.validator in _BOUNDS and str(rule) not in title):
        return title
    match error.validator:
        case "type":
            names = rule if isinstance(rule, list) else [rule]
            return " or ".join(_TYPES.get(str(name), str(name)) for name in names)
        case "enum" if isinstance(rule, list):
            return _one_of(here if isinstance(here, str) else "", [str(value) for value in rule])
        case "const":
            return str(rule)
        case "minimum" | "maximum" if {"minimum", "maximum"} <= set(schema):
            return f"a number from {schema['minimum']} to {schema['maximum']}"
        case "minimum":
            return f"{rule} or more"
        case "maximum":
            return f"{rule} or less"
        case "minItems" | "minProperties":
            return f"{rule} or more entries"
        case "maxItems" | "maxProperties":
            return f"{rule} entries or fewer"
        case "minLength":
            return "a text that is not empty"
        case "maxLength":
            return f"a text of {rule} characters or fewer"
        case "uniqueItems":
            return "each only once"
        case _:
            return plain(str(error.message))


def _title_of(schema: Mapping[str, object], key: str) -> str:
    properties = schema.get("properties")
    below = properties.get(key) if isinstance(properties, dict) else None
    kind = below.get("type") if isinstance(below, dict) else None
    return _TYPES[kind] if isinstance(kind, str) else f"a value for {key}"


def _one_of(found: str, known: list[str]) -> str:
    near = difflib.get_close_matches(found, known, n=1)
    words = f"one of {', '.join(known)}"
    return f"{words}; did you mean {near[0]}?" if near else words
