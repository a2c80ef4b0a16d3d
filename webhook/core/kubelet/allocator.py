"""``KubeletAllocator``: the kubelet behind the protocol of allocator models."""

from functools import lru_cache
from typing import Final

from webhook.core.demand import PodDemand
from webhook.core.kubelet.admission import Admission
from webhook.core.kubelet.device_assignment import GivenDevices
from webhook.core.kubelet.memory import MemoryUse
from webhook.core.kubelet.refusal import Refused
from webhook.core.kubelet.tables import tables_of
from webhook.core.machine import Machine, NodeState
from webhook.core.occupancy import give_back
from webhook.core.placement import Holding, Placement, Rejection

_VERDICTS_REMEMBERED: Final = 16384


class KubeletAllocator:
    """What the kubelet of a node does with a pod when it arrives (step 3 of ``domain/kubelet-topology.md`` 1.1).

    Exact for a node whose state is known. The checks that follow (``OutOfcpu`` and the like) are not its business.
    """

    name = "kubelet"

    def place(
        self, machine: Machine, state: NodeState, demand: PodDemand, *, given: GivenDevices | None = None
    ) -> Placement | Rejection:
        """Return where ``demand`` would sit on ``machine`` in ``state``, or why the kubelet refuses it.

        Where the kubelet takes any of several equal devices, the one of the lowest index stands for them; ``given``
        (container name -> resource -> mask of devices) says instead what was really taken.

        Raises:
            GivenDevicesError: ``given`` names devices that the kubelet cannot have taken.
        """
        tables = tables_of(machine)
        admission = Admission(machine, tables, state, demand, given)
        try:
            places = admission.walk()
        except Refused as refused:
            return Rejection(
                refused.reason,
                refused.message,
                admission.container,
                refused.resource,
                state == tables.empty or _is_refused_when_empty(machine, demand),
                refused.facts,
            )
        holding = admission.holding()
        return Placement(holding, places, admission.state(holding))

    def release(self, machine: Machine, state: NodeState, holding: Holding) -> NodeState:
        """Return ``state`` with ``holding`` given back: everything at once, when the pod is gone."""
        after = give_back(machine, state, holding)
        if not holding.memory and not state.memory_by_numa:
            return after
        memory = MemoryUse.of(machine, state)
        for index, blocks in enumerate(holding.memory):
            for mask, size in blocks:
                memory.give_back(mask, index, size)
        return memory.in_state(machine, after)


@lru_cache(maxsize=_VERDICTS_REMEMBERED)
def _is_refused_when_empty(machine: Machine, demand: PodDemand) -> bool:
    tables = tables_of(machine)
    try:
        Admission(machine, tables, tables.empty, demand).walk()
    except Refused:
        return True
    return False
