"""Whole cores, request equal to limit, in every container (issue 3, validate 4; ``domain/ack-numa-scheduling.md``)."""

from collections.abc import Iterator
from typing import Final

from webhook.core.dialect import Case
from webhook.core.findings import Finding, Severity
from webhook.core.pod import Container, ContainerKind
from webhook.core.quantity import Quantity
from webhook.core.reasons import (
    CPU_LIMIT_MISSING,
    CPU_NOT_EQUAL,
    CPU_NOT_WHOLE,
    CPU_OVERHEAD_NOT_WHOLE,
    CPU_POD_LEVEL,
    CPU_REQUEST_MISSING,
)
from webhook.core.spelling import cores, shown, whole_cores

_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
"""Annotation of the API server where a LimitRange filled in what the author left out."""


def containers(case: Case) -> Iterator[Finding]:
    """Refuse a container whose CPU is absent, broken into fractions, without a limit, or unequal to its limit."""
    for container in case.pod.containers:
        if container.kind is not ContainerKind.EPHEMERAL:
            yield from _container(case, container)


def pod_level(case: Case) -> Iterator[Finding]:
    """Warn of pod-level CPU: that the scheduler pins it is not documented, and the kubelet does not.

    ``domain/kubelet-topology.md`` 1.3. It never stands in for a container's own request.
    """
    requests, limits = case.pod.pod_requests or {}, case.pod.pod_limits or {}
    found = requests.get("cpu", limits.get("cpu"))
    if found is not None:
        yield CPU_POD_LEVEL.at(
            "spec.resources",
            f"the pod as a whole asks for {cores(found)}, which {case.dialect.title} is not known to pin.",
            found=cores(found),
            wanted="CPU in each container",
        )


def overhead(case: Case) -> Iterator[Finding]:
    """Warn of an overhead (RuntimeClass) with a fraction of a core: it counts in the pod's total."""
    found = case.pod.overhead.get("cpu")
    if found is not None and not found.as_stored.is_whole:
        yield CPU_OVERHEAD_NOT_WHOLE.at(
            "spec.overhead.cpu",
            f"the overhead of {cores(found)} makes the pod's total a fraction.",
            found=cores(found),
            wanted="whole cores",
        )


def _container(case: Case, container: Container) -> Iterator[Finding]:
    request, limit = container.requests.get("cpu"), container.limits.get("cpu")
    if request is not None and limit is not None and request.nanos == limit.nanos > 0 and request.is_whole:
        return  # as nearly every container that is judged
    asked = limit if request is None else request
    path = f"{container.path}.resources.{'limits' if request is None and limit is not None else 'requests'}.cpu"
    who = f"{container.kind.value} {shown(container.name)}"
    if asked is None or asked.nanos <= 0:
        if asked is not None or not case.pod.is_partial:
            yield _absent(case, path, who, asked)
        return
    asked = asked.as_stored
    if not asked.is_whole:
        nearest = whole_cores(asked.nearest_whole())
        yield CPU_NOT_WHOLE.at(
            path,
            f"{who} asks for {cores(asked)}; only whole cores can be pinned.",
            found=cores(asked),
            wanted="whole cores",
            next_step=f"Ask for {nearest} (the nearest whole number) in request and limit.{_limit_range(case)}",
        )
    if request is None:
        return
    whole = whole_cores(asked.nearest_whole())
    limit_path = f"{container.path}.resources.limits.cpu"
    if limit is None:
        if not case.pod.is_partial:
            yield CPU_LIMIT_MISSING.at(
                limit_path,
                f"{who} asks for {cores(asked)} and has no limit; the two must be equal.",
                found="nothing",
                wanted=cores(asked),
                next_step=f"Set the limit to {whole}.",
            )
    elif limit.as_stored != asked:
        yield CPU_NOT_EQUAL.at(
            limit_path,
            f"{who} asks for {cores(asked)} with a limit of {cores(limit.as_stored)}; the two must be equal.",
            found=cores(limit.as_stored),
            wanted=cores(asked),
            next_step=f"Set both to the same whole number of cores.{_limit_range(case)}",
        )


def _absent(case: Case, path: str, who: str, asked: Quantity | None) -> Finding:
    may_be_filled = asked is None and case.stage.is_lenient
    found = "no CPU" if asked is None else cores(asked)
    tail = " unless a LimitRange fills it in" if may_be_filled else ""
    return CPU_REQUEST_MISSING.at(
        path,
        f"{who} asks for {found}, and every container needs whole cores{tail}.",
        found=found,
        wanted="1 core or more",
        severity=Severity.WARNING if may_be_filled else Severity.ERROR,
    )


def _limit_range(case: Case) -> str:
    if _LIMIT_RANGER in case.pod.annotations:
        return " A LimitRange of the namespace filled in some of the pod's resources; write request and limit yourself."
    return ""
