"""Annotations that only a scheduler writes (issue 3, validate 8; ``domain/koordinator-ack.md`` 1.4 and 6).

They are trusted: who presets one chooses CPUs and cards, or hides what the pod holds.
"""

from collections.abc import Collection, Iterator
from typing import Final

from webhook.core.dialect import Case, Dialect, Stage
from webhook.core.findings import Finding, Severity
from webhook.core.plain_text import plain
from webhook.core.pod import Pod
from webhook.core.reasons import RESULT_CHANGED, RESULT_PRESET
from webhook.core.spelling import annotation_path, shown

_NOTHING: Final = "nothing"


def preset(case: Case) -> Iterator[Finding]:
    """Refuse a result before the pod has been scheduled; on UPDATE ``changed`` speaks."""
    if case.stage is Stage.UPDATE:
        return
    for key in case.dialect.result_keys:
        if key in case.pod.annotations:
            yield RESULT_PRESET.at(
                annotation_path(key),
                "only the scheduler writes this annotation, and it is trusted by whoever reads it.",
                found=shown(case.pod.annotations[key]),
                wanted="no such annotation",
            )


def changed(dialect: Dialect, old: Pod, new: Pod, username: str, writers: Collection[str]) -> Iterator[Finding]:
    """Report each result annotation that an UPDATE adds, changes or takes away.

    A warning while ``writers`` (exact user names) is empty, for nobody has said who the scheduler is; then an error,
    but for the writers.
    """
    if username in writers:
        return
    for key in dialect.result_keys:
        before, after = old.annotations.get(key), new.annotations.get(key)
        if before != after:
            yield RESULT_CHANGED.at(
                annotation_path(key),
                f"{plain(username) or 'somebody'} changed what only the scheduler writes.",
                found=_NOTHING if after is None else shown(after),
                wanted=_NOTHING if before is None else shown(before),
                severity=Severity.ERROR if writers else Severity.WARNING,
            )
