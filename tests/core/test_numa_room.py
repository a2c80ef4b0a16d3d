"""The numbers of the index against their definition, by walking every set of NUMA nodes."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.core.machine import CpuLayout, DeviceLayout, KubeletConfig, Machine, NodeState, TopologyPolicy
from webhook.core.numa_room import numa_room, partitions_below

CPUS = 6


@st.composite
def machines(draw) -> Machine:
    """Draw NUMA nodes of 6 CPUs with equally or differently many devices, of one NUMA node or several."""
    numa = draw(st.integers(1, 6))
    cpus = tuple(((1 << CPUS) - 1) << CPUS * at for at in range(numa))
    each = draw(st.integers(0, 4))
    counts = draw(
        st.one_of(
            st.just([each] * numa),
            st.lists(st.sampled_from([0, each]), min_size=numa, max_size=numa),
            st.lists(st.integers(0, 3), min_size=numa, max_size=numa),
        )
    )
    homes = [1 << at for at, count in enumerate(counts) for _ in range(count)]
    if homes and draw(st.integers(0, 9)) == 0:
        homes[0] = draw(st.integers(0, (1 << numa) - 1))
    policy = draw(st.sampled_from([TopologyPolicy.RESTRICTED, TopologyPolicy.RESTRICTED, *TopologyPolicy]))
    return Machine(
        tuple(range(numa)),
        CpuLayout(cpus, cpus, tuple(1 << cpu for cpu in range(numa * CPUS))),
        devices=(DeviceLayout("gpu", tuple(homes)),),
        kubelet=KubeletConfig(policy=policy),
    )


@settings(max_examples=300, deadline=None)
@given(machines(), st.data())
def test_every_number_is_what_its_key_says(on, data):
    """Each number is 1 + what is free in the best set of NUMA nodes that the key names, 0 where there is none."""
    devices = on.devices[0]
    state = NodeState(
        data.draw(st.integers(0, on.cpus.all_cpus)),
        (data.draw(st.integers(0, devices.all_devices)),),
        (data.draw(st.sampled_from([0, 0, devices.all_devices & 1])),),
    )
    free = state.free_devices(on, 0)
    room = numa_room(on, state)
    assert room.pop(("machine", "cpu", 0, 0)) == state.free_cpus.bit_count() + 1
    assert room.pop(("machine", "gpu", 0, 0)) == free.bit_count() + 1
    for (kind, resource, width, count), number in room.items():
        assert kind == "numa"
        best = 0
        for numas in combinations(range(len(on.numa_ids)), width):
            numa_mask = sum(1 << at for at in numas)
            if not resource or (free & devices.touching(numa_mask)).bit_count() >= count:
                best = max(best, 1 + sum((state.free_cpus & on.cpus.numa_cpus[at]).bit_count() for at in numas))
        assert number == best, (resource, width, count)


def test_a_number_has_these_partitions():
    """As (how many parts, (part, how often)), each once; of nothing there is one, without parts."""
    assert partitions_below(5)[0] == ((0, ()),)
    assert sorted(partitions_below(5)[4]) == [
        (1, ((4, 1),)),
        (2, ((2, 2),)),
        (2, ((3, 1), (1, 1))),
        (3, ((2, 1), (1, 2))),
        (4, ((1, 4),)),
    ]
    assert [len(parts) for parts in partitions_below(9)] == [1, 1, 2, 3, 5, 7, 11, 15, 22]
