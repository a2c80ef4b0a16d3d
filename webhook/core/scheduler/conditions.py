"""What must be free for the scheduler's model to say yes, as numbers under the keys of ``numa_room``."""

from functools import lru_cache
from typing import Final

from webhook.core.demand import CpuBinding, PodDemand
from webhook.core.machine import Machine
from webhook.core.numa_room import RoomKey
from webhook.core.scheduler.policies import SINGLE_NUMA_NODE, PolicyMismatchError, effective_policy

_ANY_CPUS: Final[RoomKey] = "machine", "cpu", 0, 0
_NEVER: Final[tuple[RoomKey, int]] = ("never", "", 0, 0), 1


@lru_cache(maxsize=16384)
def conditions(machine: Machine, demand: PodDemand) -> tuple[tuple[RoomKey, int], ...]:
    """Return the conditions (key, need) that must all hold; else the scheduler passes ``machine`` over for sure."""
    try:
        policy = effective_policy(demand.numa_policy, machine.node_policy)
    except PolicyMismatchError:
        return (_NEVER,)
    # A CPU that is begun is not free for another pod (``picks.owed_cpus``).
    cpus = -(-demand.totals.get("cpu", 0) // 1000)
    counts_cpus = bool(policy) or demand.cpu_binding is not CpuBinding.NONE
    result: list[tuple[RoomKey, int]] = [(_ANY_CPUS, cpus + 1)] if counts_cpus else []
    if policy == SINGLE_NUMA_NODE:
        result.append((("numa", "", 1, 0), cpus + 1))
    for layout in machine.devices:
        count = demand.totals.get(layout.resource, 0)
        if count < 1:
            continue
        result.append((("machine", layout.resource, 0, 0), count + 1))
        if policy == SINGLE_NUMA_NODE and all(layout.numa_of_device):
            result.append((("numa", layout.resource, 1, count), cpus + 1))
    return tuple(result)
