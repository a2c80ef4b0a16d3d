"""The proof of a refusal in one readable paragraph: who was eligible, the nearest miss, and what would make it fit."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice, permutations
from typing import Final

from webhook.core.demand import ContainerDemand, CpuBinding, PodDemand
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, NodeRecord, NodeView, PodRecord
from webhook.core.ledger.verdicts import Outcome, Verdict
from webhook.core.machine import Machine, NodeState, TopologyPolicy, TopologyScope
from webhook.core.masks import cpu_list, mask_of, members
from webhook.core.numa_room import count_of, devices_by_numa, numa_room, peak
from webhook.core.pod import ContainerKind
from webhook.core.scheduler.policies import RESTRICTED, SINGLE_NUMA_NODE
from webhook.core.spelling import counted, in_units

# Nodes that are compared for the nearest miss, those with the most free devices: more would cost more than the sentence
# is worth (20 us each).
MOST_COMPARED = 12

SHAPES_KEPT: Final = 512
"""Shapes of refused pods whose words and variants are kept: whoever refuses one pod of a shape soon refuses the next.
A shape's variants, with their hashes, are at most about 15 kB."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What stands behind a refusal: a paragraph, and the change that would make the pod fit (or empty)."""

    paragraph: str
    change: str = ""


def prove(ledger: Ledger, pod: PodRecord, verdict: Verdict, now_seconds: float) -> Proof:
    """Return the proof of a verdict that is not FITS."""
    sentences = [_eligibility(ledger, pod, verdict)]
    if verdict.outcome is Outcome.NEVER:
        sentences.append(_empty_miss(pod, verdict))
        return Proof(" ".join(filter(None, sentences)), _change_for_ever(ledger, pod, verdict))
    nearest = _nearest(ledger, pod, verdict)
    if nearest is not None:
        sentences.append(_nearest_miss(ledger, pod, nearest, now_seconds))
    return Proof(" ".join(filter(None, sentences)), _change_now(ledger, pod, nearest))


@lru_cache(maxsize=SHAPES_KEPT)
def asked(demand: PodDemand) -> str:
    """Return what ``demand`` asks of NUMA nodes in words: ``24 CPUs and 4 aliyun.com/gpu``."""
    devices: dict[str, int] = {}
    for resource in dict.fromkeys(name for container in demand.containers for name, _ in container.devices):
        devices[resource] = peak(demand, count_of(resource))
    cpus = peak(demand, demand.exclusive_cpus)
    parts = [counted(cpus, "exclusive CPU")] if cpus else []
    if not cpus and demand.cpu_binding is not CpuBinding.NONE:
        cpus = demand.totals.get("cpu", 0) // 1000
        parts = [counted(cpus, "bound CPU")]
    parts += [f"{count} {resource}" for resource, count in devices.items()]
    if not cpus and (millicores := demand.totals.get("cpu", 0)):
        parts.append(f"{in_units(millicores, 1000)} shared CPUs")
    return " and ".join(parts) or "nothing that is placed on NUMA nodes"


def numa_rooms(machine: Machine, state: NodeState) -> str:
    """Return what is free of total per NUMA node, equal neighbours together.

    Such as ``NUMA 0: 10 of 30 CPUs, 2 of 4 aliyun.com/gpu; NUMA 1-3 each: ...``.
    """
    free_devices = [state.free_devices(machine, index) for index in range(len(machine.devices))]
    runs: list[tuple[list[int], str]] = []
    for position, numa_id in enumerate(machine.numa_ids):
        words = _numa_room(machine, state.free_cpus, free_devices, position)
        if runs and runs[-1][1] == words:
            runs[-1][0].append(numa_id)
        else:
            runs.append(([numa_id], words))
    return "; ".join(f"NUMA {cpu_list(mask_of(ids))}{' each' if len(ids) > 1 else ''}: {words}" for ids, words in runs)


def _numa_room(machine: Machine, free_cpus: int, free_devices: Iterable[int], position: int) -> str:
    cpus = machine.cpus.numa_cpus[position]
    parts = [f"{(free_cpus & cpus).bit_count()} of {(cpus & ~machine.reserved_cpus).bit_count()} CPUs"]
    for layout, free, by_numa in zip(machine.devices, free_devices, devices_by_numa(machine), strict=True):
        devices = by_numa[position]
        if devices:
            parts.append(f"{(free & devices).bit_count()} of {devices.bit_count()} {layout.resource}")
    return ", ".join(parts)


def policy_words(record: NodeRecord, demand: PodDemand | None = None) -> str:
    """Return by which policy a node's NUMA nodes are handed out, to a pod of ``demand`` or to any."""
    return "" if record.machine is None else _policy_words(record.machine, record.allocator, demand)


def _policy_words(machine: Machine, kind: AllocatorKind | None, demand: PodDemand | None = None) -> str:
    if kind is AllocatorKind.SCHEDULER:
        words = [
            f"{whose} policy {policy}"
            for whose, policy in (("pod", demand.numa_policy if demand else ""), ("node", machine.node_policy))
            if policy
        ]
        return f"placed by the scheduler, {', '.join(words) or 'no policy'}"
    policy = machine.kubelet.policy
    scope = "" if policy is TopologyPolicy.NONE else f", scope {machine.kubelet.scope.value}"
    return f"policy {policy.value}{scope}"


def _eligibility(ledger: Ledger, pod: PodRecord, verdict: Verdict) -> str:
    """Return how many nodes are eligible, why the others are not, and how many of them have room by plain counts."""
    index = ledger.index
    eligible = verdict.search.eligible
    matching = index.matching(pod.eligibility)
    closed = matching & index.closed(pod.eligibility)
    repelling = matching & ~closed & index.repelling(pod.eligibility)
    wish = "its node name" if pod.eligibility.node_name else "its node selector or affinity"
    others = [
        f"{_count(nodes)} {_do(nodes, one, many)}"
        for nodes, one, many in (
            (index.present & ~matching, f"does not match {wish}", f"do not match {wish}"),
            (closed, "is not ready or is cordoned", "are not ready or are cordoned"),
            (repelling, "has a taint that it does not tolerate", "have a taint that it does not tolerate"),
        )
        if nodes
    ]
    sentence = f"{_count(eligible)} of {_nodes(index.present)} {_do(eligible or index.present, 'is', 'are')} eligible"
    if others:
        sentence += f" ({', '.join(others)})"
    if eligible and verdict.outcome is not Outcome.NEVER:
        plain = verdict.search.plain
        has = _do(plain, "has", "have")
        sentence += f"; {_count(plain) or 'none'} of them {'has' if not plain else has} room by plain counts"
    return sentence + "."


def _count(nodes: int) -> int:
    return nodes.bit_count()


def _do(nodes: int, one: str, many: str) -> str:
    return one if nodes.bit_count() == 1 else many


def _nodes(nodes: int) -> str:
    return f"{nodes.bit_count()} {_do(nodes, 'node', 'nodes')}"


def _nearest(ledger: Ledger, pod: PodRecord, verdict: Verdict) -> NodeView | None:
    """Return the node that comes nearest to taking the pod."""
    index = ledger.index
    pool = (verdict.search.plain or verdict.search.eligible) & index.known
    asked_for = next((name for container in pod.demand.containers for name, count in container.devices if count), "")
    slots = chain.from_iterable(map(members, index.by_free_devices(asked_for, pool, most_first=True)))
    views = ledger.views
    compared = (views[index.name(slot)] for slot in islice(chain(slots, members(pool)), MOST_COMPARED))
    return _nearest_of(pod.demand, compared)


def _nearest_of(demand: PodDemand, views: Iterable[NodeView]) -> NodeView | None:
    """Return the first of ``views`` whose best NUMA node comes nearest to the widest container."""
    widest = max(demand.containers, key=lambda c: (sum(n for _, n in c.devices), c.cpu_millicores), default=None)
    # A manifest may name no container: no node is nearer to it than another.
    cpus = demand.exclusive_cpus(widest) if widest is not None else 0
    devices = [(resource, count) for resource, count in widest.devices if count] if widest is not None else []
    nearest, best = None, -1.0
    for view in views:
        machine, state = view.record.machine, view.full_state
        if machine is None or state is None:
            continue
        score = _closeness(machine, state, cpus, devices)
        if score > best:
            nearest, best = view, score
            if best >= 1 + len(devices):  # none comes nearer
                break
    return nearest


def _closeness(machine: Machine, state: NodeState, cpus: int, devices: Iterable[tuple[str, int]]) -> float:
    """Return how near the best NUMA node comes to ``cpus`` and ``devices``, from 0 to 1 for each of them."""
    free_cpus = state.free_cpus
    numa_cpus = machine.cpus.numa_cpus
    scores = (
        [_part((free_cpus & of_numa).bit_count(), cpus) for of_numa in numa_cpus] if cpus else [1.0] * len(numa_cpus)
    )
    for resource, count in devices:
        index = machine.device_index(resource)
        if index is not None:
            free = state.free_devices(machine, index)
            by_numa = devices_by_numa(machine)[index]
            scores = [
                score + _part((free & of_numa).bit_count(), count)
                for score, of_numa in zip(scores, by_numa, strict=True)
            ]
    return max(scores, default=0.0)


def _part(free: int, wanted: int) -> float:
    return free / wanted if free < wanted else 1.0


def _nearest_miss(ledger: Ledger, pod: PodRecord, view: NodeView, now_seconds: float) -> str:
    machine, state = view.record.machine, view.full_state
    if machine is None or state is None:
        return ""
    age = _age(now_seconds - view.since_seconds)
    sentence = (
        f"Node {view.record.name} comes nearest ({policy_words(view.record, pod.demand)}; unchanged for {age}). "
        f"Free there: {numa_rooms(machine, state)}. {_asked_where(machine, view.record.allocator, pod.demand)}"
    )
    short = [
        f"{_amount(resource, left)} where {_amount(resource, wanted)} are asked"
        for resource, wanted in pod.demand.totals.items()
        if wanted > (left := max(0, view.free(resource)))
    ]
    if short:
        return f"{sentence} By plain counts the whole node has free {', '.join(short)}."
    answer = ledger.charges.rejection(view.record.allocator, machine, state, pod.demand)
    if answer is not None:
        who = "Its kubelet" if view.record.allocator is AllocatorKind.KUBELET else "Its scheduler"
        container = f" for container {answer.container}" if answer.container else ""
        sentence += f" {who} would answer {answer.reason}{container}."
    return sentence


def _empty_miss(pod: PodRecord, verdict: Verdict) -> str:
    machine = verdict.machine
    if machine is None:
        return ""
    name = f" {machine.name}" if machine.name else ""
    return (
        f"The largest machine{name} ({_policy_words(machine, verdict.kind, pod.demand)}) has, empty, "
        f"{numa_rooms(machine, NodeState.empty(machine))}. {_asked_where(machine, verdict.kind, pod.demand)}"
    )


def _amount(resource: str, amount: int) -> str:
    """Return ``amount`` of a plain count with its unit."""
    if resource == "cpu":
        return f"{in_units(amount, 1000)} CPUs"
    if resource == "memory" or resource.startswith("hugepages-"):
        return f"{in_units(amount, 1 << 30, 4)} GiB of {resource}"
    return f"{amount} {resource}"


def _asked_where(machine: Machine, kind: AllocatorKind | None, demand: PodDemand) -> str:
    return f"Asked: {asked(demand)}{_where(machine, kind, demand)}."


def _where(machine: Machine, kind: AllocatorKind | None, demand: PodDemand) -> str:
    if kind is AllocatorKind.SCHEDULER:
        policy = demand.numa_policy or machine.node_policy
        return {
            SINGLE_NUMA_NODE: " on one NUMA node",
            RESTRICTED: " on as few NUMA nodes as have room, the same for CPUs and devices",
        }.get(policy, "")
    match machine.kubelet.policy:
        case TopologyPolicy.SINGLE_NUMA_NODE:
            by_container = machine.kubelet.scope is TopologyScope.CONTAINER and len(demand.containers) > 1
            each = " for each container" if by_container else ""
            return f" on one NUMA node{each}"
        case TopologyPolicy.RESTRICTED:
            return " on as few NUMA nodes as the totals allow, the same for CPUs and devices"
        case _:
            return ""


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0, round(seconds))} s"
    if seconds < 7200:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h" if seconds < 172_800 else f"{round(seconds / 86_400)} days"


def _change_now(ledger: Ledger, pod: PodRecord, nearest: NodeView | None) -> str:
    """Return the mildest change with which the pod would fit now; empty where none is found."""
    most_cpus: Callable[[int], int] = _no_cpus
    if nearest is not None and nearest.record.machine is not None and nearest.full_state is not None:
        most_cpus = _most_cpus(nearest.record.machine, nearest.full_state, pod.demand)
    eligible = ledger.index.eligible(pod.eligibility)
    for words, demand in _variants(pod.demand, most_cpus):
        if ledger.find_among(demand, eligible).placement is not None:
            return f"It would fit now {words}."
    return ""


def _change_for_ever(ledger: Ledger, pod: PodRecord, verdict: Verdict) -> str:
    """Return the mildest change with which an empty machine would take the pod; empty where none is found."""
    machine, kind = verdict.machine, verdict.kind
    if machine is None or kind is None:
        return ""
    asked_resources = {name for container in pod.demand.containers for name, count in container.devices if count}
    if not asked_resources <= {layout.resource for layout in machine.devices}:
        return ""  # it lacks the resource, whatever the order or the number
    for words, demand in _variants(pod.demand, _most_cpus(machine, NodeState.empty(machine), pod.demand)):
        if ledger.charges.takes_empty(kind, machine, demand):
            return f"An empty machine would take it {words}."
    return ""


def _no_cpus(_: int) -> int:
    return 0


def _most_cpus(machine: Machine, state: NodeState, demand: PodDemand) -> Callable[[int], int]:
    """Return the function from a device count to the most CPUs free beside so many devices on one NUMA node."""
    room = numa_room(machine, state)
    resource = next((name for container in demand.containers for name, count in container.devices if count), "")

    def most(count: int) -> int:
        return room.get(("numa", resource, 1, count) if count else ("numa", "", 1, 0), 0) - 1

    return most


# Fewer devices that a change may name. No machine has more on its NUMA nodes than this by far, and a pod may ask for
# any number, however absurd: each trial is a search, and they all run under the ledger's lock.
MOST_DEVICES_TRIED = 16


def _variants(demand: PodDemand, most_cpus: Callable[[int], int]) -> Iterator[tuple[str, PodDemand]]:
    """Yield changed demands with words for the change, the mildest first; at most about 20.

    Exclusivity and policy (which only schedulers look at), the order of containers, fewer devices, fewer CPUs.
    """
    yield from _variants_of_shape(demand)
    widest = _widest_app(demand)
    if widest is None:
        return
    cores = demand.exclusive_cpus(widest)
    room = most_cpus(max((count for _, count in widest.devices), default=0))
    for fewer in dict.fromkeys((room, room - room % 2, cores // 2)):
        if 0 < fewer < cores:
            changed = replace(widest, cpu_millicores=fewer * 1000)
            totals = {**demand.totals, "cpu": demand.totals.get("cpu", 0) - (cores - fewer) * 1000}
            yield f"with {fewer} CPUs instead of {cores}", _with(demand, widest, changed, totals)


@lru_cache(maxsize=SHAPES_KEPT)
def _variants_of_shape(demand: PodDemand) -> tuple[tuple[str, PodDemand], ...]:
    """Return the variants that depend on no free state: all but fewer CPUs."""
    return tuple(_shape_changes(demand))


def _shape_changes(demand: PodDemand) -> Iterator[tuple[str, PodDemand]]:
    if demand.numa_policy and demand.numa_exclusive != "Preferred":
        yield "with singleNUMANodeExclusive Preferred", replace(demand, numa_exclusive="Preferred")
    looser = {"SingleNUMANode": ("Restricted", "BestEffort"), "Restricted": ("BestEffort",)}
    for policy in looser.get(demand.numa_policy, ()):
        yield f"with numaTopologyPolicy {policy}", replace(demand, numa_policy=policy)
    apps = [container for container in demand.containers if container.kind is ContainerKind.APP]
    others = tuple(container for container in demand.containers if container.kind is not ContainerKind.APP)
    if 1 < len(apps) <= 3:
        for order in permutations(apps):
            if list(order) != apps:
                names = ", ".join(container.name for container in order)
                yield f"with its containers in the order {names}", replace(demand, containers=(*others, *order))
    widest = _widest_app(demand)
    if widest is None:
        return
    for resource, count in widest.devices:
        for fewer in range(min(count - 1, MOST_DEVICES_TRIED), 0, -1):
            changed = replace(
                widest, devices=tuple((name, fewer if name == resource else n) for name, n in widest.devices)
            )
            totals = {**demand.totals, resource: demand.totals.get(resource, 0) - (count - fewer)}
            yield f"with {fewer} {resource} instead of {count}", _with(demand, widest, changed, totals)


def _widest_app(demand: PodDemand) -> ContainerDemand | None:
    apps = [container for container in demand.containers if container.kind is ContainerKind.APP]
    return max(apps, key=lambda container: sum(count for _, count in container.devices), default=None)


def _with(demand: PodDemand, old: ContainerDemand, new: ContainerDemand, totals: dict[str, int]) -> PodDemand:
    containers = tuple(new if container is old else container for container in demand.containers)
    return replace(demand, containers=containers, totals=totals)
