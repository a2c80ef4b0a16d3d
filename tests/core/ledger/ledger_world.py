"""Nodes and pods for the tests of the ledger: builders, and a world of random clusters."""

from dataclasses import replace
from random import Random

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, Confirmed, Eligibility, NodeRecord, PodRecord
from webhook.core.machine import (
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    TopologyPolicy,
    TopologyScope,
)
from webhook.core.masks import mask_of
from webhook.core.node_selection import NodeFacts, Taint
from webhook.core.pod import ContainerKind, NodeSelectorTerm, Operator, Requirement, Toleration

GPU = "aliyun.com/gpu"
NIC = "example.com/nic"
KUBELET = AllocatorKind.KUBELET


def machine(numa=2, cpus=8, gpus=4, *, nics=0, reserved=1, name="", reports_numa=True, **kubelet) -> Machine:
    """Return ``numa`` NUMA nodes of ``cpus`` CPUs (no hyper-threads) and ``gpus`` GPUs each; one CPU each reserved."""
    core_cpus = tuple(1 << cpu for cpu in range(numa * cpus))
    numa_cpus = tuple(mask_of(range(node * cpus, (node + 1) * cpus)) for node in range(numa))
    devices = [DeviceLayout(GPU, tuple(1 << node for node in range(numa) for _ in range(gpus)))] if gpus else []
    if not reports_numa:
        devices = [replace(layout, reports_numa=False) for layout in devices]
    if nics:
        devices.append(DeviceLayout(NIC, tuple(1 << node for node in range(numa) for _ in range(nics))))
    return Machine(
        tuple(range(numa)),
        CpuLayout(numa_cpus, numa_cpus, core_cpus),
        reserved_cpus=mask_of(node * cpus + cpu for node in range(numa) for cpu in range(reserved)),
        devices=tuple(devices),
        kubelet=KubeletConfig(**({"policy": TopologyPolicy.SINGLE_NUMA_NODE} | kubelet)),
        name=name,
    )


def node(name="n1", on=None, *, labels=None, kind=KUBELET, taints=(), ready=True, cordoned=False, unhealthy=(), **more):
    """Return a node of machine ``on`` (None: not known) that offers all of it, as ``allocatable`` changes it."""
    allocatable = {"cpu": 16000, "memory": 1 << 40, "pods": 110, GPU: 8}
    if on is not None:
        allocatable["cpu"] = (on.cpus.all_cpus & ~on.reserved_cpus).bit_count() * 1000
        allocatable.update({layout.resource: layout.count for layout in on.devices})
    allocatable.update(more)
    facts = NodeFacts(name, labels or {}, tuple(taints), ready, cordoned)
    known = kind if on is not None or kind is not KUBELET else AllocatorKind.UNKNOWN
    return NodeRecord(facts, {k: v for k, v in allocatable.items() if v is not None}, on, known, unhealthy)


def demand(*containers: tuple, qos=QosClass.GUARANTEED, **more) -> PodDemand:
    """Return a demand; each container is (CPUs, GPUs) or (CPUs, GPUs, kind) or (CPUs, {resource: count}, kind)."""
    members, totals = [], {"cpu": 0, "memory": 1 << 30}
    for at, (cpus, devices, *kind) in enumerate(containers):
        counts = devices if isinstance(devices, dict) else {GPU: devices} if devices is not None else {}
        members.append(
            ContainerDemand(
                f"c{at}",
                kind[0] if kind else ContainerKind.APP,
                int(cpus * 1000),
                tuple(sorted(counts.items())),
                (("memory", 1 << 30),),
            )
        )
        for resource, amount in [("cpu", int(cpus * 1000)), *counts.items()]:
            totals[resource] = totals.get(resource, 0) + amount
    return PodDemand(qos, tuple(members), totals=totals, **more)


def pod(uid="p1", asks=None, *, version=1, **more) -> PodRecord:
    """Return a pod of one container with 2 CPUs and 2 GPUs, as the watch shows it; ``version=0``: only asked for."""
    asked = demand((2, 2)) if asks is None else asks
    fields = {"namespace": "team", "name": uid, "eligibility": Eligibility(), "resource_version": version} | more
    return PodRecord(uid=uid, demand=asked, **fields)


def ledger(*records: NodeRecord) -> Ledger:
    """Return a ledger of kubelet-allocated nodes."""
    from webhook.core.ledger.events import NodeSeen  # noqa: PLC0415 - keeps the builders free of events

    made = Ledger({KUBELET: KubeletAllocator()})
    for record in records:
        made.apply(NodeSeen(record), 0.0)
    return made


def recalled(node, *places):
    """Return what a checkpoint tells of a node; each place is (UID, CPUs, devices)."""
    from webhook.core.ledger.events import Recalled, RecalledPlace  # noqa: PLC0415 - as above

    return Recalled(node, tuple(RecalledPlace(*place) for place in places))


# --- random clusters ---

POLICIES = (
    *[TopologyPolicy.SINGLE_NUMA_NODE] * 3,
    TopologyPolicy.RESTRICTED,
    TopologyPolicy.RESTRICTED,
    TopologyPolicy.BEST_EFFORT,
    TopologyPolicy.NONE,
)


def random_machines(random: Random) -> list[Machine]:
    """Return a few machines of all policies and scopes, some with hyper-threads off, old kubelets, lone devices."""
    machines = []
    for at in range(random.randint(1, 4)):
        numa = random.choice([1, 2, 2, 4])
        made = machine(
            numa,
            random.choice([4, 6]),
            random.choice([0, 1, 2, 4]),
            nics=random.choice([0, 0, 1, 2]),
            reserved=random.choice([0, 1]),
            name=f"class-{at}",
            reports_numa=random.random() > 0.15,
            policy=random.choice(POLICIES),
            scope=random.choice(list(TopologyScope)),
            static_cpus=random.random() > 0.15,
            full_pcpus_only=random.random() > 0.8,
            minor_version=random.choice([24, 28, 30, 35, 37]),
        )
        if made.devices and random.random() < 0.3:  # devices of several NUMA nodes, of none, of unknown ones
            layout = made.devices[0]
            homes = tuple(random.choice([0, 1, home, (1 << numa) - 1]) for home in layout.numa_of_device)
            foreign = random.choice([0, 1])
            changed = replace(layout, numa_of_device=homes, foreign_numa=foreign if not homes[0] else 0)
            made = replace(made, devices=(changed, *made.devices[1:]))
        machines.append(made)
    return machines


LABELS = {"zone": ["a", "b", "c"], "pool": ["gpu", "cpu"], "size": ["1", "5", "x"]}
TAINTS = (
    Taint("gpu", "", "NoSchedule"),
    Taint("team", "red", "NoExecute"),
    Taint("soft", "", "PreferNoSchedule"),
)


def random_node(random: Random, name: str, machines: list[Machine]) -> NodeRecord:
    """Return a node of one of ``machines``, or of none that is known, with labels, taints, cordon, broken devices."""
    on = random.choice(machines) if random.random() > 0.1 else None
    labels = {key: random.choice(values) for key, values in LABELS.items() if random.random() > 0.3}
    taints = tuple(taint for taint in TAINTS if random.random() < 0.15)
    unhealthy = ()
    if on is not None and random.random() < 0.3:
        unhealthy = tuple(random.getrandbits(layout.count) & random.getrandbits(layout.count) for layout in on.devices)
    more = {"cpu": random.choice([4000, 100_000])} if random.random() < 0.2 else {}
    if random.random() < 0.1:
        more["pods"] = random.choice([None, 1, 2])
    if random.random() < 0.05:
        more[GPU] = None
    return node(
        name,
        on,
        labels=labels,
        taints=taints,
        ready=random.random() > 0.1,
        cordoned=random.random() < 0.1,
        unhealthy=unhealthy,
        kind=random.choice([KUBELET] * 6 + [AllocatorKind.UNKNOWN]),
        **more,
    )


def random_demand(random: Random) -> PodDemand:
    """Return a demand of one to three containers, sidecars and init containers among them, of any QoS class."""
    early = [random.choice([ContainerKind.INIT, ContainerKind.SIDECAR])] if random.random() < 0.25 else []
    kinds = [*early, *[ContainerKind.APP] * random.choice([1, 1, 1, 2])]
    asks = []
    for kind in kinds:
        devices = {}
        if random.random() < 0.7:
            devices[GPU] = random.choice([0, 1, 1, 2, 2, 3, 4, 6])
        if random.random() < 0.2:
            devices[NIC] = random.choice([1, 1, 2])
        asks.append((random.choice([0, 0.5, 1, 1, 2, 2, 3, 4, 7]), devices, kind))
    qos = random.choice([QosClass.GUARANTEED] * 3 + [QosClass.BURSTABLE])
    return demand(*asks, qos=qos, has_pod_level_resources=random.random() < 0.05)


def random_eligibility(random: Random, names: list[str]) -> Eligibility:
    """Return any kind of demand on nodes: mostly none."""
    selector = ()
    if random.random() < 0.2:
        key = random.choice([*LABELS, "absent"])
        selector = ((key, random.choice([*LABELS.get(key, []), "nowhere"])),)
    terms = None
    if random.random() < 0.3:
        terms = tuple(_random_term(random, names) for _ in range(random.randint(0, 2)))
    tolerations = tuple(
        random.choice(
            [
                Toleration("gpu", "Exists", "", ""),
                Toleration("", "Exists", "", ""),
                Toleration("team", "Equal", "red", "NoExecute"),
                Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
            ]
        )
        for _ in range(random.randint(0, 2))
    )
    preset = random.choice([*names, "elsewhere"]) if random.random() < 0.08 else ""
    return Eligibility(selector, terms, tolerations, preset)


def _random_term(random: Random, names: list[str]) -> NodeSelectorTerm:
    expressions = []
    for _ in range(random.randint(0, 2)):
        key = random.choice([*LABELS, "absent"])
        operator = random.choice([*Operator, "Near"])
        if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST}:
            values = ()
        elif operator in {Operator.GT, Operator.LT}:
            values = (random.choice(["0", "3", "x"]),)
        else:
            values = tuple(random.sample([*LABELS.get(key, ["v"]), "other"], 2))
        expressions.append(Requirement(key, operator, values))
    fields = []
    if random.random() < 0.2:
        operator = random.choice([Operator.IN, Operator.NOT_IN])
        key = random.choice(["metadata.name"] * 4 + ["metadata.namespace"])
        fields.append(Requirement(key, operator, (random.choice([*names, ""]),)))
    return NodeSelectorTerm(tuple(expressions), tuple(fields))


def random_confirmed(random: Random, asks: PodDemand) -> Confirmed | None:
    """Return a result annotation, true, exaggerated or of another machine."""
    if random.random() < 0.6:
        return None
    gpus = sum(dict(container.devices).get(GPU, 0) for container in asks.containers)
    cores = sum(container.cpu_millicores for container in asks.containers) // 1000
    extra = random.choice([0, 0, 0, 1])
    mask = mask_of(random.sample(range(8), min(8, gpus + extra)))
    cpus = None if random.random() < 0.4 else mask_of(random.sample(range(12), min(12, cores)))
    # A source may tell the CPUs and say nothing of the devices, or the other way round, or both of neither.
    devices = ((GPU, mask),) if mask and random.random() < 0.7 else ()
    return Confirmed(cpus, devices, is_by_kubelet=random.random() < 0.3)
