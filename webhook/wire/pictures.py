"""A cluster picture: machine classes, nodes and running pods in files, as the ledger's records.

The form is published as ``cluster-picture.schema.json``; what ``kubectl get nodes,pods -o yaml`` prints is taken too.
Nothing is raised: every fault of every document is told at once, with file, line and column.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.core.ledger.records import NodeRecord, PodRecord
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.pod import Malformed
from webhook.wire.machine_classes import read_machine_class
from webhook.wire.manifests import BrokenDocument, Document, Position, read_manifests
from webhook.wire.picture_nodes import Declared, NodeReader
from webhook.wire.picture_pods import PodReader
from webhook.wire.schema_faults import PICTURE_SCHEMA, read_by_schema, validator_of
from webhook.wire.shapes import JsonMap, describe

PICTURE_KIND: Final = "ClusterPicture"
_SECTIONS: Final = ("classes", "nodes", "pods")


@dataclass(frozen=True, slots=True)
class PictureFault:
    """One fault of a picture's file; ``str`` is the line to print."""

    file: str
    position: Position
    fault: Malformed

    def __str__(self) -> str:
        """Return ``file:line:column: path: found this, wanted that.``."""
        where = f"{self.file}:{self.position.line}:{self.position.column}"
        path = f" {self.fault.path}:" if self.fault.path else ""
        if not self.fault.found:
            return f"{where}:{path} {self.fault.wanted}"
        stop = "" if self.fault.wanted.endswith(("?", ".")) else "."
        return f"{where}:{path} found {self.fault.found}, wanted {self.fault.wanted}{stop}"


@dataclass(frozen=True, slots=True)
class Picture:
    """What the files show. With faults it is what could be read, and not to be relied on."""

    classes: tuple[MachineClass, ...] = ()
    nodes: tuple[NodeRecord, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    faults: tuple[PictureFault, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """One entry of a section, or one object, with the document it stands in."""

    file: str
    document: Document
    path: str
    raw: object
    is_sound: bool = True
    """Its schema found no fault in it."""


def read_picture(texts: Mapping[str, str]) -> Picture:
    """Return the picture that ``texts`` (file name -> text) give together; the order of documents does not matter."""
    reader = _Reader()
    for file, text in texts.items():
        reader.take(file, text)
    return reader.picture()


class _Reader:
    def __init__(self) -> None:
        self._faults: list[PictureFault] = []
        self._first: tuple[str, Position] | None = None
        """Where the first document stands."""
        self._short: dict[str, list[_Part]] = {section: [] for section in _SECTIONS}
        self._objects: dict[str, list[_Part]] = {"Node": [], "Pod": []}

    def take(self, file: str, text: str) -> None:
        """Sort what stands in one file."""
        is_empty = True
        for document in read_manifests(text):
            is_empty = False
            if isinstance(document, BrokenDocument):
                self._faults.append(PictureFault(file, document.position, Malformed("", "", document.problem)))
                continue
            self._first = self._first or (file, document.locate(""))
            for path, position in document.repeated:
                self._faults.append(PictureFault(file, position, Malformed(path, "the key twice", "it once")))
            kind = document.value.get("kind") if isinstance(document.value, dict) else None
            if kind is None or kind == PICTURE_KIND:
                self._take_sections(file, document)
            else:
                self._take_objects(file, document)
        if is_empty:
            self._faults.append(PictureFault(file, Position(1, 1), Malformed("", "no document", "a cluster picture")))

    def _take_sections(self, file: str, document: Document) -> None:
        value, faults = read_by_schema(validator_of(PICTURE_SCHEMA), document.value)
        self._note(file, document, faults)
        if not isinstance(value, dict):
            return
        for section in _SECTIONS:
            entries = value.get(section)
            for index, raw in enumerate(entries if isinstance(entries, list) else []):
                path = f"{section}[{index}]"
                is_sound = not any(fault.path == path or fault.path.startswith(f"{path}.") for fault in faults)
                self._short[section].append(_Part(file, document, path, raw, is_sound))

    def _take_objects(self, file: str, document: Document) -> None:
        for path, raw in _objects(document.value, ""):
            kind = raw.get("kind") if isinstance(raw, dict) else None
            if isinstance(kind, str) and kind in self._objects:
                self._objects[kind].append(_Part(file, document, path, raw))
            else:
                where = f"{path}.kind" if path else "kind"
                wanted = f"Node, Pod, List or {PICTURE_KIND}"
                self._note(file, document, [Malformed(where, describe(kind), wanted)])

    def picture(self) -> Picture:
        """Read the parts in the order in which one needs the other."""
        classes, faulty = self._classes()
        nodes = self._nodes(NodeReader(classes, faulty))
        pods = self._pods(PodReader(nodes, faulty_nodes=bool(self._faults)))
        if not (classes or nodes or self._faults) and self._first is not None:
            wanted = f"a {PICTURE_KIND}, or Nodes and the file of their classes"
            self._faults.append(PictureFault(*self._first, Malformed("", "neither a node nor a machine class", wanted)))
        files = {file: number for number, file in enumerate(dict.fromkeys(fault.file for fault in self._faults))}
        self._faults.sort(key=lambda fault: (files[fault.file], fault.position.line, fault.position.column))
        return Picture(
            tuple(declared.machine_class for declared in classes.values()),
            tuple(nodes.values()),
            tuple(pods.values()),
            tuple(self._faults),
        )

    def _classes(self) -> tuple[dict[str, Declared], frozenset[str]]:
        classes: dict[str, Declared] = {}
        faulty: set[str] = set()
        for part in self._short["classes"]:
            raw: JsonMap = part.raw if isinstance(part.raw, dict) else {}
            name = raw.get("name")
            found: list[Malformed] = []
            declared = read_machine_class(raw, part.path, found) if part.is_sound else None
            self._note(part.file, part.document, found)
            if declared is None:
                faulty.add(name if isinstance(name, str) else "")
            elif declared.name in classes:
                self._note_twice(part, "name", declared.name)
            else:
                classes[declared.name] = Declared(declared, raw)
        return classes, frozenset(faulty)

    def _nodes(self, reader: NodeReader) -> dict[str, NodeRecord]:
        nodes: dict[str, NodeRecord] = {}
        for part in self._short["nodes"]:
            found: list[Malformed] = []
            for record in reader.short(part.raw, part.path, found) if part.is_sound else ():
                if record.name in nodes:
                    self._note_twice(part, "name", record.name)
                nodes.setdefault(record.name, record)
            self._note(part.file, part.document, found)
        for part in self._objects["Node"]:
            found = []
            node = reader.kubernetes(part.raw, part.path, found)
            self._note(part.file, part.document, found)
            if node is not None and node.name in nodes:
                self._note_twice(part, "metadata.name", node.name)
            elif node is not None:
                nodes[node.name] = node
        return nodes

    def _pods(self, reader: PodReader) -> dict[str, PodRecord]:
        pods: dict[str, PodRecord] = {}
        for part in (*self._short["pods"], *self._objects["Pod"]):
            if not part.is_sound:
                continue
            found: list[Malformed] = []
            is_short = not (isinstance(part.raw, dict) and "spec" in part.raw)
            pod = (reader.short if is_short else reader.kubernetes)(part.raw, part.path, found)
            self._note(part.file, part.document, found)
            if pod is None:
                continue
            name = f"{pod.namespace}/{pod.name}"
            if name in pods:
                self._note_twice(part, "name" if is_short else "metadata.name", name)
            pods.setdefault(name, pod)
        return pods

    def _note_twice(self, part: _Part, key: str, name: str) -> None:
        path = f"{part.path}.{key}" if part.path else key
        self._note(part.file, part.document, [Malformed(path, f"{name} again", "each name once")])

    def _note(self, file: str, document: Document, faults: tuple[Malformed, ...] | list[Malformed]) -> None:
        self._faults.extend(PictureFault(file, document.locate(fault.path), fault) for fault in faults)


def _objects(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the object that ``value`` is, or each item of the list that it is."""
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(value, dict) else None
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield path, value
        return
    for index, item in enumerate(items):
        # NodeList and PodList may leave out the kind of their items.
        if isinstance(item, dict) and "kind" not in item and kind != "List":
            yield f"items[{index}]", {**item, "kind": kind.removesuffix("List")}
        elif item is not None:
            yield f"items[{index}]", item
