"""Kubernetes objects outside of a review: from a file, a list, a live cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from webhook.core.decisions import Subject
from webhook.wire.pods import read_pod
from webhook.wire.reviews import read_node_labels
from webhook.wire.shapes import JsonMap
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS
from webhook.wire.workloads import read_workload


@dataclass(frozen=True, slots=True)
class FoundObject:
    """One object; ``path`` leads to it from the document's root, empty where it is the document."""

    path: str
    group: str
    """Empty for the core group, and where no version is named."""
    kind: str
    """Empty where it has none: then it is no Kubernetes object."""
    namespace: str
    name: str
    subject: Subject | None
    """None where the kind is none that the rules judge."""
    raw: JsonMap = field(repr=False)


def raw_objects(value: object) -> Iterator[tuple[str, JsonMap]]:
    """Yield (path, object) for the object that ``value`` is, or for each of the list that it is, ``null`` left out.

    Lists in lists are followed. An item of a typed list, as ``PodList``, has the kind that its list says, as kubectl
    takes it. What is no map is given as an empty one: an object without a kind.
    """
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        path, given = waiting.pop()
        raw: JsonMap = given if isinstance(given, dict) else {}
        items = _items(raw)
        if items is None:
            yield path, raw
            continue
        prefix = f"{path}.items" if path else "items"
        below = [(f"{prefix}[{index}]", _typed(item, raw)) for index, item in enumerate(items) if item is not None]
        waiting.extend(reversed(below))


def _items(raw: JsonMap) -> list[object] | None:
    """Return the items of a list; None where ``raw`` is no list. A ``List`` that names no items is an empty one."""
    kind, items = raw.get("kind"), raw.get("items")
    if not isinstance(kind, str) or not kind.endswith("List"):
        return None
    if isinstance(items, list):
        return items
    return [] if kind == "List" and items is None else None


def _typed(item: object, of_list: JsonMap) -> object:
    kind = str(of_list["kind"]).removesuffix("List")
    if not kind or not isinstance(item, dict) or item.get("kind") or item.get("apiVersion"):
        return item
    return {**item, "kind": kind, "apiVersion": of_list.get("apiVersion")}


def read_objects(value: object, kinds: KindTable = STANDARD_KINDS) -> Iterator[FoundObject]:
    """Yield the object that ``value`` is, or each object of the list that it is (``raw_objects``)."""
    for path, raw in raw_objects(value):
        kind, api_version = raw.get("kind"), raw.get("apiVersion")
        metadata = raw.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
        yield FoundObject(
            path=path,
            group=group,
            kind=kind if isinstance(kind, str) else "",
            namespace=_text(named.get("namespace")),
            name=_text(named.get("name")) or _text(named.get("generateName")),
            subject=_subject(raw, group, kind, kinds),
            raw=raw,
        )


def _subject(raw: JsonMap, group: str, kind: object, kinds: KindTable) -> Subject | None:
    if not isinstance(kind, str):
        return None
    if not group and kind == "Pod":
        return read_pod(raw)
    if not group and kind == "Node":
        return read_node_labels(raw)
    row = kinds.get((group, kind))
    return None if row is None else read_workload(raw, row)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
