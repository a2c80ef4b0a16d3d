"""Whether the kubelet would pin CPUs for a pod with GPUs (issue 4): nobody else tells its author.

``domain/kubelet-topology.md`` 1.3: exclusive CPUs need the static CPU manager, QoS class Guaranteed, and a whole number
of cores in the container. Everything else runs on the shared pool, silently.
"""

from collections.abc import Iterator
from typing import Final

from webhook.core.demand import QosClass
from webhook.core.effective import demand_of
from webhook.core.findings import Finding
from webhook.core.pod import Container, ContainerKind, Pod
from webhook.core.quantity import NANOS_PER_MILLI, Quantity
from webhook.core.reasons import CPU_NOT_PINNED
from webhook.core.spelling import cores, shown

_QOS_RESOURCES: Final = ("cpu", "memory")


def pinning_findings(pod: Pod, gpus: tuple[str, ...], *, static_nodes: int, eligible_nodes: int) -> tuple[Finding, ...]:
    """Return a warning for each container with GPUs that would run on shared CPUs; empty where there is none to give.

    Args:
        pod: judged as stored or as in a template; absent requests are filled in from the limits.
        gpus: the resources that count GPUs, such as ``KUBELET.gpus``.
        static_nodes: how many of the eligible nodes have CPU manager policy ``static``; none: nothing is said, for
            no change to the pod would help.
        eligible_nodes: how many nodes the pod can go to, for the sentence.
    """
    if static_nodes <= 0:
        return ()
    return tuple(_findings(pod, gpus, f"{static_nodes} of {eligible_nodes} nodes that it can go to"))


def _findings(pod: Pod, gpus: tuple[str, ...], where: str) -> Iterator[Finding]:
    demand = demand_of(pod)
    by_name = {container.name: container for container in pod.containers}
    for asked in demand.containers:
        if not any(count > 0 for resource, count in asked.devices if resource in gpus):
            continue
        container = by_name[asked.name]
        who = f"{container.kind.value} {shown(container.name)}"
        if demand.exclusive_cpus(asked) > 0:
            continue
        if demand.has_pod_level_resources:
            path, why, step = "spec.resources", "the pod has pod-level resources", "Take the pod-level resources out."
        elif demand.qos is not QosClass.GUARANTEED:
            path, why, step = _not_guaranteed(pod, demand.qos)
        else:
            amount = Quantity(asked.cpu_millicores * NANOS_PER_MILLI)
            path, why = f"{container.path}.resources.requests.cpu", f"it asks for {cores(amount)}"
            step = f"Ask for {max(1, amount.nearest_whole())} in request and limit."
        yield CPU_NOT_PINNED.at(
            path,
            f"{who} has GPUs, but its CPUs would not be pinned on {where}: {why}.",
            found=why,
            wanted="QoS class Guaranteed and whole cores",
            next_step=step,
        )


def _not_guaranteed(pod: Pod, qos: QosClass) -> tuple[str, str, str]:
    """Return path, reason and next step of the first container that keeps the pod from QoS class Guaranteed."""
    for container in pod.containers:
        if container.kind is ContainerKind.EPHEMERAL:
            continue
        for resource in _QOS_RESOURCES:
            fault = _fault(container, resource)
            if fault:
                who = f"{container.kind.value} {shown(container.name)}"
                return (
                    f"{container.path}.resources.limits.{resource}",
                    f"the pod is {qos.value}, for {who} {fault}",
                    f"Set the {resource} limit of {who} equal to its request.",
                )
    return "spec.containers", f"the pod is {qos.value}", CPU_NOT_PINNED.next_step


def _fault(container: Container, resource: str) -> str:
    limit = container.limits.get(resource)
    if limit is None or limit.is_zero:
        return f"has no {resource} limit"
    if container.effective_requests[resource].as_stored != limit.as_stored:
        return f"has a {resource} request that differs from its limit"
    return ""
