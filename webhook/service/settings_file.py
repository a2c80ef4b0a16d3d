"""The settings file: from bytes to ``Settings``, or every fault of it at once, each with path, found and wanted."""

import json
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from certs.regular import open_regular
from webhook.core.plain_text import plain
from webhook.core.pod import Malformed
from webhook.service.settings import CLOSING_SECONDS, Role, Settings, settings_from
from webhook.service.settings_kept import MOST_BYTES, KeptContent
from webhook.service.start import StartError
from webhook.wire.machine_classes import read_machine_classes
from webhook.wire.manifests import MOST_DEPTH, MOST_VALUES
from webhook.wire.schema_faults import MACHINE_CLASS_SCHEMA, read_by_schema, read_schema, without_nulls
from webhook.wire.shapes import describe
from webhook.wire.workload_kinds import WorkloadKind, WorkloadKindError
from webhook.wire.workload_rows import workload_kind_from

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}", re.ASCII)
"""As the schema has it: options of the command line do not pass that."""


class SettingsError(StartError):
    """The settings cannot be used; ``faults`` are sentences, ``str`` is all of them, one a line."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        """Keep every fault."""
        super().__init__("\n".join(faults))
        self.faults = faults


def read_settings(path: Path) -> Settings:
    """Return the settings in the file at ``path``, which may be a pipe: it is read once.

    Raises:
        SettingsError: with every fault at once.
    """
    return parse_settings(_content(path, None))


def read_content(path: Path) -> bytes:
    """Return what stands in the regular file at ``path``, at most a little more than settings may have.

    Raises:
        SettingsError: it cannot be read, or is no regular file, which cannot be followed.
    """
    return _content(path, open_regular)


def _content(path: Path, opener: Callable[[str, int], int] | None) -> bytes:
    try:
        with open(path, "rb", opener=opener) as stream:
            return stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise SettingsError((f"The settings file {path} cannot be read: {error.strerror or error}.",)) from error


def parse_settings(content: bytes) -> Settings:
    """Return the settings in ``content``, one YAML document; an empty one is all defaults.

    Raises:
        SettingsError: with every fault at once.
    """
    written = _load(content)
    if written is None:
        written = {}
    read, told = read_by_schema(_validator(), written)
    document: dict[str, Any] = read if isinstance(read, dict) else {}
    faults = [_sentence(fault) for fault in told]
    rows = written.get("workloads")
    workloads = tuple(_workloads(rows if isinstance(rows, list) else [], faults))
    if not faults:  # the reader of classes expects what the schema has let pass
        found: list[Malformed] = []
        classes = read_machine_classes(_raw_classes(document), "capacity.machineClasses", found)
        faults = [_sentence(fault) for fault in found]
    if faults:
        raise SettingsError(tuple(faults))
    settings = settings_from(document, workloads, classes)
    check_settings(settings)
    return settings


def is_cut_off(content: bytes) -> bool:
    """Return whether ``content`` sets nothing, and does not say so by ``{}``: its values have not been written yet.

    Raises:
        SettingsError: it is no settings document.
    """
    document = _load(content)
    return document is None or (not _has_value(document) and without_nulls(document) != document)


def _has_value(written: object) -> bool:
    return any(map(_has_value, written.values())) if isinstance(written, dict) else written is not None


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Where the settings come from."""

    path: Path
    content: bytes
    """As it was at start."""
    above: Callable[[Settings], Settings] = lambda settings: settings
    """Puts what counts more (options of the command line) above the file's settings."""
    kept: KeptContent = field(default_factory=KeptContent)
    """What was taken over since."""

    def settings(self, content: bytes) -> Settings:
        """Return the settings that a start with ``content`` in the file would have.

        Raises:
            SettingsError: with every fault at once.
        """
        settings = self.above(parse_settings(content))
        check_settings(settings)
        return settings


def read_settings_file(path: Path, above: Callable[[Settings], Settings]) -> SettingsFile:
    """Return the file at ``path`` as it is now.

    Raises:
        SettingsError: it cannot be read.
    """
    return SettingsFile(path, read_content(path), above)


def check_settings(settings: Settings) -> None:
    """Check what the schema cannot say. Also called after options of the command line have changed values.

    Raises:
        SettingsError: with every fault at once.
    """
    faults = tuple(_contradictions(settings))
    if faults:
        raise SettingsError(faults)


def _contradictions(settings: Settings) -> Iterator[str]:
    server, tls = settings.server, settings.tls
    if server.workers > 1 and server.role is not Role.RULES:
        yield (
            f"server.workers: found {server.workers} with role {server.role.value}, wanted 1, or role rules: "
            "the ledger is one process."
        )
    least = server.drain_seconds + CLOSING_SECONDS
    if server.graceful_seconds < least:
        yield (
            f"server.gracefulSeconds: found {server.graceful_seconds:g}, wanted {least:g} or more: "
            f"drainSeconds and {CLOSING_SECONDS:g}."
        )
    for name, address in (("bind", server.bind), ("probeBind", server.probe_bind)):
        if address and not _ADDRESS.fullmatch(address):
            yield f"server.{name}: found {plain(address)}, wanted HOST:PORT such as 127.0.0.1:8443 or [::1]:8443."
        elif address and int(address.rpartition(":")[2]) > 65535:
            yield f"server.{name}: found {plain(address)}, wanted a port up to 65535."
    yield from _cluster_contradictions(settings)
    if bool(tls.cert_file) != bool(tls.key_file):
        there, missing = ("certFile", "keyFile") if tls.cert_file else ("keyFile", "certFile")
        yield f"tls.{missing}: found nothing beside {there}, wanted both or neither."
    if tls.client_ca_file and not tls.cert_file:
        yield "tls.clientCaFile: found without certFile and keyFile, wanted with them."


def _cluster_contradictions(settings: Settings) -> Iterator[str]:
    cluster = settings.cluster
    if not cluster.live:
        return
    if not settings.server.role.has_ledger:
        yield f"cluster.live: found true with role {settings.server.role.value}, wanted a role with the ledger."
    if settings.capacity.picture_file:
        yield "cluster.live: found true beside capacity.pictureFile, wanted one of them."
    wants_namespace = [name for name in ("lease", "service", "checkpoint") if getattr(cluster, name)]
    if wants_namespace and not cluster.namespace:
        yield f"cluster.namespace: found nothing beside {wants_namespace[0]}, wanted where that is."
    if cluster.service and not cluster.lease:
        yield "cluster.lease: found nothing beside service, wanted the Lease that says who writes its EndpointSlice."
    if cluster.service and _unreachable(cluster.advertise or settings.server.bind):
        yield (
            f"cluster.advertise: found {plain(cluster.advertise or settings.server.bind)}, "
            "wanted IP:PORT by which the API server reaches this process."
        )


def _unreachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        return ip_address(host.strip("[]")).is_unspecified or not 0 < int(port) < 65536
    except ValueError:
        return True


def _raw_classes(document: Mapping[str, Any]) -> list[Any]:
    raw: list[Any] = document.get("capacity", {}).get("machineClasses", [])
    return raw


def _sentence(fault: Malformed) -> str:
    sentence = f"{fault.path or 'settings'}: found {fault.found}, wanted {fault.wanted}"
    return sentence if sentence.endswith("?") else f"{sentence}."


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    schema = settings_schema()
    registry: Registry[Any] = Registry().with_resource(
        MACHINE_CLASS_SCHEMA, Resource.from_contents(read_schema(MACHINE_CLASS_SCHEMA))
    )
    return Draft202012Validator(schema, registry=registry)


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings."""
    text = files("webhook.service").joinpath("settings.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _workloads(rows: list[object], faults: list[str]) -> Iterator[WorkloadKind]:
    first: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            continue  # the schema has said so
        try:
            kind = workload_kind_from(row, f"workloads[{index}]")
        except WorkloadKindError as error:
            faults.extend(str(error).splitlines())
            continue
        at = first.setdefault((kind.group, kind.kind), index)
        if at != index:  # one of the two would be left out without a word
            name = plain(".".join(part for part in (kind.kind, kind.group) if part))
            faults.append(f"workloads[{index}]: found {name} again, wanted all its templates in workloads[{at}].")
        yield kind


class _Loader(yaml.CSafeLoader):
    """YAML with texts where people mean texts: ``off`` is the mode, not false, and a key stands once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
        first: [
            (tag, form) for tag, form in rows if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
        ]
        for first, rows in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_document(self, node: yaml.Node) -> Any:  # noqa: ANN401 - a YAML document
        """Refuse what has no end, or none that anybody waits for, once its aliases are written out."""
        _check_size(node)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key that stands twice, and keys that are no texts."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="found a key that is no text", problem_mark=key_node.start_mark)
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"found the key {plain(key_node.value)} twice", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        made: dict[Hashable, Any] = {str(key): value for key, value in super().construct_mapping(node, deep).items()}
        return made


def _check_size(document: yaml.Node) -> None:
    """Raise ``yaml.MarkedYAMLError`` for an alias that contains itself, and for more than a manifest may hold."""
    values, open_nodes = 0, set[int]()

    def refuse(node: yaml.Node, problem: str) -> None:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)

    def walk(node: yaml.Node, depth: int) -> None:
        nonlocal values
        values += 1
        if values > MOST_VALUES:
            refuse(node, f"found more than {MOST_VALUES:,} values, with aliases written out")
        if depth > MOST_DEPTH:
            refuse(node, f"found more than {MOST_DEPTH} levels")
        if isinstance(node, yaml.ScalarNode):
            return
        if id(node) in open_nodes:
            refuse(node, "found an alias that contains itself")
        open_nodes.add(id(node))
        for item in node.value:
            for part in item if isinstance(item, tuple) else (item,):
                walk(part, depth + 1)
        open_nodes.discard(id(node))

    walk(document, 1)


def _finite(loader: _Loader, node: yaml.ScalarNode) -> float | str:
    """Return the number; what is none, or infinite, stays a text: no bound of a schema holds against ``.nan``."""
    number: float = loader.construct_yaml_float(node)
    return number if math.isfinite(number) else str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:float", _finite)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def _load(content: bytes) -> Any:  # noqa: ANN401 - a YAML document
    if len(content) > MOST_BYTES:
        raise SettingsError((f"The settings have more than {MOST_BYTES} bytes.",))
    try:
        documents = list(yaml.load_all(content, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(
            (f"The settings are no YAML: {place}{plain(str(error.problem or error.context))}.",)
        ) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SettingsError((f"The settings are no YAML: {plain(str(error))}.",)) from error
    if len(documents) > 1:
        raise SettingsError((f"The settings are one YAML document; found {len(documents)}.",))
    document = documents[0] if documents else None
    if document is not None and not isinstance(document, Mapping):
        raise SettingsError((f"settings: found {describe(document)}, wanted a map.",))
    return document
