"""A report of the checker in words, as JSON, as SARIF and as annotations of GitHub Actions."""

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from webhook.cli.check_report import Line, Report
from webhook.cli.sarif import sarif_log, uri_of
from webhook.core.file_reasons import UNREADABLE
from webhook.core.findings import Severity
from webhook.core.plain_text import plain
from webhook.core.spelling import counted, shown

MOST_NAME_CHARACTERS: Final = 4096
"""Linux's longest path (PATH_MAX)."""
_MOST_CHARACTERS: Final = 4000


def line_text(line: Line) -> str:
    """Return ``file:line:column: severity: sentence [code]``."""
    place = f"{plain(line.file, MOST_NAME_CHARACTERS)}:{line.position.line}:{line.position.column}"
    if line.finding is None:
        return f"{place}: error: {line.problem} [{UNREADABLE.code}]"
    return f"{place}: {line.finding.severity.value}: {plain(str(line.finding), _MOST_CHARACTERS)}"


def as_text(report: Report) -> str:
    """Return one line for each finding."""
    return "\n".join(map(line_text, report.lines))


def as_json(report: Report) -> str:
    """Return everything as one JSON object."""
    findings = [
        {
            "file": line.file,
            "line": line.position.line,
            "column": line.position.column,
            "code": line.finding.code,
            "family": line.finding.family.value,
            "severity": line.finding.severity.value,
            "path": line.finding.path,
            "message": line.finding.sentence,
        }
        for line in report.lines
        if line.finding is not None
    ]
    unreadable = [
        {"file": line.file, "line": line.position.line, "column": line.position.column, "message": line.problem}
        for line in report.lines
        if line.finding is None
    ]
    totals = {
        "objects": report.objects,
        "judged": report.judged,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "unreadable": report.unreadable,
        "documentsWithoutKind": report.foreign,
    }
    templates = [file for file, _ in report.templates]
    whole = {"totals": totals, "findings": findings, "unreadable": unreadable, "templates": templates}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def as_sarif(report: Report) -> str:
    """Return the findings as SARIF 2.1.0 with file, line and column; what cannot be read is a notification."""
    results = [
        {
            "ruleId": line.finding.code,
            "level": line.finding.severity.value,
            "message": {"text": line.finding.sentence},
            "locations": [_place(line)],
        }
        for line in report.lines
        if line.finding is not None
    ]
    notifications = [
        {
            "level": "error",
            "descriptor": {"id": UNREADABLE.code},
            "message": {"text": line.problem},
            "locations": [_place(line)],
        }
        for line in report.lines
        if line.finding is None
    ]
    findings = [line.finding for line in report.lines if line.finding is not None]
    return sarif_log(findings, results, notifications)


def _place(line: Line) -> dict[str, object]:
    region = {"startLine": line.position.line, "startColumn": line.position.column}
    return {"physicalLocation": {"artifactLocation": {"uri": uri_of(line.file)}, "region": region}}


def as_github(report: Report) -> str:
    """Return workflow commands of GitHub Actions, which become annotations of the changed files."""
    return "\n".join(_annotations(report))


def _annotations(report: Report) -> Iterator[str]:
    for line in report.lines:
        finding = line.finding
        level = "error" if finding is None else finding.severity.value
        code = UNREADABLE.code if finding is None else finding.code
        message = line.problem if finding is None else finding.sentence
        place = f"file={_property(line.file)},line={line.position.line},col={line.position.column}"
        yield f"::{level} {place},title={code}::{_data(plain(message, _MOST_CHARACTERS))}"


def _data(text: str) -> str:
    """Return ``text`` as the message of a workflow command: the three characters that would end it, escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return ``text`` as a property of a workflow command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: Final[Mapping[str, Callable[[Report], str]]] = MappingProxyType(
    {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}
)


def summary(report: Report) -> str:
    """Return the report's totals in one line, after a line for each pattern and place of templates that went by."""
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    parts = [counted(errors, "error"), counted(warnings, "warning")]
    if report.unreadable:
        parts.append(f"{report.unreadable} unreadable")
    read = f"{counted(report.objects, 'object')} read, {report.judged} of them judged"
    if not report.objects:
        read = "no object read, so nothing was judged"
    passed = [read]
    if report.foreign:
        passed.append(f"{counted(report.foreign, 'document')} without a kind passed over")
    if report.templates:
        passed.append(f"{counted(len(report.templates), 'Helm template')} not judged")
    if report.links_to_folders:
        passed.append(f"{counted(report.links_to_folders, 'link to a folder', 'links to folders')} not followed")
    unused = [f"--ignore {shown(pattern)} matched nothing." for pattern in report.unused_patterns]
    return "\n".join([*unused, *_template_notes(report), f"{', '.join(parts)}; {', '.join(passed)}."])


def _template_notes(report: Report) -> Iterator[str]:
    places: dict[str, int] = {}
    for file, chart in report.templates:
        places[chart or file] = places.get(chart or file, 0) + 1
    charts = {chart for _, chart in report.templates}
    for place, count in places.items():
        name = plain(place, MOST_NAME_CHARACTERS)
        what = counted(count, "Helm template") if place in charts else "a template"
        chart = name if place in charts else "CHART"
        yield f"{name}: {what}; judge what it renders: helm template {chart} | numa-admission check -"
