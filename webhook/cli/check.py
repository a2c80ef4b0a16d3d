"""``numa-admission check``: the webhooks' own rules on files, for people and pipelines."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from webhook.cli.check_formats import FORMATS, summary
from webhook.cli.check_report import Line, check_sources
from webhook.cli.sources import STDIN_NAME, Source, Unreadable, Walk, read_sources
from webhook.core.findings import Severity
from webhook.core.modes import Rules
from webhook.wire.manifests import Position
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS

_NOTHING = "Nothing in it is a Kubernetes object, so nothing was judged."


@click.command("check", short_help="Check manifests by the webhooks' own rules.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...|-")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="What makes the exit code 1.",
)
@click.option("-o", "--output", type=click.Choice(sorted(FORMATS)), default="text", show_default=True)
@click.option(
    "--ignore",
    "ignored",
    metavar="GLOB",
    multiple=True,
    callback=lambda _context, _option, patterns: _patterns(patterns),
    help="What a folder does not give: a name of files or folders, or, with a slash, a path as it is printed or from "
    "that folder.",
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
    output: str,
    ignored: tuple[str, ...],
    stdin_name: str,
    settings_file: str | None,
    cluster_file: str | None,
) -> None:
    """Check YAML and JSON manifests: files, folders, or - for standard input.

    Of a folder, documents without a kind (values, pipelines) are passed over and counted, and Helm templates are
    passed over and named; a file that is named itself must hold Kubernetes objects.

    Exit code: 0 clean or warnings only, 1 errors (or what --fail-on says), 2 wrong usage, 3 something could not be read
    or written.
    """
    rules, kinds = _of_settings(settings_file) if settings_file is not None else (Rules(), STANDARD_KINDS)
    walk = Walk(ignored)
    sources = list(read_sources(paths, stdin_name, walk))
    report = replace(
        check_sources(sources, rules, kinds), unused_patterns=walk.unused, links_to_folders=walk.links_to_folders
    )
    if report.foreign + len(report.templates) and not report.objects + report.unreadable:
        report = replace(report, lines=(Line(", ".join(paths), Position(1, 1), None, _NOTHING),))
    if cluster_file is not None:
        report = replace(report, lines=(*report.lines, *_misfits(cluster_file, sources, kinds)))
    text = FORMATS[output](report)
    if text:
        click.echo(text)
    click.echo(summary(report), err=True)
    context.exit(report.exit_code(Severity(fail_on)))


def _patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns; an empty one is an unset variable of a pipeline, and would take nothing or everything."""
    if not all(pattern.strip("/ \t\n") for pattern in patterns):
        raise click.BadParameter("The pattern is empty.")
    return patterns


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
