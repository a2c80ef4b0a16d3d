"""What the checker finds: manifests in, a report out."""

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from webhook.cli.documents import read_documents
from webhook.cli.near_kinds import misspelt_kind
from webhook.cli.sources import Source, Unreadable
from webhook.core.dialect import Stage
from webhook.core.file_reasons import FIELD_TWICE
from webhook.core.findings import Finding, Severity
from webhook.core.judge import carries_mark, judge_node, judge_pod, judge_workload
from webhook.core.modes import Rules
from webhook.core.pod import NodeLabels, Pod, Workload
from webhook.core.reasons import FIELD_UNREADABLE
from webhook.wire.manifests import BrokenDocument, Document, Position
from webhook.wire.objects import FoundObject, read_objects
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS

_ANNOTATIONS: Final = "metadata.annotations"
_START: Final = Position(1, 1)


class Exit(enum.IntEnum):
    """What ``check`` ends with."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    UNREADABLE = 3
    """Something could not be read, and nobody knows what it holds: this wins over findings."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report: a finding with its place, or something that cannot be read (then ``finding`` is None)."""

    file: str
    position: Position
    finding: Finding | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found, in the order of files and lines."""

    lines: tuple[Line, ...]
    objects: int = 0
    judged: int = 0
    """Objects that carry a mark, or Nodes: the others are none of our business."""
    foreign: int = 0
    """Documents of folders that were passed over: they have no kind."""
    templates: tuple[tuple[str, str], ...] = ()
    """Helm templates of folders, which were passed over: each with its chart, empty where there is none."""
    unused_patterns: tuple[str, ...] = ()
    """Patterns of ``--ignore`` that took nothing."""
    links_to_folders: int = 0
    """Links in folders that were not followed."""

    def count(self, severity: Severity) -> int:
        """Return the number of findings of ``severity``."""
        return sum(1 for line in self.lines if line.finding is not None and line.finding.severity is severity)

    @property
    def unreadable(self) -> int:
        """The number of files and documents that cannot be read."""
        return sum(1 for line in self.lines if line.finding is None)

    def exit_code(self, fail_on: Severity) -> Exit:
        """Return what the command ends with; ``fail_on`` WARNING counts warnings as well."""
        if self.unreadable:
            return Exit.UNREADABLE
        failing = self.count(Severity.ERROR) + (self.count(Severity.WARNING) if fail_on is Severity.WARNING else 0)
        return Exit.FINDINGS if failing else Exit.CLEAN


def check_sources(sources: Iterable[Source | Unreadable], rules: Rules, kinds: KindTable = STANDARD_KINDS) -> Report:
    """Return the report on ``sources``; a named source without any document is reported as unreadable."""
    lines: list[Line] = []
    templates: list[tuple[str, str]] = []
    objects = judged = foreign = 0
    for source in sources:
        if isinstance(source, Unreadable):
            lines.append(Line(source.name, _START, None, source.problem))
            continue
        reading = read_documents(source)
        foreign += reading.foreign
        if reading.is_template:
            templates.append((source.name, source.chart))
        of_file: list[Line] = []
        for document in reading.documents:
            if isinstance(document, BrokenDocument):
                of_file.append(Line(source.name, document.position, None, document.problem))
                continue
            for found in read_objects(document.value, kinds):
                if not found.kind:
                    problem = "This is no Kubernetes object: it has no kind."
                    of_file.append(Line(source.name, document.locate(found.path), None, problem))
                    continue
                objects += 1
                is_ours, findings = _judge(found, rules)
                if is_ours:
                    judged += 1
                    findings = [*findings, *_repeated(document, found.path)]
                else:
                    findings = [*findings, *misspelt_kind(found, kinds, rules.vocabulary)]
                of_file.extend(
                    Line(source.name, document.locate(finding.path), finding)
                    for finding in (finding.under(found.path) for finding in findings)
                )
        if not reading.documents and not source.is_walked:
            of_file.append(Line(source.name, _START, None, "It holds no document."))
        lines.extend(sorted(of_file, key=lambda line: (line.position.line, line.position.column)))
    return Report(tuple(lines), objects, judged, foreign, tuple(templates))


def _judge(found: FoundObject, rules: Rules) -> tuple[bool, list[Finding]]:
    """Return whether the rules judge the object, and what is wrong with it; paths from the object's root."""
    match found.subject:
        case Pod() as pod:
            findings = judge_pod(pod, rules, stage=Stage.FILE, namespace=found.namespace)
            return carries_mark(pod, rules.vocabulary), [*findings, *_unreadable_annotations(pod, findings)]
        case Workload() as workload:
            of_workload = list(judge_workload(workload, rules, stage=Stage.FILE, namespace=found.namespace))
            for template in workload.templates:
                unreadable = _unreadable_annotations(template.pod, of_workload)
                of_workload.extend(finding.moved_to(template.locate(finding.path)) for finding in unreadable)
            return any(carries_mark(template.pod, rules.vocabulary) for template in workload.templates), of_workload
        case NodeLabels() as node:
            return True, list(judge_node(node, rules))
        case _:
            return False, []


def _unreadable_annotations(pod: Pod, known: Iterable[Finding]) -> Iterator[Finding]:
    """Yield annotations that are no texts, as an unquoted ``true``: the API server refuses the object."""
    if any(finding.code == FIELD_UNREADABLE.code for finding in known):
        return
    for fault in pod.malformed:
        if fault.path.startswith(_ANNOTATIONS):
            problem = f"found {fault.found}, where {fault.wanted} belongs."
            yield FIELD_UNREADABLE.at(fault.path, problem, found=fault.found, wanted=fault.wanted)


def _repeated(document: Document, prefix: str) -> Iterator[Finding]:
    for path, _ in document.repeated:
        below = path[len(prefix) :]
        if path.startswith(prefix) and (not prefix or below.startswith((".", "["))):
            below = below.removeprefix(".")
            yield FIELD_TWICE.at(below, "the field stands twice here.", found="two values", wanted="one")
