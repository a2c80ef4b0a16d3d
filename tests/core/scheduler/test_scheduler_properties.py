"""What holds for every machine, state and pod: nothing is lost, nothing is taken twice, and brute force agrees."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_cases import machines, numa_of_cpus, numa_of_devices, pods, states

from webhook.core.demand import CpuBinding
from webhook.core.machine import NodeState
from webhook.core.numa_room import numa_room
from webhook.core.placement import Placement, Rejection
from webhook.core.scheduler import SchedulerAllocator, is_wider_than_a_numa_node
from webhook.core.scheduler.allocator import REASONS
from webhook.core.scheduler.conditions import conditions
from webhook.core.scheduler.exclusive import NumaStatus, Occupants
from webhook.core.scheduler.policies import effective_policy
from webhook.core.scheduler.request import binding_on

ALLOCATOR = SchedulerAllocator()


def is_bound(on, demand) -> bool:
    return binding_on(on, demand) is not CpuBinding.NONE


@settings(max_examples=200, deadline=None)
@given(st.data(), machines(), pods())
def test_what_is_held_was_free_and_is_what_was_asked(data, on, demand):
    """Free and held together are what was free before; counts are exact, no reserved CPU, no sick or busy device."""
    state = data.draw(states(on))
    answer = ALLOCATOR.place(on, state, demand)
    if isinstance(answer, Rejection):
        assert answer.reason in REASONS
        assert answer.message
        return
    holding, after = answer.holding, answer.state
    assert holding.cpus & ~state.free_cpus == 0
    assert after.free_cpus == state.free_cpus & ~holding.cpus
    for index, layout in enumerate(on.devices):
        mask = holding.devices[index]
        assert mask.bit_count() == demand.totals.get(layout.resource, 0)
        assert mask & ~state.free_devices(on, index) == 0
        assert after.busy_devices[index] == state.busy_devices[index] | mask
        assert after.unhealthy_devices == state.unhealthy_devices
        given_out = 0
        for place in answer.containers:
            given_out |= dict(place.devices).get(index, 0)
        assert given_out == mask
    if is_bound(on, demand):
        assert holding.cpuset == holding.cpus
        assert holding.cpus.bit_count() * 1000 == demand.totals["cpu"]
        assert after.cpusets == (*state.cpusets, holding.cpuset)
    else:
        assert (holding.cpuset, after.cpusets) == (0, state.cpusets)


@settings(max_examples=150, deadline=None)
@given(st.data(), machines(), pods())
def test_release_undoes_place(data, on, demand):
    """Whatever was placed and given back leaves the state as it was."""
    state = data.draw(states(on))
    answer = ALLOCATOR.place(on, state, demand)
    if isinstance(answer, Placement):
        assert ALLOCATOR.release(on, answer.state, answer.holding) == state


@settings(max_examples=100, deadline=None)
@given(machines(), st.lists(pods(), max_size=8), st.data())
def test_a_machine_that_drains_in_any_order_is_empty(on, demands, data):
    """Pods come one by one and leave in another order."""
    state = NodeState.empty(on)
    holdings = []
    for demand in demands:
        answer = ALLOCATOR.place(on, state, demand)
        if isinstance(answer, Placement):
            state = answer.state
            holdings.append(answer.holding)
    for holding in data.draw(st.permutations(holdings)):
        state = ALLOCATOR.release(on, state, holding)
    assert state == NodeState.empty(on)


def one_numa_node_suffices(on, state, demand) -> bool:
    """Return whether one NUMA node has all of it, looked at one by one without the model's means."""
    millicores = demand.totals["cpu"]
    occupants = Occupants.of(state.cpusets, on.cpus.numa_cpus)
    exclusive = demand.numa_exclusive or ("Required" if demand.numa_policy else "")
    in_cores = binding_on(on, demand) is CpuBinding.WHOLE_CORES
    for layout in on.devices:
        placed = sum(bool(home) for home in layout.numa_of_device)
        if 0 < placed < demand.totals.get(layout.resource, 0):
            return False  # "Insufficient NUMA Scoped Devices", before any NUMA node is looked at
    for position, cpus in enumerate(on.cpus.numa_cpus):
        if exclusive == "Required" and occupants.status(position) is NumaStatus.SHARED:
            continue
        free = state.free_cpus & cpus
        usable = sum((core & free).bit_count() for core in on.cpus.core_cpus if not in_cores or core & free == core)
        if millicores and usable * 1000 < millicores:
            continue
        if demand.totals["memory"] > sum(on.memory[0].total_bytes[position : position + 1]) if on.memory else False:
            continue
        for index, layout in enumerate(on.devices):
            count = demand.totals.get(layout.resource, 0)
            homes = layout.numa_of_device
            here = [device for device, home in enumerate(homes) if home >> position & 1]
            loose = [device for device, home in enumerate(homes) if not home]
            usable_here = [d for d in here + loose if state.free_devices(on, index) >> d & 1]
            if count and (len(usable_here) < count or (here and len(here) < count)):
                break
            if count and not here and position not in known_hosts(on):
                break
        else:
            return True
    return False


def known_hosts(on) -> set[int]:
    """Return the NUMA nodes with devices of any resource; where there is none, devices have no say: all of them."""
    homes = [home for layout in on.devices for home in layout.numa_of_device]
    everywhere = set(range(len(on.numa_ids)))
    return {position for position in everywhere if any(home >> position & 1 for home in homes)} or everywhere


@settings(max_examples=250, deadline=None)
@given(st.data(), machines(), pods(policies=("SingleNUMANode",)))
def test_single_numa_node_agrees_with_brute_force(data, on, demand):
    """Admitted if and only if one NUMA node suffices, and then the pod sits on one."""
    on = replace(on, node_policy="")
    state = data.draw(states(on))
    answer = ALLOCATOR.place(on, state, demand)
    if isinstance(answer, Rejection) and answer.reason == "cpus-not-whole":
        return
    no_zone = not demand.totals["cpu"] and not (on.memory and demand.totals["memory"])
    asked = [layout for layout in on.devices if demand.totals.get(layout.resource, 0)]
    if no_zone and (not asked or not any(home for layout in on.devices for home in layout.numa_of_device)):
        return  # nothing has an opinion: any NUMA node will do
    assert isinstance(answer, Placement) is one_numa_node_suffices(on, state, demand)
    if isinstance(answer, Placement) and len(on.numa_ids) > 1:
        (mask,) = {place.numa_mask for place in answer.containers}
        assert mask.bit_count() == 1
        assert numa_of_cpus(on, answer.holding.cpus) & ~mask == 0
        for index, devices in enumerate(answer.holding.devices):
            assert numa_of_devices(on, index, devices) & ~mask == 0


@settings(max_examples=200, deadline=None)
@given(st.data(), machines(), pods())
def test_exclusivity_still_holds_after_a_pod_was_placed(data, on, demand):
    """A Required pod, if its policy must be met, never sits alone on a shared node nor spans a single one."""
    state = data.draw(states(on))
    answer = ALLOCATOR.place(on, state, demand)
    if isinstance(answer, Rejection) or answer.containers[0].numa_mask is None:
        return
    policy = effective_policy(demand.numa_policy, on.node_policy)
    if policy == "BestEffort" or not demand.numa_policy or demand.numa_exclusive == "Preferred":
        return
    before = Occupants.of(state.cpusets, on.cpus.numa_cpus)
    mask = answer.containers[0].numa_mask
    statuses = {before.status(position) for position in range(len(on.numa_ids)) if mask >> position & 1}
    assert (NumaStatus.SHARED if mask.bit_count() == 1 else NumaStatus.SINGLE) not in statuses


@settings(max_examples=200, deadline=None)
@given(st.data(), machines(), pods())
def test_conditions_are_necessary(data, on, demand):
    """The index never rules out a node that the model would take."""
    state = data.draw(states(on))
    room = numa_room(on, state)
    if any(room.get(key, 0) < need for key, need in conditions(on, demand)):
        assert isinstance(ALLOCATOR.place(on, state, demand), Rejection)


@settings(max_examples=150, deadline=None)
@given(st.data(), machines(), pods())
def test_structural_means_that_the_empty_machine_refuses_too(data, on, demand):
    """And what is documented to be too wide is refused by the model in any state."""
    answer = ALLOCATOR.place(on, data.draw(states(on)), demand)
    empty = ALLOCATOR.place(on, NodeState.empty(on), demand)
    if isinstance(answer, Rejection):
        assert answer.structural is isinstance(empty, Rejection)
    if is_wider_than_a_numa_node(on, demand):
        assert isinstance(empty, Rejection)
        assert (empty.structural, empty.facts["documented"]) == (True, "true")
