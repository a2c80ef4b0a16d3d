"""The annotation that goes with the spec, ``cpuset-scheduler: required`` (issue 3, validate 2)."""

from collections.abc import Iterator

from webhook.core.dialect import Case
from webhook.core.findings import Finding
from webhook.core.reasons import CPUSET_KEY_MISSPELT, CPUSET_MISSING, CPUSET_OTHER_FEATURE, CPUSET_UNKNOWN_VALUE
from webhook.core.rules.repairable import repairable
from webhook.core.rules.spec import meaning
from webhook.core.spelling import annotation_path, folded, near_names, shown


def cpuset(case: Case) -> Iterator[Finding]:
    """Refuse a missing, misspelt or other ``cpuset-scheduler`` beside a mark."""
    if case.dialect.cpuset is None:
        return
    key, wanted = case.dialect.cpuset
    found = case.pod.annotations.get(key)
    misspelt = near_names(key, case.pod.annotations)
    for name in misspelt:
        yield CPUSET_KEY_MISSPELT.at(
            annotation_path(name),
            f"this annotation is not read; did you mean {shown(key)}?",
            found=name,
            wanted=key,
            next_step=f"Rename the annotation to {key}.",
        )
    path = annotation_path(key)
    if found is None:
        if not misspelt:
            yield _missing(case, path, wanted)
    elif found == "true":
        yield CPUSET_OTHER_FEATURE.at(
            path,
            '"true" asks for CPU topology-aware scheduling, which excludes NUMA topology-aware scheduling.',
            found=shown(found),
            wanted=shown(wanted),
        )
    elif found != wanted:
        hint = f"did you mean {shown(wanted)}?" if folded(found) == wanted else f"only {shown(wanted)} is known."
        yield CPUSET_UNKNOWN_VALUE.at(path, f"found {shown(found)}; {hint}", found=shown(found), wanted=shown(wanted))


def _missing(case: Case, path: str, wanted: str) -> Finding:
    problem = f"is missing; a NUMA spec needs the value {shown(wanted)} here."
    if case.spec is not None and meaning(case.spec) is not None:
        return repairable(CPUSET_MISSING, case.stage, path, problem, found="nothing", wanted=shown(wanted))
    return CPUSET_MISSING.at(path, problem, found="nothing", wanted=shown(wanted))
