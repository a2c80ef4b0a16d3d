"""Edits of a pod as JSON Patch (RFC 6902) on the object as it came, and the proof that the patch does what it should.

A patch that does not apply is HTTP 500 for the user even where the webhook may be ignored
(kubernetes/apiserver:pkg/admission/plugin/webhook/mutating/dispatcher.go), and an ``add`` onto what is there replaces
it. So every parent is looked at, made one level at a time where it is absent or null, and the finished patch is
applied here before it is sent.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from webhook.core.decisions import Edit, RequireNodeLabel, SetAnnotation
from webhook.core.pod import Operator
from webhook.wire.shapes import describe

Operation = dict[str, object]
"""One operation: ``op``, ``path`` and, except for ``remove``, ``value``."""

_Container = dict[str, object] | list[object]

_AFFINITY: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class PatchError(ValueError):
    """An edit cannot be made on this object, or a patch does not apply; the message names the place."""


def proven_patch(raw: Mapping[str, object], edits: Sequence[Edit]) -> list[Operation]:
    """Return the patch that makes ``edits`` on ``raw``, empty where all of them hold already.

    Raises:
        PatchError: a place is of a wrong type, or the patched object, read again, does not show every edit.
    """
    patch, patched = _built(raw, edits)
    if patch:
        for edit in edits:
            if not shows(patched, edit):
                raise PatchError(f"the patched object does not show {edit}.")
    return patch


def build_patch(raw: Mapping[str, object], edits: Sequence[Edit]) -> list[Operation]:
    """Return the operations that make ``edits`` on ``raw``, in order; what holds already needs none.

    Raises:
        PatchError: a place that an edit needs holds a value of a wrong type.
    """
    return _built(raw, edits)[0]


def _built(raw: Mapping[str, object], edits: Sequence[Edit]) -> tuple[list[Operation], Mapping[str, object]]:
    """Return the operations, and the object that they make of ``raw``: each edit is built on what the last one left."""
    patch: list[Operation] = []
    copy = _Copy(raw)
    for edit in edits:
        current = copy.document
        further = _set_annotation(current, edit) if isinstance(edit, SetAnnotation) else _require(current, edit)
        for operation in further:
            copy.apply(operation)
        patch.extend(further)
    return patch, copy.document


def shows(raw: Mapping[str, object], edit: Edit) -> bool:
    """Return whether the pod ``raw`` has what ``edit`` asks for; what has a wrong type is not there."""
    if isinstance(edit, SetAnnotation):
        annotations = _map(_map(raw.get("metadata")).get("annotations"))
        return annotations.get(edit.key) == edit.value
    here = _map(raw.get("spec"))
    for name in _AFFINITY[:-1]:
        here = _map(here.get(name))
    required = here.get(_AFFINITY[-1])
    if not isinstance(required, dict):
        return False
    terms = required.get("nodeSelectorTerms")
    if terms is None:
        return True  # No term matches nothing: there is nothing to add (``_require``).
    return isinstance(terms, list) and all(_is_empty(term) or _demands(term, edit) for term in terms)


def _is_empty(term: object) -> bool:
    """Return whether a node selector term has no requirement at all, and so matches nothing."""
    return not _list(_map(term).get("matchExpressions")) and not _list(_map(term).get("matchFields"))


def _demands(term: object, edit: RequireNodeLabel) -> bool:
    return any(_is_as_strict(_map(expression), edit) for expression in _list(_map(term).get("matchExpressions")))


def _is_as_strict(expression: Mapping[str, object], edit: RequireNodeLabel) -> bool:
    """Return whether ``expression`` lets through no node that ``edit`` would not."""
    values = _list(expression.get("values"))
    return (
        expression.get("key") == edit.key
        and expression.get("operator") == Operator.IN.value
        and bool(values)
        and all(value in edit.values for value in values)
    )


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _set_annotation(raw: Mapping[str, object], edit: SetAnnotation) -> list[Operation]:
    patch: list[Operation] = []
    metadata = _member_map(raw, "metadata", "", patch)
    annotations = _member_map(metadata, "annotations", "/metadata", patch)
    path = f"/metadata/annotations/{escaped(edit.key)}"
    if edit.key not in annotations:
        patch.append({"op": "add", "path": path, "value": edit.value})
    elif annotations[edit.key] != edit.value:
        patch.append({"op": "replace", "path": path, "value": edit.value})
    else:
        return []
    return patch


def _require(raw: Mapping[str, object], edit: RequireNodeLabel) -> list[Operation]:
    patch: list[Operation] = []
    expression = {"key": edit.key, "operator": Operator.IN.value, "values": list(edit.values)}
    here, path = _member_map(raw, "spec", "", patch), "/spec"
    for name in _AFFINITY[:-1]:
        here = _member_map(here, name, path, patch)
        path = f"{path}/{name}"
    required = here.get(_AFFINITY[-1])
    path = f"{path}/{_AFFINITY[-1]}"
    if required is None:
        # A required affinity without a term is not valid even for a moment of thought: it is made with its term.
        return [
            *patch,
            {"op": "add", "path": path, "value": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        ]
    if not isinstance(required, dict):
        raise PatchError(f"{path}: found {describe(required)}, wanted a map.")
    terms = required.get("nodeSelectorTerms")
    if not isinstance(terms, list):
        if terms is None:
            return []  # No term matches nothing, as an empty term does; one that we add would widen it.
        raise PatchError(f"{path}/nodeSelectorTerms: found {describe(terms)}, wanted a list.")
    for index, term in enumerate(terms):
        if _is_empty(term) or _demands(term, edit):
            continue
        at = f"{path}/nodeSelectorTerms/{index}/matchExpressions"
        if not _list(_map(term).get("matchExpressions")):
            patch.append({"op": "add", "path": at, "value": [expression]})
        else:
            patch.append({"op": "add", "path": f"{at}/-", "value": expression})
    return patch


def _member_map(parent: Mapping[str, object], name: str, path: str, patch: list[Operation]) -> Mapping[str, object]:
    """Return the map ``name`` of ``parent``; where it is absent or null, an empty one and the operation to make it."""
    found = parent.get(name)
    if isinstance(found, dict):
        return found
    if found is not None:
        raise PatchError(f"{path}/{name}: found {describe(found)}, wanted a map.")
    patch.append({"op": "add", "path": f"{path}/{name}", "value": {}})
    return {}


def escaped(name: str) -> str:
    """Return ``name`` as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def names_of(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer, the empty one before the first slash included."""
    names = pointer.split("/")
    return [name.replace("~1", "/").replace("~0", "~") for name in names] if "~" in pointer else names


def apply_patch(raw: Mapping[str, object], patch: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return what ``raw`` is after ``patch`` (``add``, ``replace``, ``remove``); ``raw`` itself is left alone.

    Only the maps and lists on the way to a change are copied, each once, so a deeply nested object costs nothing.

    Raises:
        PatchError: an operation is none of the three, or its place does not exist.
    """
    copy = _Copy(raw)
    for operation in patch:
        copy.apply(operation)
    return copy.document


class _Copy:
    """An object that is changed by operations, and shares with the original whatever they do not touch."""

    def __init__(self, original: object) -> None:
        self._root = original
        self._own: dict[int, _Container] = {}
        """The maps and lists that are copies of ours already, by identity."""

    @property
    def document(self) -> Mapping[str, object]:
        if isinstance(self._root, dict):
            return self._root
        raise PatchError(f"the patched object is {describe(self._root)}, wanted a map.")

    def apply(self, operation: Mapping[str, object]) -> None:
        op, pointer = operation.get("op"), operation.get("path")
        if op not in ("add", "replace", "remove") or not isinstance(pointer, str) or not pointer.startswith("/"):
            raise PatchError(f"{describe(op)} at {describe(pointer)} is no operation on a member.")
        _, *way, last = names_of(pointer)
        self._root = holder = self._owned(self._root, pointer)
        for name in way:
            key = _key(holder, name, pointer)
            inner = self._owned(holder[key], pointer)  # type: ignore[index] # _key has matched the key to the container
            holder[key] = inner  # type: ignore[index] # likewise
            holder = inner
        _change(holder, last, op, operation.get("value"), pointer)

    def _owned(self, container: object, pointer: str) -> _Container:
        """Return ``container`` if it is a copy of ours, else a copy of it."""
        own = self._own.get(id(container))
        if own is None:
            if not isinstance(container, dict | list):
                raise PatchError(f"{pointer}: found {describe(container)} on the way, wanted a map or a list.")
            own = container.copy()
            self._own[id(own)] = own
        return own


def _change(holder: _Container, name: str, op: str, value: object, pointer: str) -> None:
    if op == "add" and isinstance(holder, dict):
        holder[name] = value
    elif op == "add" and isinstance(holder, list):
        holder.insert(len(holder) if name == "-" else _index(name, len(holder), pointer), value)
    elif op == "remove":
        del holder[_key(holder, name, pointer)]  # type: ignore[arg-type] # _key has matched the key to the container
    else:
        holder[_key(holder, name, pointer)] = value  # type: ignore[index] # likewise


def _key(container: _Container, name: str, pointer: str) -> str | int:
    """Return the existing key of a map or index of a list that ``name`` means."""
    if isinstance(container, list):
        return _index(name, len(container) - 1, pointer)
    if name in container:
        return name
    raise PatchError(f"{pointer}: found no {describe(name)} there.")


def _index(name: str, highest: int, pointer: str) -> int:
    if not _ARRAY_INDEX.fullmatch(name) or int(name) > highest:
        raise PatchError(f"{pointer}: found {describe(name)}, wanted an index from 0 to {highest}.")
    return int(name)
