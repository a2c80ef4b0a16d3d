"""``numa-admission check``: the webhooks' own rules on files, for people and pipelines."""

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import click

from webhook.cli.sources import STDIN_NAME, Source, Unreadable, read_sources
from webhook.core.dialect import Stage
from webhook.core.file_reasons import FIELD_TWICE
from webhook.core.findings import Finding, Severity
from webhook.core.judge import carries_mark, judge_node, judge_pod, judge_workload
from webhook.core.modes import Rules
from webhook.core.pod import NodeLabels, Pod, Workload
from webhook.core.reasons import FIELD_UNREADABLE
from webhook.wire.manifests import BrokenDocument, Document, Position, read_manifests
from webhook.wire.objects import FoundObject, read_objects
from webhook.wire.plain_text import plain
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS

MOST_NAME_CHARACTERS: Final = 4096
"""Linux's longest path (PATH_MAX)."""
_ANNOTATIONS: Final = "metadata.annotations"


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

    def __str__(self) -> str:
        """Return ``file:line:column: severity: sentence [code]``."""
        place = f"{plain(self.file, MOST_NAME_CHARACTERS)}:{self.position.line}:{self.position.column}"
        if self.finding is None:
            return f"{place}: error: {self.problem} [UNREADABLE]"
        return f"{place}: {self.finding.severity.value}: {plain(str(self.finding), 4000)}"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found, in the order of files and lines."""

    lines: tuple[Line, ...]
    objects: int
    judged: int
    """Objects that carry a mark, or Nodes: the others are none of our business."""

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
    """Return the report on ``sources``; a source without any document is reported as unreadable."""
    lines: list[Line] = []
    objects = judged = 0
    for source in sources:
        if isinstance(source, Unreadable):
            lines.append(Line(source.name, Position(1, 1), None, source.problem))
            continue
        found_any = False
        of_file: list[Line] = []
        for document in read_manifests(source.text):
            found_any = True
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
                of_file.extend(
                    Line(source.name, document.locate(finding.path), finding)
                    for finding in (finding.under(found.path) for finding in findings)
                )
        if not found_any:
            of_file.append(Line(source.name, Position(1, 1), None, "It holds no document."))
        lines.extend(sorted(of_file, key=lambda line: (line.position.line, line.position.column)))
    return Report(tuple(lines), objects, judged)


def _judge(found: FoundObject, rules: Rules) -> tuple[bool, list[Finding]]:
    """Return whether the rules judge the object, and what is wrong with it; paths from the object's root."""
    match found.subject:
        case Pod() as pod:
            findings = judge_pod(pod, rules, stage=Stage.FILE, namespace=found.namespace)
            return carries_mark(pod, rules), [*findings, *_unreadable_annotations(pod, findings)]
        case Workload() as workload:
            of_workload = list(judge_workload(workload, rules, stage=Stage.FILE, namespace=found.namespace))
            for template in workload.templates:
                unreadable = _unreadable_annotations(template.pod, of_workload)
                of_workload.extend(finding.moved_to(template.locate(finding.path)) for finding in unreadable)
            return any(carries_mark(template.pod, rules) for template in workload.templates), of_workload
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


def summary(report: Report) -> str:
    """Return the report's totals in one line."""
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    parts = [_counted(errors, "error"), _counted(warnings, "warning")]
    if report.unreadable:
        parts.append(f"{report.unreadable} unreadable")
    judged = f"{_counted(report.objects, 'object')} read, {report.judged} of them judged"
    return f"{', '.join(parts)}; {judged}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@click.command("check", short_help="Check manifests by the webhooks' own rules.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...|-")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="What makes the exit code 1.",
)
@click.option("--stdin-name", default=STDIN_NAME, show_default=True, help="Name to print for standard input.")
@click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    help="The server's settings file: its modes and kinds count here too.",
)
@click.option(
    "--cluster",
    "cluster_file",
    metavar="FILE",
    help="A cluster picture: say whether the pods would fit, together, in order.",
)
@click.pass_context
def check(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    fail_on: str,
    stdin_name: str,
    settings_file: str | None,
    cluster_file: str | None,
) -> None:
    """Check YAML and JSON manifests: files, folders, or - for standard input.

    Exit code: 0 clean, 1 findings, 2 wrong usage, 3 something could not be read.
    """
    rules, kinds = _of_settings(settings_file) if settings_file is not None else (Rules(), STANDARD_KINDS)
    sources = list(read_sources(paths, stdin_name))
    report = check_sources(sources, rules, kinds)
    if cluster_file is not None:
        report = replace(report, lines=(*report.lines, *_misfits(cluster_file, sources, kinds)))
    for line in report.lines:
        click.echo(str(line))
    click.echo(summary(report), err=True)
    context.exit(report.exit_code(Severity(fail_on)))


def _of_settings(settings_file: str) -> tuple[Rules, KindTable]:
    """Return the rules that a server with these settings would judge by, and the kinds that it would know."""
    from pathlib import Path  # noqa: PLC0415 - check alone starts without these

    from webhook.service.settings_file import read_settings  # noqa: PLC0415 - as above
    from webhook.service.start import StartError  # noqa: PLC0415 - as above
    from webhook.service.wiring import kinds_of, rules_of  # noqa: PLC0415 - as above

    try:
        settings = read_settings(Path(settings_file))
    except StartError as error:
        raise click.BadParameter(str(error), param_hint="--settings") from error
    return rules_of(settings), kinds_of(settings)


def _misfits(cluster_file: str, sources: Iterable[Source | Unreadable], kinds: KindTable) -> Iterator[Line]:
    from webhook.cli.fitting import PictureError, fit_findings  # noqa: PLC0415 - check alone starts without the ledger

    try:
        for file, position, finding in fit_findings(cluster_file, sources, kinds):
            yield Line(file, position, finding)
    except PictureError as error:
        for position, problem in error.faults:
            yield Line(cluster_file, position, None, problem)
