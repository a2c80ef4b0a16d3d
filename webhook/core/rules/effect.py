"""What is written but has no effect (issue 3, validate 9): warnings only."""

from collections.abc import Iterator

from webhook.core.dialect import Case
from webhook.core.findings import Finding
from webhook.core.plain_text import plain
from webhook.core.reasons import (
    CPUSET_WITHOUT_SPEC,
    EXCLUSIVE_NOT_ENFORCED,
    EXCLUSIVE_WITHOUT_POLICY,
    SCHEDULER_UNKNOWN,
)
from webhook.core.rules.spec import POLICY_KEY
from webhook.core.spelling import annotation_path, one_of


def exclusive(case: Case) -> Iterator[Finding]:
    """Warn of an exclusive value without a policy, and of one that the policy does not enforce.

    ``domain/koordinator-ack.md`` 2.1 (4) and 2.4, vector D06: BestEffort never rejects for exclusivity.
    """
    spec = case.spec
    if spec is None or spec.exclusive is None:
        return
    if spec.policy is None:
        if not any(problem.key == POLICY_KEY and problem.kind != "missing_policy" for problem in spec.problems):
            yield EXCLUSIVE_WITHOUT_POLICY.at(
                annotation_path(spec.key),
                f"singleNUMANodeExclusive: {spec.exclusive} has no effect without a policy.",
                found=spec.exclusive,
                wanted=POLICY_KEY,
            )
    elif spec.policy == "BestEffort" and spec.exclusive == "Required":
        yield EXCLUSIVE_NOT_ENFORCED.at(
            annotation_path(spec.key),
            "BestEffort never waits for an exclusive NUMA node, so Required has no effect.",
            found="BestEffort with Required",
            wanted="SingleNUMANode or Restricted",
        )


def cpuset_alone(case: Case) -> Iterator[Finding]:
    """Warn of ``cpuset-scheduler: required`` without any spec."""
    if case.dialect.cpuset is None or case.spec is not None or case.near_homes:
        return
    key, value = case.dialect.cpuset
    home = annotation_path(case.dialect.home)
    if any(fault.path == home for fault in case.pod.malformed):
        return
    if case.pod.annotations.get(key) == value:
        yield CPUSET_WITHOUT_SPEC.at(
            annotation_path(key),
            f"{value} has no effect without the annotation {case.dialect.home}.",
            found="no NUMA spec",
            wanted=case.dialect.home,
            next_step=f'Add {case.dialect.home}, such as {{"numaTopologyPolicy":"SingleNUMANode"}}, or take {key} out.',
        )


def scheduler(case: Case) -> Iterator[Finding]:
    """Warn of a scheduler that is not known to read the spec; an empty name is ``default-scheduler``.

    What it would do is not documented, so it is said and not refused; the ledger answers ``unknown`` for such a pod.
    """
    name = case.pod.scheduler_name or "default-scheduler"
    if case.dialect.schedulers and name not in case.dialect.schedulers:
        known = one_of(case.dialect.schedulers)
        yield SCHEDULER_UNKNOWN.at(
            "spec.schedulerName",
            f"{plain(name)} is not known to read the NUMA spec of {case.dialect.title}; {known} is.",
            found=plain(name),
            wanted=known,
            next_step=f"Set schedulerName to {known}, or name this scheduler in the settings.",
        )
