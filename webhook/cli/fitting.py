"""Would these manifests fit this cluster, together, in this order: the ledger's findings for ``check --cluster``."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from webhook.cli.documents import read_documents
from webhook.cli.map import records_of
from webhook.cli.sources import Source, Unreadable
from webhook.core.capacity import finding_of
from webhook.core.capacity_rules import Mode
from webhook.core.findings import Finding
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.reasons import CAPACITY_UNKNOWN
from webhook.core.ledger.records import PodRecord
from webhook.core.ledger.verdicts import MachineClass, Outcome
from webhook.service.allocators import allocator_models
from webhook.service.picture import Answer, fits_together, ledger_of, load_picture
from webhook.wire.manifests import BrokenDocument, Position
from webhook.wire.objects import FoundObject, read_objects
from webhook.wire.pictures import Picture, PictureFault
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS

_START: Final = Position(1, 1)
_REFUSED = frozenset({Outcome.NEVER, Outcome.WOULD_FAIL})

MOST_PLACED: Final = 10_000
"""Pods of one object that are given places: each costs a search, and a manifest may ask for 2^31."""


class PictureError(Exception):
    """The cluster picture cannot be used; ``faults`` says where, and what is wrong in one sentence."""

    def __init__(self, faults: Iterable[tuple[Position, str]]) -> None:
        """Keep the faults."""
        self.faults = tuple(faults)
        super().__init__("\n".join(problem for _, problem in self.faults))


def fit_findings(
    cluster_file: str, sources: Iterable[Source | Unreadable], kinds: KindTable = STANDARD_KINDS
) -> Iterator[tuple[str, Position, Finding]]:
    """Yield (file, position, finding) for each object of which a pod finds no place after those before it.

    Raises:
        PictureError: the file cannot be read, or has faults.
    """
    picture = _picture(cluster_file)
    now_seconds = time.time()
    ledger = ledger_of(picture, allocator_models(), now_seconds)
    for file, position, found in _objects(sources, kinds):
        records = records_of(found.subject, found.namespace or "default", found.name)
        placed = _place(ledger, records, picture.classes, now_seconds)
        finding = _finding(ledger, placed, found.path or "spec", now_seconds)
        if finding is not None:
            yield file, position, finding


def _picture(cluster_file: str) -> Picture:
    try:
        text = Path(cluster_file).read_text(encoding="utf-8")
    except OSError as error:
        raise PictureError([(_START, f"It cannot be read: {error.strerror or error}.")]) from error
    except UnicodeDecodeError as error:
        raise PictureError([(_START, f"It is not UTF-8: byte {error.start} cannot be read.")]) from error
    picture = load_picture(text, cluster_file)
    if picture.faults:
        raise PictureError([(fault.position, _sentence(fault)) for fault in picture.faults])
    return picture


def _sentence(fault: PictureFault) -> str:
    """Return the fault without its place, which the report's line has."""
    return str(fault).removeprefix(f"{fault.file}:{fault.position.line}:{fault.position.column}:").strip()


@dataclass(frozen=True, slots=True)
class _Placed:
    """What became of the pods of one object."""

    pods: int
    fitting: int
    untried: int
    """Of templates whose first pods took all the places that are given to one object."""
    first_miss: Answer | None


def _place(
    ledger: Ledger,
    templates: Iterable[tuple[int, Iterable[PodRecord]]],
    classes: Sequence[MachineClass],
    now_seconds: float,
) -> _Placed:
    """Give the pods of one object their places, each template's until one finds none; none has become free then."""
    pods = fitting = untried = 0
    first: Answer | None = None
    for number, records in templates:
        pods += number
        for ordinal, record in enumerate(records):
            if fitting == MOST_PLACED:
                untried += number - ordinal
                break
            (answer,) = fits_together(ledger, [record], classes, now_seconds=now_seconds)
            if not answer.fits:
                first = first or answer
                break
            fitting += 1
    return _Placed(pods, fitting, untried, first)


def _finding(ledger: Ledger, placed: _Placed, path: str, now_seconds: float) -> Finding | None:
    """Return what is to be said of the pods of one object; None where all have places."""
    of_all = f"{placed.fitting} of {placed.pods} pods fit"
    if placed.untried:
        of_all += f", and {placed.untried} were not tried"
    first = placed.first_miss
    if first is None:
        step = "Look whether so many are meant."
        untried = CAPACITY_UNKNOWN.at(path, f"{of_all}.", found=str(placed.pods), next_step=step)
        return untried if placed.untried else None
    mode = Mode.DENY if first.verdict.outcome in _REFUSED else Mode.WARN
    finding = finding_of(ledger, first.pod, first.verdict, now_seconds, path=path, mode=mode)
    if placed.pods == 1:
        return finding
    return replace(finding, problem=f"{of_all}. Of the next: {finding.problem}")


def _objects(sources: Iterable[Source | Unreadable], kinds: KindTable) -> Iterator[tuple[str, Position, FoundObject]]:
    for source in sources:
        if isinstance(source, Unreadable):
            continue
        for document in read_documents(source).documents:
            if isinstance(document, BrokenDocument):
                continue
            for found in read_objects(document.value, kinds):
                spec = f"{found.path}.spec" if found.path else "spec"
                yield source.name, document.locate(spec), found
