"""Why a kubelet would not start with a machine and its settings, in its own words.

A node that runs cannot have them, so a machine for which this says anything was described wrongly: its description is
to be refused (settings) or its topology is unknown (reports); ``place`` judges it as if the kubelet ran.
(topologymanager/topology_manager.go, policy_options.go, numa_info.go; cpumanager/policy_options.go.)
"""

from typing import Final

from webhook.core.machine import KubeletConfig, Machine, TopologyPolicy

SMALLEST_ALLOWABLE_NUMA_NODES: Final = 8
"""The default of ``max-allowable-numa-nodes``, which may be raised and not lowered."""

_EXCLUDING_OPTIONS: Final = (
    ("full-pcpus-only", "full_pcpus_only", "distribute-cpus-across-cores", "distribute_cpus_across_cores"),
    (
        "distribute-cpus-across-numa",
        "distribute_cpus_across_numa",
        "distribute-cpus-across-cores",
        "distribute_cpus_across_cores",
    ),
    (
        "prefer-align-cpus-by-uncorecache",
        "prefer_align_cpus_by_uncore_cache",
        "distribute-cpus-across-cores",
        "distribute_cpus_across_cores",
    ),
    (
        "prefer-align-cpus-by-uncorecache",
        "prefer_align_cpus_by_uncore_cache",
        "distribute-cpus-across-numa",
        "distribute_cpus_across_numa",
    ),
)


def startup_faults(machine: Machine) -> tuple[str, ...]:
    """Return the errors with which the kubelet of ``machine`` would end at its start; empty: it starts."""
    config = machine.kubelet
    faults: list[str] = []
    if config.policy is not TopologyPolicy.NONE:
        faults += _topology_faults(machine, config)
    if config.static_cpus:
        faults += [f"new static policy error: {fault}" for fault in _cpu_faults(machine, config)]
    return tuple(faults)


def _topology_faults(machine: Machine, config: KubeletConfig) -> list[str]:
    faults: list[str] = []
    if config.max_allowable_numa_nodes < SMALLEST_ALLOWABLE_NUMA_NODES:
        faults.append(
            f'the minimum value of "max-allowable-numa-nodes" should not be less than {SMALLEST_ALLOWABLE_NUMA_NODES}'
        )
    if len(machine.numa_ids) > config.max_allowable_numa_nodes:
        faults.append(f"unsupported on machines with more than {config.max_allowable_numa_nodes} NUMA Nodes")
    return faults


def _cpu_faults(machine: Machine, config: KubeletConfig) -> list[str]:
    faults = [
        f"static policy options {one} and {other} can not be used at the same time"
        for one, field, other, other_field in _EXCLUDING_OPTIONS
        if getattr(config, field) and getattr(config, other_field)
    ]
    if config.align_by_socket:
        if config.policy is TopologyPolicy.SINGLE_NUMA_NODE:
            # The misspelling is the kubelet's.
            faults.append(
                "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
            )
        if len(machine.cpus.socket_cpus) > sum(1 for cpus in machine.cpus.numa_cpus if cpus):
            faults.append(
                "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
            )
    return faults
