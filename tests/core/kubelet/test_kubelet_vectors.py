"""Every vector of ``tests/vectors/kubelet.json``: facts of the kubelet's unit tests, of issues, and derived ones."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.effective import demand_of
from webhook.core.kubelet import KubeletAllocator
from webhook.core.kubelet.admission import Admission
from webhook.core.kubelet.cpu_distributed import take_distributed
from webhook.core.kubelet.cpu_packed import CpuShortageError, take_packed
from webhook.core.kubelet.device_assignment import assign_devices
from webhook.core.kubelet.hints import Ask, cpu_ask, device_ask
from webhook.core.kubelet.merge import MaskOrder, merge
from webhook.core.kubelet.refusal import Refused
from webhook.core.kubelet.requests import pod_cpus, pod_devices
from webhook.core.kubelet.tables import Tables, tables_of
from webhook.core.kubelet.versions import rules_of
from webhook.core.machine import (
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    NodeState,
    TopologyPolicy,
    TopologyScope,
)
from webhook.core.masks import mask_of, members
from webhook.core.placement import Placement
from webhook.core.pod import Container, ContainerKind, Pod
from webhook.core.quantity import parse_quantity

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "kubelet.json").read_text())
RULES = rules_of(37)


def vectors(group: str) -> list:
    return [pytest.param(vector, id=vector["id"]) for vector in VECTORS[group]]


def test_every_group_of_vectors_is_tested_here():
    """A group that is added to the file does not go unnoticed."""
    tested = {"qos", "merge", "cpu_hints", "pod_scope_cpu_total", "pod_scope_device_total", "device_hints"}
    tested |= {"cpu_pick", "device_pick", "allocate_errors", "admit_cases"}
    assert set(VECTORS) - {"about", "format", "distances"} == tested


# --- pods ---


def pod_of(record: dict) -> Pod:
    def container(row: dict, kind: ContainerKind, path: str) -> Container:
        requests, limits = {}, {}
        for resource, (request, limit), unit in (
            ("cpu", row["cpu_m"], "m"),
            ("memory", row["memory_mi"], "Mi"),
        ):
            requests |= {resource: parse_quantity(f"{request}{unit}")} if request else {}
            limits |= {resource: parse_quantity(f"{limit}{unit}")} if limit else {}
        devices = {resource: parse_quantity(str(count)) for resource, count in row.get("devices", {}).items()}
        return Container(row["name"], kind, path, requests | devices, limits | devices)

    inits = [container(row, ContainerKind.INIT, f"spec.initContainers[{i}]") for i, row in enumerate(record["init"])]
    apps = [container(row, ContainerKind.APP, f"spec.containers[{i}]") for i, row in enumerate(record["containers"])]
    return Pod(containers=(*inits, *apps))


def counted(row: dict, kind: ContainerKind, name: str) -> ContainerDemand:
    return ContainerDemand(name, kind, int(row.get("cpu", 0) * 1000), tuple(sorted(row.get("devices", {}).items())))


def counted_demand(vector: dict) -> PodDemand:
    inits = [
        counted(row, ContainerKind.SIDECAR if row.get("restartable") else ContainerKind.INIT, f"i{at}")
        for at, row in enumerate(vector["init"])
    ]
    apps = [counted(row, ContainerKind.APP, f"a{at}") for at, row in enumerate(vector["app"])]
    return PodDemand(QosClass(vector.get("qos", "BestEffort")), (*inits, *apps))


@pytest.mark.parametrize("vector", vectors("qos"))
def test_qos_and_exclusive_cpus(vector):
    demand = demand_of(pod_of(vector["pod"]))
    assert demand.qos.value == vector["expect"]
    assert {one.name: demand.exclusive_cpus(one) for one in demand.containers} == vector["expect_exclusive"]


@pytest.mark.parametrize("vector", vectors("pod_scope_cpu_total"))
def test_exclusive_cpus_of_the_whole_pod(vector):
    assert pod_cpus(counted_demand(vector), RULES) == vector["expect_cpus"]


@pytest.mark.parametrize("vector", vectors("pod_scope_device_total"))
def test_devices_of_the_whole_pod(vector):
    assert dict(pod_devices(counted_demand(vector), RULES)) == vector["expect"]


# --- merge ---


def listed_hints(providers: list, position: dict[int, int]) -> list:
    lists = []
    for provider in providers:
        if not provider:
            lists.append(((None, True),))
            continue
        for hints in provider.values():
            if hints is None:
                lists.append(((None, True),))
                continue
            lists.append(
                tuple((None if mask is None else mask_of(position[n] for n in mask), good) for mask, good in hints)
            )
    return lists


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("vector", vectors("merge"))
def test_merged_hint(vector, policy):
    expected = vector["expect"].get(policy)
    if expected is None:
        assert set(vector["expect"]) < {"best-effort", "restricted", "single-numa-node"}
        return
    position = {numa_id: index for index, numa_id in enumerate(vector["numa_nodes"])}
    distances = ()
    if "prefer-closest-numa-nodes" in vector.get("options", []):
        distances = tuple(map(tuple, VECTORS["distances"][vector["distances"]]))
    hint, admit = merge(
        listed_hints(vector["providers"], position),
        (1 << len(position)) - 1,
        TopologyPolicy(policy),
        MaskOrder(distances),
    )
    mask = None if hint[0] is None else [vector["numa_nodes"][n] for n in members(hint[0])]
    assert {"mask": mask, "preferred": hint[1], "admit": admit} == expected


# --- CPUs ---


def cpu_machine(topology: dict, **kubelet) -> Machine:
    numa = {int(numa_id): cpus for numa_id, cpus in topology["numa_cpus"].items()}
    numa_ids = sorted(numa)
    every = sorted(cpu for cpus in numa.values() for cpu in cpus)
    if "core_of_cpu" in topology:
        modulus = int(topology["core_of_cpu"].removeprefix("cpu mod "))
        core_of = {cpu: cpu % modulus for cpu in every}
    else:
        # Two threads a core: the sibling of a CPU is half of all CPUs away.
        core_of = {cpu: cpu % (len(every) // 2) for cpu in every}
    cores: dict[int, int] = {}
    for cpu, core in core_of.items():
        cores[core] = cores.get(core, 0) | 1 << cpu
    sockets = {int(s): n for s, n in topology.get("numa_of_socket", {n: [n] for n in numa_ids}).items()}
    return Machine(
        tuple(numa_ids),
        CpuLayout(
            tuple(mask_of(numa[n]) for n in numa_ids),
            tuple(mask_of(cpu for n in sockets[s] for cpu in numa[n]) for s in sorted(sockets)),
            tuple(cores[core] for core in sorted(cores)),
        ),
        reserved_cpus=mask_of(topology.get("reserved", [])),
        kubelet=KubeletConfig(**kubelet),
    )


def shown(hints, numa_ids) -> list:
    return [[[numa_ids[n] for n in members(mask)], preferred] for mask, preferred in hints]


@pytest.mark.parametrize("vector", vectors("cpu_hints"))
def test_cpu_hints(vector):
    machine = cpu_machine(vector["topology"])
    table = tables_of(machine).cpus
    if "already_allocated" in vector:
        # A restarted kubelet finds the container's CPUs: hints are made of these alone.
        held = vector["already_allocated"]
        if len(held) != vector["request"]:
            assert vector["expect_hints"] == []
            return
        free = mask_of(held)
    else:
        free = mask_of(vector["free_cpus"])
    ask = cpu_ask(
        table,
        free,
        mask_of(vector.get("reusable_cpus", [])),
        vector["request"],
        by_socket=vector.get("align_by_socket", False),
    )
    assert shown(ask.hints(), machine.numa_ids) == vector["expect_hints"]


@pytest.mark.parametrize("vector", vectors("cpu_pick"))
def test_picked_cpus(vector):
    machine = cpu_machine(vector["topology"])
    table, free = tables_of(machine).cpus, mask_of(vector["free_cpus"])
    options = vector.get("options", [])

    def pick() -> int:
        if "distribute-cpus-across-numa" in options:
            return take_distributed(table, free, vector["count"], group=vector.get("group_size", 1))
        return take_packed(table, free, vector["count"])

    if vector["expect_cpus"] is None:
        with pytest.raises(CpuShortageError) as caught:
            pick()
        assert str(caught.value) == vector["expect_error"]
    else:
        assert list(members(pick())) == sorted(vector["expect_cpus"])


# --- devices ---


def device_tables(numa_ids: list[int], devices: dict[str, list[int]]) -> Tables:
    position = {numa_id: index for index, numa_id in enumerate(numa_ids)}
    cpus = tuple(1 << index for index in range(len(numa_ids)))
    layout = DeviceLayout("gpu", tuple(mask_of(position[n] for n in numa) for numa in devices.values()), tuple(devices))
    return tables_of(Machine(tuple(numa_ids), CpuLayout(cpus, cpus, cpus), devices=(layout,)))


@pytest.mark.parametrize("vector", vectors("device_hints"))
def test_device_hints(vector):
    numa_ids = vector["numa_nodes"]
    index = {device: at for at, device in enumerate(vector["devices"])}
    tables = device_tables(numa_ids, vector["devices"])
    reusable = mask_of(index[device] for device in vector.get("reusable", []))
    busy = mask_of(index[device] for device in vector["busy"])
    free = mask_of(index.values()) & ~busy & ~reusable
    if "already_allocated" in vector:
        assert len(vector["already_allocated"]) == vector["request"]
        free = mask_of(index[device] for device in vector["already_allocated"])
    ask = device_ask(tables.devices[0], free, reusable, vector["request"])
    hints = None if ask is None else shown(ask.hints(), numa_ids)
    assert hints == vector["expect_hints"]


@pytest.mark.parametrize("vector", vectors("device_pick"))
def test_picked_devices(vector):
    per_numa = {int(numa_id): count for numa_id, count in vector["devices_per_numa"].items()}
    devices = {f"d{numa_id}-{at}": [numa_id] for numa_id, count in per_numa.items() for at in range(count)}
    table = device_tables(sorted(per_numa), devices).devices[0]
    taken = assign_devices(
        table,
        RULES,
        vector["request"],
        free=table.all_members,
        reusable=0,
        has_healthy=True,
        numa_mask=mask_of(vector["mask"]),
    )
    found = {str(n): count for n in per_numa if (count := (taken & table.members_in[1 << n]).bit_count())}
    assert found == vector["expect_per_numa"]


@pytest.mark.parametrize("vector", vectors("allocate_errors"))
def test_allocation_error(vector):
    per_core = vector.get("threads_per_core", 1)
    reserved = vector.get("reserved_list", list(range(vector.get("reserved_free", 0))))
    free = vector.get("free_cpus_list", list(range(vector.get("free_cpus", 12))))
    count = max([*free, *reserved]) + 1
    cores = count // per_core
    every = (1 << count) - 1
    machine = Machine(
        (0,),
        CpuLayout((every,), (every,), tuple(mask_of(range(core, count, cores)) for core in range(cores))),
        reserved_cpus=mask_of(reserved),
        kubelet=KubeletConfig(full_pcpus_only="full-pcpus-only" in vector.get("options", [])),
    )
    demand = PodDemand(QosClass.GUARANTEED, (ContainerDemand("main", ContainerKind.APP, vector["request"] * 1000),))
    state = NodeState(mask_of(free) & ~machine.reserved_cpus, (), ())
    answer = KubeletAllocator().place(machine, state, demand)
    assert answer.reason == vector["reason"]
    assert_detail(answer.message, vector["detail"])


def assert_detail(message: str, detail: dict) -> None:
    """Check that the kubelet's text carries the numbers of ``detail``."""
    patterns = {
        "requested": r"requested(:|=| )\s*{}\b",
        "available": r"available(:|=)\s*{}\b",
        "multiple_of": r"not multiple cpus per core = {}\b",
        "available_physical": r"available physical CPUs = {}\b",
    }
    for key, value in detail.items():
        assert re.search(patterns[key].format(value), message, re.IGNORECASE), (message, key, value)


# --- whole nodes and pods ---


def node_machine(node: dict) -> Machine:
    numa, per_numa, threads = node["numa"], node["cores_per_numa"], node.get("threads", 1)
    total = numa * per_numa
    cores = [mask_of(core + total * thread for thread in range(threads)) for core in range(total)]
    numa_cpus = [sum(cores[n * per_numa : (n + 1) * per_numa]) for n in range(numa)]
    per_socket = node.get("numa_per_socket", 1)
    sockets = [sum(numa_cpus[at : at + per_socket]) for at in range(0, numa, per_socket)]
    options = {name.replace("-", "_"): True for name in node.get("cpu_options", [])}
    devices = tuple(
        DeviceLayout(resource, tuple(0 if n is None else 1 << n for n in ids.values()), tuple(ids))
        for resource, ids in sorted(node.get("devices", {}).items())
    )
    return Machine(
        tuple(range(numa)),
        CpuLayout(tuple(numa_cpus), tuple(sockets), tuple(cores)),
        reserved_cpus=mask_of(node.get("reserved_cpus", [])),
        devices=devices,
        kubelet=KubeletConfig(
            policy=TopologyPolicy(node.get("policy", "none")),
            scope=TopologyScope(node.get("scope", "container")),
            static_cpus=node.get("cpu_manager", "none") == "static",
            **options,
        ),
    )


def node_state(node: dict, machine: Machine) -> NodeState:
    def masks(key: str) -> tuple[int, ...]:
        named = node.get(key, [])
        return tuple(
            mask_of(
                layout.ids.index(device)
                for device in (named.get(layout.resource, []) if isinstance(named, dict) else named)
                if device in layout.ids
            )
            for layout in machine.devices
        )

    free = machine.cpus.all_cpus & ~machine.reserved_cpus & ~mask_of(node.get("busy_cpus", []))
    return NodeState(free, masks("busy_devices"), masks("unhealthy_devices"))


@pytest.mark.parametrize("vector", vectors("admit_cases"))
def test_admission_on_a_whole_node(vector):
    machine = node_machine(vector["node"])
    state = node_state(vector["node"], machine)
    demand = demand_of(pod_of(vector["pod"]))
    expected = vector["expect"]
    answer = KubeletAllocator().place(machine, state, demand)
    assert demand.qos.value == expected["qos"]
    assert isinstance(answer, Placement) == expected["admit"]
    if isinstance(answer, Placement):
        if "exclusive_cpus_held" in expected:
            assert answer.holding.cpus.bit_count() == expected["exclusive_cpus_held"]
        return
    assert answer.reason == expected["reason"]
    assert_detail(answer.message, expected.get("detail", {}))
    if "at_container" in expected and machine.kubelet.scope is TopologyScope.CONTAINER:
        assert answer.container == expected["at_container"]


@pytest.mark.parametrize("vector", vectors("admit_cases"))
def test_hints_on_a_whole_node(vector):
    """The merged hint of each decision, whether or not it was admitted, from all hints and their merge."""
    machine = node_machine(vector["node"])
    demand = demand_of(pod_of(vector["pod"]))
    expected = vector["expect"].get("hints")
    policy = machine.kubelet.policy
    if policy is TopologyPolicy.NONE:
        assert not expected
        return
    tables = tables_of(machine)
    admission = Admission(machine, tables, node_state(vector["node"], machine), demand)
    found = []
    decide = admission._decide

    def record(asks: list[Ask]):
        found.append(merge([ask.hints() for ask in asks], tables.all_numa, policy, MaskOrder())[0])
        return decide(asks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Admission, "_decide", lambda _, asks: record(asks))
        with suppress(Refused):  # the verdict is another test's
            admission.walk()
    masks = [(None if mask is None else list(members(mask)), preferred) for mask, preferred in found]
    assert masks == [(hint["mask"], hint["preferred"]) for hint in expected or []]
