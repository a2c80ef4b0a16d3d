"""Machines and pods for the tests of the scheduler model: builders, and hypothesis strategies for small wild ones."""

from hypothesis import strategies as st

from webhook.core.demand import ContainerDemand, CpuBinding, PodDemand, QosClass
from webhook.core.machine import CpuLayout, DeviceLayout, KubeletConfig, Machine, MemoryLayout, NodeState
from webhook.core.masks import mask_of, members
from webhook.core.pod import ContainerKind

GPU = "aliyun.com/gpu"
RDMA = "koordinator.sh/rdma"
GIB = 1 << 30
POLICIES = ("SingleNUMANode", "Restricted", "BestEffort")


def machine(
    numa=2, cpus=8, *, threads=1, gpus=4, reserved=0, gib=0, devices=None, node_policy="", **kubelet
) -> Machine:
    """Return ``numa`` NUMA nodes of ``cpus`` CPUs each, siblings adjacent; ``gpus`` each or a mask per GPU."""
    homes = tuple(1 << node for node in range(numa) for _ in range(gpus)) if isinstance(gpus, int) else tuple(gpus)
    layouts = [DeviceLayout(GPU, homes)] if homes else []
    layouts += [DeviceLayout(resource, tuple(where)) for resource, where in (devices or {}).items()]
    numa_cpus = tuple(mask_of(range(node * cpus, (node + 1) * cpus)) for node in range(numa))
    cores = tuple(mask_of(range(at, at + threads)) for at in range(0, numa * cpus, threads))
    return Machine(
        tuple(range(numa)),
        CpuLayout(numa_cpus, numa_cpus, cores),
        reserved_cpus=reserved,
        devices=tuple(layouts),
        memory=(MemoryLayout("memory", (gib * GIB,) * numa, (0,) * numa),) if gib else (),
        kubelet=KubeletConfig(**kubelet),
        node_policy=node_policy,
    )


def pod(
    cpus=0.0, gpus=0, *, policy="", exclusive="", gib=0, more=None, qos=QosClass.GUARANTEED, binding=None
) -> PodDemand:
    """Return the demand of a pod of one container; with a policy and whole cores it is bound like a pod of ACK's."""
    if binding is None:
        binding = CpuBinding.CPUS if policy and cpus and not cpus % 1 else CpuBinding.NONE
    counts = ({GPU: gpus} if gpus else {}) | (more or {})
    totals = {"cpu": round(cpus * 1000), "memory": gib * GIB, **counts}
    container = ContainerDemand("main", ContainerKind.APP, round(cpus * 1000), tuple(sorted(counts.items())))
    return PodDemand(
        qos, (container,), numa_policy=policy, numa_exclusive=exclusive, cpu_binding=binding, totals=totals
    )


def state_of(on: Machine, *, bound=(), owed=0, gpus=0, unhealthy=0) -> NodeState:
    """Return a state with pods bound to the CPU masks ``bound``, other CPUs ``owed``, and busy ``gpus`` (masks)."""
    held = owed
    for cpuset in bound:
        held |= cpuset
    rest = (0,) * (len(on.devices) - 1)
    return NodeState(
        on.cpus.all_cpus & ~on.reserved_cpus & ~held,
        (gpus, *rest) if on.devices else (),
        (unhealthy, *rest) if on.devices else (),
        ((),) * len(on.memory),
        cpusets=tuple(bound),
    )


@st.composite
def machines(draw, most_numa=4) -> Machine:
    """Draw a small machine: uneven GPUs, some without a known NUMA node, sometimes hyper-threads, memory, a policy."""
    numa = draw(st.integers(1, most_numa))
    threads = draw(st.sampled_from([1, 2]))
    cpus = threads * draw(st.integers(1, 4))
    homes = draw(st.lists(st.sampled_from([0, *(1 << node for node in range(numa))]), max_size=6))
    nics = draw(st.lists(st.sampled_from([1 << node for node in range(numa)]), max_size=3))
    return machine(
        numa,
        cpus,
        threads=threads,
        gpus=homes,
        devices={RDMA: nics} if nics else None,
        reserved=draw(st.integers(0, 1)),
        gib=draw(st.sampled_from([0, 0, 8])),
        node_policy=draw(st.sampled_from(["", "", "", *POLICIES])),
        full_pcpus_only=draw(st.booleans()) and threads > 1,
    )


@st.composite
def pods(draw, policies=("", *POLICIES)) -> PodDemand:
    """Draw a pod: whole and broken CPUs, no GPUs to many, with and without a policy."""
    return pod(
        draw(st.sampled_from([0, 1, 2, 3, 4, 6, 0.5, 3.5])),
        draw(st.integers(0, 4)),
        policy=draw(st.sampled_from(policies)),
        exclusive=draw(st.sampled_from(["", "", "Required", "Preferred"])),
        gib=draw(st.sampled_from([0, 2, 6])),
        more={RDMA: draw(st.integers(1, 2))} if draw(st.booleans()) else None,
        qos=draw(st.sampled_from([QosClass.GUARANTEED, QosClass.BURSTABLE])),
        binding=draw(st.sampled_from([None, *CpuBinding])),
    )


@st.composite
def states(draw, on: Machine) -> NodeState:
    """Draw a state of ``on``: bound pods on one and on several NUMA nodes, owed CPUs, busy and unhealthy GPUs."""
    free = on.cpus.all_cpus & ~on.reserved_cpus
    owed = draw(st.integers(0, free)) & draw(st.integers(0, free)) & free
    bound = []
    left = free & ~owed
    for _ in range(draw(st.integers(0, 2))):
        cpuset = draw(st.integers(0, free)) & left
        if cpuset:
            bound.append(cpuset)
            left &= ~cpuset
    count = on.devices[0].all_devices if on.devices else 0
    busy = draw(st.integers(0, count))
    return state_of(on, bound=bound, owed=owed, gpus=busy, unhealthy=draw(st.integers(0, count)) & ~busy)


def numa_of_cpus(on: Machine, cpus: int) -> int:
    """Return the NUMA nodes that ``cpus`` lie on."""
    return mask_of(position for position, inside in enumerate(on.cpus.numa_cpus) if inside & cpus)


def numa_of_devices(on: Machine, index: int, devices: int) -> int:
    """Return the NUMA nodes that ``devices`` of ``on.devices[index]`` report."""
    found = 0
    for device in members(devices):
        found |= on.devices[index].numa_of_device[device]
    return found
