"""Machines and demands for the tests of the kubelet model: a builder, and hypothesis strategies for small wild ones."""

from hypothesis import strategies as st

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.machine import (
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    MemoryLayout,
    TopologyPolicy,
    TopologyScope,
)
from webhook.core.masks import mask_of
from webhook.core.pod import ContainerKind

GPU = "aliyun.com/gpu"
NIC = "example.com/nic"
GIB = 1 << 30


def machine(  # noqa: PLR0917 - a table's row
    numa: int = 2,
    cores: int = 4,
    threads: int = 2,
    gpus: int | tuple[int, ...] = 2,
    reserved: int = 0b1,
    numa_per_socket: int = 1,
    memory_gib: int = 0,
    **kubelet,
) -> Machine:
    """Return ``numa`` NUMA nodes of ``cores`` cores each; ``gpus`` per node, or the NUMA mask of each GPU."""
    total = numa * cores
    core_cpus = [mask_of(core + total * thread for thread in range(threads)) for core in range(total)]
    numa_cpus = [sum(core_cpus[node * cores : (node + 1) * cores]) for node in range(numa)]
    sockets = [sum(numa_cpus[at : at + numa_per_socket]) for at in range(0, numa, numa_per_socket)]
    homes = tuple(1 << node for node in range(numa) for _ in range(gpus)) if isinstance(gpus, int) else gpus
    return Machine(
        tuple(range(numa)),
        CpuLayout(tuple(numa_cpus), tuple(sockets), tuple(core_cpus)),
        reserved_cpus=reserved,
        devices=(DeviceLayout(GPU, homes),) if homes else (),
        memory=(MemoryLayout("memory", (memory_gib * GIB,) * numa, (0,) * numa),) if memory_gib else (),
        kubelet=KubeletConfig(**({"policy": TopologyPolicy.SINGLE_NUMA_NODE} | kubelet)),
    )


def ask(name: str = "main", cpus: float = 0, gpus: int | None = None, *, kind=ContainerKind.APP, gib: int = 0):
    """Return one container's demand."""
    devices = () if gpus is None else ((GPU, gpus),)
    memory = (("memory", gib * GIB),) if gib else ()
    return ContainerDemand(name, kind, int(cpus * 1000), devices, memory)


def init(name: str, cpus: float = 0, gpus: int | None = None) -> ContainerDemand:
    """Return a plain init container's demand."""
    return ask(name, cpus, gpus, kind=ContainerKind.INIT)


def sidecar(name: str, cpus: float = 0, gpus: int | None = None) -> ContainerDemand:
    """Return a sidecar's demand."""
    return ask(name, cpus, gpus, kind=ContainerKind.SIDECAR)


def pod(*containers: ContainerDemand, qos: QosClass = QosClass.GUARANTEED, pod_level: bool = False) -> PodDemand:
    """Return a pod's demand."""
    return PodDemand(qos, containers, has_pod_level_resources=pod_level)


@st.composite
def machines(draw) -> Machine:
    """Draw a machine of one to four NUMA nodes, any policy, scope and (compatible) options."""
    numa = draw(st.integers(1, 4))
    homes = draw(st.lists(st.integers(0, (1 << numa) - 1), max_size=6))
    policy = draw(st.sampled_from(TopologyPolicy))
    across_cores = draw(st.booleans()) and draw(st.booleans())
    # Sockets of one size: on others the kubelet hands out CPUs twice (test_lopsided_sockets_...).
    numa_per_socket = draw(st.sampled_from([1, 2 if numa % 2 == 0 else 1]))
    return machine(
        numa,
        draw(st.integers(1, 3)),
        draw(st.sampled_from([1, 2])),
        tuple(homes),
        1,
        numa_per_socket,
        draw(st.sampled_from([0, 0, 4])),
        policy=policy,
        scope=draw(st.sampled_from(TopologyScope)),
        full_pcpus_only=draw(st.booleans()) and not across_cores,
        distribute_cpus_across_numa=draw(st.booleans()) and not across_cores,
        distribute_cpus_across_cores=across_cores,
        align_by_socket=draw(st.booleans()) and policy is not TopologyPolicy.SINGLE_NUMA_NODE,
        static_memory=True,
        minor_version=draw(st.sampled_from([24, 28, 31, 36, 37])),
    )


@st.composite
def pods(draw) -> PodDemand:
    """Draw a pod of up to four containers, init containers and sidecars first."""
    early = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=2))
    kinds = [*early, *[ContainerKind.APP] * draw(st.integers(1, 2))]
    containers = [
        ask(
            f"c{at}",
            draw(st.sampled_from([0.5, 1, 1, 2, 3, 4, 6])),
            draw(st.one_of(st.none(), st.integers(0, 3))),
            kind=kind,
            gib=draw(st.integers(1, 3)),
        )
        for at, kind in enumerate(kinds)
    ]
    return pod(*containers, qos=draw(st.sampled_from([QosClass.GUARANTEED, QosClass.GUARANTEED, QosClass.BURSTABLE])))
