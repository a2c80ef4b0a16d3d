"""What a pod as a whole asks of a scheduler's NUMA nodes, and whether its CPUs are bound to a set."""

from dataclasses import dataclass

from webhook.core.demand import CpuBinding, PodDemand
from webhook.core.machine import Machine


class WholeCpusError(ValueError):
    """CPUs that are bound come in whole ones, and where cores are required in whole cores; ``str`` is the text."""


@dataclass(frozen=True, slots=True)
class Request:
    """Sums over the pod, as the scheduler counts them: init containers, sidecars and overhead by the usual rule."""

    millicores: int = 0
    memory: tuple[tuple[int, int], ...] = ()
    """(index in ``Machine.memory``, bytes)."""
    devices: tuple[tuple[int, int], ...] = ()
    """(index in ``Machine.devices``, count)."""
    is_bound: bool = False
    """The CPUs are pinned to a set; else they are only counted, by NUMA node where a policy holds."""
    in_whole_cores: bool = False
    """The pod requires it, or the node's kubelet has ``full-pcpus-only``: all siblings of a core or none (2.6).

    A node's rule holds for what is scored of it, too, where the pod asks for no CPUs."""

    def cpu_unit(self, machine: Machine) -> int:
        """Return the millicores in which CPUs are split over NUMA nodes."""
        if not self.is_bound:
            return 1
        return 1000 * machine.cpus.threads_per_core if self.in_whole_cores else 1000


def is_pinned_by_kubelet(machine: Machine, demand: PodDemand) -> bool:
    """Return whether a static CPU manager pins CPUs of a pod whose CPUs no scheduler binds."""
    return machine.kubelet.static_cpus and any(demand.exclusive_cpus(container) for container in demand.containers)


def binding_on(machine: Machine, demand: PodDemand) -> CpuBinding:
    """Return how the pod's CPUs are bound on ``machine``, which may force it, whatever the pod's QoS."""
    if demand.totals.get("cpu", 0) <= 0:
        return CpuBinding.NONE
    return CpuBinding.WHOLE_CORES if _gives_whole_cores(machine) else demand.cpu_binding


def _gives_whole_cores(machine: Machine) -> bool:
    return machine.kubelet.static_cpus and machine.kubelet.full_pcpus_only


def check_whole_cpus(demand: PodDemand, binding: CpuBinding) -> None:
    """Check what the scheduler checks before it looks at any node, and once more of a node that forces a ``binding``.

    Raises:
        WholeCpusError: the pod's CPUs are bound and its sum does not come in whole ones (2.6).
    """
    if binding is not CpuBinding.NONE and demand.totals.get("cpu", 0) % 1000:
        raise WholeCpusError("the requested CPUs must be integer")


def request_of(machine: Machine, demand: PodDemand) -> Request:
    """Return what ``demand`` asks of ``machine``; resources that the machine does not track are left to plain counts.

    Raises:
        WholeCpusError: the CPUs are bound and the pod's sum does not come in whole ones (2.6).
    """
    totals = demand.totals
    millicores = totals.get("cpu", 0)
    binding = binding_on(machine, demand)
    is_bound, in_whole_cores = binding is not CpuBinding.NONE, binding is CpuBinding.WHOLE_CORES
    check_whole_cpus(demand, binding)
    if in_whole_cores and millicores // 1000 % machine.cpus.threads_per_core:
        raise WholeCpusError("node(s) requested cpus not multiple cpus per core")
    return Request(
        millicores,
        tuple(
            (index, asked)
            for index, layout in enumerate(machine.memory)
            if (asked := totals.get(layout.resource, 0)) > 0
        ),
        tuple(
            (index, count)
            for index, layout in enumerate(machine.devices)
            if (count := totals.get(layout.resource, 0)) > 0
        ),
        is_bound,
        in_whole_cores or _gives_whole_cores(machine),
    )
