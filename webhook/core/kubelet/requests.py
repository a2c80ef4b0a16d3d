"""What a pod as a whole asks for in pod scope (``podGuaranteedCPUs``, ``getPodDeviceRequest`` and their like).

The largest of what runs at once: the apps with every sidecar, or one plain init container with the sidecars before it.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

from webhook.core.demand import SHAPES_REMEMBERED, ContainerDemand, PodDemand
from webhook.core.kubelet.versions import VersionRules
from webhook.core.pod import ContainerKind


def most_at_once(
    containers: Iterable[ContainerDemand], amount: Callable[[ContainerDemand], int], *, with_sidecars: bool
) -> int:
    """Return the most of ``amount`` at one time; without ``with_sidecars`` a sidecar is a plain init container."""
    sidecars = most = apps = 0
    for container in containers:
        if container.kind is ContainerKind.APP:
            apps += amount(container)
        elif container.kind is ContainerKind.SIDECAR and with_sidecars:
            sidecars += amount(container)
        else:
            most = max(most, sidecars + amount(container))
    return max(most, apps + sidecars)


@lru_cache(maxsize=SHAPES_REMEMBERED)
def pod_cpus(demand: PodDemand, rules: VersionRules) -> int:
    """Return the exclusive CPUs of the whole pod; fractional containers add nothing."""
    return most_at_once(demand.containers, demand.exclusive_cpus, with_sidecars=rules.sidecars_keep_their_share)


@lru_cache(maxsize=SHAPES_REMEMBERED)
def pod_devices(demand: PodDemand, rules: VersionRules) -> tuple[tuple[str, int], ...]:
    """Return (resource, count) of every resource that any container names."""
    names = sorted({resource for container in demand.containers for resource, _ in container.devices})

    def total(name: str) -> int:
        return most_at_once(
            demand.containers,
            lambda container: dict(container.devices).get(name, 0),
            with_sidecars=rules.sidecars_add_to_device_total,
        )

    return tuple((name, total(name)) for name in names)


def pod_memory(demand: PodDemand, rules: VersionRules) -> list[tuple[str, int]]:
    """Return (resource, bytes) of the kinds of memory that the app containers name."""
    names = sorted(
        {
            resource
            for container in demand.containers
            if container.kind is ContainerKind.APP
            for resource, _ in container.memory_bytes
        }
    )

    def total(name: str) -> int:
        return most_at_once(
            demand.containers,
            lambda container: dict(container.memory_bytes).get(name, 0),
            with_sidecars=rules.sidecars_keep_their_share,
        )

    return [(name, total(name)) for name in names]
