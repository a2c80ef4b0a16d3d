"""Rules of the kubelet that surprise, one row each (``domain/kubelet-topology.md``, ``kubelet-code-as-oracle.md``)."""

from dataclasses import replace

import pytest
from machines import GIB, GPU, ask, init, machine, pod, sidecar

from webhook.core.demand import QosClass
from webhook.core.kubelet import GivenDevicesError, KubeletAllocator, status_message
from webhook.core.kubelet.startup import startup_faults
from webhook.core.kubelet.versions import SINCE, rules_of
from webhook.core.machine import (
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    NodeState,
    TopologyPolicy,
    TopologyScope,
)
from webhook.core.masks import mask_of
from webhook.core.placement import Placement, Rejection

SINGLE, RESTRICTED = TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED
BEST_EFFORT, NONE = TopologyPolicy.BEST_EFFORT, TopologyPolicy.NONE
BY_POD = {"scope": TopologyScope.POD}
ALLOCATOR = KubeletAllocator()


def verdict(on, demand, state=None) -> str:
    """Return the reason, or ``admitted``."""
    answer = ALLOCATOR.place(on, state or NodeState.empty(on), demand)
    return answer.reason if isinstance(answer, Rejection) else "admitted"


BIG = {"cores": 16, "threads": 1, "gpus": 4}
CASES = [
    # id, machine, pod, verdict
    (
        "restricted: widths 2 and 1",
        machine(**BIG, policy=RESTRICTED),
        pod(ask(cpus=10, gpus=6)),
        "TopologyAffinityError",
    ),
    ("restricted: more CPUs help", machine(**BIG, policy=RESTRICTED), pod(ask(cpus=24, gpus=6)), "admitted"),
    ("restricted: a fraction gives no hint", machine(**BIG, policy=RESTRICTED), pod(ask(cpus=0.5, gpus=6)), "admitted"),
    (
        "width counts reserved CPUs",
        machine(8, 16, 1, 1, sum(1 << 16 * node for node in range(8)), policy=RESTRICTED),
        pod(ask(cpus=112, gpus=8)),
        "TopologyAffinityError",
    ),
    (
        "one CPU more has the GPUs' width",
        machine(8, 16, 1, 1, sum(1 << 16 * node for node in range(8)), policy=RESTRICTED),
        pod(ask(cpus=113, gpus=8)),
        "admitted",
    ),
    (
        "hints come from limits in every QoS class",
        machine(gpus=2),
        pod(ask(gpus=3), qos=QosClass.BEST_EFFORT),
        "TopologyAffinityError",
    ),
    ("Burstable CPUs give no hint", machine(), pod(ask(cpus=16), qos=QosClass.BURSTABLE), "admitted"),
    ("pod-level resources give no CPU hint", machine(), pod(ask(cpus=15), pod_level=True), "admitted"),
    (
        "a count of 0 still binds to the GPUs' nodes",
        machine(gpus=(1, 1), cores=16, policy=RESTRICTED),
        pod(ask(cpus=40, gpus=0)),
        "TopologyAffinityError",
    ),
    (
        "without the line it is admitted",
        machine(gpus=(1, 1), cores=16, policy=RESTRICTED),
        pod(ask(cpus=40)),
        "admitted",
    ),
    ("a resource without NUMA ids has no opinion", machine(gpus=(0, 0, 0)), pod(ask(cpus=2, gpus=3)), "admitted"),
    ("one device without id lies nowhere", machine(gpus=(0, 2)), pod(ask(gpus=2)), "TopologyAffinityError"),
    ("which best-effort takes", machine(gpus=(0, 2), policy=BEST_EFFORT), pod(ask(gpus=2)), "admitted"),
    ("a device of two nodes counts in both", machine(gpus=(3, 3)), pod(ask(cpus=2, gpus=2)), "admitted"),
    ("GPU shortage, single-numa-node", machine(gpus=1), pod(ask(gpus=3)), "TopologyAffinityError"),
    ("GPU shortage, none", machine(gpus=1, policy=NONE), pod(ask(gpus=3)), "UnexpectedAdmissionError"),
    ("GPU shortage, best-effort", machine(gpus=1, policy=BEST_EFFORT), pod(ask(gpus=3)), "UnexpectedAdmissionError"),
    ("GPU shortage without NUMA ids", machine(gpus=(0,)), pod(ask(gpus=3)), "UnexpectedAdmissionError"),
    ("CPU shortage, none", machine(policy=NONE), pod(ask(cpus=16)), "UnexpectedAdmissionError"),
    ("CPU shortage, restricted", machine(policy=RESTRICTED), pod(ask(cpus=16)), "TopologyAffinityError"),
    (
        "the init's CPUs bind the app",
        machine(cores=8, threads=1, reserved=7),
        pod(init("i", 1), ask(cpus=7)),
        "TopologyAffinityError",
    ),
    (
        "pod scope does not",
        machine(cores=8, threads=1, reserved=7, **BY_POD),
        pod(init("i", 1), ask(cpus=7)),
        "admitted",
    ),
    ("GPUs of an init are reused", machine(gpus=3), pod(init("i", gpus=3), ask(gpus=3)), "admitted"),
    ("GPUs of a sidecar are not", machine(gpus=3), pod(sidecar("s", gpus=3), ask(gpus=3)), "admitted"),
    (
        "so two do not fit beside it",
        machine(gpus=(1, 1, 1)),
        pod(sidecar("s", gpus=2), ask(gpus=2)),
        "TopologyAffinityError",
    ),
    ("3 GPUs then 1, of 1 and 3", machine(gpus=(1, 2, 2, 2)), pod(init("a", gpus=3), init("b", gpus=1)), "admitted"),
    (
        "1 GPU then 3: the first one binds the rest",
        machine(gpus=(1, 2, 2, 2)),
        pod(init("a", gpus=1), init("b", gpus=3)),
        "TopologyAffinityError",
    ),
    ("odd count and full-pcpus-only", machine(full_pcpus_only=True), pod(ask(cpus=3)), "SMTAlignmentError"),
    (
        "full-pcpus-only forgets what can be reused",
        machine(full_pcpus_only=True, policy=NONE),
        pod(init("i", 14), ask(cpus=14)),
        "SMTAlignmentError",
    ),
    ("without it the CPUs are reused", machine(policy=NONE), pod(init("i", 14), ask(cpus=14)), "admitted"),
    (
        "siblings of reserved CPUs do not count",
        machine(full_pcpus_only=True, policy=NONE),
        pod(ask(cpus=16)),
        "SMTAlignmentError",
    ),
    ("CPU manager none pins nothing", machine(static_cpus=False), pod(ask(cpus=64)), "admitted"),
    ("a resource nobody registered is ignored", machine(gpus=()), pod(ask(gpus=5)), "admitted"),
]


@pytest.mark.parametrize(("on", "demand", "expected"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_verdict(on, demand, expected):
    assert verdict(on, demand) == expected


def test_a_plugin_that_reports_no_numa_ids_gives_no_hint():
    """The map may know where the GPUs sit although the kubelet does not."""
    on = machine(gpus=2)
    silent = DeviceLayout(GPU, on.devices[0].numa_of_device, reports_numa=False)
    blind = type(on)(on.numa_ids, on.cpus, on.reserved_cpus, (silent,), kubelet=on.kubelet)
    assert verdict(on, pod(ask(gpus=3))) == "TopologyAffinityError"
    assert verdict(blind, pod(ask(gpus=3))) == "admitted"


def test_devices_of_unknown_numa_nodes_count_as_having_topology():
    """They lie in no set: restricted refuses, best-effort admits."""
    on = machine(gpus=(0, 0), policy=RESTRICTED)
    foreign = DeviceLayout(GPU, (0, 0), foreign_numa=0b11)
    strict = type(on)(on.numa_ids, on.cpus, on.reserved_cpus, (foreign,), kubelet=on.kubelet)
    assert verdict(strict, pod(ask(gpus=1))) == "TopologyAffinityError"
    lax = machine(policy=BEST_EFFORT)
    lax = type(on)(on.numa_ids, on.cpus, on.reserved_cpus, (foreign,), kubelet=lax.kubelet)
    assert verdict(lax, pod(ask(gpus=1))) == "admitted"


def test_unhealthy_devices_count_in_the_width_only():
    on = machine(gpus=(1, 1, 2, 2))
    state = NodeState(NodeState.empty(on).free_cpus, (0,), (0b0101,))
    answer = ALLOCATOR.place(on, state, pod(ask(gpus=2)))
    assert (answer.reason, answer.structural) == ("TopologyAffinityError", False)


def test_no_healthy_device_refuses_even_a_count_of_zero_since_1_26():
    """The check stands before the count (kubernetes/kubernetes#109595)."""
    for minor, expected in ((24, "admitted"), (26, "UnexpectedAdmissionError")):
        on = machine(gpus=(1,), policy=NONE, minor_version=minor)
        state = NodeState(NodeState.empty(on).free_cpus, (0,), (0b1,))
        assert verdict(on, pod(ask(gpus=0)), state) == expected


VERSIONS = [
    ("sidecars gave back before 1.29", {"gpus": (1, 1)}, pod(sidecar("s", gpus=1), ask(gpus=2)), 28, 29),
    ("device masks were wider before 1.36", {"gpus": (2,), "cores": 2}, pod(init("i", 2, 0), ask(cpus=2)), 35, 36),
    (
        "free whole cores were not counted before 1.28",
        {"full_pcpus_only": True, "policy": NONE, "reserved": 0b10001, "threads": 2},
        pod(init("i", 12), ask(cpus=12)),
        26,
        28,
    ),
]


@pytest.mark.parametrize(
    ("layout", "demand", "before", "since"), [pytest.param(*row[1:], id=row[0]) for row in VERSIONS]
)
def test_versions_differ(layout, demand, before, since):
    """The same pod on the same machine, before and since."""
    answers = [
        ALLOCATOR.place(on, NodeState.empty(on), demand)
        for on in (machine(**layout, minor_version=minor) for minor in (before, since))
    ]
    assert answers[0] != answers[1]


def test_every_version_rule_switches_at_its_version():
    for name, since in SINCE.items():
        assert not getattr(rules_of(since - 1), name)
        assert getattr(rules_of(since), name)


def test_status_message_has_the_prefix_of_its_version():
    assert status_message("x", 25) == "Pod x"
    assert status_message("x", 26) == "Pod was rejected: x"


def test_best_effort_and_none_spill_over_silently():
    """In pod scope, and without a mask, what does not fit inside goes outside."""
    on = machine(cores=4, threads=1, gpus=0, policy=BEST_EFFORT, reserved=1)
    answer = ALLOCATOR.place(on, NodeState.empty(on), pod(ask(cpus=5)))
    assert isinstance(answer, Placement)
    assert answer.containers[0].cpus.bit_count() == 5


def test_lopsided_sockets_hand_out_a_cpu_twice():
    """Sockets of 5 and 6 CPUs: the larger counts as free when 5 of it are (seen in the oracle)."""
    cores = tuple(1 << cpu for cpu in range(11))
    numa = (0b11111, 0b111111 << 5)
    on = Machine((0, 1), CpuLayout(numa, numa, cores), 1, kubelet=KubeletConfig(policy=NONE))
    taken_once = replace(NodeState.empty(on), free_cpus=NodeState.empty(on).free_cpus & ~(1 << 5))
    answer = ALLOCATOR.place(on, taken_once, pod(ask(cpus=6)))
    assert answer.holding.cpus == numa[1]


def test_the_kubelet_that_never_answers_is_a_refusal():
    """distribute-cpus-across-numa with full-pcpus-only can loop for ever (the oracle hangs on this case)."""
    on = machine(
        6, 3, gpus=0, policy=NONE, numa_per_socket=4, full_pcpus_only=True, distribute_cpus_across_numa=True,
        align_by_socket=True,
    )  # fmt: skip
    held = mask_of([1, 2, 3, 11, 17, 23, 26, 32, 33, 34])
    empty = NodeState.empty(on)
    answer = ALLOCATOR.place(on, replace(empty, free_cpus=empty.free_cpus & ~held), pod(ask(cpus=14)))
    assert "endless" in answer.message


# --- memory manager ---

MEMORY = {"gpus": 0, "memory_gib": 8, "static_memory": True}
MEMORY_CASES = [
    ("fits one node", machine(**MEMORY), pod(ask(cpus=1, gib=8)), "admitted"),
    (
        "needs both, and so does not the CPU",
        machine(**MEMORY, policy=RESTRICTED),
        pod(ask(cpus=1, gib=12)),
        "TopologyAffinityError",
    ),
    ("needs both with the CPU", machine(**MEMORY, policy=RESTRICTED), pod(ask(cpus=10, gib=12)), "admitted"),
    ("more than there is", machine(**MEMORY, policy=NONE), pod(ask(cpus=1, gib=17)), "UnexpectedAdmissionError"),
    (
        "more than there is has no opinion first",
        machine(**MEMORY),
        pod(ask(cpus=1, gib=17)),
        "UnexpectedAdmissionError",
    ),
    ("only Guaranteed pods are pinned", machine(**MEMORY), pod(ask(gib=17), qos=QosClass.BURSTABLE), "admitted"),
    ("pod-level resources are not pinned", machine(**MEMORY), pod(ask(gib=17), pod_level=True), "admitted"),
]


@pytest.mark.parametrize(("on", "demand", "expected"), [pytest.param(*row[1:], id=row[0]) for row in MEMORY_CASES])
def test_memory_verdict(on, demand, expected):
    assert verdict(on, demand) == expected


def test_a_node_of_a_group_serves_no_single_request():
    """One pod spans both NUMA nodes; a small one then finds no node that stands alone."""
    on = machine(**MEMORY, policy=RESTRICTED)
    first = ALLOCATOR.place(on, NodeState.empty(on), pod(ask(cpus=10, gib=12)))
    assert first.holding.memory == (((0b11, 12 * GIB),),)
    assert verdict(on, pod(ask(cpus=1, gib=1)), first.state) == "TopologyAffinityError"


def test_memory_of_an_init_is_reused():
    """The sum of the blocks is what is held."""
    on = machine(**MEMORY)
    demand = pod(ask("i", 1, kind=init("i").kind, gib=6), ask("app", 1, gib=7))
    answer = ALLOCATOR.place(on, NodeState.empty(on), demand)
    assert answer.holding.memory == (((0b01, 0), (0b01, 7 * GIB)),)


# --- the rest of the interface ---


def test_given_devices_are_taken_as_recorded():
    """A replay knows which of the equal devices the kubelet took."""
    on = machine(gpus=4, policy=NONE)
    answer = ALLOCATOR.place(on, NodeState.empty(on), pod(ask(gpus=2)), given={"main": {GPU: 0b10010000}})
    assert answer.holding.devices == (0b10010000,)


@pytest.mark.parametrize("given", [0b111, 0b1, 0b100000000 | 1], ids=["too many", "too few", "not on the machine"])
def test_impossible_given_devices_are_an_error(given):
    on = machine(gpus=4, policy=NONE)
    with pytest.raises(GivenDevicesError):
        ALLOCATOR.place(on, NodeState.empty(on), pod(ask(gpus=2)), given={"main": {GPU: given}})


def test_rejection_names_the_place_and_the_widths():
    on = machine(**BIG, policy=RESTRICTED)
    answer = ALLOCATOR.place(on, NodeState.empty(on), pod(ask("small", 1), ask("big", 10, 6)))
    assert (answer.container, answer.structural) == ("big", True)
    assert answer.facts == {f"{GPU}_width": "2", "cpu_width": "1"}
    assert answer.message == "Resources cannot be allocated with Topology locality"


STARTS = [
    ("nine NUMA nodes", machine(9, 1), "unsupported on machines with more than 8 NUMA Nodes"),
    ("nine, allowed", machine(9, 1, max_allowable_numa_nodes=9), ""),
    ("nine, policy none", machine(9, 1, policy=NONE), ""),
    ("seven allowed", machine(max_allowable_numa_nodes=7), "should not be less than 8"),
    ("align-by-socket on one node", machine(align_by_socket=True), "incompatible with CPUManager align-by-socket"),
    (
        "two ways to spread",
        machine(distribute_cpus_across_numa=True, distribute_cpus_across_cores=True),
        "options distribute-cpus-across-numa and distribute-cpus-across-cores",
    ),
    ("an ordinary machine", machine(), ""),
]


@pytest.mark.parametrize(("on", "text"), [pytest.param(*row[1:], id=row[0]) for row in STARTS])
def test_startup_faults_are_the_kubelets(on, text):
    faults = startup_faults(on)
    assert len(faults) == bool(text)
    assert all(text in fault for fault in faults)


@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED, BEST_EFFORT])
@pytest.mark.parametrize("minor", [35, 36])
def test_many_numa_nodes_are_answered(policy, minor):
    """36 NUMA nodes with CPUs, GPUs on a few and one GPU of two: no walk over 2^36 sets, and no refusal unproven."""
    on = machine(36, 2, 1, (1, 2, 3, 4), 1, policy=policy, minor_version=minor, max_allowable_numa_nodes=36)
    assert verdict(on, pod(ask(cpus=1, gpus=1))) == "admitted"
    expected = "TopologyAffinityError" if policy is SINGLE else "admitted"
    assert verdict(on, pod(ask(cpus=40))) == expected
