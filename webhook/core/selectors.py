"""One requirement or term of a node selector: whether Kubernetes can parse it, and whether a node meets it.

Sources: kubernetes/component-helpers:scheduling/corev1/nodeaffinity/nodeaffinity.go,
kubernetes/apimachinery:pkg/labels/selector.go. ``tests/core/test_against_kubernetes.py`` compares.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from webhook.core.pod import NodeSelectorTerm, Operator, Requirement

_MAX_NAME_LENGTH: Final = 63
_MAX_PREFIX_LENGTH: Final = 253
_MAX_KEY_LENGTH: Final = _MAX_PREFIX_LENGTH + 1 + _MAX_NAME_LENGTH
"""Longer texts are no labels and never reach a cache."""

_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_DNS_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str) -> bool:
    """Return whether a node meets every requirement of ``term``; an empty or unparsable term is met by none."""
    if term.is_empty or not is_parsable(term):
        return False
    if not all(requirement_matches(requirement, labels) for requirement in term.expressions):
        return False
    return not node_name or all(_field_matches(requirement, node_name) for requirement in term.fields)


def is_parsable(term: NodeSelectorTerm) -> bool:
    """Return whether Kubernetes can parse every requirement of ``term``; one that it cannot spoils the whole term."""
    return all(map(is_expression, term.expressions)) and all(map(is_field, term.fields))


def requirement_matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether a parsable expression (``matchExpressions``) holds for a node's labels."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in requirement.values
        case Operator.NOT_IN:
            return value is None or value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GT | Operator.LT:
            found, wanted = parse_integer(value), parse_integer(requirement.values[0])
            if found is None or wanted is None:
                return False
            return found > wanted if requirement.operator is Operator.GT else found < wanted
        case _:
            return False


def _field_matches(requirement: Requirement, node_name: str) -> bool:
    """Return whether a parsable field holds. A field other than ``metadata.name`` is an empty text, as in Go."""
    found = node_name if requirement.key == "metadata.name" else ""
    return (found == requirement.values[0]) is (requirement.operator is Operator.IN)


def is_expression(requirement: Requirement) -> bool:
    """Return whether Kubernetes can parse an expression (``labels.NewRequirement``)."""
    values = requirement.values
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                return False
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                return False
        case Operator.GT | Operator.LT:
            if len(values) != 1 or parse_integer(values[0]) is None:
                return False
        case _:
            return False
    return is_label_key(requirement.key) and all(map(is_label_value, values))


def is_field(requirement: Requirement) -> bool:
    """Return whether Kubernetes can parse a field (``matchFields``)."""
    return requirement.operator in (Operator.IN, Operator.NOT_IN) and len(requirement.values) == 1


def is_label_key(key: str) -> bool:
    """Return whether ``key`` is a label's key: an optional DNS subdomain and ``/``, then a name of 1 to 63 letters."""
    return len(key) <= _MAX_KEY_LENGTH and _is_short_label_key(key)


def is_label_value(value: str) -> bool:
    """Return whether ``value`` is a label's value: empty, or 1 to 63 letters."""
    return not value or (len(value) <= _MAX_NAME_LENGTH and _is_short_label_name(value))


@lru_cache(maxsize=1024)
def _is_short_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX_LENGTH or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return bool(_LABEL_NAME.fullmatch(name))


@lru_cache(maxsize=1024)
def _is_short_label_name(name: str) -> bool:
    return bool(_LABEL_NAME.fullmatch(name))


def parse_integer(text: str | None) -> int | None:
    """Return what Go's ``strconv.ParseInt(text, 10, 64)`` reads, or None where it refuses."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def text_of(requirement: Requirement) -> str:
    """Return a requirement as a person would write it: ``zone NotIn [a, b]``, ``zone Exists``."""
    operator = requirement.operator.value if isinstance(requirement.operator, Operator) else requirement.operator
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {operator}{values}"
