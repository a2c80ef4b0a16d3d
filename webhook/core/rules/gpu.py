"""Whole cards under the dialect's resource name, and no other GPU mode beside (issue 3, validate 5)."""

from collections.abc import Iterator

from webhook.core.dialect import Case
from webhook.core.findings import Finding
from webhook.core.pod import Container, ContainerKind
from webhook.core.quantity import Quantity
from webhook.core.reasons import GPU_MISSING, GPU_MIXED, GPU_NOT_EQUAL, GPU_NOT_WHOLE, GPU_OTHER_RESOURCE
from webhook.core.spelling import figure, shown


def cards(case: Case) -> Iterator[Finding]:
    """Refuse fractions of a card, and a request that differs from its limit or has none."""
    for container in _askers(case):
        for resource in case.dialect.gpus:
            yield from _cards_of(container, resource)


def resource_names(case: Case) -> Iterator[Finding]:
    """Refuse GPUs under a name of another mode, and, where the dialect is for GPUs only, a pod without any."""
    asked = {resource for container in _askers(case) for resource in _resources_of(container)}
    own = not asked.isdisjoint(case.dialect.gpus)
    owned_beside = {resource for other in case.beside for resource in other.gpus}
    foreign = [
        (container, resource)
        for container in (() if asked.isdisjoint(case.dialect.foreign_gpus) else _askers(case))
        for resource in case.dialect.foreign_gpus
        if resource not in owned_beside and resource in _resources_of(container)
    ]
    for container, resource in foreign:
        path = f"{container.path}.resources.limits[{shown(resource)}]"
        who = f"{container.kind.value} {shown(container.name)}"
        if own:
            yield GPU_MIXED.at(
                path,
                f"{who} asks for {resource} in a pod that asks for {case.dialect.gpu}; no node offers both.",
                found=resource,
                wanted=case.dialect.gpu,
                next_step=f"Keep {case.dialect.gpu} only.",
            )
        else:
            yield GPU_OTHER_RESOURCE.at(
                path,
                f"{who} asks for {resource}, which {case.dialect.title} does not place by NUMA node.",
                found=resource,
                wanted=case.dialect.gpu,
                next_step=f"Use {case.dialect.gpu} instead, in whole cards.",
            )
    if case.dialect.requires_gpu and not own and not foreign and not case.pod.is_partial:
        yield GPU_MISSING.at(
            "spec.containers",
            f"no container asks for {case.dialect.gpu}; CPUs and GPUs are only placed together.",
            found="no GPU",
            wanted=case.dialect.gpu,
            next_step=f"Ask for {case.dialect.gpu} in at least one container, or take the NUMA annotations out.",
        )


def _askers(case: Case) -> Iterator[Container]:
    return (container for container in case.pod.containers if container.kind is not ContainerKind.EPHEMERAL)


def _resources_of(container: Container) -> set[str]:
    """Return the resources of which the container asks for more than nothing, by request or limit."""
    return {
        resource
        for resources in (container.requests, container.limits)
        for resource, amount in resources.items()
        if amount.nanos > 0
    }


def _cards_of(container: Container, resource: str) -> Iterator[Finding]:
    request, limit = container.requests.get(resource), container.limits.get(resource)
    asked = limit if request is None else request
    if asked is None:
        return
    if request is not None and limit is not None and request.nanos == limit.nanos and request.is_whole:
        return  # as nearly every container that is judged
    who = f"{container.kind.value} {shown(container.name)}"
    named = f"[{shown(resource)}]"
    if not asked.as_stored.is_whole:
        field = "limits" if request is None else "requests"
        yield GPU_NOT_WHOLE.at(
            f"{container.path}.resources.{field}{named}",
            f"{who} asks for {_of_cards(asked)}; only whole cards are given.",
            found=figure(asked),
            wanted="whole cards",
            next_step=f"Ask for {asked.nearest_whole()}.",
        )
    if request is not None and (limit is None or limit.as_stored != request.as_stored):
        yield GPU_NOT_EQUAL.at(
            f"{container.path}.resources.limits{named}",
            f"{who} asks for {_of_cards(request)} with {_limit(limit)}; the two must be equal.",
            found="nothing" if limit is None else figure(limit),
            wanted=figure(request),
        )


def _limit(limit: Quantity | None) -> str:
    return "no limit" if limit is None else f"a limit of {_of_cards(limit)}"


def _of_cards(amount: Quantity) -> str:
    return "1 card" if figure(amount) == "1" else f"{figure(amount)} cards"
