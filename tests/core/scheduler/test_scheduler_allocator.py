"""What the scheduler model does with a pod and a node, case by case: places, and refusals in the scheduler's words."""

import pytest
from scheduler_cases import GIB, GPU, machine, pod, state_of

from webhook.core.demand import ContainerDemand, CpuBinding, PodDemand, QosClass
from webhook.core.kubelet.tables import tables_of
from webhook.core.machine import NodeState
from webhook.core.masks import cpu_list, mask_of
from webhook.core.placement import Placement, Rejection
from webhook.core.pod import ContainerKind
from webhook.core.scheduler import UNVERIFIED, SchedulerAllocator, Scoring, is_wider_than_a_numa_node
from webhook.core.scheduler.exclusive import NumaStatus, Occupants
from webhook.core.scheduler.picks import owed_cpus, split_evenly
from webhook.core.scheduler.policies import effective_policy

ALLOCATOR = SchedulerAllocator()
BOUND = CpuBinding.CPUS
TWO = machine(2, 8, gpus=4)
NUMA0, NUMA1 = TWO.cpus.numa_cpus
ACROSS = 0b1 | 0b1 << 8
"""One CPU of each NUMA node: a pod bound to them makes both shared."""


def place(on, demand, state=None, **more):
    return SchedulerAllocator(**more).place(on, state or NodeState.empty(on), demand)


@pytest.mark.parametrize(
    "pod_policy, node_policy, effective",
    [
        pytest.param("", "", "", id="neither states one"),
        pytest.param("Restricted", "", "Restricted", id="the pod's on a node without"),
        pytest.param("", "Restricted", "Restricted", id="the node's for a pod without"),
        pytest.param("BestEffort", "BestEffort", "BestEffort", id="both the same"),
        pytest.param("", "None", "", id="a label value that is no policy counts as none"),
        pytest.param("restricted", "", "", id="another spelling counts as none"),
    ],
)
def test_effective_policy(pod_policy, node_policy, effective):
    """Pod and node together; what differs is a refusal (see the vectors)."""
    assert effective_policy(pod_policy, node_policy) == effective


@pytest.mark.parametrize(
    "cpusets, statuses",
    [
        pytest.param([], ["idle", "idle"], id="nobody is bound"),
        pytest.param([0b11], ["single", "idle"], id="one pod on NUMA 0"),
        pytest.param([0b11, 0b100], ["single", "idle"], id="two pods on NUMA 0"),
        pytest.param([ACROSS], ["shared", "shared"], id="one pod across both"),
        pytest.param([0b10, ACROSS], ["shared", "shared"], id="shared wins over single"),
    ],
)
def test_status_follows_bound_cpus(cpusets, statuses):
    """Single, shared, idle by the CPUs of bound pods alone (2.5)."""
    occupants = Occupants.of(cpusets, TWO.cpus.numa_cpus)
    assert [occupants.status(position).value for position in range(2)] == statuses


def test_what_is_not_idle_is_told_by_numa_id():
    """The words name NUMA ids, not positions."""
    assert Occupants(0b10, 0b01).in_words((0, 4)) == "NUMA 0 shared, NUMA 4 single"
    assert Occupants().status(3) is NumaStatus.IDLE


REFUSALS = [
    pytest.param(
        pod(2, 1, policy="Restricted"), machine(node_policy="BestEffort"), None,
        ("policy-mismatch", "node(s) NUMA Topology policy not match", True), id="pod and node want different policies",
    ),
    pytest.param(
        pod(10, 4, policy="SingleNUMANode"), TWO, None,
        ("unaligned", "Unaligned NUMA Hint cause cpu prefer [11] among [11],gpu prefer [01 10] among [01 10 11]", True),
        id="more CPUs than a NUMA node has",
    ),
    pytest.param(
        pod(10, 2, policy="Restricted"), TWO, None,
        ("unaligned", "Unaligned NUMA Hint cause cpu prefer [11] among [11] & gpu prefer [01 10] among [01 10 11]",
         True), id="Restricted: the CPUs need two NUMA nodes, the GPUs one (D01)",
    ),
    pytest.param(
        pod(2, policy="SingleNUMANode"), TWO, state_of(TWO, bound=[ACROSS]),
        ("exclusive", "Unaligned NUMA Hint cause cpu prefer [01 10] among [01 10 11]", False),
        id="Required, and both NUMA nodes are shared: the words never say so",
    ),
    pytest.param(
        pod(6, 8, policy="Restricted"), TWO, state_of(TWO, bound=[0b1]),
        ("exclusive", "Unaligned NUMA Hint cause cpu prefer [01 10 11] among [01 10 11] & gpu prefer [11] among [11]",
         False), id="Required, and a pod that spans meets a single node",
    ),
    pytest.param(
        pod(2, 8, policy="Restricted"), TWO, state_of(TWO, owed=NUMA1),
        ("unaligned", "Unaligned NUMA Hint cause cpu prefer [01] among [01] & gpu prefer [11] among [11]", False),
        id="a set with a NUMA node that has no CPU left is no hint, though the others have enough",
    ),
    pytest.param(
        pod(2, policy="SingleNUMANode"), TWO, state_of(TWO, owed=NUMA0 | NUMA1),
        ("unsatisfied", "Unsatisfied NUMA cpu", False), id="no CPU is left",
    ),
    pytest.param(
        pod(9, policy="BestEffort"), TWO, state_of(TWO, owed=NUMA0),
        ("insufficient", "Insufficient NUMA cpu", False), id="BestEffort needs the CPUs all the same",
    ),
    pytest.param(
        pod(1, 9, policy="BestEffort"), TWO, None,
        ("insufficient", "Insufficient GPU Devices", True), id="more GPUs than there are",
    ),
    pytest.param(
        pod(1, 8, policy="BestEffort"), TWO, state_of(TWO, unhealthy=1),
        ("insufficient", "Insufficient GPU Devices", False), id="more GPUs than are healthy and free",
    ),
    pytest.param(
        pod(12, binding=BOUND), TWO, state_of(TWO, owed=NUMA0),
        ("insufficient", "not enough cpus available to satisfy request", False), id="bound without a policy",
    ),
    pytest.param(
        pod(3, binding=CpuBinding.WHOLE_CORES), machine(threads=2), None,
        ("cpus-not-whole", "node(s) requested cpus not multiple cpus per core", True), id="half a core, by bind policy",
    ),
    pytest.param(
        pod(3.5, policy="SingleNUMANode", binding=BOUND), TWO, None,
        ("cpus-not-whole", "the requested CPUs must be integer", True), id="bound, and no whole CPUs in sum",
    ),
    pytest.param(
        pod(3), machine(threads=2, full_pcpus_only=True), None,
        ("cpus-not-whole", "node(s) requested cpus not multiple cpus per core", True), id="half a core",
    ),
    pytest.param(
        pod(1.5, qos=QosClass.BURSTABLE), machine(threads=2, full_pcpus_only=True), None,
        ("cpus-not-whole", "the requested CPUs must be integer", True), id="a node of whole cores binds every pod",
    ),
]  # fmt: skip


@pytest.mark.parametrize("demand, on, state, expected", REFUSALS)
def test_refusal(demand, on, state, expected):
    """Reason, the scheduler's own words, and whether the empty machine refuses too."""
    answer = place(on, demand, state)
    assert isinstance(answer, Rejection)
    assert (answer.reason, answer.message, answer.structural) == expected


def test_facts_of_refusals():
    """Which policies differ, which NUMA nodes are occupied, and what is documented and no guess."""
    mismatch = place(machine(node_policy="BestEffort"), pod(2, policy="Restricted"))
    assert mismatch.facts == {"pod_policy": "Restricted", "node_policy": "BestEffort"}
    exclusive = place(TWO, pod(2, policy="SingleNUMANode"), state_of(TWO, bound=[ACROSS]))
    assert exclusive.facts == {"policy": "SingleNUMANode", "occupied": "NUMA 0 shared, NUMA 1 shared"}
    assert place(TWO, pod(9, policy="SingleNUMANode")).facts["documented"] == "true"


PLACES = [
    pytest.param(pod(4, 2, policy="SingleNUMANode"), TWO, None, (0b1, "0-3", 0b11), id="lowest NUMA node of equals"),
    pytest.param(
        pod(4, 2, policy="SingleNUMANode"), TWO, state_of(TWO, bound=[ACROSS], gpus=0b1),
        None, id="Required keeps off shared nodes",
    ),
    pytest.param(
        pod(4, 2, policy="SingleNUMANode", exclusive="Preferred"), TWO, state_of(TWO, bound=[ACROSS], gpus=0b1),
        (0b1, "1-4", 0b110), id="Preferred restricts nothing",
    ),
    pytest.param(
        pod(4, 2, policy="SingleNUMANode"), TWO, state_of(TWO, gpus=0b10000),
        (0b10, "8-11", 0b1100000), id="GPUs from the NUMA node that is begun",
    ),
    pytest.param(
        pod(4, policy="SingleNUMANode"), TWO, state_of(TWO, owed=0b11), (0b10, "8-11", 0), id="CPUs from the emptier",
    ),
    pytest.param(
        pod(2, 8, policy="Restricted"), TWO, None, (0b11, "0,8", 0xFF), id="CPUs go where the GPUs must span (D02)",
    ),
    pytest.param(
        pod(10, 2, policy="BestEffort"), TWO, None, (0b11, "0-4,8-12", 0b11),
        id="BestEffort spans where it must, evenly",
    ),
    pytest.param(
        pod(4, policy="BestEffort"), TWO, state_of(TWO, bound=[ACROSS]), (0b1, "1-4", 0),
        id="BestEffort never waits for exclusivity (D06)",
    ),
    pytest.param(
        pod(10, 2, binding=BOUND), TWO, None, (None, "0-9", 0b11), id="bound without a policy: only the count matters"
    ),
    pytest.param(
        pod(4, 2), TWO, None, (None, "", 0b11), id="whole cores are not bound by themselves, nor by Guaranteed"
    ),
    pytest.param(
        pod(4, policy="SingleNUMANode", binding=CpuBinding.NONE), TWO, None, (0b1, "", 0),
        id="aligned, but with no QoS that binds: counted only",
    ),
    pytest.param(
        pod(2, policy="SingleNUMANode", binding=CpuBinding.WHOLE_CORES), machine(threads=2),
        state_of(machine(threads=2), owed=0b1 | NUMA1), (0b1, "2-3", 0),
        id="a required bind policy takes whole cores",
    ),
    pytest.param(
        pod(4, 2, policy="SingleNUMANode"), machine(1, 8), None, (None, "0-3", 0b11),
        id="one NUMA node is no affinity (D09)",
    ),
    pytest.param(
        pod(4, binding=BOUND), machine(node_policy="SingleNUMANode"), state_of(TWO, bound=[ACROSS]), (0b1, "1-4", 0),
        id="the node's policy brings no exclusivity",
    ),
    pytest.param(
        pod(4, policy="SingleNUMANode"), machine(threads=2, full_pcpus_only=True),
        state_of(machine(threads=2), owed=0b10), (0b10, "8-11", 0), id="whole cores only",
    ),
    pytest.param(
        pod(2, 1, policy="SingleNUMANode"), machine(gpus=[0, 0b10]), state_of(machine(gpus=[0, 0b10]), gpus=0b10),
        (0b10, "8-9", 0b1), id="a GPU of unknown NUMA node stands in for one that is busy",
    ),
    pytest.param(
        pod(2, 1, policy="SingleNUMANode"), machine(gpus=[0, 0]), None, (0b1, "0-1", 0b1),
        id="GPUs of unknown NUMA nodes have no opinion",
    ),
    pytest.param(
        pod(2, 3, policy="SingleNUMANode"), machine(32, 4, gpus=4), None, (0b1, "0-1", 0b111), id="32 NUMA nodes",
    ),
]  # fmt: skip


@pytest.mark.parametrize("demand, on, state, expected", PLACES)
def test_place(demand, on, state, expected):
    """NUMA nodes, CPUs, GPUs; None: no place."""
    answer = place(on, demand, state)
    if expected is None:
        assert isinstance(answer, Rejection)
        return
    assert isinstance(answer, Placement), answer
    holding = answer.holding
    gpus = holding.devices[0] if holding.devices else 0
    assert (answer.containers[0].numa_mask, cpu_list(holding.cpuset), gpus) == expected
    assert holding.cpuset in {0, holding.cpus}


def test_unbound_cpus_are_counted_by_numa_node_and_seen_by_no_exclusivity():
    """3.5 CPUs over two NUMA nodes are 1.75 each, so two are begun on each; nobody is bound to them."""
    on = machine(2, 2, gpus=4)
    answer = place(on, pod(3.5, 8, policy="Restricted"))
    assert (answer.containers[0].numa_mask, answer.containers[0].cpus) == (0b11, 0)
    assert (cpu_list(answer.holding.cpus), answer.holding.cpuset, answer.state.cpusets) == ("0-3", 0, ())


def test_memory_is_aligned_where_the_machine_tells_it():
    """CPUs fit one NUMA node, memory two: SingleNUMANode refuses, BestEffort splits both evenly."""
    on = machine(2, 8, gib=8)
    refused = place(on, pod(2, policy="SingleNUMANode", gib=10))
    assert refused.message == "Unaligned NUMA Hint cause cpu prefer [11] among [11],memory prefer [11] among [11]"
    answer = place(on, pod(2, policy="BestEffort", gib=10))
    assert answer.holding.memory == (((0b1, 5 * GIB), (0b10, 5 * GIB)),)
    assert ALLOCATOR.release(on, answer.state, answer.holding) == NodeState.empty(on)


def test_strategy_decides_between_equals():
    """The emptier NUMA node by default, the fuller one under MostAllocated."""
    state = state_of(TWO, owed=0b11)
    masks = [
        place(TWO, pod(2, policy="SingleNUMANode"), state, scoring=scoring).containers[0].numa_mask
        for scoring in Scoring
    ]
    assert masks == [0b10, 0b1]


def test_containers_share_the_cpus_and_divide_the_devices():
    """Init containers use what the apps will get; a name that the machine does not track is left to plain counts."""
    containers = (
        ContainerDemand("init", ContainerKind.INIT, 1000, ((GPU, 3),)),
        ContainerDemand("a", ContainerKind.APP, 1000, ((GPU, 1), ("example.com/other", 1))),
        ContainerDemand("b", ContainerKind.APP, 1000, ((GPU, 2),)),
    )
    totals = {"cpu": 2000, GPU: 3, "example.com/other": 1}
    answer = place(
        TWO,
        PodDemand(
            QosClass.BURSTABLE, containers, numa_policy="SingleNUMANode", cpu_binding=CpuBinding.CPUS, totals=totals
        ),
    )
    assert [(one.name, one.cpus, one.devices) for one in answer.containers] == [
        ("init", 0b11, ((0, 0b111),)),
        ("a", 0b11, ((0, 0b1),)),
        ("b", 0b11, ((0, 0b110),)),
    ]


@pytest.mark.parametrize(
    "asked, free, unit, shares",
    [
        pytest.param(3500, (8000, 8000), 1, {0: 1750, 1: 1750}, id="millicores split in half"),
        pytest.param(5000, (8000, 8000), 1000, {0: 2000, 1: 3000}, id="whole CPUs: the rest goes to the last"),
        pytest.param(6000, (8000, 8000), 4000, None, id="no multiple of the unit is left over"),
        pytest.param(8000, (1000, 9000), 1000, {0: 1000, 1: 7000}, id="the smallest gives all it has"),
        pytest.param(8000, (9000, 1000), 1000, {0: 7000, 1: 1000}, id="whichever it is"),
        pytest.param(1000, (8000, 8000), 1000, {1: 1000}, id="one CPU over two nodes"),
        pytest.param(9000, (4000, 4000), 1000, None, id="too few together"),
    ],
)
def test_split_evenly(asked, free, unit, shares):
    """As even as possible, the smallest node first (2.6)."""
    assert split_evenly(asked, free, 0b11, unit) == shares


def test_split_compares_places_for_numa_nodes():
    """On the NUMA nodes 1 and 2 the larger is asked first, its place being compared by NUMA node 0: 6 are not found."""
    assert split_evenly(6000, (9000, 9000, 2000), 0b110, 1000) is None
    assert split_evenly(6000, (9000, 9000, 2000), 0b101, 1000) is None
    assert split_evenly(6000, (9000, 2000, 9000), 0b101, 1000) == {2: 3000, 0: 3000}
    assert split_evenly(6000, (9000, 2000, 2000), 0b111, 1000) == {2: 2000, 1: 2000, 0: 2000}


def test_owed_cpus_leave_whole_cores():
    """Broken cores first, then the highest CPUs."""
    on = machine(1, 8, threads=2)
    table = tables_of(on).cpus
    assert owed_cpus(table, on.cpus.all_cpus & ~0b1, {0: 1000}) == 0b10
    assert owed_cpus(table, on.cpus.all_cpus & ~0b1, {0: 2500}) == 0b10 | 0b11000000


@pytest.mark.parametrize(
    "demand, on, wide",
    [
        pytest.param(pod(9, policy="SingleNUMANode"), TWO, True, id="nine CPUs, eight on each"),
        pytest.param(pod(8, policy="SingleNUMANode"), machine(reserved=1), False, id="reserved ones count as there"),
        pytest.param(pod(1, 5, policy="SingleNUMANode"), TWO, True, id="five GPUs, four on each"),
        pytest.param(pod(1, 2, policy="SingleNUMANode"), machine(gpus=[1, 2, 0]), False, id="one could sit anywhere"),
        pytest.param(pod(1, 2, policy="SingleNUMANode"), machine(gpus=[0, 0]), False, id="no GPU's node is known"),
        pytest.param(pod(9, policy="Restricted"), TWO, False, id="another policy"),
        pytest.param(pod(9), machine(node_policy="SingleNUMANode"), False, id="only the node's policy"),
    ],
)
def test_is_wider_than_a_numa_node(demand, on, wide):
    """The one refusal that is documented."""
    assert is_wider_than_a_numa_node(on, demand) is wide


def test_what_is_not_verified_has_the_numbers_of_its_source():
    """One to ten, each with words."""
    assert list(UNVERIFIED) == list(range(1, 11))
    assert all(UNVERIFIED.values())


def test_masks_are_of_positions():
    """A sanity check of the fixture: eight CPUs and four GPUs a NUMA node."""
    assert (cpu_list(NUMA1), TWO.devices[0].touching(0b10)) == ("8-15", mask_of(range(4, 8)))
