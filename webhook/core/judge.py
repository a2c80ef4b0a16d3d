"""Every finding of a pod, a workload or a node: what validate and ``check`` say of it."""

from collections.abc import Iterator, Mapping
from itertools import chain

from webhook.core.dialect import Case, Stage
from webhook.core.findings import Finding
from webhook.core.marks import Vocabulary, marked, speaks_of_a_policy
from webhook.core.modes import Rules
from webhook.core.pod import NodeLabels, Pod, PodTemplate, Workload
from webhook.core.reasons import FIELD_UNREADABLE
from webhook.core.rules.added import added_containers
from webhook.core.rules.node_labels import unknown_policies
from webhook.core.rules.spec import spec_in
from webhook.core.spelling import annotation_path


def judge_pod(pod: Pod, rules: Rules, *, stage: Stage = Stage.CREATE, namespace: str = "") -> tuple[Finding, ...]:
    """Return everything that is wrong with ``pod``, weighed by the modes of ``namespace`` (else the pod's own).

    A pod without a mark has no findings, nor has a mirror pod: the kubelet runs that anyway, and takes a forged one
    (a mirror of no static pod) out again.
    """
    return rules.modes.apply(pod_findings(pod, rules, stage), namespace or pod.namespace)


def judge_workload(
    workload: Workload,
    rules: Rules,
    *,
    old: Workload | None = None,
    stage: Stage = Stage.TEMPLATE,
    namespace: str = "",
) -> tuple[Finding, ...]:
    """Return everything that is wrong with the templates of ``workload`` that differ from those of ``old``.

    What the rules read of a template counts: a template that differs only in an image is the same. Of one that differs
    only in metadata which is the object's own, what is new is said.
    """
    found: list[Finding] = []
    for template, was in workload.paired_with(old):
        if was is None or was.pod != template.pod:
            here = _template_findings(template, rules, stage)
            if was is not None and template.makes_the_pods_of(was):
                had = {_identity(finding) for finding in _template_findings(was, rules, stage)}
                here = [finding for finding in here if _identity(finding) not in had]
            found.extend(here)
    if workload.malformed and any(carries_mark(template.pod, rules.vocabulary) for template in workload.templates):
        known = {fault.path for fault in old.malformed} if old is not None else set()
        found.extend(
            FIELD_UNREADABLE.at(
                fault.path,
                f"found {fault.found}, where {fault.wanted} belongs.",
                found=fault.found,
                wanted=fault.wanted,
            )
            for fault in workload.malformed
            if fault.path not in known
        )
    return rules.modes.apply(found, namespace or workload.namespace)


def _template_findings(template: PodTemplate, rules: Rules, stage: Stage) -> list[Finding]:
    cases = cases_of(template.pod, rules, stage)
    return [
        finding.moved_to(template.locate(finding.path))
        for finding in chain(case_findings(template.pod, cases), added_containers(template, cases))
    ]


def _identity(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.path, finding.found


def judge_node(node: NodeLabels, rules: Rules, *, old: NodeLabels | None = None) -> tuple[Finding, ...]:
    """Return a warning for each label of the policy family with an unknown value that ``old`` did not have."""
    known = set(unknown_policies(old.labels, rules.dialects)) if old is not None else set()
    return rules.modes.apply(
        (finding for finding in unknown_policies(node.labels, rules.dialects) if finding not in known), ""
    )


def pod_findings(pod: Pod, rules: Rules, stage: Stage) -> Iterator[Finding]:
    """Yield the findings of every dialect whose mark ``pod`` carries, before any mode is applied."""
    return case_findings(pod, cases_of(pod, rules, stage))


def case_findings(pod: Pod, cases: tuple[Case, ...]) -> Iterator[Finding]:
    """Yield the findings of ``pod``, whose ``cases`` are made already.

    Of a field that cannot be read, only that is said: what a rule makes of its absence would mislead.
    """
    for case in cases:
        found = chain.from_iterable(rule(case) for rule in case.dialect.rules)
        if not pod.malformed:
            yield from found
            continue
        unreadable = {fault.path for fault in pod.malformed}
        for finding in found:
            if finding.path not in unreadable or finding.code == FIELD_UNREADABLE.code:
                yield finding


def carries_mark(pod: Pod, vocabulary: Vocabulary) -> bool:
    """Return whether the rules look at ``pod`` at all (``webhook.core.marks``)."""
    return vocabulary.carries_mark(annotations_of(pod, vocabulary))


def annotations_of(pod: Pod, vocabulary: Vocabulary) -> Mapping[str, str]:
    """Return the pod's annotations for the search of marks: a home whose value is no text counts as an empty one.

    In a file, or in the template of a custom resource, the spec is easily written as a map.
    """
    if not pod.malformed:
        return pod.annotations
    unreadable = {fault.path for fault in pod.malformed}
    return {**dict.fromkeys(_unread_homes(vocabulary, unreadable), ""), **pod.annotations}


def _unread_homes(vocabulary: Vocabulary, unreadable: set[str]) -> Iterator[str]:
    return (home for home in vocabulary.homes if annotation_path(home) in unreadable)


def cases_of(pod: Pod, rules: Rules, stage: Stage) -> tuple[Case, ...]:
    """Return ``pod`` before each dialect whose mark it carries; empty for mirror pods and pods without a mark."""
    if pod.is_mirror:
        return ()
    found = marked(annotations_of(pod, rules.vocabulary), rules.vocabulary)
    return tuple(
        Case(
            pod=pod,
            dialect=mark.dialect,
            stage=stage,
            near_homes=mark.near_homes,
            home=spec_in(pod.numa_specs, mark.dialect.home),
            older=(
                spec_in(pod.numa_specs, mark.dialect.older_home)
                if speaks_of_a_policy(pod.annotations.get(mark.dialect.older_home, ""))
                else None
            ),
            beside=tuple(other.dialect for other in found if other is not mark),
        )
        for mark in found
    )
