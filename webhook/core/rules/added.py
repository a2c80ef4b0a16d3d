"""Containers that an operator adds to the pods of a template: nobody else tells the template's author of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from webhook.core.dialect import Case
from webhook.core.findings import Family, Finding, Severity
from webhook.core.pod import Container, PodTemplate
from webhook.core.quantity import Quantity
from webhook.core.reasons import CPU_ADDED_CONTAINER
from webhook.core.spelling import cores, shown


def added_containers(template: PodTemplate, cases: Iterable[Case]) -> Iterator[Finding]:
    """Warn of each added container for which the pods would be refused, once.

    One that the template holds itself is its author's, and judged as such.
    """
    own = {container.name for container in template.pod.containers}
    for case in cases:
        for container in template.added:
            if container.name not in own and _is_refused(case, container):
                amount = container.requests.get("cpu", Quantity(0))
                yield CPU_ADDED_CONTAINER.at(
                    container.path,
                    f"unless it is told otherwise, the operator adds {container.kind.value} {shown(container.name)} "
                    f"with {cores(amount)} to each of these pods, and with it they are refused.",
                    found=cores(amount),
                    wanted="whole cores",
                )


def _is_refused(case: Case, container: Container) -> bool:
    alone = replace(case, pod=replace(case.pod, containers=(container,)))
    found = (finding for rule in case.dialect.rules for finding in rule(alone))
    return any(
        finding.family is Family.CPU
        and finding.severity is Severity.ERROR
        and finding.path.startswith(f"{container.path}.")
        for finding in found
    )
