"""Would these manifests fit this cluster, together, in this order: the ledger's findings for ``check --cluster``."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from webhook.cli.map import records_of
from webhook.cli.sources import Source, Unreadable
from webhook.core.capacity import finding_of
from webhook.core.capacity_rules import Mode
from webhook.core.findings import Finding
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.records import AllocatorKind
from webhook.core.ledger.verdicts import Outcome
from webhook.service.picture import fits_together, ledger_of, load_picture
from webhook.wire.manifests import BrokenDocument, Position, read_manifests
from webhook.wire.objects import FoundObject, read_objects

_REFUSED = frozenset({Outcome.NEVER, Outcome.WOULD_FAIL})


class PictureError(Exception):
    """The cluster picture cannot be used; ``str`` is every fault, one a line."""


def fit_findings(cluster_file: str, sources: Iterable[Source | Unreadable]) -> Iterator[tuple[str, Position, Finding]]:
    """Yield (file, position, finding) for each object of which a pod finds no place after those before it.

    Raises:
        PictureError: the file cannot be read, or has faults.
    """
    try:
        text = Path(cluster_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PictureError(f"{cluster_file}: it cannot be read: {getattr(error, 'strerror', error)}.") from error
    picture = load_picture(text, cluster_file)
    if picture.faults:
        raise PictureError("\n".join(map(str, picture.faults)))
    now_seconds = time.time()
    ledger = ledger_of(picture, {AllocatorKind.KUBELET: KubeletAllocator()}, now_seconds)
    for file, position, found in _objects(sources):
        pods = list(records_of(found.subject, found.namespace or "default", found.name))
        answers = fits_together(ledger, pods, picture.classes, now_seconds=now_seconds)
        misses = [answer for answer in answers if not answer.fits]
        if not misses:
            continue
        first = misses[0]
        mode = Mode.DENY if first.verdict.outcome in _REFUSED else Mode.WARN
        finding = finding_of(ledger, first.pod, first.verdict, now_seconds, path=found.path or "spec", mode=mode)
        if len(pods) > 1:
            finding = _of_several(finding, len(pods) - len(misses), len(pods))
        yield file, position, finding


def _of_several(finding: Finding, fitting: int, pods: int) -> Finding:
    return replace(finding, problem=f"{fitting} of {pods} pods fit. Of the next: {finding.problem}")


def _objects(sources: Iterable[Source | Unreadable]) -> Iterator[tuple[str, Position, FoundObject]]:
    for source in sources:
        if isinstance(source, Unreadable):
            continue
        for document in read_manifests(source.text):
            if isinstance(document, BrokenDocument):
                continue
            for found in read_objects(document.value):
                spec = f"{found.path}.spec" if found.path else "spec"
                yield source.name, document.locate(spec), found
