"""What a pod really asks for: defaults filled in, QoS class, and each container's cores, devices and memory.

Sources, all of 1.37: ``SetDefaults_Pod`` and ``SetDefaults_ResourceList``
(kubernetes/kubernetes:pkg/apis/core/v1/defaults.go), ``DefaultPodLevelResources`` (pkg/api/pod/util.go),
``ComputePodQOS`` (pkg/apis/core/v1/helper/qos/qos.go), ``PodRequests``
(kubernetes/component-helpers:resource/helpers.go). ``tests/core/test_against_kubernetes.py`` compares.

A pod as a validating webhook sees it has its defaults already; a template and a pod at a mutating webhook have not.
Filling them in twice changes nothing, so it is always done.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from webhook.core.cpu_binding import binding_of
from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.pod import Container, ContainerKind, Pod, ResourceList

CPU: Final = "cpu"
MEMORY: Final = "memory"
_HUGEPAGES: Final = "hugepages-"
_QOS_RESOURCES: Final = (CPU, MEMORY)

_Thousandths = dict[str, int]
"""Amounts per resource in thousandths: the API server rounds each of them up to that (``Quantity.as_stored``), so sums
of thousandths are exact."""


def demand_of(pod: Pod) -> PodDemand:
    """Return what ``pod`` asks of an allocator and of a scheduler.

    CPU comes from the requests, a limit standing in for an absent one; devices come from the limits, as the kubelet
    counts them, and where a template has only a request from that; a device count of 0 is kept.
    ``totals`` follow the scheduler: apps plus sidecars, or the most that an init container needs beside the sidecars
    before it, whichever is more; pod-level CPU, memory and huge pages replace that; then the overhead comes on top.
    The NUMA policy is that of the first annotation which states an exact one.
    """
    members: list[ContainerDemand] = []
    requests: list[tuple[ContainerKind, _Thousandths]] = []
    qos: QosClass | None = None
    for container in pod.containers:
        if container.kind is ContainerKind.EPHEMERAL:
            continue
        limits = _thousandths(container.limits)
        effective = limits if container.requests == container.limits else {**limits, **_thousandths(container.requests)}
        requests.append((container.kind, effective))
        members.append(_container_demand(container, effective, limits))
        qos = _common(qos, _qos_of(effective, limits))
    totals = _aggregate(requests)
    pod_level = _pod_level_requests(pod, totals)
    if pod_level is not None:
        qos = _qos_of(pod_level, _pod_level_limits(pod, pod_level))
        totals.update(pod_level)
    for resource, quantity in pod.overhead.items():
        totals[resource] = totals.get(resource, 0) + quantity.millicores
    spec = next((spec for spec in pod.numa_specs if spec.policy is not None), None)
    return PodDemand(
        qos=qos or QosClass.BEST_EFFORT,
        containers=tuple(members),
        has_pod_level_resources=pod_level is not None,
        has_resource_claims=pod.has_resource_claims or any(container.claims for container in pod.containers),
        numa_policy=(spec.policy or "") if spec else "",
        numa_exclusive=(spec.exclusive or "") if spec else "",
        cpu_binding=binding_of(pod),
        totals={name: amount if name == CPU else _whole(amount) for name, amount in totals.items()},
    )


def is_device(resource: str) -> bool:
    """Return whether a resource is an extended one, such as a device plugin offers.

    It has a domain that is not Kubernetes' own (``IsExtendedResourceName`` in
    kubernetes/kubernetes:pkg/apis/core/v1/helper/helpers.go; the name's form is not looked at).
    """
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def _container_demand(container: Container, effective: _Thousandths, limits: _Thousandths) -> ContainerDemand:
    devices = [(name, _whole(amount)) for name, amount in limits.items() if is_device(name)]
    memory = []
    for name, amount in effective.items():
        if name == MEMORY or name.startswith(_HUGEPAGES):
            memory.append((name, _whole(amount)))
        elif name not in limits and is_device(name):  # in a template only: the API server wants the limit
            devices.append((name, _whole(amount)))
    return ContainerDemand(
        name=container.name,
        kind=container.kind,
        cpu_millicores=effective.get(CPU, 0),
        devices=tuple(sorted(devices)),
        memory_bytes=tuple(sorted(memory)),
    )


def _aggregate(members: Iterable[tuple[ContainerKind, _Thousandths]]) -> _Thousandths:
    """Return what all containers need at the worst moment; ``members`` in the order of ``Pod.containers``.

    ``InitContainerUse(i)`` = the sidecars before i, plus i; the pod needs the most of those and of all that run on.
    """
    running: _Thousandths = {}
    sidecars: _Thousandths = {}
    starting: _Thousandths = {}
    for kind, amounts in members:
        if kind is ContainerKind.INIT:
            # A resource that only the sidecars ask for is in `running` anyway, and so never decided here.
            for resource, amount in amounts.items():
                needed = amount + sidecars.get(resource, 0)
                if needed > starting.get(resource, 0):
                    starting[resource] = needed
                running.setdefault(resource, 0)
            continue
        for resource, amount in amounts.items():
            running[resource] = running.get(resource, 0) + amount
            if kind is ContainerKind.SIDECAR:
                sidecars[resource] = sidecars.get(resource, 0) + amount
    for resource, amount in starting.items():
        running[resource] = max(running[resource], amount)
    return running


def _pod_level_requests(pod: Pod, containers: _Thousandths) -> _Thousandths | None:
    """Return the pod-level requests with their defaults, in thousandths; None where pod level says nothing.

    An absent CPU or memory request becomes the containers' own total, and only where they have none the pod's limit;
    huge pages become the pod's limit, which in turn becomes the containers' total.
    """
    if not pod.pod_requests and not pod.pod_limits:
        return None
    requests = {name: amount for name, amount in _thousandths(pod.pod_requests or {}).items() if _is_pod_level(name)}
    limits = {name: amount for name, amount in _thousandths(pod.pod_limits or {}).items() if _is_pod_level(name)}
    if not requests and not limits:
        return None
    for resource in _QOS_RESOURCES:
        if resource in containers:
            requests.setdefault(resource, containers[resource])
    for resource, amount in _container_limits(pod).items():
        if resource.startswith(_HUGEPAGES) and resource not in requests:
            limits.setdefault(resource, amount)
    for resource, amount in limits.items():
        requests.setdefault(resource, amount)
    return requests


def _pod_level_limits(pod: Pod, requests: _Thousandths) -> _Thousandths:
    """Return the pod-level CPU and memory limits with their defaults (of 1.37), in thousandths.

    An absent limit becomes the containers' total, at least the pod's request, if every container has such a limit.
    Before 1.37 it stayed absent and the pod Burstable; no allocator sees a difference, for pod-level resources end
    exclusive CPUs in either case.
    """
    limits = _thousandths(pod.pod_limits or {})
    totals = _container_limits(pod)
    for resource in _QOS_RESOURCES:
        if resource in requests and resource not in limits and all(resource in c.limits for c in _running(pod)):
            limits[resource] = max(requests[resource], totals.get(resource, 0))
    return limits


def _container_limits(pod: Pod) -> _Thousandths:
    return _aggregate((container.kind, _thousandths(container.limits)) for container in _running(pod))


def _running(pod: Pod) -> Iterable[Container]:
    return (container for container in pod.containers if container.kind is not ContainerKind.EPHEMERAL)


def _is_pod_level(resource: str) -> bool:
    return resource in _QOS_RESOURCES or resource.startswith(_HUGEPAGES)


def _qos_of(requests: Mapping[str, int], limits: Mapping[str, int]) -> QosClass:
    """Return the class of one set of requests and limits: Guaranteed only if CPU and memory are equal and not 0."""
    cpu, memory = requests.get(CPU, 0), requests.get(MEMORY, 0)
    if cpu != limits.get(CPU, 0) or memory != limits.get(MEMORY, 0) or (cpu == 0) is not (memory == 0):
        return QosClass.BURSTABLE
    return QosClass.GUARANTEED if cpu else QosClass.BEST_EFFORT


def _common(so_far: QosClass | None, another: QosClass) -> QosClass:
    """Return the class that both have, or Burstable where they differ."""
    return another if so_far is None or so_far is another else QosClass.BURSTABLE


def _thousandths(resources: ResourceList) -> _Thousandths:
    return {name: quantity.millicores for name, quantity in resources.items()}


def _whole(thousandths: int) -> int:
    """Return the whole number that Kubernetes' ``Value()`` rounds up to."""
    return -(-thousandths // 1000)
