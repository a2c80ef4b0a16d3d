"""Cases of Koordinator's own code (``tests/koordinator/README.md``) as values of the core."""

from dataclasses import dataclass, field
from pathlib import Path

from scheduler_cases import GPU, RDMA

from webhook.core.demand import ContainerDemand, CpuBinding, PodDemand, QosClass
from webhook.core.kubelet.tables import tables_of
from webhook.core.machine import CpuLayout, DeviceLayout, KubeletConfig, Machine, MemoryLayout, NodeState
from webhook.core.masks import cpu_list, mask_of, members
from webhook.core.placement import Placement, Rejection
from webhook.core.pod import ContainerKind
from webhook.core.scheduler.allocator import INSUFFICIENT
from webhook.core.scheduler.picks import owed_cpus

SAMPLE = Path(__file__).parents[2] / "koordinator" / "sample.jsonl.gz"
DEVICES = (("gpus", GPU), ("rdma", RDMA))


def machine_of(record: dict) -> Machine:
    """Return the machine of a case."""
    sockets: dict[int, int] = {}
    numa_cpus, cores = [], []
    for node in record["numa_nodes"]:
        inside = 0
        for core in node["cores"]:
            cpus = mask_of(core["cpu_ids"])
            cores.append(cpus)
            inside |= cpus
            sockets[core["socket_id"]] = sockets.get(core["socket_id"], 0) | cpus
        numa_cpus.append(inside)
    memory = tuple(node["memory_bytes"] for node in record["numa_nodes"])
    return Machine(
        tuple(range(len(numa_cpus))),
        CpuLayout(tuple(numa_cpus), tuple(sockets[index] for index in sorted(sockets)), tuple(cores)),
        reserved_cpus=mask_of(record.get("reserved_cpu_ids", ())),
        devices=tuple(
            DeviceLayout(resource, tuple(0 if one["numa"] < 0 else 1 << one["numa"] for one in record[key]))
            for key, resource in DEVICES
            if record.get(key)
        ),
        memory=(MemoryLayout("memory", memory, (0,) * len(memory)),),
        kubelet=KubeletConfig(full_pcpus_only=record.get("full_pcpus_only", False)),
        node_policy=record.get("node_policy", ""),
    )


def demand_of(record: dict) -> PodDemand:
    """Return the demand of a recorded pod."""
    counts = {resource: record[key] for key, resource in DEVICES if record.get(key)}
    millicores = record.get("cpu_millicores", 0)
    return PodDemand(
        QosClass.BURSTABLE,  # the kubelet, which does not take part here, pins no CPUs
        (ContainerDemand("main", ContainerKind.APP, millicores, tuple(sorted(counts.items()))),),
        numa_policy=record.get("policy", ""),
        numa_exclusive=record.get("exclusive", ""),
        cpu_binding=CpuBinding(record["binding"]),
        totals={"cpu": millicores, "memory": record.get("memory_bytes", 0), **counts},
    )


@dataclass
class Books:
    """What the pods on one machine hold, as Koordinator recorded it."""

    machine: Machine
    unhealthy: tuple[int, ...]
    held: dict[str, dict] = field(default_factory=dict)

    @staticmethod
    def of(record: dict) -> "Books":
        """Return the books of an empty machine."""
        unhealthy = tuple(
            mask_of(minor for minor, one in enumerate(record[key]) if not one["healthy"])
            for key, _ in DEVICES
            if record.get(key)
        )
        return Books(machine_of(record), unhealthy)

    def counted(self) -> dict[int, int]:
        """Return the millicores of pods that are bound to no CPUs, by NUMA node."""
        found: dict[int, int] = {}
        for answer in self.held.values():
            for zone in () if answer.get("cpu_ids") else answer.get("zones", ()):
                found[zone["numa"]] = found.get(zone["numa"], 0) + zone.get("cpu_millicores", 0)
        return {numa: amount for numa, amount in found.items() if amount}

    def left_out(self, pod: dict) -> str:
        """Return why the model is known to differ beside these pods (README.md); empty: it must not."""
        counted = self.counted()
        policy = pod.get("policy") or self.machine.node_policy
        is_bound = pod["binding"] != "none" or self.machine.kubelet.full_pcpus_only
        in_whole_cores = pod["binding"] == "whole cores" or self.machine.kubelet.full_pcpus_only
        if any(amount % 1000 for amount in counted.values()):
            return "parts of CPUs"
        if counted and in_whole_cores:
            return "counted pods beside one in whole cores"
        if counted and is_bound and not policy:
            return "counted pods beside one that is bound without a policy"
        if any(answer.get("cpu_ids") and not answer.get("zones") for answer in self.held.values()):
            return "bound CPUs that are in no zone"
        return ""

    def state(self) -> NodeState:
        """Return the state of the node; counted CPUs are held as the model holds them."""
        bound = [mask_of(answer["cpu_ids"]) for answer in self.held.values() if answer.get("cpu_ids")]
        free = self.machine.cpus.all_cpus & ~self.machine.reserved_cpus
        for cpus in bound:
            free &= ~cpus
        free &= ~owed_cpus(tables_of(self.machine).cpus, free, self.counted())
        keys = {resource: key for key, resource in DEVICES}
        memory = tuple(
            (1 << zone["numa"], zone["memory_bytes"])
            for answer in self.held.values()
            for zone in answer.get("zones", ())
            if zone.get("memory_bytes")
        )
        return NodeState(
            free,
            tuple(
                mask_of(minor for answer in self.held.values() for minor in answer.get(keys[layout.resource], ()))
                for layout in self.machine.devices
            ),
            self.unhealthy,
            (memory,),
            cpusets=tuple(bound),
        )

    def differences(self, found: Placement | Rejection, answer: dict) -> list[str]:
        """Return in words where the model's answer is another than a recorded one."""
        if isinstance(found, Rejection) or not answer["admit"]:
            return self._differences_of_refusals(found, answer)
        holding = found.holding
        pairs = [("NUMA nodes", _numa(found), answer["numa"]), ("CPUs", *self._cpus(holding, answer))]
        for index, layout in enumerate(self.machine.devices):
            key = next(key for key, resource in DEVICES if resource == layout.resource)
            pairs.append((key, list(members(holding.devices[index])), answer.get(key, [])))
        memory = [[mask.bit_length() - 1, size] for mask, size in (holding.memory[0] if holding.memory else ())]
        zones = [[zone["numa"], zone["memory_bytes"]] for zone in answer.get("zones", ()) if zone.get("memory_bytes")]
        pairs.append(("memory", memory, zones))
        return [f"{what} {ours}, recorded {theirs}" for what, ours, theirs in pairs if ours != theirs]

    def _differences_of_refusals(self, found: Placement | Rejection, answer: dict) -> list[str]:
        if isinstance(found, Placement):
            return [f"placed on {_numa(found)}, recorded {answer['stage']}: {answer['reasons']}"]
        if answer["admit"]:
            return [f"refused: {found.message}, recorded {answer}"]
        if (
            found.reason == INSUFFICIENT
            or " ..." in found.message
            or sorted(found.message.split(", ")) == answer["reasons"]
        ):
            return []
        return [f"says {found.message!r}, recorded {answer['reasons']}"]

    def _cpus(self, holding, answer: dict) -> tuple[object, object]:
        """Return both sides' CPUs: the very ones where nothing else is only counted, else how many by NUMA node."""
        numa_cpus = self.machine.cpus.numa_cpus
        given = mask_of(answer.get("cpu_ids", ()))
        if given and not self.counted():
            return cpu_list(holding.cpuset), cpu_list(given)
        if given:
            return (
                [(holding.cpuset & cpus).bit_count() for cpus in numa_cpus],
                [(given & cpus).bit_count() for cpus in numa_cpus],
            )
        counted = {zone["numa"]: zone.get("cpu_millicores", 0) for zone in answer.get("zones", ())}
        return (
            [(holding.cpus & cpus).bit_count() for cpus in numa_cpus],
            [-(-counted.get(numa, 0) // 1000) for numa in range(len(numa_cpus))],
        )


def _numa(found: Placement) -> list[int] | None:
    mask = found.containers[0].numa_mask
    return None if mask is None else list(members(mask))
