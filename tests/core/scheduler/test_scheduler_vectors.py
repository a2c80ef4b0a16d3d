"""Every vector of ``tests/vectors/koordinator.json``: facts of Koordinator's unit tests, and what its code implies."""

import json
from math import ceil
from pathlib import Path

import pytest
from scheduler_cases import GPU, machine, pod, state_of

from webhook.core.cpu_binding import binding_of
from webhook.core.demand import CpuBinding
from webhook.core.kubelet.tables import tables_of
from webhook.core.machine import NodeState
from webhook.core.masks import cpu_list, mask_of, members, parse_cpu_list
from webhook.core.placement import Placement, Rejection
from webhook.core.pod import Pod
from webhook.core.quantity import parse_quantity
from webhook.core.scheduler import SchedulerAllocator, Scoring
from webhook.core.scheduler.cards import cards_of
from webhook.core.scheduler.exclusive import Occupants
from webhook.core.scheduler.hints import Hint
from webhook.core.scheduler.merge import Terms, merge
from webhook.core.scheduler.picks import bound_cpus, owed_cpus, split_evenly
from webhook.core.scheduler.policies import PolicyMismatchError, effective_exclusive, effective_policy
from webhook.core.scheduler.request import request_of
from webhook.core.scheduler.zones import Zone, Zones, whole_free_cores

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "koordinator.json").read_text())
CASES = [case for group in ("cases", "extra_cases", "derived_cases") for case in VECTORS[group]]
FIXTURES = VECTORS["fixtures"]

ELSEWHERE = {
    "reserved_cpu_accounting": "a node's report is read in wire (tests/wire/test_wire_node_topologies.py); core is "
    "given Machine.reserved_cpus",
}
"""Kinds that are no business of the allocator model."""


def of_kind(kind: str) -> list:
    found = [case for case in CASES if case["kind"] == kind]
    return [pytest.param(case["input"], case["expected"], id=f"{case['id']} {case['title']}") for case in found]


def test_every_kind_of_vector_is_tested_here():
    """A kind that is added to the file does not go unnoticed."""
    tested = {"hint_merge", "exclusive_check", "policy_merge", "effective_exclusive", "cpu_hint_generation"}
    tested |= {"device_hint_generation", "filter_affinity", "allocate", "prefilter", "e2e"}
    assert {case["kind"] for case in CASES} == tested | set(ELSEWHERE)


# --- merge and exclusivity ---


def occupants(statuses: list) -> Occupants:
    return Occupants(
        mask_of(node for node, status in enumerate(statuses) if status == "single"),
        mask_of(node for node, status in enumerate(statuses) if status == "shared"),
    )


def provided(providers: list) -> list:
    result = []
    for provider in providers:
        if not provider:
            result.append(("", None))
        for resource, hints in provider.items():
            made = None
            if hints is not None:
                made = [
                    Hint(
                        None if hint["numa"] is None else mask_of(hint["numa"]), hint["preferred"], hint.get("score", 0)
                    )
                    for hint in hints
                ]
            result.append((resource, made))
    return result


def merges() -> list:
    """Return one case for each policy of each vector."""
    found = []
    for case in CASES:
        if case["kind"] != "hint_merge":
            continue
        given = case["input"]
        if "policy" in given:
            expectations = {given["policy"]: case["expected"] | {"numaNodes": given["numaNodes"]}}
        else:
            expectations = case["expected"]
        for policy, expected in expectations.items():
            found.append(pytest.param(given, policy, expected, id=f"{case['id']} {policy}: {case['title']}"))
    return found


@pytest.mark.parametrize("given, policy, expected", merges())
def test_hint_merge(given, policy, expected):
    """The merge of a vector's hints: affinity, preferred, admitted, unsatisfied, and the scheduler's words."""
    terms = Terms(policy, mask_of(expected["numaNodes"]), given["exclusive"], occupants(given["numaStatus"]))
    merged = merge(terms, provided(given["providers"]))
    affinity = None if merged.numa_mask is None else list(members(merged.numa_mask))
    found = {"affinity": affinity, "preferred": merged.preferred, "admit": merged.admits}
    found |= {"unsatisfied": merged.unsatisfied, "reasons": list(merged.reasons)}
    assert found | expected == {"numaNodes": expected["numaNodes"]} | found


@pytest.mark.parametrize("given, expected", of_kind("exclusive_check"))
def test_exclusive_check(given, expected):
    """Whether a set of NUMA nodes keeps exclusivity."""
    allowed = occupants(given["numaStatus"]).admit(mask_of(given["affinity"]), given["exclusive"])
    assert {"ok": allowed} == expected


@pytest.mark.parametrize("given, expected", of_kind("policy_merge"))
def test_policy_merge(given, expected):
    """The policy of pod and node together."""
    if not expected.get("error"):
        assert effective_policy(given["podPolicy"], given["nodePolicy"]) == expected["effective"]
        return
    with pytest.raises(PolicyMismatchError) as caught:
        effective_policy(given["podPolicy"], given["nodePolicy"])
    assert str(caught.value) == expected["error"]


@pytest.mark.parametrize("given, expected", of_kind("effective_exclusive"))
def test_effective_exclusive(given, expected):
    """The exclusivity of a pod."""
    assert [effective_exclusive(one["podPolicy"], one["podExclusive"]) for one in given] == expected


# --- hints ---


def fixture(name: str, *, gib=None, **more):
    """Return the machine of a fixture."""
    row = FIXTURES[name]
    cpus = row["coresPerNuma"] * row["threadsPerCore"]
    memory = int(row["perNuma"]["memory"].removesuffix("Gi")) if gib is None else gib
    return machine(row["numaNodes"], cpus, threads=row["threadsPerCore"], gpus=0, gib=memory, **more)


def test_fixture_has_the_siblings_of_its_description():
    """CPUs 2k and 2k+1 share a core, 0-51 lie on NUMA 0."""
    made = fixture("node_2x52")
    assert {(core & -core).bit_length() - 1: core.bit_count() for core in made.cpus.core_cpus} == dict.fromkeys(
        range(0, 104, 2), 2
    )
    assert [cpu_list(cpus) for cpus in made.cpus.numa_cpus] == list(FIXTURES["node_2x52"]["cpuIds"].values())


def amount(resource: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.millicores if resource == "cpu" else quantity.millicores // 1000


def given_zones(given: dict) -> Zones:
    """Return the CPU side of a vector, its amplification worked out (2.7): bound CPUs are multiplied, too."""
    row = FIXTURES[given["fixture"]]
    per_numa = {resource: amount(resource, text) for resource, text in row["perNuma"].items()}
    if "hugepages-1GiPerNuma" in given.get("fixtureExtra", {}):
        per_numa["hugepages-1Gi"] = amount("hugepages-1Gi", given["fixtureExtra"]["hugepages-1GiPerNuma"])
    ratio = given.get("amplificationRatios", {}).get("cpu", 1)
    held = given.get("allocated") or {}
    made = fixture(given["fixture"])
    bound = parse_cpu_list(held.get("cpuset", ""))
    numa = range(row["numaNodes"])
    result = []
    for resource, asked in given["requests"].items():
        total = [ceil(per_numa[resource] * (ratio if resource == "cpu" else 1))] * len(numa)
        free = []
        for node in numa:
            taken = amount(resource, held.get("numa", {}).get(str(node), {}).get(resource, "0"))
            if resource == "cpu":
                pinned = (bound & made.cpus.numa_cpus[node]).bit_count() * 1000
                taken += ceil(pinned * ratio) - pinned
            free.append(max(0, total[node] - taken))
        wanted = amount(resource, asked)
        if resource == "cpu" and given["cpuBind"]:
            wanted = ceil(wanted * ratio)
            if given.get("requiredBindPolicy") == "FullPCPUs":
                usable = whole_free_cores(made, made.cpus.all_cpus & ~bound)
                cores = [(usable & cpus).bit_count() * 1000 for cpus in made.cpus.numa_cpus]
                free = [min(pair) for pair in zip(free, cores, strict=True)]
        unit = 1000 if resource == "cpu" and given["cpuBind"] else 1
        result.append(Zone.of(resource, wanted, free, total, unit))
    return Zones(tuple(result), mask_of(numa))


def listed(hints) -> list:
    return [{"numa": list(members(hint.numa_mask)), "preferred": hint.preferred} for hint in hints]


@pytest.mark.parametrize("given, expected", of_kind("cpu_hint_generation"))
def test_cpu_hint_generation(given, expected):
    """The CPU side's hints of each resource."""
    hints = given_zones(given).hints(given["policyGiven"], Scoring.LEAST_ALLOCATED)
    assert {resource: listed(one) for resource, one in hints} == expected


@pytest.mark.parametrize("given, expected", of_kind("device_hint_generation"))
def test_device_hint_generation(given, expected):
    """The device side's hints, with the score of those that pick the same cards as the whole machine."""
    rows = FIXTURES[given["fixture"]]
    devices = {kind: [1 << row["numa"] for row in rows[key]] for kind, key in (("gpu", "gpus"), ("rdma", "rdma"))}
    on = machine(rows["numaNodes"], gpus=devices["gpu"], devices={"koordinator.sh/rdma": devices["rdma"]})
    wanted = {
        GPU if kind == "gpu" else f"koordinator.sh/{kind}": int(next(iter(request.values()))) // 100
        for kind, request in given["requests"].items()
    }
    state = state_of(on, gpus=mask_of(given.get("assigned", {}).get("gpu", ())))
    request = request_of(on, pod(more=wanted))
    found = {
        kind: [one | {"score": hint.score} for one, hint in zip(listed(hints), hints, strict=True)]
        for kind, hints in cards_of(on, state, request).hints()
    }
    assert found == expected


# --- the whole model ---


@pytest.mark.parametrize("given, expected", of_kind("filter_affinity"))
def test_filter_affinity(given, expected):
    """The NUMA nodes of a pod that is only counted, beside others that are only counted."""
    on = fixture(given["fixture"], node_policy=given["nodePolicyLabel"])
    held, memory = 0, []
    for node, amounts in given["allocatedPerNuma"].items():
        millicores = {int(node): amount("cpu", amounts["cpu"])}
        held |= owed_cpus(tables_of(on).cpus, on.cpus.all_cpus, millicores)
        memory.append((1 << int(node), amount("memory", amounts["memory"])))
    state = NodeState(on.cpus.all_cpus & ~held, (), (), (tuple(memory),))
    wanted = pod(
        amount("cpu", given["requests"]["cpu"]) / 1000,
        policy=given["podPolicy"],
        exclusive=given["exclusive"],
        gib=amount("memory", given["requests"]["memory"]) >> 30,
        binding=CpuBinding.NONE,
    )
    answer = SchedulerAllocator(Scoring(given["numaScoring"])).place(on, state, wanted)
    assert isinstance(answer, Placement) is expected["admit"]
    assert list(members(answer.containers[0].numa_mask)) == expected["affinity"]


@pytest.mark.parametrize("given, expected", of_kind("allocate"))
def test_allocate(given, expected):
    """How bound CPUs are split over NUMA nodes and which CPUs they are, beside CPUs that are only counted."""
    on = fixture(given["fixture"])
    table = tables_of(on).cpus
    bound = parse_cpu_list(given["allocated"]["cpuset"])
    free = on.cpus.all_cpus & ~bound
    counted = {
        int(node): amount("cpu", amounts["cpu"]) - (bound & on.cpus.numa_cpus[int(node)]).bit_count() * 1000
        for node, amounts in given["allocated"]["numa"].items()
    }
    free &= ~owed_cpus(table, free, counted)
    unit = 1000
    if given.get("requiredBindPolicy") == "FullPCPUs":
        free, unit = whole_free_cores(on, free), 2000
    amounts = [(free & cpus).bit_count() * 1000 for cpus in on.cpus.numa_cpus]
    shares = split_evenly(amount("cpu", given["requests"]["cpu"]), amounts, mask_of(given["affinity"]), unit)
    rows = [
        {"node": node, "resources": {"cpu": str(millicores // 1000)}} for node, millicores in sorted(shares.items())
    ]
    assert rows == expected["numaNodeResources"]
    assert cpu_list(bound_cpus(table, free, shares, Scoring.LEAST_ALLOCATED)) == expected["cpuset"]


@pytest.mark.parametrize("given, expected", of_kind("prefilter"))
def test_prefilter(given, expected):
    """A pod whose CPUs are to be bound is passed over everywhere where they are no whole ones."""
    on = machine()
    binding = binding_of(Pod(labels=given["labels"]))
    asked = pod(float(given["requests"]["cpu"]), policy="SingleNUMANode", binding=binding)
    answer = SchedulerAllocator().place(on, NodeState.empty(on), asked)
    assert isinstance(answer, Rejection)
    assert (answer.message, answer.structural) == (expected["message"], True)


@pytest.mark.parametrize("given, expected", of_kind("e2e"))
def test_replicas_fill_the_numa_nodes(given, expected):
    """Equal pods one after the other take a NUMA node each; one more that is larger finds none."""
    on = machine(given["numaNodes"], 50)
    policy = json.loads(given["podAnnotation"])["numaTopologyPolicy"]
    size = given["podSizePercentOfNode"] * given["numaNodes"] * 50 // 100
    allocator, state, used = SchedulerAllocator(), NodeState.empty(on), []
    for _ in range(given["replicas"]):
        answer = allocator.place(on, state, pod(size, policy=policy))
        used.append(answer.containers[0].numa_mask)
        state = answer.state
    assert {mask.bit_count() for mask in used} == {expected["numaNodeResourcesEntriesPerPod"]}
    assert len(set(used)) == expected["distinctNumaNodesUsed"]
    assert isinstance(allocator.place(on, state, pod(size + 2, policy=policy)), Rejection)
