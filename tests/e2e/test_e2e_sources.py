"""What tells of a node goes and comes back, its CRD as well: the ledger follows, and forgets nobody's place."""

import pytest
from support_crds import DEVICES, TOPOLOGIES, gpus
from support_guarded import GPU, fresh_namespace, pod
from support_living import living_cluster
from support_truth import until


@pytest.fixture(scope="module")
def cluster(control_plane_binaries, oracle, tmp_path_factory):
    """A guarded cluster in which each node's kubelet reports what it has given out."""
    kinds = (TOPOLOGIES.definition(), DEVICES.definition())
    flags = ("--topologies", "--topology-delay", "300ms")
    folder = tmp_path_factory.mktemp("sources")
    with living_cluster(control_plane_binaries, folder, pools=6, objects=kinds, flags=flags) as living:
        yield living


@pytest.fixture
def space(cluster, request):
    """A fresh namespace."""
    with fresh_namespace(cluster.plane, request.node.name) as name:
        yield name
    cluster.converges()


def fill(cluster, space, pool, *counts):
    """Have pods of so many GPUs run on the node of a pool."""
    for at, count in enumerate(counts):
        cluster.create(space, pod(f"p{at}", pool, count)).wanted()
        cluster.runs(space, f"p{at}")


def taken(cluster, node):
    """How many GPUs of each NUMA node the ledger takes for given out, and how many of them for ill."""
    view = cluster.view(node.name)
    machine, state = view.record.machine, view.bound_state
    (layout,) = machine.devices
    numa = [layout.touching(1 << at) for at in range(len(machine.numa_ids))]
    busy, ill = state.busy_devices[0], state.unhealthy_devices[0]
    return sorted((busy & mask).bit_count() for mask in numa), (ill & layout.all_devices).bit_count()


def reported(cluster, node):
    """How many GPUs of each NUMA node its kubelet has reported as given out; empty without a report."""
    topology = TOPOLOGIES.get(cluster.plane, node.name) or {"zones": ()}
    resources = [each for zone in topology["zones"] for each in zone["resources"] if each["name"] == GPU]
    return sorted(int(each["allocatable"]) - int(each["available"]) for each in resources)


def test_a_device_that_is_deleted_and_made_again(cluster, space):
    """A Device tells of ill GPUs; without it the kubelet's report and the settings stand, with the same places."""
    pool = cluster.pool()
    node = cluster.node(pool)
    DEVICES.put(cluster.plane, node.name, gpus())
    until(lambda: cluster.view(node.name).record.machine.devices[0].ids, "the ledger to read the Device")
    fill(cluster, space, pool, 3, 2)
    until(lambda: reported(cluster, node) == [2, 3], "the kubelet's report")
    for _ in range(2):
        DEVICES.put(cluster.plane, node.name, gpus(healthy=range(7)))
        until(lambda: taken(cluster, node) == ([2, 3], 1), "the ledger to hear of the ill GPU")
        cluster.converges()
        DEVICES.delete(cluster.plane, node.name)
        until(lambda: not cluster.view(node.name).record.machine.devices[0].ids, "the ledger to lose the Device")
        assert taken(cluster, node) == ([2, 3], 0)
        assert not cluster.view(node.name).is_guessed
        cluster.converges()
    DEVICES.put(cluster.plane, node.name, gpus())
    until(lambda: cluster.view(node.name).record.machine.devices[0].ids, "the ledger to read the Device")
    assert taken(cluster, node) == ([2, 3], 0)
    # What is left is one GPU here and two there: a person is told so at once.
    assert cluster.create(space, pod("three", pool, 3)).status == 403
    cluster.takes(space, pod("two", pool, 2))


def test_a_topology_that_is_deleted_and_made_again(cluster, space):
    """Without it the settings describe the machine and the replayed places stand."""
    pool = cluster.pool()
    node = cluster.node(pool)
    fill(cluster, space, pool, 3, 3)
    until(lambda: reported(cluster, node) == [3, 3], "the kubelet's report")
    stored = TOPOLOGIES.get(cluster.plane, node.name)
    for _ in range(2):
        TOPOLOGIES.delete(cluster.plane, node.name)
        until(lambda: not _has_topology(cluster, node), "the ledger to lose the topology")
        assert taken(cluster, node) == ([3, 3], 0)
        assert not cluster.view(node.name).is_guessed
        cluster.converges()
        TOPOLOGIES.put(cluster.plane, node.name, {key: stored[key] for key in ("attributes", "zones")})
        until(lambda: _has_topology(cluster, node), "the ledger to have it again")
        cluster.converges()
    assert taken(cluster, node) == ([3, 3], 0)
    assert cluster.create(space, pod("two", pool, 2)).status == 403
    cluster.create(space, pod("one", pool, 1)).wanted()
    cluster.runs(space, "one")
    until(lambda: reported(cluster, node) == [3, 4], "the kubelet to report the new pod, too")
    cluster.no_admission_errors(space)


def _has_topology(cluster, node):
    return node.name in cluster.ours.live.feeding._board._topologies


@pytest.mark.parametrize("kind", (DEVICES, TOPOLOGIES), ids=("Device", "NodeResourceTopology"))
def test_a_crd_that_is_deleted_with_all_its_objects_and_made_again(cluster, space, kind):
    pool = cluster.pool()
    node = cluster.node(pool)
    DEVICES.put(cluster.plane, node.name, gpus())
    fill(cluster, space, pool, 3, 3)
    until(lambda: reported(cluster, node) == [3, 3], "the kubelet's report")
    contents = {
        item["metadata"]["name"]: {key: item[key] for key in item if key in {"spec", "attributes", "zones"}}
        for item in cluster.plane.get(kind.path())["items"]
    }
    assert node.name in contents
    feed = {"devices": "devices", "noderesourcetopologies": "nodeResourceTopologies"}[kind.plural]
    kind.uninstall(cluster.plane)
    until(lambda: cluster.ours.live.feeding.states()[feed].is_absent, "the ledger to find the kind missing")
    assert not cluster.ours.live.feeding.freshness.trust(), "a missing CRD is no fault"
    assert taken(cluster, node) == ([3, 3], 0)
    assert cluster.create(space, pod("two", pool, 2)).status == 403
    cluster.converges()
    kind.install(cluster.plane)
    for name, content in contents.items():
        kind.put(cluster.plane, name, content)
    until(lambda: not cluster.ours.live.feeding.states()[feed].is_absent, "the ledger to find the kind again")
    cluster.converges()
    assert taken(cluster, node) == ([3, 3], 0)
    cluster.takes(space, pod("one", pool, 1))
