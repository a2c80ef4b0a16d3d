"""Koordinator's ``resource-spec`` annotation: which bind policy a pod states for its CPUs."""

import json
from collections.abc import Mapping
from typing import Final

RESOURCE_SPEC: Final = "scheduling.koordinator.sh/resource-spec"
_FIELDS: Final = ("requiredcpubindpolicy", "preferredcpubindpolicy")


def read_bind_policies(annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return the required and the preferred bind policy; empty where none is stated, or nothing can be read.

    As Go's decoder reads it (``domain/koordinator-ack.md`` 1.2): names of fields in any case, the last one counts.
    """
    text = annotations.get(RESOURCE_SPEC)
    if not text:
        return "", ""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return "", ""
    found = {str(name).lower(): value for name, value in pairs} if _is_object(pairs) else {}
    required, preferred = (found.get(name) for name in _FIELDS)
    return required if isinstance(required, str) else "", preferred if isinstance(preferred, str) else ""


def _is_object(pairs: object) -> bool:
    return isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs)
