"""Which devices a container takes (``devicemanager/manager.go`` ``devicesToAllocate`` and ``filterByAffinity``).

Reusable ones first, then those that touch the chosen NUMA nodes, then others with a NUMA id, then those without. Within
each of these sets the kubelet follows the order of a Go map (or the plugin's preference): here the lowest index comes
first, and a replay hands in what was really taken.
"""

from collections.abc import Mapping

from webhook.core.kubelet.refusal import Refused
from webhook.core.kubelet.tables import DeviceTable
from webhook.core.kubelet.versions import VersionRules

GivenDevices = Mapping[str, Mapping[str, int]]
"""Recorded choices by container name and resource: the mask of the devices that it got."""


class GivenDevicesError(ValueError):
    """Recorded devices cannot be what the kubelet took: not free, or another number than asked for."""


def lowest(mask: int, count: int) -> int:
    """Return the ``count`` lowest members of ``mask``, or all where it has fewer."""
    if count >= mask.bit_count():
        return mask
    taken = 0
    for _ in range(count):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken


def assign_devices(
    table: DeviceTable,
    rules: VersionRules,
    request: int,
    *,
    free: int,
    reusable: int,
    has_healthy: bool,
    numa_mask: int | None,
    given: int | None = None,
) -> int:
    """Return the mask of the devices that a container gets for ``request``.

    ``free``: healthy and not held; ``reusable``: left by the pod's init containers, healthy or not; ``has_healthy``:
    whether any device of the resource is healthy; ``numa_mask``: the topology manager's choice; ``given``: what was
    recorded.

    Raises:
        Refused: the kubelet refuses, with its words.
        GivenDevicesError: ``given`` is impossible.
    """
    if request == 0 and not rules.refuses_without_healthy_device:
        return 0
    if not has_healthy and rules.refuses_without_healthy_device:
        cause = f"no healthy devices present; cannot allocate unhealthy devices {table.name}"
        raise Refused.unexpectedly(cause, table.name)
    taken = lowest(reusable, request)
    needed = request - taken.bit_count()
    if needed > free.bit_count():
        cause = (
            f"requested number of devices unavailable for {table.name}. "
            f"Requested: {needed}, Available: {free.bit_count()}"
        )
        raise Refused.unexpectedly(cause, table.name)
    if given is not None:
        if given & ~(free | reusable) or given.bit_count() != request:
            raise GivenDevicesError(f"{table.name}: devices {given:#b} were recorded for {request}, free {free:#b}.")
        return given
    if not needed:
        return taken
    if numa_mask is None or not table.gives_hints:
        return taken | lowest(free, needed)
    aligned = free & table.members_in[numa_mask]
    for devices in (aligned, free & table.with_topology & ~aligned, free & ~table.with_topology):
        more = lowest(devices, needed)
        taken |= more
        needed -= more.bit_count()
    return taken
