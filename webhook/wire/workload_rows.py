"""Rows of the table of workload kinds from the settings: a map in, a ``WorkloadKind`` or every fault out."""

from collections.abc import Mapping
from typing import Final

from webhook.wire.shapes import child, describe
from webhook.wire.workload_kinds import (
    EACH_ITEM,
    EACH_MEMBER,
    PATH_FORM,
    PATH_WANTED,
    Count,
    TemplateRule,
    WorkloadKind,
    WorkloadKindError,
    steps_of,
)


def workload_kind_from(raw: object, where: str = "workload") -> WorkloadKind:
    """Return the row that a map of the settings describes; faults name its fields below ``where``.

    ``{group, kind, plural, clusterScoped, templates: [{path, replicas, inline, metadata, partial}]}``, each of
    ``replicas`` a path or ``{path, default, atMost, lessOneWhere}``; ``group`` may be empty, and all but ``kind``,
    ``templates`` and ``path`` be left out.

    Raises:
        WorkloadKindError: with every fault at once: a wrong type, an unknown or missing key, a path that is none, a
            count whose wildcards are not its template's.
    """
    faults: list[str] = []
    types = {"group": str, "kind": str, "templates": list, "plural": str, "clusterScoped": bool}
    row = _fields(raw, where, types, faults)
    templates = tuple(
        _template_from(item, f"{where}.templates[{index}]", faults)
        for index, item in enumerate(_items(row.get("templates")))
    )
    if isinstance(raw, dict) and raw.get("kind") in (None, ""):
        faults.append(f"{where}.kind: found nothing, wanted a kind such as PyTorchJob.")
    if isinstance(raw, dict) and raw.get("templates") in (None, []):
        faults.append(f"{where}.templates: found none, wanted at least one.")
    if faults:
        raise WorkloadKindError("\n".join(faults))
    return WorkloadKind(
        str(row.get("group", "")),
        str(row["kind"]),
        templates,
        cluster_scoped=row.get("clusterScoped") is True,
        plural=str(row.get("plural", "")),
    )


def _template_from(raw: object, where: str, faults: list[str]) -> TemplateRule:
    types = {"path": object, "replicas": list, "inline": bool, "metadata": list, "partial": bool}
    row = _fields(raw, where, types, faults)
    path = _path_from(row.get("path"), f"{where}.path", faults) if isinstance(raw, dict) else ""
    wildcards = _wildcards(path)
    counts: list[Count] = []
    for index, item in enumerate(_items(row.get("replicas"))):
        here = f"{where}.replicas[{index}]"
        fields = {"path": str, "default": int, "atMost": str, "lessOneWhere": str}
        count = {"path": item} if isinstance(item, str) else _fields(item, here, fields, faults)
        paths = {
            name: _path_from(count[name], f"{here}.{name}", faults)
            for name in ("path", "atMost", "lessOneWhere")
            if name in count
        }
        faults.extend(
            f"{here}.{name}: found other wildcards than in {path}, wanted the same or the first of them."
            for name, found in paths.items()
            if _wildcards(found) != wildcards[: len(_wildcards(found))]
        )
        default = count.get("default", 1)
        number = default if isinstance(default, int) else 1
        counts.append(Count(paths.get("path", ""), number, paths.get("atMost", ""), paths.get("lessOneWhere", "")))
    metadata = tuple(
        _path_from(item, f"{where}.metadata[{index}]", faults) for index, item in enumerate(_items(row.get("metadata")))
    )
    faults.extend(
        f"{where}.metadata: found a wildcard in {path}, wanted none." for path in metadata if _wildcards(path)
    )
    return TemplateRule(path, tuple(counts), row.get("inline") is True, metadata, partial=row.get("partial") is True)


def _fields(raw: object, where: str, types: Mapping[str, type], faults: list[str]) -> Mapping[str, object]:
    """Return the members of ``raw`` that are known and of their type; a fault for each other."""
    if not isinstance(raw, dict):
        faults.append(f"{where}: found {describe(raw)}, wanted a map.")
        return {}
    fields: dict[str, object] = {}
    for key, value in raw.items():
        if key not in types:
            faults.append(f"{child(where, str(key))}: found an unknown key, wanted one of {', '.join(types)}.")
        elif value is None:  # as if it were not there
            continue
        elif not isinstance(value, types[key]) or (types[key] is int and isinstance(value, bool)):
            faults.append(f"{where}.{key}: found {describe(value)}, wanted {_TYPE_WORDS[types[key]]}.")
        else:
            fields[key] = value
    return fields


_TYPE_WORDS: Final = {str: "a text", int: "a whole number", bool: "true or false", list: "a list"}


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _path_from(value: object, where: str, faults: list[str]) -> str:
    if isinstance(value, str) and PATH_FORM.fullmatch(value):
        return value
    found = "nothing" if value is None else describe(value)
    faults.append(f"{where}: found {found}, wanted {PATH_WANTED}.")
    return ""


def _wildcards(path: str) -> tuple[str, ...]:
    """Return the beginning of ``path`` up to each of its wildcards."""
    if not path:
        return ()
    steps = steps_of(path)
    return tuple(".".join(steps[: index + 1]) for index, step in enumerate(steps) if step in (EACH_ITEM, EACH_MEMBER))
