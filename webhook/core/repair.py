"""What mutate repairs, and what it restores on UPDATE: only what the author plainly meant, never a guess.

Every repair is empty the second time: each asks first whether its result is already there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from webhook.core.decisions import Edit, RequireNodeLabel, SetAnnotation
from webhook.core.dialect import Case, Stage
from webhook.core.findings import Family
from webhook.core.judge import cases_of
from webhook.core.modes import Mode, Rules
from webhook.core.node_selection import contradicts_label, demands_label
from webhook.core.pod import NumaSpec, Pod
from webhook.core.rules.node import DAEMON_SET
from webhook.core.rules.spec import meaning, spec_in
from webhook.core.spelling import near_names


@dataclass(frozen=True, slots=True)
class Repair:
    """One edit with what the user and the audit log are told."""

    edit: Edit
    family: Family
    warning: str
    """One line."""
    audit_key: str
    audit_value: str


def repairs_on_create(pod: Pod, rules: Rules, namespace: str = "") -> tuple[Repair, ...]:
    """Return the repairs of a pod that is being created; families that are off in ``namespace`` are left alone."""
    found = (repair for case in cases_of(pod, rules, Stage.CREATE) for repair in _repairs(case))
    return _switched_on(found, rules, namespace or pod.namespace)


def repairs_on_update(old: Pod, new: Pod, rules: Rules, namespace: str = "") -> tuple[Repair, ...]:
    """Return the repairs that give ``new`` back what ``old`` had, so that one file can be applied twice.

    That is: a text that means the same as the old, exact one; a carried or added annotation that the file does not
    have; our expression in the affinity, which the API server would not let go.
    """
    found = (repair for case in cases_of(new, rules, Stage.UPDATE) for repair in _restorations(case, old))
    return _switched_on(found, rules, namespace or new.namespace)


_AFFINITY_PARENTS = frozenset(
    {
        "spec",
        "spec.affinity",
        "spec.affinity.nodeAffinity",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
    }
)
"""Where one of these is no map (or list) there is nothing that an expression could be added to; validate says so."""


def _switched_on(repairs: Iterator[Repair], rules: Rules, namespace: str) -> tuple[Repair, ...]:
    return tuple(repair for repair in repairs if rules.modes.mode(repair.family, namespace) is not Mode.OFF)


def _repairs(case: Case) -> Iterator[Repair]:
    yield from _annotations(case)
    if (
        case.dialect.node_label is not None
        and not any(fault.path in _AFFINITY_PARENTS for fault in case.pod.malformed)
        and case.is_exactly_marked
        and not case.pod.node_name  # the kubelet checks affinity again: a bound pod would be refused there
        and case.pod.owner_kind != DAEMON_SET  # its pods are tied to a node each
    ):
        key, value = case.dialect.node_label
        if not demands_label(case.pod, key, (value,)) and not contradicts_label(case.pod, key, value):
            yield _node_label(case, "added")


def _annotations(case: Case) -> Iterator[Repair]:
    """Yield the repairs of annotations: compact text, the right home, the companion."""
    dialect = case.dialect
    home, older = case.home, case.older
    if home is not None and home.is_repairable and home.compact is not None:
        yield Repair(
            SetAnnotation(dialect.home, home.compact),
            Family.SPEC,
            f"{dialect.home}: made valid JSON (took out trailing commas or comments).",
            f"{dialect.name}-repaired-spec",
            home.compact,
        )
    carried = _carried(case, older)
    if carried is not None:
        yield Repair(
            SetAnnotation(dialect.home, carried),
            Family.SPEC,
            f"{dialect.home}: added, carried over from {dialect.older_home}.",
            f"{dialect.name}-carried-spec",
            carried,
        )
    if (
        dialect.cpuset is not None
        and case.spec is not None
        and meaning(case.spec) is not None
        and dialect.cpuset[0] not in case.pod.annotations
        and not near_names(dialect.cpuset[0], case.pod.annotations)
    ):
        key, value = dialect.cpuset
        yield Repair(
            SetAnnotation(key, value),
            Family.SPEC,
            f"{key}: {value} added, which goes with {dialect.home}.",
            f"{dialect.name}-added-{key}",
            value,
        )


def _carried(case: Case, older: NumaSpec | None) -> str | None:
    """Return the text to carry to the home, or None where the home is there or nearly, or the older text is faulty."""
    if older is None or case.home is not None or case.near_homes or meaning(older) is None:
        return None
    return older.compact


def _restorations(case: Case, old: Pod) -> Iterator[Repair]:
    companion = case.dialect.cpuset[0] if case.dialect.cpuset is not None else ""
    for repair in _annotations(case):
        if isinstance(repair.edit, SetAnnotation):
            if repair.edit.key == companion and old.node_name:
                # Taking it off a scheduled pod changes what was asked for: validate refuses that, in words.
                continue
            had = _had(case, repair.edit, old)
            if had is not None:
                yield replace(repair, edit=replace(repair.edit, value=had), audit_value=had)
    if case.dialect.node_label is not None and case.is_exactly_marked:
        key, value = case.dialect.node_label
        by_affinity = replace(old, node_selector={})
        if demands_label(by_affinity, key, (value,)) and not demands_label(case.pod, key, (value,)):
            yield _node_label(case, "kept")


def _had(case: Case, edit: SetAnnotation, old: Pod) -> str | None:
    """Return the old text of the annotation where it says what ``edit`` would say, else None."""
    text = old.annotations.get(edit.key)
    if text is None or edit.key != case.dialect.home:
        return text if text == edit.value else None
    before = spec_in(old.numa_specs, edit.key)
    if before is None or case.spec is None or not before.is_exact:
        return None
    return text if meaning(before) == meaning(case.spec) else None


def _node_label(case: Case, verb: str) -> Repair:
    key, value = case.dialect.node_label or ("", "")
    return Repair(
        RequireNodeLabel(key, (value,)),
        Family.NODE,
        f"spec.affinity: {verb} the demand for nodes with {key}={value}.",
        f"{case.dialect.name}-required-node-label",
        f"{key}={value}",
    )
