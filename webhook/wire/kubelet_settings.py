"""The kubelet's settings under the names of KubeletConfiguration (kubernetes/kubelet:config/v1beta1/types.go)."""

from enum import Enum
from typing import Final, TypeVar

from webhook.core.kubelet.cpu_packed import CpuPickError, take_packed
from webhook.core.kubelet.tables import tables_of
from webhook.core.machine import KubeletConfig, Machine, TopologyPolicy, TopologyScope
from webhook.core.pod import Malformed
from webhook.wire.layouts import read_cpus
from webhook.wire.nodes import minor_version, read_amounts
from webhook.wire.shapes import JsonMap, describe, read_map, read_text

Kind = TypeVar("Kind", bound=Enum)

NEWEST_MODELLED_MINOR: Final = 37
_FEWEST_NUMA_NODES: Final = 8


def read_kubelet_config(raw: JsonMap, path: str, faults: list[Malformed]) -> KubeletConfig:
    """Return the settings in ``raw`` (which keeps the schema), the kubelet's own defaults where they are absent."""
    topology = read_map(raw.get("topologyManagerPolicyOptions"), f"{path}.topologyManagerPolicyOptions", faults)
    cpu = read_map(raw.get("cpuManagerPolicyOptions"), f"{path}.cpuManagerPolicyOptions", faults)
    version = raw.get("version")
    digits = str(topology.get("max-allowable-numa-nodes", ""))[:4]
    return KubeletConfig(
        policy=_one(raw.get("topologyManagerPolicy"), TopologyPolicy.NONE, f"{path}.topologyManagerPolicy", faults),
        scope=_one(raw.get("topologyManagerScope"), TopologyScope.CONTAINER, f"{path}.topologyManagerScope", faults),
        static_cpus=raw.get("cpuManagerPolicy") == "static",
        full_pcpus_only=_is_on(cpu, "full-pcpus-only"),
        distribute_cpus_across_numa=_is_on(cpu, "distribute-cpus-across-numa"),
        align_by_socket=_is_on(cpu, "align-by-socket"),
        distribute_cpus_across_cores=_is_on(cpu, "distribute-cpus-across-cores"),
        strict_cpu_reservation=_is_on(cpu, "strict-cpu-reservation"),
        prefer_align_cpus_by_uncore_cache=_is_on(cpu, "prefer-align-cpus-by-uncorecache"),
        prefer_closest_numa_nodes=_is_on(topology, "prefer-closest-numa-nodes"),
        max_allowable_numa_nodes=int(digits) if digits.isascii() and digits.isdigit() else _FEWEST_NUMA_NODES,
        static_memory=raw.get("memoryManagerPolicy") == "Static",
        minor_version=minor_version(read_text(version, f"{path}.version", faults)) or NEWEST_MODELLED_MINOR,
    )


def reserved_cpus(machine: Machine, raw: JsonMap, path: str, faults: list[Malformed]) -> int:
    """Return the mask of CPUs that the kubelet never gives out exclusively.

    ``reservedSystemCPUs`` names them; else the kubelet takes as many as ``kubeReserved`` and ``systemReserved`` ask
    for, rounded up, by its own picking order. A static CPU manager does not start without any
    (kubernetes/kubernetes:pkg/kubelet/cm/cpumanager/cpu_manager.go NewManager).
    """
    millicores = sum(
        read_amounts(raw.get(field), f"{path}.{field}", faults).get("cpu", 0)
        for field in ("kubeReserved", "systemReserved")
    )
    if raw.get("reservedSystemCPUs") is not None:
        mask = read_cpus(raw.get("reservedSystemCPUs"), f"{path}.reservedSystemCPUs", faults)
    else:
        try:
            mask = take_packed(tables_of(machine).cpus, machine.cpus.all_cpus, -(-millicores // 1000))
        except CpuPickError as error:
            faults.append(Malformed(f"{path}.kubeReserved.cpu", str(error), "fewer CPUs than the machine has"))
            return 0
        if not machine.kubelet.static_cpus:
            return 0
    if machine.kubelet.static_cpus and not mask:
        wanted = "CPUs, for the static CPU manager does not start without"
        faults.append(Malformed(f"{path}.reservedSystemCPUs", "no reserved CPU", wanted))
    return mask


def _is_on(options: JsonMap, name: str) -> bool:
    return options.get(name) in (True, "true")


def _one(value: object, default: Kind, path: str, faults: list[Malformed]) -> Kind:
    """Return the member that ``value`` names; ``default`` where it is absent."""
    if value is None:
        return default
    kinds = type(default)
    try:
        return kinds(value)
    except ValueError:
        wanted = f"one of {', '.join(member.value for member in kinds)}"
        faults.append(Malformed(path, describe(value), wanted))
        return default
