"""AdmissionReview requests, ``admission.k8s.io/v1``: bytes in, an ``Ask`` out.

Errors::

    BadReview           the call is broken: HTTP 400, no verdict
      NotJson           the bytes are no JSON document
      NotAReview        a JSON document that is no AdmissionReview request of v1, or one with a field of a wrong type

A pod that is not acceptable is no error here; it is a finding later on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from webhook.core.decisions import Ask, Operation, Subject
from webhook.core.plain_text import plain
from webhook.core.pod import Binding, Malformed, NodeLabels
from webhook.core.spelling import counted
from webhook.wire.pods import has_same_pod, raw_annotations, read_pod
from webhook.wire.shapes import JsonMap, describe, read_map, read_text, read_text_map
from webhook.wire.workload_kinds import KindTable, WorkloadKind
from webhook.wire.workload_table import STANDARD_KINDS
from webhook.wire.workloads import has_same_templates, read_workload, workload_annotations

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

POD_SUBRESOURCES: Final = frozenset({"", "ephemeralcontainers", "resize"})
"""Where the object of a request on ``pods`` is the whole pod and a spec can change."""
_MAX_UID_CHARACTERS: Final = 128
"""An API server sends 36; the uid is given back and logged."""

_OPERATIONS: Final = {operation.value: operation for operation in Operation}

Wants = Callable[[Mapping[str, object]], bool]
"""Whether a pod with these annotations is judged at all. Asked before the pod is parsed; values may be no texts."""


class BadReview(Exception):  # noqa: N818 - it reads as what it is: a bad review
    """The call is broken; ``str`` is one plain sentence that names field, found and wanted."""

    def __init__(self, field: str, found: str, wanted: str) -> None:
        """Keep the three parts; ``field`` is a path in the document, empty for the document itself."""
        super().__init__(f"{field or 'the request body'}: found {found}, wanted {wanted}.")
        self.field = field
        self.found = found
        self.wanted = wanted


class NotJson(BadReview):
    """The bytes are no JSON document."""


class NotAReview(BadReview):
    """A JSON document that is no AdmissionReview request of v1."""


@dataclass(frozen=True, slots=True)
class Review:
    """A request, parsed, with the object as it came: a patch is built on that, never on what was parsed."""

    ask: Ask
    raw_object: Mapping[str, object] | None
    """``request.object``; None in a DELETE."""


def decode_review(body: bytes, *, wants: Wants | None = None, kinds: KindTable = STANDARD_KINDS) -> Review:
    """Return the request in ``body``.

    ``Ask.subject`` is the object and ``Ask.old`` the oldObject, parsed by the resource: ``pods`` with their
    subresources ``ephemeralcontainers`` and ``resize``, ``pods/binding`` and the older ``bindings``, ``nodes``, and the
    workloads of ``kinds``. Both are None for any other resource. Where ``wants`` is given, they are None as well if it
    says no to the annotations of the object's and the oldObject's pods, for most pods are not ours and should cost no
    more than a look; and if metadata and spec of those pods are the same before and after, as in most updates that are
    ours. Nodes and bindings are cheap, and always parsed.

    Raises:
        NotJson: not UTF-8, not JSON, nested deeper than 1,024 levels.
        NotAReview: another document, another version, no request, no uid, a field of a wrong type.
    """
    document = _json(body)
    if not isinstance(document, dict):
        raise NotAReview("", describe(document), "a map with kind AdmissionReview")
    if document.get("kind") != KIND:
        raise NotAReview("kind", _told(document, "kind"), KIND)
    if document.get("apiVersion") != API_VERSION:
        raise NotAReview("apiVersion", _told(document, "apiVersion"), API_VERSION)
    request = document.get("request")
    if not isinstance(request, dict):
        raise NotAReview("request", _told(document, "request"), "a map")
    return _review(request, wants, kinds)


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise NotJson(
            "",
            f"{counted(len(body), 'byte that is', 'bytes that are')} no JSON ({plain(str(error))})",
            "a JSON document",
        ) from error
    except RecursionError as error:
        raise NotJson("", "a document that is nested too deep", "a JSON document") from error


def _review(request: Mapping[str, object], wants: Wants | None, kinds: KindTable) -> Review:
    uid = _text(request, "uid", "request.")
    if not uid:
        raise NotAReview("request.uid", _told(request, "uid"), "the uid of the call")
    if len(uid) > _MAX_UID_CHARACTERS:
        raise NotAReview("request.uid", f"{len(uid)} characters", f"at most {_MAX_UID_CHARACTERS}")
    operation = _operation(request)
    resource = _map(request, "resource", "request.")
    group, name = _text(resource, "group", "request.resource."), _text(resource, "resource", "request.resource.")
    if not name:
        raise NotAReview("request.resource.resource", _told(resource, "resource"), "a resource such as pods")
    kind = _map(request, "kind", "request.")
    user = _map(request, "userInfo", "request.")
    new, old = _object(request, "object"), _object(request, "oldObject")
    namespace = _text(request, "namespace", "request.")
    subresource = _text(request, "subResource", "request.")
    reader = _Reader(
        group,
        name,
        subresource,
        (_text(kind, "group", "request.kind."), _text(kind, "kind", "request.kind.")),
        namespace,
        kinds,
    )
    judged = wants is None or not reader.holds_pods or reader.is_wanted(wants, new, old)
    ask = Ask(
        operation=operation,
        namespace=namespace,
        name=_text(request, "name", "request.") or _object_name(new) or _object_name(old),
        subject=reader.subject(new) if judged and new is not None else None,
        old=reader.subject(old) if judged and old is not None else None,
        subresource=subresource,
        username=_text(user, "username", "request.userInfo."),
        groups=_groups(user.get("groups")),
        dry_run=_flag(request.get("dryRun")),
        review_uid=uid,
        resource=f"{group}/{name}" if group else name,
    )
    return Review(ask, new)


@dataclass(slots=True)
class _Reader:
    """How the objects of one request are read."""

    group: str
    resource: str
    subresource: str
    kind: tuple[str, str]
    namespace: str
    kinds: KindTable

    @property
    def holds_pods(self) -> bool:
        """Whether the objects are neither bindings nor nodes."""
        return self.resource not in ("bindings", "nodes") and self.subresource != "binding"

    @property
    def row(self) -> WorkloadKind | None:
        """The row of the object's kind; None for what is no workload, and for subresources (``scale``)."""
        return self.kinds.get(self.kind) if not self.subresource else None

    def is_wanted(self, wants: Wants, new: JsonMap | None, old: JsonMap | None) -> bool:
        """Return whether a pod of the two objects is wanted, and something that a rule reads may have changed."""
        row = self.row
        objects = [raw for raw in (new, old) if raw is not None]
        if row is None:
            marked = any(wants(raw_annotations(raw.get("metadata"))) for raw in objects)
        else:
            marked = any(wants(each) for raw in objects for each in workload_annotations(raw, row))
        if not marked or new is None or old is None:
            return marked
        return not (has_same_pod(new, old) if row is None else has_same_templates(new, old, row))

    def subject(self, raw: Mapping[str, object]) -> Subject | None:
        """Return what ``raw`` is, parsed, or None where it is nothing of ours."""
        if self.group == "":
            if self.resource == "pods" and self.subresource in POD_SUBRESOURCES:
                return read_pod(raw, namespace=self.namespace)
            if (self.resource, self.subresource) in (("pods", "binding"), ("bindings", "")):
                return read_binding(raw, namespace=self.namespace)
            if self.resource == "nodes" and not self.subresource:
                return read_node_labels(raw)
        row = self.row
        return None if row is None else read_workload(raw, row, namespace=self.namespace)


def read_binding(raw: Mapping[str, object], *, namespace: str = "") -> Binding:
    """Return the binding in ``raw``; a field of a wrong type is empty, for the API server has typed it already."""
    faults: list[Malformed] = []
    metadata = read_map(raw.get("metadata"), "metadata", faults)
    target = read_map(raw.get("target"), "target", faults)
    return Binding(
        namespace=namespace or read_text(metadata.get("namespace"), "metadata.namespace", faults),
        pod_name=read_text(metadata.get("name"), "metadata.name", faults),
        pod_uid=read_text(metadata.get("uid"), "metadata.uid", faults),
        node_name=read_text(target.get("name"), "target.name", faults),
        annotations=read_text_map(metadata.get("annotations"), "metadata.annotations", faults),
    )


def read_node_labels(raw: Mapping[str, object]) -> NodeLabels:
    """Return name and labels of the Node in ``raw``; a field of a wrong type is empty."""
    faults: list[Malformed] = []
    metadata = read_map(raw.get("metadata"), "metadata", faults)
    return NodeLabels(
        name=read_text(metadata.get("name"), "metadata.name", faults),
        labels=read_text_map(metadata.get("labels"), "metadata.labels", faults),
    )


def _map(holder: Mapping[str, object], name: str, prefix: str) -> Mapping[str, object]:
    value = holder.get(name)
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise NotAReview(f"{prefix}{name}", describe(value), "a map")


def _text(holder: Mapping[str, object], name: str, prefix: str) -> str:
    value = holder.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise NotAReview(f"{prefix}{name}", describe(value), "a text")


def _object(request: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    return None if request.get(name) is None else _map(request, name, "request.")


def _object_name(raw: Mapping[str, object] | None) -> str:
    metadata = raw.get("metadata") if raw is not None else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _told(holder: Mapping[str, object], name: str) -> str:
    """Return member ``name`` in words; one that is left out is not called null."""
    return describe(holder[name]) if name in holder else "nothing"


def _operation(request: Mapping[str, object]) -> Operation:
    value = request.get("operation")
    operation = _OPERATIONS.get(value) if isinstance(value, str) else None
    if operation is None:
        raise NotAReview("request.operation", _told(request, "operation"), f"one of {', '.join(_OPERATIONS)}")
    return operation


def _groups(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise NotAReview("request.userInfo.groups", describe(value), "a list of texts")
    for index, group in enumerate(value):
        if not isinstance(group, str):
            raise NotAReview(f"request.userInfo.groups[{index}]", describe(group), "a text")
    return tuple(value)


def _flag(value: object) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise NotAReview("request.dryRun", describe(value), "true or false")
