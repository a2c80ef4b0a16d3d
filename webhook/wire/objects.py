"""Kubernetes objects outside of a review: from a file, a list, a live cluster."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.core.decisions import Subject
from webhook.wire.pods import read_pod
from webhook.wire.reviews import read_node_labels
from webhook.wire.shapes import JsonMap
from webhook.wire.workload_kinds import STANDARD_KINDS, KindTable
from webhook.wire.workloads import read_workload

LISTS_IN_LISTS = 4
"""Nobody nests a List in a List; a few levels are followed, so that a hostile file ends."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """One object; ``path`` leads to it from the document's root, empty where it is the document."""

    path: str
    kind: str
    """Empty where it has none: then it is no Kubernetes object."""
    namespace: str
    name: str
    subject: Subject | None
    """None where the kind is none that the rules judge."""


def read_objects(value: object, kinds: KindTable = STANDARD_KINDS, *, path: str = "") -> Iterator[FoundObject]:
    """Yield the object that ``value`` is, or each object of the ``List`` that it is, ``null`` items left out."""
    raw = value if isinstance(value, dict) else {}
    kind, api_version = raw.get("kind"), raw.get("apiVersion")
    items = raw.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            below = f"{path}.items[{index}]" if path else f"items[{index}]"
            if item is not None and below.count("items[") <= LISTS_IN_LISTS:
                yield from read_objects(item, kinds, path=below)
        return
    metadata = raw.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
    yield FoundObject(
        path=path,
        kind=kind if isinstance(kind, str) else "",
        namespace=_text(named.get("namespace")),
        name=_text(named.get("name")) or _text(named.get("generateName")),
        subject=_subject(raw, group, kind, kinds),
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
