"""What an UPDATE may change (issue 3, validate 10): judged by what changed, and by meaning, not by spelling."""

from collections.abc import Iterator

from webhook.core.changes import changes_results, concerns_rules
from webhook.core.dialect import Case, Dialect, Stage
from webhook.core.findings import Family, Finding
from webhook.core.judge import case_findings, cases_of, pod_findings
from webhook.core.marks import speaks_of_a_policy
from webhook.core.modes import Rules
from webhook.core.pod import NumaSpec, Pod
from webhook.core.reasons import UPDATE_SCHEDULED
from webhook.core.rules.repairable import SPELLING_ONLY
from webhook.core.rules.result import changed
from webhook.core.rules.spec import meaning, spec_in
from webhook.core.spelling import annotation_path, shown

_RESIZABLE = frozenset({Family.CPU, Family.GPU, Family.EFFECT})
"""What a resize can break; all else is the old pod's (kubernetes/kubernetes:pkg/registry/core/pod/strategy.go)."""


def update_findings(old: Pod, new: Pod, rules: Rules, username: str) -> Iterator[Finding]:
    """Yield what is wrong with the change from ``old`` to ``new``; nothing for what was wrong before.

    1. The pod has its node: adding, changing or removing what our annotations mean is refused.
    2. A finding that the old pod had as well (same code, place and found) is none of this change.
    3. A spec that was respelt so that mutate would repair it says the same: nothing on a scheduled pod, a warning
       before, because the scheduler reads the stored text.
    4. Result annotations have their own writers.
    """
    vocabulary = rules.vocabulary
    if new.is_mirror or not (concerns_rules(old, new, vocabulary) or changes_results(old, new, vocabulary)):
        return
    scheduled = bool(old.node_name or new.node_name)
    after = cases_of(new, rules, Stage.UPDATE)
    dialects = {case.dialect.name: case.dialect for case in (*cases_of(old, rules, Stage.UPDATE), *after)}
    respelt = {
        annotation_path(key)
        for dialect in dialects.values()
        for key in dialect.homes
        if effective_meaning(old, dialect) == effective_meaning(new, dialect)
    }
    refused = set()
    for dialect in dialects.values():
        for finding in _moved(dialect, old, new) if scheduled else ():
            refused.add(finding.path)
            yield finding
        yield from changed(dialect, old, new, username, rules.result_writers)
    for finding in _fresh(old, rules, new, after):
        if finding.path in refused:  # whatever else is wrong with it, it may not change at all
            continue
        if finding.code in SPELLING_ONLY and finding.path in respelt:
            if not scheduled:
                yield finding.as_warning()
        else:
            yield finding


def resize_findings(old: Pod, new: Pod, rules: Rules) -> Iterator[Finding]:
    """Yield what a resize makes wrong with the CPUs of a pod that was right before."""
    for finding in _fresh(old, rules, new, cases_of(new, rules, Stage.UPDATE)):
        if finding.family in _RESIZABLE:
            yield finding


def effective_meaning(pod: Pod, dialect: Dialect) -> object:
    """Return what the pod's spec asks for: policy and exclusive; the text where it cannot be read; None without any."""
    spec = _effective(pod, dialect)
    return None if spec is None else meaning(spec) or spec.text


def _effective(pod: Pod, dialect: Dialect) -> NumaSpec | None:
    home = spec_in(pod.numa_specs, dialect.home)
    if home is not None:
        return home
    older = spec_in(pod.numa_specs, dialect.older_home)
    return older if older is not None and speaks_of_a_policy(older.text) else None


def _fresh(old: Pod, rules: Rules, new: Pod, after: tuple[Case, ...]) -> Iterator[Finding]:
    """Yield the findings of ``new`` that ``old`` did not have."""
    found = tuple(case_findings(new, after))
    if not found:  # as most updates: then nobody asks what the old pod had
        return
    before = {(finding.code, finding.path, finding.found) for finding in pod_findings(old, rules, Stage.UPDATE)}
    for finding in found:
        if (finding.code, finding.path, finding.found) not in before:
            yield finding


def _moved(dialect: Dialect, old: Pod, new: Pod) -> Iterator[Finding]:
    """Yield a refusal for each of the dialect's annotations that means something else on a scheduled pod."""
    if effective_meaning(old, dialect) != effective_meaning(new, dialect):
        before, after = _effective(old, dialect), _effective(new, dialect)
        spec = after or before
        key = dialect.home if spec is None else spec.key
        yield _refusal(key, None if before is None else before.text, None if after is None else after.text)
    if dialect.cpuset is not None:
        key = dialect.cpuset[0]
        was, becomes = old.annotations.get(key), new.annotations.get(key)
        if was != becomes:
            yield _refusal(key, was, becomes)


def _refusal(key: str, before: str | None, after: str | None) -> Finding:
    found = "nothing" if after is None else shown(after)
    wanted = "nothing" if before is None else shown(before)
    if before is None:
        what = f"was added as {found}"
    elif after is None:
        what = f"was taken away; it was {wanted}"
    else:
        what = f"was changed from {wanted} to {found}"
    return UPDATE_SCHEDULED.at(
        annotation_path(key), f"the annotation {what}, and the pod already has its node.", found=found, wanted=wanted
    )
