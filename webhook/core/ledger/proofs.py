"""The proof of a refusal in one readable paragraph: who was eligible, the nearest miss, and what would make it fit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, permutations

from webhook.core.demand import ContainerDemand, PodDemand
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, NodeView, PodRecord
from webhook.core.ledger.verdicts import Outcome, Verdict
from webhook.core.machine import Machine, NodeState, TopologyPolicy, TopologyScope
from webhook.core.masks import cpu_list, mask_of, members
from webhook.core.numa_room import count_of, peak
from webhook.core.placement import Rejection
from webhook.core.pod import ContainerKind

# Nodes that are compared for the nearest miss. More would cost more than the sentence is worth.
MOST_COMPARED = 64


@dataclass(frozen=True, slots=True)
class Proof:
    """What stands behind a refusal: a paragraph, and the change that would make the pod fit (or empty)."""

    paragraph: str
    change: str = ""


def prove(ledger: Ledger, pod: PodRecord, verdict: Verdict, now_seconds: float) -> Proof:
    """Return the proof of a verdict that is not FITS."""
    sentences = [_eligibility(ledger, pod, verdict)]
    nearest = _nearest(ledger, pod, verdict)
    if nearest is not None:
        sentences.append(_nearest_miss(ledger, pod, nearest, now_seconds, verdict))
    return Proof(" ".join(sentences), _change(ledger, pod, verdict))


def asked(demand: PodDemand) -> str:
    """Return what ``demand`` asks of NUMA nodes in words: ``24 CPUs and 4 aliyun.com/gpu``."""
    devices: dict[str, int] = {}
    for resource in dict.fromkeys(name for container in demand.containers for name, _ in container.devices):
        devices[resource] = peak(demand, count_of(resource))
    cpus = peak(demand, demand.exclusive_cpus)
    parts = [f"{cpus} exclusive CPUs"] if cpus else []
    parts += [f"{count} {resource}" for resource, count in devices.items()]
    if not cpus and (millicores := demand.totals.get("cpu", 0)):
        parts.append(f"{millicores / 1000:g} shared CPUs")
    return " and ".join(parts) or "nothing that is placed on NUMA nodes"


def numa_rooms(machine: Machine, state: NodeState) -> str:
    """Return what is free of total per NUMA node, equal neighbours together.

    Such as ``NUMA 0: 10 of 30 CPUs, 2 of 4 aliyun.com/gpu; NUMA 1-3 each: ...``.
    """
    runs: list[tuple[list[int], str]] = []
    for position, numa_id in enumerate(machine.numa_ids):
        words = _numa_room(machine, state, position)
        if runs and runs[-1][1] == words:
            runs[-1][0].append(numa_id)
        else:
            runs.append(([numa_id], words))
    return "; ".join(f"NUMA {cpu_list(mask_of(ids))}{' each' if len(ids) > 1 else ''}: {words}" for ids, words in runs)


def _numa_room(machine: Machine, state: NodeState, position: int) -> str:
    cpus = machine.cpus.numa_cpus[position]
    parts = [f"{(state.free_cpus & cpus).bit_count()} of {(cpus & ~machine.reserved_cpus).bit_count()} CPUs"]
    for index, layout in enumerate(machine.devices):
        devices = layout.touching(1 << position)
        if devices:
            free = (state.free_devices(machine, index) & devices).bit_count()
            parts.append(f"{free} of {devices.bit_count()} {layout.resource}")
    return ", ".join(parts)


def policy_words(machine: Machine) -> str:
    """Return the policy and scope of a machine's kubelet in words."""
    policy = machine.kubelet.policy
    scope = "" if policy is TopologyPolicy.NONE else f", scope {machine.kubelet.scope.value}"
    return f"policy {policy.value}{scope}"


def _eligibility(ledger: Ledger, pod: PodRecord, verdict: Verdict) -> str:
    index = ledger.index
    total = index.present.bit_count()
    eligible = verdict.search.eligible
    matching = index.matching(pod.eligibility)
    closed = matching & index.closed(pod.eligibility)
    repelling = matching & ~closed & index.repelling(pod.eligibility)
    others = [
        f"{count} {words}"
        for count, words in (
            ((index.present & ~matching).bit_count(), "do not match its selector, affinity or node name"),
            (closed.bit_count(), "are not ready or cordoned"),
            (repelling.bit_count(), "have a taint that it does not tolerate"),
        )
        if count
    ]
    sentence = f"{eligible.bit_count()} of {total} nodes are eligible"
    if others:
        sentence += f" ({', '.join(others)})"
    plain = verdict.search.plain.bit_count()
    if eligible and verdict.outcome is Outcome.WOULD_FAIL:
        sentence += f", and {plain} of them have room by plain counts"
    elif eligible and not plain:
        sentence += ", and none has room by plain counts"
    return sentence + "."


def _nearest(ledger: Ledger, pod: PodRecord, verdict: Verdict) -> NodeView | None:
    """Return the node that comes nearest to taking the pod."""
    pool = verdict.search.plain or verdict.search.eligible
    if verdict.outcome is Outcome.NEVER:
        pool = ledger.index.matching(pod.eligibility) & ledger.index.known
    views = (ledger.views[ledger.index.name(slot)] for slot in islice(members(pool), MOST_COMPARED))
    known = [view for view in views if view.record.machine is not None and view.full_state is not None]
    return max(known, key=lambda view: _closeness(view, pod.demand), default=None)


def _closeness(view: NodeView, demand: PodDemand) -> float:
    """Return how near the best NUMA node comes to the widest container, from 0 to 2."""
    machine, state = view.record.machine, view.full_state
    if machine is None or state is None:
        return -1.0
    widest = max(demand.containers, key=lambda c: (sum(n for _, n in c.devices), c.cpu_millicores))
    cpus = demand.exclusive_cpus(widest)
    best = 0.0
    for position in range(len(machine.numa_ids)):
        free_cpus = (state.free_cpus & machine.cpus.numa_cpus[position]).bit_count()
        score = min(1.0, free_cpus / cpus) if cpus else 1.0
        for resource, count in widest.devices:
            index = machine.device_index(resource)
            if index is not None and count:
                free = state.free_devices(machine, index) & machine.devices[index].touching(1 << position)
                score += min(1.0, free.bit_count() / count)
        best = max(best, score)
    return best


def _nearest_miss(ledger: Ledger, pod: PodRecord, view: NodeView, now_seconds: float, verdict: Verdict) -> str:
    machine, state = view.record.machine, view.full_state
    if machine is None or state is None:
        return ""
    never = verdict.outcome is Outcome.NEVER
    state = NodeState.empty(machine) if never else state
    what = "Even empty, node" if never else "Nearest is node"
    sentence = f"{what} {view.record.name} ({policy_words(machine)}) has free {numa_rooms(machine, state)}"
    if not never:
        sentence += f", unchanged for {_age(now_seconds - view.since_seconds)}"
    sentence += f"; asked: {asked(pod.demand)}{_where(machine)}."
    allocator = ledger.charges.allocators.get(view.record.allocator)
    answer = allocator.place(machine, state, pod.demand) if allocator is not None else None
    if isinstance(answer, Rejection) and view.record.allocator is AllocatorKind.KUBELET:
        container = f" for container {answer.container}" if answer.container else ""
        sentence += f" Its kubelet would answer {answer.reason}{container}."
    return sentence


def _where(machine: Machine) -> str:
    match machine.kubelet.policy:
        case TopologyPolicy.SINGLE_NUMA_NODE:
            each = " for each container" if machine.kubelet.scope is TopologyScope.CONTAINER else ""
            return f" on one NUMA node{each}"
        case TopologyPolicy.RESTRICTED:
            return " on as few NUMA nodes as the totals allow, the same for CPUs and devices"
        case _:
            return ""


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0, round(seconds))} s"
    return f"{round(seconds / 60)} min"


def _change(ledger: Ledger, pod: PodRecord, verdict: Verdict) -> str:
    """Return the smallest change that would make the pod fit now (or, for NEVER, ever); empty where none is found."""
    if verdict.outcome is Outcome.NEVER:
        return ""
    for words, demand in _variants(pod.demand):
        if ledger.find(replace(pod, demand=demand)).placement is not None:
            return f"It would fit now {words}."
    return ""


def _variants(demand: PodDemand) -> Iterator[tuple[str, PodDemand]]:
    """Yield changed demands with words for the change: other order, fewer devices, fewer CPUs; at most about 20."""
    apps = [container for container in demand.containers if container.kind is ContainerKind.APP]
    others = tuple(container for container in demand.containers if container.kind is not ContainerKind.APP)
    if 1 < len(apps) <= 3:
        for order in permutations(apps):
            if list(order) != apps:
                names = ", ".join(container.name for container in order)
                yield f"with its containers in the order {names}", replace(demand, containers=(*others, *order))
    widest = max(apps, key=lambda container: sum(count for _, count in container.devices), default=None)
    if widest is None:
        return
    for resource, count in widest.devices:
        for fewer in range(count - 1, 0, -1):
            changed = replace(
                widest, devices=tuple((name, fewer if name == resource else n) for name, n in widest.devices)
            )
            totals = {**demand.totals, resource: demand.totals.get(resource, 0) - (count - fewer)}
            yield f"with {fewer} {resource} instead of {count}", _with(demand, widest, changed, totals)
    cores = demand.exclusive_cpus(widest)
    for part in (4, 2):
        fewer = cores - max(1, cores // part)
        if 0 < fewer < cores:
            changed = replace(widest, cpu_millicores=fewer * 1000)
            totals = {**demand.totals, "cpu": demand.totals.get("cpu", 0) - (cores - fewer) * 1000}
            yield f"with {fewer} CPUs instead of {cores}", _with(demand, widest, changed, totals)


def _with(demand: PodDemand, old: ContainerDemand, new: ContainerDemand, totals: dict[str, int]) -> PodDemand:
    containers = tuple(new if container is old else container for container in demand.containers)
    return replace(demand, containers=containers, totals=totals)
