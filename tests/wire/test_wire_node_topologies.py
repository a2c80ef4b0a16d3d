"""NodeResourceTopology in the three writers' shapes, v1alpha1 and v1alpha2, and in none."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import any_value

from webhook.core.machine import TopologyPolicy, TopologyScope
from webhook.wire.devices import read_node_devices
from webhook.wire.node_topologies import Writer, read_node_topology

KOORDLET = {
    "apiVersion": "topology.node.k8s.io/v1alpha1",
    "metadata": {
        "name": "n1",
        "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
        "annotations": {
            "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"static","options":{"full-pcpus-only":"true"},'
            '"reservedCPUs":"0-1"}',
            "node.koordinator.sh/cpu-topology": '{"detail":[{"id":0,"core":0,"socket":0,"node":0},'
            '{"id":1,"core":1,"socket":0,"node":0},{"id":2,"core":0,"socket":1,"node":1},'
            '{"id":3,"core":1,"socket":1,"node":1}]}',
            "node.koordinator.sh/reservation": '{"reservedCPUs":"2"}',
            "node.koordinator.sh/system-qos-resource": '{"cpuset":"3","cpusetExclusive":false}',
        },
    },
    "topologyPolicies": ["None"],
    "zones": [
        {
            "name": f"node-{at}",
            "type": "Node",
            "resources": [{"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2"}],
        }
        for at in (0, 1)
    ],
}


def changed(**fields):
    raw = copy.deepcopy(KOORDLET)
    raw.update(fields)
    return raw


@pytest.mark.parametrize(
    ("raw", "writer", "is_live"),
    [
        (KOORDLET, Writer.KOORDLET, False),
        (
            {"metadata": {"annotations": {"kubelet.koordinator.sh/cpu-manager-policy": "{}"}}},
            Writer.KOORDLET,
            False,
        ),
        ({"metadata": {"annotations": {"k8stopoawareschedwg/rte-update": "periodic"}}}, Writer.RTE, True),
        ({"attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}]}, Writer.NFD, True),
        ({"attributes": [{"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001"}]}, Writer.NFD, True),
        ({"metadata": {"managedFields": [{"manager": "nfd-topology-updater"}]}}, Writer.NFD, True),
        ({"topologyPolicies": ["Restricted"]}, Writer.UNKNOWN, False),
    ],
    ids=["koordlet's label", "its annotation", "rte's annotation", "attributes", "fingerprint", "manager", "nobody"],
)
def test_the_writer_is_known_by_labels_and_shape(raw, writer, is_live):
    topology = read_node_topology(raw)
    assert (topology.writer, topology.writer.is_live) == (writer, is_live)


POD, CONTAINER = TopologyScope.POD, TopologyScope.CONTAINER


@pytest.mark.parametrize(
    ("old", "attributes", "policy", "scope"),
    [
        (["SingleNUMANodePodLevel"], {}, TopologyPolicy.SINGLE_NUMA_NODE, POD),
        (["SingleNUMANodeContainerLevel"], {}, TopologyPolicy.SINGLE_NUMA_NODE, CONTAINER),
        (["Restricted"], {}, TopologyPolicy.RESTRICTED, None),
        (["RestrictedPodLevel"], {}, TopologyPolicy.RESTRICTED, POD),
        (["BestEffortContainerLevel"], {}, TopologyPolicy.BEST_EFFORT, CONTAINER),
        (["None"], {}, TopologyPolicy.NONE, None),
        (["Nonsense", 3, None, "BestEffort"], {}, TopologyPolicy.BEST_EFFORT, None),
        (["RestrictedSomething"], {}, None, None),
        ([], {"Policy": "restricted", "Scope": "pod"}, TopologyPolicy.RESTRICTED, POD),
        (["None"], {"Policy": "restricted", "Scope": "pod"}, TopologyPolicy.RESTRICTED, POD),
        (["BestEffortPodLevel"], {"Policy": "restricted"}, TopologyPolicy.RESTRICTED, None),
        (["RestrictedPodLevel"], {"Policy": "restricted"}, TopologyPolicy.RESTRICTED, POD),
        (["RestrictedPodLevel"], {"Scope": "container"}, TopologyPolicy.RESTRICTED, CONTAINER),
        (["RestrictedPodLevel"], {"Policy": "nonsense"}, TopologyPolicy.RESTRICTED, POD),
    ],
)
def test_attributes_win_over_the_old_policy_field(old, attributes, policy, scope):
    listed = [{"name": f"topologyManager{name}", "value": value} for name, value in attributes.items()]
    topology = read_node_topology({"topologyPolicies": old, "attributes": listed})
    assert (topology.policy, topology.scope) == (policy, scope)


def test_koordlet_tells_cpus_and_what_is_reserved_of_them():
    tells = read_node_topology(KOORDLET).koordlet
    assert tells.numa_ids == (0, 1)
    assert tells.cpus.numa_cpus == (0b0011, 0b1100)
    assert len(tells.cpus.core_cpus) == 4, "a core's number may be the same on two sockets"
    assert tells.reserved_cpus == 0b0111, "the kubelet's and the reservation's; the system set is not exclusive"
    assert tells.static_cpus is True
    assert tells.cpu_options == {"full-pcpus-only": "true"}


def _alloc(uid, cpuset, by_kubelet=True):
    return {"namespace": "team", "name": uid, "uid": uid, "cpuset": cpuset, "managedByKubelet": by_kubelet}


@pytest.mark.parametrize(
    ("allocs", "told"),
    [
        pytest.param([_alloc("b", "1-3"), _alloc("a", "5")], (("a", 0b100000), ("b", 0b1110)), id="two pods"),
        pytest.param([_alloc("a", "1", by_kubelet=False)], (), id="not the kubelet's"),
        pytest.param([_alloc("a", "1"), _alloc("a", "2"), _alloc("b", "3")], (("b", 0b1000),), id="a pod told twice"),
        pytest.param([_alloc("a", "x"), _alloc("b", 7), _alloc("c", ""), _alloc("", "1")], (), id="no CPUs, no pod"),
        pytest.param(None, (), id="null, as koordlet writes for none"),
        pytest.param({"uid": "a"}, (), id="no list"),
        pytest.param(["a", None, []], (), id="no entries"),
    ],
)
def test_koordlet_tells_the_cpus_that_the_kubelet_gave_to_pods(allocs, told):
    raw = changed()
    raw["metadata"]["annotations"]["node.koordinator.sh/pod-cpu-allocs"] = json.dumps(allocs)
    assert read_node_topology(raw).koordlet.pod_cpus == told


@pytest.mark.parametrize(
    "detail",
    [
        '[{"id":0,"core":0,"socket":0,"node":0},{"id":0,"core":1,"socket":0,"node":0}]',
        '[{"id":-1,"core":0,"socket":0,"node":0}]',
        '[{"id":999999,"core":0,"socket":0,"node":0}]',
        '[{"id":true,"core":0,"socket":0,"node":0}]',
        "[[]]",
        "[]",
        "{}",
        "null",
    ],
)
def test_a_cpu_topology_that_is_none_is_left_out(detail):
    raw = changed()
    raw["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"] = f'{{"detail":{detail}}}'
    assert read_node_topology(raw).koordlet.cpus is None


@pytest.mark.parametrize(
    ("zone", "count"),
    [
        ({"name": "node-3", "type": "Node"}, 1),
        ({"name": "numa-node-0", "type": "Node"}, 0),
        ({"name": "node-0", "type": "Core"}, 0),
        ({"name": "node-x", "type": "Node"}, 0),
        ({"name": "node-", "type": "Node"}, 0),
        ({"name": 3, "type": "Node"}, 0),
    ],
)
def test_only_zones_of_type_node_with_a_number_count(zone, count):
    assert len(read_node_topology({"zones": [zone]}).zones) == count


def test_zones_stand_by_number_and_a_number_told_twice_leaves_none():
    zones = [{"name": f"node-{at}", "type": "Node"} for at in (10, 2)]
    assert [zone.numa_id for zone in read_node_topology({"zones": zones}).zones] == [2, 10]
    assert read_node_topology({"zones": [*zones, zones[0]]}).zones == ()


@pytest.mark.parametrize(
    ("amounts", "capacity", "reserved", "busy"),
    [
        (("8", "7", "3"), 8, 1, 4),
        (("8", "8", "8"), 8, 0, 0),
        (("8", "9", "12"), 8, 0, 0),
        (("8", "7", "-1"), 8, 1, 7),
        (("8", None, None), 8, 0, 0),
        (("8", "7", None), 8, 1, 0),
        ((8, 7, 3), 8, 1, 4),
        (("8500m", "7", "3"), 8, 1, 4),
    ],
)
def test_reserved_is_capacity_less_allocatable_and_busy_what_is_not_available(amounts, capacity, reserved, busy):
    keys = ("capacity", "allocatable", "available")
    entry = {"name": "cpu", **dict(zip(keys, amounts, strict=True))}
    zone = read_node_topology({"zones": [{"name": "node-0", "type": "Node", "resources": [entry]}]}).zones[0]
    assert (zone.capacity("cpu"), zone.reserved("cpu"), zone.busy("cpu")) == (capacity, reserved, busy)


def test_the_report_is_as_old_as_its_last_change():
    fields = [{"time": "2026-01-02T00:00:05Z"}, {"time": "2026-01-02T00:00:09Z"}, {"time": 7}, 3]
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": fields}
    newest = read_node_topology({"metadata": metadata}).reported_seconds
    created = read_node_topology({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}).reported_seconds
    assert newest - created == 86409


@pytest.mark.parametrize("read", [read_node_topology, read_node_devices])
@given(st.data())
def test_nothing_is_raised_for_any_json(read, data):
    """Whole objects at random, and a good one with any part of it replaced at random."""
    read(data.draw(any_value))
    raw = copy.deepcopy(KOORDLET)
    raw["spec"] = {"devices": [{"type": "gpu", "minor": 0, "topology": {"nodeID": 0}}]}
    spot, key = raw, data.draw(st.sampled_from(sorted(raw)))
    while isinstance(spot[key], (dict, list)) and spot[key] and data.draw(st.booleans()):
        spot = spot[key]
        key = data.draw(st.sampled_from(sorted(spot) if isinstance(spot, dict) else range(len(spot))))
    spot[key] = data.draw(any_value)
    read(raw)


def test_devices_stand_by_minor_with_what_is_known_of_them():
    raw = {
        "metadata": {"name": "n1"},
        "spec": {
            "devices": [
                {"type": "gpu", "minor": 1, "id": "GPU-1", "health": True, "topology": {"nodeID": 1}},
                {"type": "gpu", "minor": 0, "id": "GPU-0", "topology": {"nodeID": -1}},
                {"type": "rdma", "minor": 0, "health": True},
                {"type": "gpu", "minor": 2, "health": True},
                {"type": "gpu", "minor": 2, "health": True},
                {"type": "gpu", "minor": 100000},
                {"type": "gpu"},
            ]
        },
    }
    devices = read_node_devices(raw)
    assert [(each.minor, each.is_healthy, each.numa_id) for each in devices.of_kind("gpu")] == [
        (0, False, None),
        (1, True, 1),
    ]
    assert len(devices.of_kind("rdma")) == 1
    assert len(devices.malformed) == 2
