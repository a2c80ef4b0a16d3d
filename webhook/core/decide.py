"""Mutate and validate: from a question to a decision. Pure, and quick for the many pods that are none of ours."""

from collections.abc import Iterator
from typing import Final

from webhook.core.decisions import Ask, Decision, Endpoint, Operation, Subject
from webhook.core.dialect import Stage
from webhook.core.findings import Finding, Severity
from webhook.core.judge import carries_mark, judge_node, judge_pod, judge_workload
from webhook.core.judged import is_judged
from webhook.core.marks import speaks_of_a_policy
from webhook.core.modes import Rules
from webhook.core.pod import Binding, NodeLabels, Pod, Workload
from webhook.core.reasons import BINDING_CARRIES_MARK, RESULT_CHANGED
from webhook.core.repair import repairs_on_create, repairs_on_update
from webhook.core.spelling import annotation_path, shown
from webhook.core.updates import resize_findings, update_findings

_ALLOWED: Final = Decision(allowed=True)
_RESIZE: Final = "resize"


def decide_mutate(ask: Ask, rules: Rules) -> Decision:
    """Return the edits that repair a pod on CREATE, or give back on UPDATE what the old object had; never a refusal."""
    pod = ask.subject
    if not isinstance(pod, Pod) or not rules.vocabulary.carries_mark(pod.annotations):
        return _ALLOWED
    if not is_judged(Endpoint.MUTATE, ask):
        return _ALLOWED
    if ask.operation is Operation.CREATE:
        repairs = repairs_on_create(pod, rules, ask.namespace)
    elif isinstance(ask.old, Pod):
        repairs = repairs_on_update(ask.old, pod, rules, ask.namespace)
    else:
        return _ALLOWED
    if not repairs:
        return _ALLOWED
    return Decision.change(
        tuple(repair.edit for repair in repairs),
        warnings=tuple(repair.warning for repair in repairs),
        audit={repair.audit_key: repair.audit_value for repair in repairs},
    )


def decide_validate(ask: Ask, rules: Rules) -> Decision:
    """Return the verdict of the stateless rules: every finding at once; allowed where none is an error."""
    subject = ask.subject
    if isinstance(subject, Pod) and not _is_marked(subject, ask.old, rules):
        return _ALLOWED
    if not is_judged(Endpoint.VALIDATE, ask):
        return _ALLOWED
    if isinstance(subject, Pod):
        return _pod(ask, subject, rules)
    if isinstance(subject, Workload):
        old = ask.old if isinstance(ask.old, Workload) else None
        return _of(judge_workload(subject, rules, old=old, namespace=ask.namespace))
    if isinstance(subject, Binding):
        return _of(rules.modes.apply(_binding(subject, rules, ask.username), ask.namespace))
    if isinstance(subject, NodeLabels):
        return _of(judge_node(subject, rules, old=ask.old if isinstance(ask.old, NodeLabels) else None))
    return _ALLOWED


def _of(findings: tuple[Finding, ...]) -> Decision:
    return Decision.of(findings) if findings else _ALLOWED


def _is_marked(pod: Pod, old: Subject | None, rules: Rules) -> bool:
    """Return whether the object or the old object carries a mark."""
    vocabulary = rules.vocabulary
    return carries_mark(pod, vocabulary) or (isinstance(old, Pod) and carries_mark(old, vocabulary))


def _pod(ask: Ask, pod: Pod, rules: Rules) -> Decision:
    old = ask.old if isinstance(ask.old, Pod) else None
    if old is None:
        return _of(judge_pod(pod, rules, stage=Stage.CREATE, namespace=ask.namespace))
    if ask.subresource == _RESIZE:
        found = resize_findings(old, pod, rules)
    else:
        found = update_findings(old, pod, rules, ask.username)
    return _of(rules.modes.apply(found, ask.namespace or pod.namespace))


def _binding(binding: Binding, rules: Rules, username: str) -> Iterator[Finding]:
    """Yield a refusal for each of our keys: the API server merges a Binding's annotations into the pod's.

    The pod's own annotations are not in the request, so an equal value cannot be told from a change.
    """
    vocabulary = rules.vocabulary
    ours = {*vocabulary.homes, *vocabulary.companions, *vocabulary.near_homes(binding.annotations)}
    ours.update(key for key in vocabulary.older_homes if speaks_of_a_policy(binding.annotations.get(key, "")))
    for key in sorted(binding.annotations):
        value = shown(binding.annotations[key])
        if key in ours:
            yield BINDING_CARRIES_MARK.at(
                annotation_path(key),
                f"the Binding would write {value} into the annotations of pod {shown(binding.pod_name)}.",
                found=value,
                wanted="no such annotation",
            )
        elif key in vocabulary.results and username not in rules.result_writers:
            yield RESULT_CHANGED.at(
                annotation_path(key),
                "the Binding would write what only the scheduler writes.",
                found=value,
                wanted="no such annotation",
                severity=Severity.ERROR if rules.result_writers else Severity.WARNING,
            )
