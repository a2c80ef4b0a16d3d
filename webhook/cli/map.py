"""``numa-admission map``: the machines of a cluster picture as text, who holds what, and where a pod would go."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import click

from webhook.cli.sources import Unreadable, read_sources
from webhook.core.capacity import unknown_because
from webhook.core.ledger.drawing import Look, Note, draw_nodes
from webhook.core.ledger.drawing_text import ASCII, UNICODE, Line, Signs, Span, Tone, shown, wrap
from webhook.core.ledger.node_notes import node_notes
from webhook.core.ledger.proofs import asked
from webhook.core.ledger.records import PodRecord
from webhook.core.ledger.verdicts import Outcome
from webhook.core.pod import Pod, Workload
from webhook.service.allocators import allocator_models
from webhook.service.picture import Answer, demo_picture, fits_together, ledger_of, load_picture
from webhook.wire.manifests import BrokenDocument, read_manifests
from webhook.wire.objects import read_objects
from webhook.wire.pictures import Picture

MOST_PODS: Final = 1000
"""Replicas of a workload beyond this are not drawn one by one."""
_NARROWEST: Final = 80
_WIDEST: Final = 120
_EXIT_DOES_NOT_FIT: Final = 1
_EXIT_USAGE: Final = 2
_EXIT_UNREADABLE: Final = 3

_OUTCOMES: Final = {
    Outcome.NEVER: "would never fit",
    Outcome.WOULD_FAIL: "would fail: a scheduler would bind it, and the kubelet refuse it for good (AdmissionError)",
    Outcome.WOULD_WAIT: "would wait, Pending",
}
_HUES: Final = ("cyan", "magenta", "blue", "yellow", "bright_cyan", "bright_magenta", "bright_blue", "bright_yellow")
_COLOURS: Final = {
    Tone.FRAME: "bright_black",
    Tone.QUIET: "bright_black",
    Tone.FREE: "bright_black",
    Tone.RESERVED: "bright_black",
    Tone.BROKEN: "red",
    Tone.ASKED: "green",
    Tone.GOOD: "green",
    Tone.BAD: "red",
}


@dataclass(frozen=True, slots=True)
class UnreadableError(Exception):
    """A file that gives no picture or no pod; ``lines`` say why."""

    lines: tuple[str, ...]


@click.command("map", short_help="Draw the machines: NUMA nodes, CPUs, GPUs and who holds them.")
@click.option(
    "--cluster",
    "cluster_files",
    metavar="FILE",
    multiple=True,
    help="A cluster picture, or a dump of nodes and pods with a file of classes; default: the demo's.",
)
@click.option("--pod", "pod_file", metavar="FILE", help="Pods or workloads: where would they go, one after another?")
@click.option("--node", "node_names", metavar="NAME", multiple=True, help="Draw this node only; may be repeated.")
@click.option("--width", type=click.IntRange(60, 400), help="Columns; default: the terminal's, from 80 to 120.")
@click.pass_context
def map_command(
    context: click.Context,
    *,
    cluster_files: tuple[str, ...],
    pod_file: str | None,
    node_names: tuple[str, ...],
    width: int | None,
) -> None:
    """Draw the machines of a cluster: NUMA nodes, CPUs, GPUs, who holds what.

    Exit code: 0 drawn (and the pods fit), 1 a pod does not fit or that cannot be told, 2 wrong usage, 3 something could
    not be read.
    """
    try:
        picture = _picture(cluster_files)
        pods = tuple(_pods(pod_file)) if pod_file is not None else ()
    except UnreadableError as error:
        for sentence in error.lines:
            click.echo(sentence, err=True)
        context.exit(_EXIT_UNREADABLE)
    known = {record.name for record in picture.nodes}
    missing = [name for name in node_names if name not in known]
    if missing:
        click.echo(f"There is no node {', '.join(missing)} in the picture.", err=True)
        context.exit(_EXIT_USAGE)
    columns = width or max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))
    drawing = draw(picture, pods, node_names or tuple(sorted(known)), columns, signs_for(sys.stdout.encoding))
    colour = False if os.environ.get("NO_COLOR") else None
    for line in drawing.lines:
        click.echo("".join(_styled(span) for span in line), color=colour)
    context.exit(0 if drawing.all_fit else _EXIT_DOES_NOT_FIT)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is printed, and whether every pod found a place."""

    lines: tuple[Line, ...]
    all_fit: bool


def draw(
    picture: Picture, pods: Iterable[PodRecord], names: Iterable[str], width_columns: int, signs: Signs
) -> Drawing:
    """Return the machines ``names`` of ``picture`` after ``pods``, and what became of each of these."""
    # A picture has no clock: it is as of now, whenever that is.
    ledger = ledger_of(picture, allocator_models(), 0.0)
    answers: list[Answer] = []
    notes: dict[str, Note] = {}
    for pod in pods:
        answers.extend(fits_together(ledger, (pod,), picture.classes, now_seconds=0.0))
        if not answers[-1].fits and not notes:
            # What speaks against the first that does not fit, as of its turn.
            notes = node_notes(ledger, answers[-1].pod, names)
    look = Look(width_columns, signs, frozenset(answer.pod.uid for answer in answers), notes)
    lines = list(draw_nodes([ledger.views[name] for name in names], look))
    lines.append((Span(_key(signs), Tone.QUIET),))
    for answer in answers:
        lines.append(())
        lines.extend(_answer(answer, width_columns, signs))
    return Drawing(tuple(lines), all(answer.fits for answer in answers))


def signs_for(encoding: str | None) -> Signs:
    """Return the signs that a terminal of ``encoding`` can show."""
    try:
        (UNICODE.corners + UNICODE.reserved + UNICODE.good + UNICODE.bad).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def _key(signs: Signs) -> str:
    return (
        f"  {signs.free} free   {signs.reserved} reserved for the system   {signs.broken} unhealthy   "
        "A holds   a not bound yet"
    )


def _answer(answer: Answer, width_columns: int, signs: Signs) -> Iterator[Line]:
    """Yield where a pod goes, or the proof that it goes nowhere."""
    name = shown(f"{answer.pod.namespace}/{answer.pod.name}", width_columns, signs)
    wants = asked(answer.pod.demand)
    if answer.fits:
        yield (Span(f"{signs.good} {name} would go to {answer.verdict.node}: {wants}.", Tone.GOOD),)
        return
    guess = " (as far as guessed places tell)" if answer.verdict.rests_on_guess else ""
    if answer.verdict.outcome is Outcome.UNKNOWN:
        words = f"{name}: whether it fits cannot be told: {unknown_because(answer.verdict.reason)}"
    else:
        words = f"{name} {_OUTCOMES[answer.verdict.outcome]}{guess}"
    for line in wrap(f"{signs.bad} {words}.", width_columns):
        yield (Span(line, Tone.BAD),)
    if answer.proof is not None:
        words = f"{answer.proof.paragraph} {answer.proof.change}".strip()
        for line in wrap(words, width_columns - 2):
            yield (Span(f"  {line}"),)


def _styled(span: Span) -> str:
    match span.tone:
        case Tone.PLAIN:
            return span.text
        case Tone.TITLE:
            return click.style(span.text, bold=True)
        case Tone.HELD:
            return click.style(span.text, fg=_HUES[span.hue % len(_HUES)])
        case Tone.ASKED:
            return click.style(span.text, fg="green", bold=True)
        case _:
            return click.style(span.text, fg=_COLOURS[span.tone])


def _picture(paths: tuple[str, ...]) -> Picture:
    """Return the picture in files, or the demo's.

    Raises:
        UnreadableError: with every fault of every file.
    """
    if not paths:
        return demo_picture()
    texts: dict[str, str] = {}
    for source in read_sources(paths):
        if isinstance(source, Unreadable):
            raise UnreadableError((f"{source.name}: {source.problem}",))
        texts[source.name] = source.text
    picture = load_picture(texts)
    if picture.faults:
        raise UnreadableError(tuple(map(str, picture.faults)))
    return picture


def _pods(path: str) -> Iterator[PodRecord]:
    """Yield the pods of a file, those of its workloads' replicas included.

    Raises:
        UnreadableError: the file, or a document of it, cannot be read, or it holds no pod.
    """
    count = 0
    for source in read_sources((path,)):
        if isinstance(source, Unreadable):
            raise UnreadableError((f"{source.name}: {source.problem}",))
        for document in read_manifests(source.text):
            if isinstance(document, BrokenDocument):
                position = document.position
                raise UnreadableError((f"{source.name}:{position.line}:{position.column}: {document.problem}",))
            for found in read_objects(document.value):
                for number, records in records_of(found.subject, found.namespace or "default", found.name):
                    count += number
                    if count > MOST_PODS:
                        at = document.locate(f"{found.path}.spec" if found.path else "spec")
                        problem = f"{count} pods to place up to here, wanted {MOST_PODS} at most, for each is drawn"
                        step = "`numa-admission check --cluster` takes more"
                        raise UnreadableError((f"{source.name}:{at.line}:{at.column}: {problem}; {step}.",))
                    yield from records
    if not count:
        raise UnreadableError((f"{path}: it holds no pod, and no workload that makes one.",))


def records_of(subject: object, namespace: str, name: str) -> Iterator[tuple[int, Iterator[PodRecord]]]:
    """Yield the pods that an object is or makes, each template's apart with their number; a DaemonSet's are one.

    The pods of one template are equal but for their names. A manifest may ask for 2^31 of them: count, then take.
    """
    match subject:
        case Pod() as pod:
            yield 1, iter((replace(PodRecord.asked(pod, namespace=namespace), name=pod.name or name or "pod"),))
        case Workload() as workload:
            for template in workload.templates:
                record = PodRecord.asked(template.pod, namespace=namespace)
                number = 1 if template.replicas is None else template.replicas
                yield number, _replicas(replace(record, owner=f"{workload.kind}/{name}"), name, number)
        case _:
            return


def _replicas(record: PodRecord, name: str, number: int) -> Iterator[PodRecord]:
    return (replace(record, name=f"{name}-{ordinal}") for ordinal in range(number))
