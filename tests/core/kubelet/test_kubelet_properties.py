"""What must hold for every machine and pod: nothing lost or given twice, and agreement with brute force."""

from dataclasses import replace
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st
from machines import GPU, ask, machine, machines, pod, pods

from webhook.core.kubelet import KubeletAllocator
from webhook.core.machine import Machine, NodeState, TopologyPolicy, TopologyScope
from webhook.core.masks import members
from webhook.core.placement import Placement, Rejection

ALLOCATOR = KubeletAllocator()


def place_all(on: Machine, demands) -> list[tuple[NodeState, Placement]]:
    """Place what fits, in order, and return the state before each with its placement."""
    state, placed = NodeState.empty(on), []
    for demand in demands:
        answer = ALLOCATOR.place(on, state, demand)
        if isinstance(answer, Placement):
            placed.append((state, answer))
            state = answer.state
    return placed


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(pods(), min_size=1, max_size=4))
def test_free_and_held_are_the_whole(on, demands):
    """CPUs and devices are held once, by one pod, and free + held + reserved is the machine."""
    placed = place_all(on, demands)
    held_cpus, held_devices = 0, [0] * len(on.devices)
    for before, answer in placed:
        assert not answer.holding.cpus & ~before.free_cpus
        held_cpus |= answer.holding.cpus
        for index, devices in enumerate(answer.holding.devices):
            assert not devices & before.busy_devices[index]
            held_devices[index] |= devices
    last = placed[-1][1].state if placed else NodeState.empty(on)
    assert last.free_cpus ^ held_cpus == on.cpus.all_cpus & ~on.reserved_cpus
    assert list(last.busy_devices) == held_devices


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(pods(), min_size=1, max_size=4))
def test_release_undoes_place(on, demands):
    """Giving back the last pod restores the state before it, but for what the memory manager does not undo."""
    for before, answer in place_all(on, demands):
        after = ALLOCATOR.release(on, answer.state, answer.holding)
        # A NUMA node handed out alone inside a group keeps standing alone until all of its memory is given back.
        assert replace(after, memory_by_numa=()) == replace(before, memory_by_numa=())


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(pods(), min_size=1, max_size=4), st.randoms())
def test_releasing_all_in_any_order_empties_the_machine(on, demands, random):
    """When every pod is gone the state is the empty one, its memory groups too."""
    placed = place_all(on, demands)
    state = placed[-1][1].state if placed else NodeState.empty(on)
    holdings = [answer.holding for _, answer in placed]
    random.shuffle(holdings)
    for holding in holdings:
        state = ALLOCATOR.release(on, state, holding)
    assert state == NodeState.empty(on)


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(pods(), min_size=1, max_size=4))
def test_containers_get_what_they_ask_for(on, demands):
    """Each container gets its exclusive CPUs and its devices, no more, and the pod holds their union."""
    for demand in demands:
        answer = ALLOCATOR.place(on, NodeState.empty(on), demand)
        if isinstance(answer, Rejection):
            continue
        cpus = devices = 0
        for wanted, got in zip(demand.containers, answer.containers, strict=True):
            assert got.cpus.bit_count() == demand.exclusive_cpus(wanted)
            count = dict(wanted.devices).get(GPU, 0) if on.devices else 0
            assert sum(mask.bit_count() for _, mask in got.devices) == count
            cpus |= got.cpus
            devices |= dict(got.devices).get(0, 0)
        assert answer.holding.cpus == cpus
        assert not on.devices or answer.holding.devices == (devices,)


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(pods(), min_size=1, max_size=3), pods())
def test_structural_means_refused_when_empty(on, earlier, demand):
    """A refusal is structural iff the empty machine refuses too."""
    placed = place_all(on, earlier)
    state = placed[-1][1].state if placed else NodeState.empty(on)
    answer = ALLOCATOR.place(on, state, demand)
    if isinstance(answer, Rejection):
        assert answer.structural == isinstance(ALLOCATOR.place(on, NodeState.empty(on), demand), Rejection)


@settings(max_examples=150, deadline=None)
@given(machines(), st.lists(pods(), min_size=1, max_size=3))
def test_what_was_taken_can_be_given_again(on, demands):
    """A replay with the devices that were taken comes out the same."""
    for before, answer in place_all(on, demands):
        demand = next(
            one
            for one in demands
            if tuple(c.name for c in one.containers) == tuple(p.name for p in answer.containers)
            and ALLOCATOR.place(on, before, one) == answer
        )
        taken = {
            place.name: {on.devices[index].resource: mask for index, mask in place.devices}
            for place in answer.containers
        }
        assert ALLOCATOR.place(on, before, demand, given=taken) == answer


# --- brute force on small machines ---


@st.composite
def partly_used(draw):
    """Draw a machine of one-NUMA-id GPUs, a state with any CPUs and GPUs in use, and one container's demand."""
    numa = draw(st.integers(1, 3))
    homes = tuple(1 << draw(st.integers(0, numa - 1)) for _ in range(draw(st.integers(1, 5))))
    policy = draw(st.sampled_from([TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED]))
    scope = draw(st.sampled_from(TopologyScope))
    on = machine(numa, draw(st.integers(1, 3)), 2, homes, policy=policy, scope=scope)
    free = on.cpus.all_cpus & ~on.reserved_cpus & ~draw(st.integers(0, on.cpus.all_cpus))
    busy = draw(st.integers(0, (1 << len(homes)) - 1))
    unhealthy = draw(st.integers(0, (1 << len(homes)) - 1)) & ~busy if draw(st.booleans()) else 0
    cpus, gpus = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    return on, NodeState(free, (busy,), (unhealthy,)), cpus, gpus


def admits_by_brute_force(on: Machine, state: NodeState, cpus: int, gpus: int) -> bool:
    """The reduced rules (``domain/kubelet-topology.md`` 1.8), by trying every set of NUMA nodes."""
    nodes = range(len(on.numa_ids))
    hosts = {node for node in nodes if on.devices[0].touching(1 << node)}
    sets = [set(members(mask)) for mask in range(1, 1 << len(nodes))]
    free_gpus = state.free_devices(on, 0)

    def cpus_in(chosen: set[int], among: int) -> int:
        return sum((on.cpus.numa_cpus[node] & among).bit_count() for node in chosen)

    def gpus_in(chosen: set[int], among: int) -> int:
        return sum((on.devices[0].touching(1 << node) & among).bit_count() for node in chosen)

    def width(total, request: int, of: set[int]) -> int:
        return min((len(one) for one in sets if one <= of and total(one, -1) >= request), default=len(of))

    width_cpus, width_gpus = width(cpus_in, cpus, set(nodes)), width(gpus_in, gpus, hosts)
    if width_cpus != width_gpus or (on.kubelet.policy is TopologyPolicy.SINGLE_NUMA_NODE and width_cpus != 1):
        return False
    return any(
        len(one) == width_cpus
        and one <= hosts
        and cpus_in(one, state.free_cpus) >= cpus
        and gpus_in(one, free_gpus) >= gpus
        for one in sets
    )


@settings(max_examples=500, deadline=None)
@given(partly_used())
def test_topology_verdict_is_brute_force(case):
    """single-numa-node: one NUMA node fits; restricted: equal widths, and one set of that width fits."""
    on, state, cpus, gpus = case
    answer = ALLOCATOR.place(on, state, pod(ask(cpus=cpus, gpus=gpus)))
    refused = isinstance(answer, Rejection) and answer.reason == "TopologyAffinityError"
    assert refused != admits_by_brute_force(on, state, cpus, gpus)


@settings(max_examples=300, deadline=None)
@given(partly_used())
def test_admitted_pod_sits_inside_the_chosen_nodes(case):
    """Under restricted and single-numa-node one container's CPUs and GPUs lie in the chosen NUMA nodes."""
    on, state, cpus, gpus = case
    answer = ALLOCATOR.place(on, state, pod(ask(cpus=cpus, gpus=gpus)))
    if isinstance(answer, Placement):
        place = answer.containers[0]
        nodes = on.all_numa if place.numa_mask is None else place.numa_mask
        inside = set(chain.from_iterable(members(on.cpus.numa_cpus[node]) for node in members(nodes)))
        assert set(members(place.cpus)) <= inside
        assert all(not mask & ~on.devices[index].touching(nodes) for index, mask in place.devices)
