"""Cases of the oracle (``tests/oracle/README.md``) as values of the core."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.kubelet.memory import MemoryUse
from webhook.core.machine import (
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    MemoryLayout,
    NodeState,
    TopologyPolicy,
    TopologyScope,
)
from webhook.core.masks import mask_of, members
from webhook.core.placement import Placement
from webhook.core.pod import ContainerKind

SAMPLE = Path(__file__).parents[2] / "oracle" / "sample.jsonl.gz"
DISTRIBUTED = Path(__file__).with_name("distributed.jsonl.gz")
"""86 cases with distribute-cpus-across-numa on 4 to 8 NUMA nodes; 26 show the oddity of slices."""

KINDS = {"init": ContainerKind.INIT, "sidecar": ContainerKind.SIDECAR, "app": ContainerKind.APP}

TOPOLOGY_REASONS = {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"}
"""What the step that we model can say; all else comes from a later check (``OutOfcpu``) and means: admitted here."""


@dataclass(frozen=True)
class OracleMachine:
    """A machine with the positions of its NUMA nodes and the ids of its devices."""

    machine: Machine
    position: dict[int, int]
    device_ids: tuple[tuple[str, ...], ...]
    unhealthy: tuple[int, ...]

    def numa_mask(self, numa_ids: Iterable[int]) -> int:
        """Return the mask of positions of ``numa_ids``."""
        return mask_of(self.position[numa_id] for numa_id in numa_ids)

    def device_mask(self, index: int, ids: Iterable[str]) -> int:
        """Return the mask of the devices ``ids`` of the machine's resource ``index``."""
        return mask_of(self.device_ids[index].index(device_id) for device_id in ids)


def is_on(options: dict, name: str) -> bool:
    return (options or {}).get(name, "false").lower() in ("true", "t", "1")


def kubelet_of(record: dict) -> KubeletConfig:
    topology = record.get("topology_manager_policy_options") or {}
    cpu = record.get("cpu_manager_policy_options") or {}
    return KubeletConfig(
        policy=TopologyPolicy(record["topology_manager_policy"]),
        scope=TopologyScope(record["topology_manager_scope"]),
        static_cpus=record["cpu_manager_policy"] == "static",
        full_pcpus_only=is_on(cpu, "full-pcpus-only"),
        distribute_cpus_across_numa=is_on(cpu, "distribute-cpus-across-numa"),
        align_by_socket=is_on(cpu, "align-by-socket"),
        distribute_cpus_across_cores=is_on(cpu, "distribute-cpus-across-cores"),
        strict_cpu_reservation=is_on(cpu, "strict-cpu-reservation"),
        prefer_align_cpus_by_uncore_cache=is_on(cpu, "prefer-align-cpus-by-uncorecache"),
        prefer_closest_numa_nodes=is_on(topology, "prefer-closest-numa-nodes"),
        max_allowable_numa_nodes=int(topology.get("max-allowable-numa-nodes", "8")),
        static_memory=record["memory_manager_policy"] == "Static",
        minor_version=37,
    )


def _grouped(cores: list[tuple[int, int]]) -> tuple[int, ...]:
    groups: dict[int, int] = {}
    for group, cpus in cores:
        groups[group] = groups.get(group, 0) | cpus
    return tuple(groups[group] for group in sorted(groups))


def machine_of(record: dict, devices: dict[str, list[dict]] | None = None) -> OracleMachine:
    """Return the machine of a case, with ``devices`` in place of its first ones after a step ``devices``."""
    nodes = sorted(record["numa_nodes"], key=lambda node: node["id"])
    numa_ids = tuple(node["id"] for node in nodes)
    position = {numa_id: index for index, numa_id in enumerate(numa_ids)}
    cores = [(core, mask_of(core["cpu_ids"])) for node in nodes for core in node.get("cores") or []]
    kubelet = kubelet_of(record["kubelet"])
    layouts, ids, unhealthy = [], [], []
    for resource, found in sorted((record["devices"] if devices is None else devices).items()):
        known = [mask_of(position[n] for n in device["numa_ids"] or [] if n in position) for device in found]
        foreign = mask_of(i for i, device in enumerate(found) if device["numa_ids"] and not known[i])
        layouts.append(DeviceLayout(resource, tuple(known), foreign_numa=foreign))
        ids.append(tuple(device["id"] for device in found))
        unhealthy.append(mask_of(i for i, device in enumerate(found) if not device["healthy"]))
    reserved_memory = {
        row["numa_id"]: row["memory_bytes"] for row in record["kubelet"].get("memory_manager_reserved") or []
    }
    memory = MemoryLayout(
        "memory",
        tuple(node["memory_bytes"] for node in nodes),
        tuple(reserved_memory.get(numa_id, 0) for numa_id in numa_ids),
    )
    machine = Machine(
        numa_ids,
        CpuLayout(
            tuple(mask_of(cpu for core in node.get("cores") or [] for cpu in core["cpu_ids"]) for node in nodes),
            _grouped([(core["socket_id"], cpus) for core, cpus in cores]),
            tuple(cpus for _, cpus in cores),
            _grouped([(core.get("uncore_cache_id", core["socket_id"]), cpus) for core, cpus in cores]),
        ),
        reserved_cpus=mask_of((record.get("derived") or {}).get("reserved_cpu_ids") or []),
        devices=tuple(layouts),
        memory=(memory,) if kubelet.static_memory else (),
        distances=distances_of(record["numa_nodes"], numa_ids),
        kubelet=kubelet,
    )
    return OracleMachine(machine, position, tuple(ids), tuple(unhealthy))


def distances_of(nodes: list[dict], numa_ids: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    listed = [node["id"] for node in nodes]
    by_id = {node["id"]: dict(zip(listed, node.get("distances") or [], strict=False)) for node in nodes}
    if any(len(row) != len(numa_ids) for row in by_id.values()):
        return ()
    return tuple(tuple(by_id[one][other] for other in numa_ids) for one in numa_ids)


def demand_of_record(pod: dict) -> PodDemand:
    """Return the demand of a recorded pod from the numbers that the API server stores."""
    containers = []
    for container in pod["containers"]:
        requests, limits = container["effective"]["requests"], container["effective"]["limits"]
        memory = requests.get("memory_bytes")
        containers.append(
            ContainerDemand(
                container["name"],
                KINDS[container["kind"]],
                requests.get("cpu_millicores") or 0,
                tuple(sorted((limits.get("other") or {}).items())),
                () if memory is None else (("memory", memory),),
            )
        )
    return PodDemand(QosClass(pod["qos"]), tuple(containers), has_pod_level_resources="effective" in pod)


def cpus_of(got: dict) -> int:
    return mask_of(cpu for place in got.values() for cpu in place.get("cpu_ids") or [])


class Books:
    """What each active pod holds, as recorded: the state is always the kubelet's own, never our model's.

    Only where in a group the memory manager took it from must be followed along: records do not say it.
    """

    def __init__(self, at: OracleMachine) -> None:
        """Start with nothing held."""
        self.held: dict[str, dict] = {}
        self.free_cpus = at.machine.cpus.all_cpus & ~at.machine.reserved_cpus
        self.memory = MemoryUse.of(at.machine, NodeState.empty(at.machine))

    def hold(self, at: OracleMachine, uid: str, got: dict, order: list[str]) -> None:
        """Book what a pod got, its containers in ``order``."""
        self.held[uid] = got
        self.free_cpus &= ~cpus_of(got)
        for name in order:
            for block in (got.get(name) or {}).get("memory") or []:
                self.memory.hold(at.numa_mask(block["numa_ids"]), 0, block["bytes"])

    def release(self, at: OracleMachine, uid: str, rest: dict | None = None) -> None:
        """Give back what a pod held but for ``rest``."""
        gone = self.held.pop(uid, {})
        if rest is not None:
            self.held[uid] = rest
        else:
            # Also what another pod holds: on lopsided sockets a kubelet hands out CPUs twice, and then frees them.
            self.free_cpus |= cpus_of(gone) & at.machine.cpus.all_cpus & ~at.machine.reserved_cpus
        for name, place in gone.items():
            if not ((rest or {}).get(name) or {}).get("memory"):
                for block in place.get("memory") or []:
                    self.memory.give_back(at.numa_mask(block["numa_ids"]), 0, block["bytes"])

    def state(self, at: OracleMachine) -> NodeState:
        """Return what is free now."""
        machine = at.machine
        busy = [0] * len(machine.devices)
        blocks: list[list[tuple[int, int]]] = [[] for _ in machine.memory]
        for got in self.held.values():
            for place in got.values():
                for index, layout in enumerate(machine.devices):
                    taken = (place.get("devices") or {}).get(layout.resource) or []
                    busy[index] |= at.device_mask(index, [one for one in taken if one in at.device_ids[index]])
                for block in place.get("memory") or []:
                    blocks[0].append((at.numa_mask(block["numa_ids"]), block["bytes"]))
        state = NodeState(self.free_cpus, tuple(busy), at.unhealthy, tuple(map(tuple, blocks)))
        return self.memory.in_state(machine, state) if machine.memory else state


def given_of(at: OracleMachine, got: dict) -> dict[str, dict[str, int]]:
    """Return the recorded devices of a pod, as ``place`` takes them."""
    return {
        name: {
            layout.resource: at.device_mask(index, place["devices"][layout.resource])
            for index, layout in enumerate(at.machine.devices)
            if layout.resource in (place.get("devices") or {})
        }
        for name, place in got.items()
    }


def differences(at: OracleMachine, placement: Placement, got: dict) -> list[str]:
    """Return where ``placement`` is not what the kubelet gave: CPUs, memory, chosen NUMA nodes."""
    found = []
    for place in placement.containers:
        recorded = got[place.name]
        cpus = mask_of(recorded.get("cpu_ids") or [])
        if place.cpus != cpus:
            found.append(f"{place.name}: CPUs {list(members(place.cpus))}, recorded {list(members(cpus))}")
        hint = recorded.get("hint")
        if hint is not None and (at.numa_mask(hint["numa_ids"] or []) or None) != place.numa_mask:
            found.append(f"{place.name}: NUMA mask {place.numa_mask}, recorded {hint}")
    if at.machine.memory:
        blocks = sorted(
            (at.numa_mask(block["numa_ids"]), block["bytes"])
            for place in got.values()
            for block in place.get("memory") or []
        )
        held = sorted(placement.holding.memory[0]) if placement.holding.memory else []
        if held != blocks:
            found.append(f"memory {held}, recorded {blocks}")
    return found
