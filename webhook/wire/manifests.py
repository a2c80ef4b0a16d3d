"""Manifests in YAML or JSON: text in, documents out, each value as kubectl sees it and each field with line and column.

Errors are values: a document that cannot be read is a ``BrokenDocument`` and hides no other.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from webhook.core.plain_text import plain
from webhook.wire.go_yaml import NotFiniteError, YamlScalar, json_key, resolve_plain
from webhook.wire.shapes import child

MOST_VALUES: Final = 1_000_000
"""Values in one document after aliases are written out: more is an alias bomb, not a manifest."""
MOST_DEPTH: Final = 200
"""Levels of nesting; a pod template in a workload in a List needs about 20."""

_SEPARATOR: Final = re.compile(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
_WORD_IN_BRACKETS: Final = re.compile(r'\["([A-Za-z0-9_-]{1,63})"\]', re.ASCII)
"""An annotation or label whose key is a plain word: findings write those keys in brackets too, ``child`` does not."""
_STR: Final = "tag:yaml.org,2002:str"
_PLAIN: Final = "?plain"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PAIR: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES: Final = re.compile(rf"(?P<pair>{_PAIR})|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{{2}})|\\.", re.DOTALL)
"""Each escape of a JSON text, so that an escaped backslash before a ``u`` is not taken for one."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where something stands; both count from 1, the column in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its JSON value, and where each field's key (or list item) stands."""

    value: object
    start: Position
    positions: Mapping[str, Position] = field(repr=False)
    """By path from the document's root, as findings write it; every mapping entry and list item has one."""
    repeated: tuple[tuple[str, Position], ...] = ()
    """Keys that stand twice in one mapping: kubectl keeps the last in silence."""

    def locate(self, path: str) -> Position:
        """Return where ``path`` stands; where it does not exist its nearest parent, else the document's start."""
        while path:
            found = self.positions.get(path) or self.positions.get(_WORD_IN_BRACKETS.sub(r".\1", path))
            if found is not None:
                return found
            path = _parent(path)
        return self.start


@dataclass(frozen=True, slots=True)
class BrokenDocument:
    """A document that is no YAML or JSON, or that JSON cannot say; ``problem`` is one sentence."""

    problem: str
    position: Position


def read_manifests(text: str) -> Iterator[Document | BrokenDocument]:
    """Yield each document of ``text`` that is not empty, in order, split where kubectl splits."""
    text = text.removeprefix("\ufeff")
    start, line = 0, 1
    for separator in [*_SEPARATOR.finditer(text), None]:
        end = separator.start() if separator else len(text)
        part = text[start:end]
        if part.strip():
            yield from _read(part, line)
        line += part.count("\n")
        # What follows the dashes on their own line belongs to the next document; a space keeps its column.
        start = separator.end() if separator else end


def _read(part: str, first_line: int) -> Iterator[Document | BrokenDocument]:
    if part.lstrip().startswith("{"):
        part = _ESCAPES.sub(_without_lone_surrogate, part)
        texts = _json_texts(part)
        if texts is not None:
            yield from _read_json(part, texts, first_line)
            return
    try:
        node = yaml.compose(part, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(first_line + mark.line, mark.column + 1) if mark else Position(first_line, 1)
        yield BrokenDocument(f"This is no YAML: {plain(error.problem or 'it cannot be read')}.", position)
        return
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield BrokenDocument(f"This is no YAML: {plain(str(error).splitlines()[0])}.", Position(first_line, 1))
        return
    if node is None:
        return
    builder = _Builder(Position(first_line, 1))
    try:
        value = builder.value(node, "", 0)
    except _NotJsonError as error:
        yield BrokenDocument(error.problem, error.position)
        return
    start = Position(first_line + node.start_mark.line, node.start_mark.column + 1)
    yield Document(value, start, builder.positions, tuple(builder.repeated))


def _without_lone_surrogate(escape: re.Match[str]) -> str:
    """Return the escape as Go's reader of JSON takes it: half a pair becomes the replacement character."""
    return r"\ufffd" if escape["lone"] else escape[0]


def _wide_for_yaml(escape: re.Match[str]) -> str:
    """Return what is as wide; JSON writes characters beyond the first plane as pairs of escapes, which YAML refuses."""
    return "X" * len(escape[0]) if escape["pair"] else escape[0]


def _json_texts(part: str) -> list[tuple[int, int, object]] | None:
    """Return (begin, end, value) of each JSON text of a stream, as kubectl tries first; None where it is none."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    found: list[tuple[int, int, object]] = []
    begin = _after_space(part, 0)
    while begin < len(part):
        try:
            value, end = decoder.raw_decode(part, begin)
        except (ValueError, RecursionError):
            return None
        found.append((begin, end, value))
        begin = _after_space(part, end)
    return found


def _after_space(part: str, at: int) -> int:
    space = _SPACE.match(part, at)
    return space.end() if space else at


def _no_constant(name: str) -> None:
    """Refuse ``NaN`` and ``Infinity``, which Python reads and JSON does not know."""
    raise ValueError(name)


def _read_json(part: str, texts: list[tuple[int, int, object]], first_line: int) -> Iterator[Document | BrokenDocument]:
    """Yield the document of each JSON text; the YAML reader only says where the fields stand."""
    line, seen = first_line, 0
    for begin, end, value in texts:
        line += part.count("\n", seen, begin)
        seen = begin
        start = Position(line, begin - part.rfind("\n", 0, begin))
        builder = _Builder(start)
        try:
            node = yaml.compose(_ESCAPES.sub(_wide_for_yaml, part[begin:end]), Loader=_Loader)
            if node is not None:
                builder.value(node, "", 0)
        except _NotJsonError as error:
            yield BrokenDocument(error.problem, error.position)
            continue
        except (yaml.YAMLError, ValueError, RecursionError):
            # JSON that YAML does not take, as with a key of over 1,024 characters: the value counts, not its places.
            builder = _Builder(start)
        yield Document(value, start, builder.positions, tuple(builder.repeated))


class _Loader(yaml.CSafeLoader):
    """libyaml's parser and composer with tags left open: go-yaml resolves plain scalars by rules of its own."""

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:  # noqa: ARG002 - its interface
        if kind is yaml.ScalarNode:
            return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _STR
        return "tag:yaml.org,2002:map" if kind is yaml.MappingNode else "tag:yaml.org,2002:seq"


class _NotJsonError(Exception):
    def __init__(self, problem: str, position: Position) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position


class _Builder:
    """Builds the JSON value of one document and notes where each field stands."""

    def __init__(self, start: Position) -> None:
        """Begin at ``start``, where the text that is composed stands in its file."""
        self._start = start
        self._values = 0
        self._open: set[int] = set()
        self.positions: dict[str, Position] = {}
        self.repeated: list[tuple[str, Position]] = []

    def value(self, node: yaml.Node, path: str, depth: int) -> object:
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._fault(
                node, f"The document holds more than {MOST_VALUES:,} values once its aliases are written out."
            )
        if depth > MOST_DEPTH:
            raise self._fault(node, f"The document is nested deeper than {MOST_DEPTH} levels.")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._fault(node, "An alias contains itself.")
        self._open.add(id(node))
        result: object
        if isinstance(node, yaml.SequenceNode):
            result = [self._item(item, f"{path}[{index}]", depth) for index, item in enumerate(node.value)]
        else:
            result = self._mapping(node, path, depth)
        self._open.discard(id(node))
        return result

    def _item(self, node: yaml.Node, path: str, depth: int) -> object:
        self.positions.setdefault(path, self._at(node))
        return self.value(node, path, depth + 1)

    def _mapping(self, node: yaml.Node, path: str, depth: int) -> dict[str, object]:
        merged: dict[str, object] = {}
        own: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                for source in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    inherited = self.value(source, path, depth + 1)
                    if not isinstance(inherited, dict):
                        raise self._fault(value_node, "A merge key (<<) needs a mapping, or a list of mappings.")
                    merged = {**inherited, **merged}
                continue
            key = self._key(key_node)
            below = child(path, key)
            if key in own:
                self.repeated.append((below, self._at(key_node)))
            self.positions[below] = self._at(key_node)
            own[key] = self.value(value_node, below, depth + 1)
        return {**merged, **own}

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._fault(node, "A key is a list or a mapping; JSON knows texts only.")
        return json_key(self._scalar(node))

    def _scalar(self, node: yaml.ScalarNode) -> YamlScalar:
        text: str = node.value
        if node.tag == _PLAIN:
            try:
                return resolve_plain(text)
            except NotFiniteError as error:
                raise self._fault(node, str(error)) from error
        if node.tag in {_STR, "tag:yaml.org,2002:binary", "!"}:
            return text
        resolved = resolve_plain(text)
        if node.tag == "tag:yaml.org,2002:float" and isinstance(resolved, int) and not isinstance(resolved, bool):
            return float(resolved)
        return resolved

    def _at(self, node: yaml.Node) -> Position:
        mark = node.start_mark
        return Position(self._start.line + mark.line, mark.column + (1 if mark.line else self._start.column))

    def _fault(self, node: yaml.Node, problem: str) -> _NotJsonError:
        return _NotJsonError(problem, self._at(node))


def _parent(path: str) -> str:
    """Return ``path`` without its last step."""
    if path.endswith('"]'):
        return path[: path.rindex('["')]
    if path.endswith("]"):
        return path[: path.rindex("[")]
    return path.rpartition(".")[0]
