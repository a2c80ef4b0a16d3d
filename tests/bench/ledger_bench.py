"""How fast the ledger is: a cluster of 10,000 nodes of 8 NUMA nodes with 100,000 pods, in one process.

``python tests/bench/ledger_bench.py [--nodes N] [--seconds S]`` prints medians, p99 and ratios; it asserts nothing.
Everything from a parsed request to a verdict is counted, reading JSON and HTTP are not.
"""

import argparse
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from support import builders  # noqa: E402

from webhook.core.capacity import CapacityRules, decide_capacity  # noqa: E402
from webhook.core.demand import PodDemand  # noqa: E402
from webhook.core.effective import demand_of  # noqa: E402
from webhook.core.kubelet import KubeletAllocator  # noqa: E402
from webhook.core.ledger import events  # noqa: E402
from webhook.core.ledger.ledger import Ledger  # noqa: E402
from webhook.core.ledger.records import AllocatorKind, Confirmed, Eligibility, NodeRecord, PodRecord  # noqa: E402
from webhook.core.machine import (  # noqa: E402
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    NodeState,
    TopologyPolicy,
    TopologyScope,
)
from webhook.core.masks import mask_of, members  # noqa: E402
from webhook.core.node_selection import NodeFacts  # noqa: E402
from webhook.core.placement import Placement  # noqa: E402
from webhook.core.pod import Pod  # noqa: E402

GPU = "aliyun.com/gpu"
PODS_PER_NODE = 10
Sample = tuple[float, float]
"""Seconds by the wall clock, and of the processor."""
BUDGET = "aims: rebuild 30 s, decision p99 1 ms, event p99 0.2 ms, memory 600 MB, ten times the nodes at most 2x"


def machine(name: str, gpus_per_numa: int, policy: TopologyPolicy, scope: TopologyScope) -> Machine:
    """Return 8 NUMA nodes on 2 sockets, 32 CPUs each (hyper-threads included), 1 core each reserved."""
    cores = tuple(1 << core | 1 << (core + 128) for core in range(128))
    numa = tuple(sum(cores[at * 16 : at * 16 + 16]) for at in range(8))
    sockets = (sum(numa[:4]), sum(numa[4:]))
    reserved = mask_of(cpu for core in range(0, 128, 16) for cpu in (core, core + 128))
    devices = (DeviceLayout(GPU, tuple(1 << at for at in range(8) for _ in range(gpus_per_numa))),)
    kubelet = KubeletConfig(policy=policy, scope=scope)
    return Machine(tuple(range(8)), CpuLayout(numa, sockets, cores), reserved, devices, kubelet=kubelet, name=name)


SINGLE, RESTRICTED = TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED
POOLS = {
    "single": machine("single", 2, SINGLE, TopologyScope.CONTAINER),
    "wide": machine("wide", 4, SINGLE, TopologyScope.POD),
    "restricted": machine("restricted", 2, RESTRICTED, TopologyScope.POD),
    "shards": machine("shards", 2, SINGLE, TopologyScope.CONTAINER),
    "ragged": machine("ragged", 2, RESTRICTED, TopologyScope.POD),
}
"""In ``shards`` and ``ragged`` every NUMA node is partly held, so that what fits by plain counts is refused."""


def raw(pool: str, *containers: tuple[int, int]) -> Pod:
    """Return a Guaranteed pod for ``pool``; each container is (CPUs, GPUs)."""
    made = [
        builders.container(f"c{at}", cpu=str(cpus), gpu=str(gpus) if gpus else None, memory="8Gi")
        for at, (cpus, gpus) in enumerate(containers)
    ]
    return builders.pod(containers=made, spec={"nodeSelector": {"pool": pool}}, metadata={"uid": "asked"})


SHAPES = {
    "single": [((8, 1),), ((8, 1),), ((16, 2),), ((4, 1),), ((8, 1), (2, 0))],
    "wide": [((8, 1),), ((16, 2),), ((28, 4),), ((8, 2),)],
    "restricted": [((8, 1),), ((16, 2),), ((40, 4),), ((100, 8),), ((12, 1),)],
}
ASKED = {
    "1 GPU": raw("single", (8, 1)),
    "2 GPUs": raw("single", (16, 2)),
    "4 GPUs": raw("wide", (28, 4)),
    "4 GPUs restricted": raw("restricted", (40, 4)),
    "8 GPUs restricted": raw("restricted", (100, 8)),
    "CPUs only": raw("wide", (24, 0)),
    "two containers": raw("single", (16, 2), (4, 0)),
    "would fail": raw("shards", (8, 2)),
    "would fail restricted": raw("ragged", (40, 4)),
    "would fail, two containers": raw("shards", (8, 1), (28, 0)),
    "would fail, nine containers": raw("shards", *[(2, 1)] * 9),
    "would wait": raw("single", *[(4, 2)] * 8),
    "never": raw("single", (8, 3)),
}


def lists(nodes: int, random: Random) -> tuple[list[NodeRecord], list[PodRecord]]:
    """Return what the API server would list: each pod bound where its kubelet took it."""
    records, pods = [], []
    allocator = KubeletAllocator()
    names = ["single"] * 4 + ["wide"] * 2 + ["restricted"] * 2 + ["shards", "ragged"]
    for number in range(nodes):
        pool = names[number % len(names)]
        on = POOLS[pool]
        labels = {"pool": pool, "kubernetes.io/hostname": f"node-{number}", "zone": f"z{number % 3}"}
        offers = {"cpu": 240_000, "memory": 2 << 40, "pods": 110, GPU: on.devices[0].count}
        records.append(NodeRecord(NodeFacts(f"node-{number}", labels), offers, on, AllocatorKind.KUBELET))
        state = None
        free = dict(offers)
        for at in range(PODS_PER_NODE):
            shapes = SHAPES.get(pool)
            if shapes is not None:
                asked = raw(pool, *random.choice(shapes)) if at < random.choice([5, 7, 9]) else plain(random)
            else:
                asked = raw(pool, (_held_cpus(pool, at, random), 1)) if at < 8 else plain(random)
            demand = demand_of(asked)
            if any(free.get(resource, 0) < amount for resource, amount in demand.totals.items()):
                demand = demand_of(plain(random))
            told = None
            if shapes is None and at < 8:
                told = _told(on, demand, at, pool)
            else:
                answer = allocator.place(on, state or NodeState.empty(on), demand)
                if isinstance(answer, Placement):
                    state = answer.state
                else:
                    demand = demand_of(plain(random))
            for resource, amount in demand.totals.items():
                free[resource] = free.get(resource, 0) - amount
            pods.append(replace(_bound(len(pods), demand, asked, f"node-{number}", random), confirmed=told))
    return records, pods


def _held_cpus(pool: str, numa: int, random: Random) -> int:
    """Return the CPUs held: in ``ragged`` CPUs and GPUs are short on different NUMA nodes."""
    if pool == "shards":
        return random.choice([6, 8, 10])
    return random.choice([22, 23, 24, 25]) if numa % 2 == 0 else random.choice([2, 3, 4])


def _told(on: Machine, demand: PodDemand, numa: int, pool: str) -> Confirmed:
    """Return the place of the one pod that sits on a NUMA node: with its GPU, but for the even ones of ``ragged``."""
    free = on.cpus.numa_cpus[numa] & ~on.reserved_cpus
    cpus = mask_of(islice(members(free), demand.containers[0].cpu_millicores // 1000))
    gpu = 0 if pool == "ragged" and numa % 2 == 0 else 1 << 2 * numa
    return Confirmed(cpus, ((GPU, gpu),))


def plain(random: Random) -> Pod:
    """Return a Burstable pod without devices."""
    cpus = random.choice(["100m", "250m", "500m"])
    requests = {"cpu": cpus, "memory": "256Mi"}
    return builders.pod(containers=[{"name": "main", "resources": {"requests": requests}}])


def _bound(number: int, demand: PodDemand, asked: Pod, node: str, random: Random) -> PodRecord:
    return PodRecord(
        uid=f"{random.getrandbits(128):032x}",
        namespace=f"team-{number % 50}",
        name=f"job-{number}-{random.getrandbits(20):05x}",
        demand=demand,
        eligibility=Eligibility.of(asked),
        node_name=node,
        phase="Running",
        is_answered=True,
        created_seconds=float(number),
        resource_version=number + 1,
    )


def percentile(samples: list[float], part: float) -> float:
    """Return the value below which ``part`` of ``samples`` lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def shown(samples: list[Sample]) -> str:
    """Return p50 and p99 of the wall clock, and of the processor alone, in microseconds.

    On a machine that others use as well, only the processor's time says what the ledger costs.
    """
    wall = [percentile([sample[0] for sample in samples], part) * 1e6 for part in (0.5, 0.99)]
    own = [percentile([sample[1] for sample in samples], part) * 1e6 for part in (0.5, 0.99, 1.0)]
    return (
        f"p50 {wall[0]:5.0f} us  p99 {wall[1]:6.0f} us | "
        f"processor: p50 {own[0]:5.0f} us  p99 {own[1]:5.0f} us  max {own[2]:6.0f} us  ({len(samples)})"
    )


def resident_mb() -> float:
    """Return the memory of this process that is in use, in MB."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def rebuild(nodes: int, random: Random) -> tuple[Ledger, list[PodRecord], float, float]:
    """Return a ledger made from lists, the pods, the seconds it took and the MB it keeps."""
    records, pods = lists(nodes, random)
    gc.collect()
    before = resident_mb()
    made = Ledger({AllocatorKind.KUBELET: KubeletAllocator()})
    started = time.perf_counter()
    for record in records:
        made.apply(events.NodeSeen(record), 0.0)
    for pod in pods:
        made.apply(events.PodSeen(pod), 1.0)
    made.apply(events.PodsListed(frozenset(pod.uid for pod in pods), 0.0), 1.0)
    made.apply(events.NodesListed(frozenset(record.name for record in records)), 1.0)
    seconds = time.perf_counter() - started
    gc.collect()
    return made, pods, seconds, resident_mb() - before


def decisions(made: Ledger, lock: threading.Lock, seconds: float) -> dict[str, list[Sample]]:
    """Return the seconds of each decision by case: asked in turn, nothing committed."""
    rules = CapacityRules()
    took: dict[str, list[Sample]] = {name: [] for name in ASKED}
    until = time.perf_counter() + seconds
    asks = {name: builders.ask(pod) for name, pod in ASKED.items()}
    while time.perf_counter() < until:
        for name, ask in asks.items():
            began, started = time.thread_time(), time.perf_counter()
            with lock:
                decide_capacity(ask, made, rules, 3.0)
            took[name].append((time.perf_counter() - started, time.thread_time() - began))
    return took


def churn(pods: list[PodRecord], random: Random) -> Iterator[events.LedgerEvent]:
    """Yield what a busy cluster brings: pods end, new ones are made, bound in their place and answered for."""
    version, number = 10_000_000, 0
    while True:
        at = random.randrange(len(pods))
        pod = pods[at]
        version += 3
        number += 1
        yield events.PodSeen(replace(pod, resource_version=version, priority=version))
        yield events.PodGone(pod.uid, version + 1)
        new = replace(pod, uid=f"new-{number}", name=f"new-{number}", resource_version=version + 2, is_answered=False)
        yield events.PodSeen(replace(new, node_name="", phase="Pending"))
        yield events.PodSeen(replace(new, resource_version=version + 3, phase="Pending"))
        version += 2
        pods[at] = replace(new, resource_version=version + 3, is_answered=True)
        yield events.PodSeen(pods[at])


def apply_quietly(
    made: Ledger, stream: Iterator[events.LedgerEvent], count: int
) -> tuple[dict[str, list[Sample]], list[Sample]]:
    """Return the seconds of each event by kind, and of each search of a place for a pending pod.

    The search is a step of its own, as in ``service.book``: between it and its event decisions have their turn.
    """
    took: dict[str, list[Sample]] = {}
    places: list[Sample] = []
    for _ in range(count):
        event = next(stream)
        name = _kind(event)
        took.setdefault(name, []).append(timed(lambda: made.apply(event, 3.0)))  # noqa: B023
        while made.has_waiting:
            places.append(timed(made.plan_next))
    return took, places


def timed(work: Callable[[], object]) -> Sample:
    """Return how long ``work`` takes."""
    began, started = time.thread_time(), time.perf_counter()
    work()
    return time.perf_counter() - started, time.thread_time() - began


def _kind(event: events.LedgerEvent) -> str:
    if isinstance(event, events.PodSeen):
        if not event.pod.node_name:
            return "pod pending"
        return "pod bound" if event.pod.phase == "Pending" else "pod status"
    return "pod gone"


def while_events_pour(
    made: Ledger, lock: threading.Lock, stream: Iterator[events.LedgerEvent], per_second: int, work: Callable[[], dict]
) -> dict:
    """Run ``work`` while another thread applies ``per_second`` events under the same lock."""
    done = threading.Event()

    def pour() -> None:
        due = time.perf_counter()
        while not done.is_set():
            event = next(stream)
            with lock:
                made.apply(event, 3.0)
            while made.has_waiting:
                with lock:
                    made.plan_next()
            due += 1 / per_second
            time.sleep(max(0.0, due - time.perf_counter()))

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        return work()
    finally:
        done.set()
        thread.join()


def flat(took: dict[str, list[Sample]]) -> list[Sample]:
    """Return all samples."""
    return [sample for samples in took.values() for sample in samples]


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each series of decisions")
    chosen = parser.parse_args()
    sys.setswitchinterval(0.0005)
    lock = threading.Lock()
    medians: dict[int, float] = {}
    for nodes in (chosen.nodes // 10, chosen.nodes):
        random = Random(7)
        made, pods, seconds, megabytes = rebuild(nodes, random)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # as ``serve.worker`` does
        print(f"{nodes} nodes, {len(pods)} pods: rebuilt in {seconds:.1f} s")
        print(
            f"  memory: {megabytes:.0f} MB by the ledger, {resident_mb():.0f} MB in use with the records of the lists"
        )
        decisions(made, lock, 0.5)
        quiet = decisions(made, lock, chosen.seconds / (1 if nodes == chosen.nodes else 3))
        medians[nodes] = percentile([sample[1] for sample in flat(quiet)], 0.5)
        print(f"  decision, quiet              {shown(flat(quiet))}")
        for name, samples in quiet.items():
            print(f"    {name:26s} {shown(samples)}")
        stream = churn(pods, random)
        applied, places = apply_quietly(made, stream, 8000)
        print(f"  event, quiet                 {shown(flat(applied))}")
        for name, samples in applied.items():
            print(f"    {name:26s} {shown(samples)}")
        print(f"  place of a pending pod       {shown(places)}")
        busy = while_events_pour(made, lock, stream, 200, lambda: decisions(made, lock, chosen.seconds))  # noqa: B023
        print(f"  decision, 200 events/s       {shown(flat(busy))}")
    few, many = medians.values()
    print(f"ten times the nodes: {many / few:.2f} times the median decision")
    print(BUDGET)


if __name__ == "__main__":
    main()
