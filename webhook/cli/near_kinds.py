"""Kinds that are none, but nearly: an object that was meant to be judged must not go by in silence."""

import difflib
from collections.abc import Iterator
from typing import Final

from webhook.core.file_reasons import KIND_MISSPELT
from webhook.core.findings import Finding
from webhook.core.marks import Vocabulary
from webhook.core.spelling import folded, one_of, shown
from webhook.wire.objects import FoundObject
from webhook.wire.workload_kinds import KindTable

_CUTOFF: Final = 0.85
"""One slip in a word of seven letters is near; ``JobSet`` is not near ``Job``."""
_CORE_KINDS: Final = ("Pod", "Node")
"""Judged without a row in the table; their group is empty."""


def misspelt_kind(found: FoundObject, kinds: KindTable, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Yield the warning on an object of no known kind whose kind is a near miss of one, and in which marks stand.

    A kind of a group that no known kind has is somebody's own, whatever its name. Across groups only Kubernetes' own
    kinds are meant (their groups have no dot): ``Service`` of v1 is no slip for the one of Knative.
    """
    known = [*(("", kind) for kind in _CORE_KINDS), *kinds]
    if found.subject is not None or found.group not in {group for group, _ in known}:
        return
    near = sorted((group, kind) for group, kind in known if _is_near(found.kind, kind))
    meant = [(group, kind) for group, kind in near if group == found.group or "." not in group]
    here = [(group, kind) for group, kind in meant if group == found.group]
    if meant and _holds_marks(found.raw, vocabulary):
        names = [f"{kind} of {group}" if group else f"{kind} of v1" for group, kind in here or meant]
        of_group = f" of {shown(found.group)}" if found.group else ""
        problem = (
            f"the kind {shown(found.kind)}{of_group} is not known, so it was not judged; did you mean {one_of(names)}?"
        )
        yield KIND_MISSPELT.at("kind", problem, found=shown(found.kind), wanted=one_of(names))


def _is_near(written: str, kind: str) -> bool:
    is_same = folded(written).removesuffix("s") == folded(kind).removesuffix("s")
    return is_same or bool(difflib.get_close_matches(written, [kind], n=1, cutoff=_CUTOFF))


def _holds_marks(raw: object, vocabulary: Vocabulary) -> bool:
    """Return whether annotations at any depth carry a mark; a manifest's depth is bounded, but not the stack's."""
    waiting = [raw]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            annotations = value.get("annotations")
            if isinstance(annotations, dict) and vocabulary.carries_mark(annotations):
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False
