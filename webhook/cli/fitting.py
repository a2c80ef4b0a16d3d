"""Would these manifests fit this cluster, together, in this order: the ledger's findings for ``check --cluster``."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from webhook.cli.documents import read_documents
from webhook.cli.map import records_of
from webhook.cli.sources import Source, Unreadable
from webhook.core.capacity import finding_of
from webhook.core.capacity_rules import Mode
from webhook.core.findings import Finding
from webhook.core.ledger.ledger import Ledger
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


MOST_REPLICAS: Final = 10_000
"""Pods of one object that are placed one by one: more fit in no picture that a person writes."""


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
        pods, misses, first = _placed(ledger, islice(records, MOST_REPLICAS), picture.classes, now_seconds)
        if first is None:
            continue
        mode = Mode.DENY if first.verdict.outcome in _REFUSED else Mode.WARN
        finding = finding_of(ledger, first.pod, first.verdict, now_seconds, path=found.path or "spec", mode=mode)
        yield file, position, _of_several(finding, pods - misses, pods) if pods > 1 else finding


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


def _placed(
    ledger: Ledger, records: Iterable[PodRecord], classes: Sequence[MachineClass], now_seconds: float
) -> tuple[int, int, Answer | None]:
    """Return how many pods there are, how many find no place, and the first of those."""
    pods = misses = 0
    first: Answer | None = None
    missed: PodRecord | None = None
    for record in records:
        pods += 1
        shape = replace(record, name="")
        if shape != missed:  # what an equal pod did not find, its sister does not either: nothing has become free
            (answer,) = fits_together(ledger, [record], classes, now_seconds=now_seconds)
            if answer.fits:
                continue
            missed, first = shape, first or answer
        misses += 1
    return pods, misses, first


def _of_several(finding: Finding, fitting: int, pods: int) -> Finding:
    return replace(finding, problem=f"{fitting} of {pods} pods fit. Of the next: {finding.problem}")


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
