"""The NUMA spec annotation: its form (issue 3, validate 1) and its homes (validate 3)."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from webhook.core.dialect import Case
from webhook.core.findings import Finding, Severity
from webhook.core.pod import NumaSpec, SpecProblem
from webhook.core.reasons import (
    EXCLUSIVE_UNKNOWN,
    POLICY_MISSING,
    POLICY_UNKNOWN,
    SPEC_DIALECTS_DIFFER,
    SPEC_HOME_MISSPELT,
    SPEC_HOME_OLDER,
    SPEC_HOMES_DIFFER,
    SPEC_KEY_MISSPELT,
    SPEC_KEY_TWICE,
    SPEC_KEY_UNKNOWN,
    SPEC_NOT_JSON,
    SPEC_NOT_OBJECT,
    SPEC_REPAIRABLE_JSON,
    SPEC_TOO_DEEP,
    SPEC_TOO_LONG,
    SPEC_VALUE_NULL,
    SPEC_VALUE_TYPE,
    Reason,
)
from webhook.core.rules.repairable import repairable
from webhook.core.spelling import annotation_path, shown

POLICY_KEY: Final = "numaTopologyPolicy"
_DEFAULT_EXCLUSIVE: Final = "Required"
"""What an absent ``singleNUMANodeExclusive`` means beside a policy (``domain/koordinator-ack.md`` 1.2)."""

Meaning = tuple[str, str]
"""Policy and exclusive, defaults filled in: two spellings of one spec have one meaning."""


def meaning(spec: NumaSpec) -> Meaning | None:
    """Return what ``spec`` asks for, or None where its text has a fault that cannot be repaired."""
    if not (spec.is_exact or spec.is_repairable):
        return None
    policy = spec.policy or ""
    return policy, spec.exclusive or (_DEFAULT_EXCLUSIVE if policy else "")


def text(case: Case) -> Iterator[Finding]:
    """Refuse each fault in the text of the spec; warn of those in the older home where the home is there too.

    Whether the scheduler still reads the older home is not verified (``domain/koordinator-ack.md`` 3.1).
    """
    if case.home is not None:
        for problem in case.home.problems:
            yield _SAYS[problem.kind](case, case.home, problem)
    if case.older is not None:
        for problem in case.older.problems:
            finding = _SAYS[problem.kind](case, case.older, problem)
            yield finding if case.home is None else finding.as_warning()


def homes(case: Case) -> Iterator[Finding]:
    """Refuse near misses of the annotation key, and two homes that differ in meaning."""
    for key in case.near_homes:
        yield SPEC_HOME_MISSPELT.at(
            annotation_path(key),
            f"{case.dialect.title} does not read this annotation; did you mean {shown(case.dialect.home)}?",
            found=key,
            wanted=case.dialect.home,
            next_step=f"Rename the annotation to {case.dialect.home}.",
        )
    if case.home is None:
        return
    if case.older is not None and _differ(case.home, case.older):
        yield SPEC_HOMES_DIFFER.at(
            annotation_path(case.older.key),
            f"asks for {_said(case.older)}, and {case.home.key} asks for {_said(case.home)}.",
            found=_said(case.older),
            wanted=_said(case.home),
        )
    yield from _other_dialects(case, case.home)


def older_home(case: Case) -> Iterator[Finding]:
    """Report a spec that stands in the older home only; mutate carries it over, unless a near miss is there as well."""
    if case.older is None or case.home is not None or case.near_homes or meaning(case.older) is None:
        return
    yield repairable(
        SPEC_HOME_OLDER,
        case.stage,
        annotation_path(case.older.key),
        f"holds the NUMA policy, which belongs in {case.dialect.home}.",
        found=case.older.key,
        wanted=case.dialect.home,
    )


def spec_in(specs: tuple[NumaSpec, ...], key: str) -> NumaSpec | None:
    """Return the spec that stands in the annotation ``key``."""
    for spec in specs:
        if spec.key == key:
            return spec
    return None


def _other_dialects(case: Case, home: NumaSpec) -> Iterator[Finding]:
    """Warn of another dialect's spec with another meaning: whether a scheduler reads both is not verified."""
    for other in case.beside:
        theirs = spec_in(case.pod.numa_specs, other.home)
        # Said once for a pair: by the dialect whose name comes first.
        if theirs is not None and case.dialect.name < other.name and _differ(home, theirs):
            yield SPEC_DIALECTS_DIFFER.at(
                annotation_path(theirs.key),
                f"asks for {_said(theirs)}, and {home.key} asks for {_said(home)}.",
                found=_said(theirs),
                wanted=_said(home),
            )


def _differ(left: NumaSpec, right: NumaSpec) -> bool:
    meanings = meaning(left), meaning(right)
    return None not in meanings and meanings[0] != meanings[1]


def _said(spec: NumaSpec) -> str:
    policy, exclusive = meaning(spec) or ("", "")
    return f"{policy or 'no policy'} with {exclusive}" if exclusive else policy or "no policy"


_Saying = Callable[[Case, NumaSpec, SpecProblem], Finding]


def _plainly(reason: Reason, sentence: str) -> _Saying:
    """Return a saying that fills ``found``, ``wanted`` and ``key`` into ``sentence``."""

    def say(_case: Case, spec: NumaSpec, problem: SpecProblem) -> Finding:
        return reason.at(
            annotation_path(spec.key),
            sentence.format(found=problem.found, wanted=problem.wanted, key=problem.key),
            found=problem.found,
            wanted=problem.wanted,
        )

    return say


def _repairable_json(case: Case, spec: NumaSpec, problem: SpecProblem) -> Finding:
    # Mutate carries the older home over or leaves it as it is: another feature's keys stand in it.
    if spec is case.older and (case.home is not None or case.near_homes):
        return _plainly(SPEC_REPAIRABLE_JSON, "the JSON has {found}.")(case, spec, problem)
    return repairable(
        SPEC_REPAIRABLE_JSON,
        case.stage,
        annotation_path(spec.key),
        f"the JSON has {problem.found}.",
        found=problem.found,
        wanted=problem.wanted,
    )


def _near_key(_case: Case, spec: NumaSpec, problem: SpecProblem) -> Finding:
    return SPEC_KEY_MISSPELT.at(
        annotation_path(spec.key),
        f"the key {problem.found} is not known; did you mean {shown(problem.wanted)}?",
        found=problem.found,
        wanted=problem.wanted,
        next_step=f"Write {shown(problem.wanted)}.",
    )


def _unknown_value(case: Case, spec: NumaSpec, problem: SpecProblem) -> Finding:
    is_policy = problem.key == POLICY_KEY
    reason = POLICY_UNKNOWN if is_policy else EXCLUSIVE_UNKNOWN
    if is_policy and problem.found == '""' and not case.dialect.requires_policy:
        return _missing_policy(case, spec, problem)
    # The parser names one value alone where it recognises what was meant.
    guess = " or " not in problem.wanted
    question = f"did you mean {shown(problem.wanted)}?" if guess else f"one of {problem.wanted} is needed."
    return reason.at(
        annotation_path(spec.key),
        f"{problem.key} has the unknown value {problem.found}; {question}",
        found=problem.found,
        wanted=problem.wanted,
    )


def _missing_policy(case: Case, spec: NumaSpec, problem: SpecProblem) -> Finding:
    return POLICY_MISSING.at(
        annotation_path(spec.key),
        f"{POLICY_KEY} is missing; one of {problem.wanted} is needed.",
        found=problem.found,
        wanted=problem.wanted,
        severity=Severity.ERROR if case.dialect.requires_policy else Severity.WARNING,
    )


def _null(case: Case, spec: NumaSpec, problem: SpecProblem) -> Finding:
    return _plainly(SPEC_VALUE_NULL, "{key} is null; one of {wanted} is needed.")(case, spec, problem)


_SAYS: Final[Mapping[str, _Saying]] = MappingProxyType(
    {
        "not_json": _plainly(SPEC_NOT_JSON, "the text is not JSON: found {found}, where {wanted} belongs."),
        "not_object": _plainly(SPEC_NOT_OBJECT, "found {found}, where {wanted} belongs."),
        "too_long": _plainly(SPEC_TOO_LONG, "the text has {found}; {wanted} are read."),
        "too_deep": _plainly(SPEC_TOO_DEEP, "the text is nested too deeply: found {found}, wanted {wanted}."),
        "repairable_json": _repairable_json,
        "near_key": _near_key,
        "foreign_key": _plainly(SPEC_KEY_UNKNOWN, "the key {found} is not known and has no effect."),
        "duplicate_key": _plainly(SPEC_KEY_TWICE, "the key {found} stands more than once."),
        "null_value": _null,
        "wrong_type": _plainly(SPEC_VALUE_TYPE, "{key} is {found}; one of the texts {wanted} is needed."),
        "unknown_value": _unknown_value,
        "missing_policy": _missing_policy,
    }
)
