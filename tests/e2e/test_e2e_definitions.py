"""What tells of nodes, by the real resource definitions: whatever version is served, and whoever wrote it."""

import os
from contextlib import ExitStack

import pytest
import yaml
from controlplane.binaries import SOURCE_DEFINITIONS, locate_companions
from controlplane.starting import start
from support.feed_world import raw_koordlet_topology, raw_node, raw_pod, raw_rte_topology, raw_topology
from support_truth import fed, until

from webhook.core.ledger.records import AllocatorKind
from webhook.core.machine import TopologyPolicy, TopologyScope
from webhook.core.placement import Holding

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOPOLOGY_DEFINITION = f"{DEFINITIONS}/noderesourcetopologies.topology.node.k8s.io"
NEW, OLD = (f"/apis/topology.node.k8s.io/{version}/noderesourcetopologies" for version in ("v1alpha2", "v1alpha1"))
GPU = "aliyun.com/gpu"
MERGE = "application/merge-patch+json"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"


@pytest.fixture(scope="module")
def cluster(control_plane_binaries, require, tmp_path_factory):
    """An API server with both definitions, and the feeds on it; nodes are objects that nobody runs."""
    companions = locate_companions(os.environ)
    require(companions, SOURCE_DEFINITIONS)
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("sources")
        plane = stack.enter_context(start(control_plane_binaries, folder, components=("controller-manager",)))
        for file in sorted(companions.path(SOURCE_DEFINITIONS).glob("*.yaml")):
            plane.api("POST", DEFINITIONS, yaml.safe_load(file.read_text())).wanted()
        for path in (NEW, OLD, DEVICES):
            until(lambda path=path: plane.api("GET", path).status == 200, f"{path} to be served")
        world = stack.enter_context(fed(plane))
        yield plane, world


@pytest.fixture
def node(cluster, request):
    """A node of its own for the test, gone with its topology and Device at the end; returns its name."""
    plane, world = cluster
    name = f"node-{abs(hash(request.node.name)) % 10**8}"
    raw = raw_node(name)
    plane.api("POST", "/api/v1/nodes", raw).wanted()
    plane.api("PATCH", f"/api/v1/nodes/{name}/status", {"status": raw["status"]}, content_type=MERGE).wanted()
    until(lambda: name in views(world), "the node")
    yield name
    for path in (f"/api/v1/nodes/{name}", f"{NEW}/{name}", f"{DEVICES}/{name}"):
        plane.api("DELETE", path)
    until(lambda: name not in views(world), "the node to go")


def views(world):
    return world.book.snapshot().views


def machine_of(world, name):
    return views(world)[name].record.machine


def old_form(name, **more):
    """NFD's topology as its older versions wrote it: v1alpha1, which has no attributes."""
    raw = raw_topology(name, **more)
    del raw["attributes"]
    return {**raw, "apiVersion": "topology.node.k8s.io/v1alpha1", "topologyPolicies": ["RestrictedPodLevel"]}


def both_forms(name):
    """Attributes and the deprecated list, which contradict each other."""
    return {**raw_topology(name, policy="single-numa-node"), "topologyPolicies": ["RestrictedPodLevel"]}


SINGLE, RESTRICTED = TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED
CONTAINER, POD = TopologyScope.CONTAINER, TopologyScope.POD


@pytest.mark.parametrize(
    ("path", "write", "wanted"),
    [
        pytest.param(NEW, raw_topology, ("nfd", SINGLE, CONTAINER), id="NFD"),
        pytest.param(NEW, raw_rte_topology, ("rte", SINGLE, CONTAINER), id="RTE"),
        pytest.param(OLD, raw_koordlet_topology, ("koordlet", SINGLE, POD), id="koordlet, v1alpha1"),
        pytest.param(NEW, both_forms, ("nfd", SINGLE, CONTAINER), id="attributes against the old list"),
        pytest.param(OLD, old_form, ("unknown", RESTRICTED, POD), id="the old list alone"),
    ],
)
def test_every_writer_is_read_through_the_definition(cluster, node, path, write, wanted):
    """Written through either version, read through the newer: what the definition prunes, nobody may need."""
    plane, world = cluster
    raw = write(node)
    raw["metadata"].pop("managedFields")
    plane.api("POST", f"{path}?fieldManager=somebody", raw).wanted()
    until(lambda: machine_of(world, node) is not None, "its machine")
    record = views(world)[node].record
    kubelet = record.machine.kubelet
    assert (record.numa_source, kubelet.policy, kubelet.scope) == wanted
    assert record.allocator is AllocatorKind.KUBELET
    assert [cpus.bit_count() for cpus in record.machine.cpus.numa_cpus] == [8, 8]
    assert [record.machine.devices[0].touching(1 << at).bit_count() for at in range(2)] == [4, 4]


def test_whatever_version_is_served(cluster, node):
    """The newer version is served no more, then again: at no moment is the node without its machine."""
    plane, world = cluster
    plane.api("POST", OLD, raw_koordlet_topology(node)).wanted()
    until(lambda: machine_of(world, node) is not None, "its machine")
    pulse = next(pulse for pulse in world.feeding.pulses() if pulse.name == "nodeResourceTopologies")
    try:
        for is_served in (False, True):
            watches = pulse.counts.watches
            serve_newer(plane, is_served=is_served)
            until(lambda: plane.api("GET", NEW).status == (200 if is_served else 404), "the version")  # noqa: B023
            if not is_served:
                until(lambda: pulse.counts.watches > watches, "a watch of the other version")  # noqa: B023
            assert not pulse.state.is_absent
            assert machine_of(world, node) is not None
            reserved = "0-1,8" if is_served else "0,8-9"
            note = {"kubelet.koordinator.sh/cpu-manager-policy": f'{{"policy":"static","reservedCPUs":"{reserved}"}}'}
            body = {"metadata": {"annotations": note}}
            plane.api("PATCH", f"{OLD}/{node}", body, content_type=MERGE).wanted()
            mask = 0b1_0000_0011 if is_served else 0b11_0000_0001
            until(lambda: machine_of(world, node).reserved_cpus == mask, "a change of the topology")  # noqa: B023
    finally:
        serve_newer(plane, is_served=True)
        until(lambda: plane.api("GET", NEW).status == 200, "the version to be back")


def serve_newer(plane, *, is_served):
    patch = [{"op": "replace", "path": "/spec/versions/1/served", "value": is_served}]
    plane.api("PATCH", TOPOLOGY_DEFINITION, patch, content_type="application/json-patch+json").wanted()


def test_cpus_of_a_pod_by_koordlet_and_its_gpus_beside_them(cluster, node):
    plane, world = cluster
    raw = raw_pod("told", node=node)
    raw["metadata"] = {"name": "told", "namespace": "default"}
    raw["spec"]["containers"][0]["image"] = "none.invalid/none"
    uid = plane.api("POST", "/api/v1/namespaces/default/pods", raw).wanted().json()["metadata"]["uid"]
    try:
        plane.api("POST", OLD, raw_koordlet_topology(node, allocs={uid: "9-10"})).wanted()
        wanted = Holding(0b11 << 9, (0b110000,))
        until(lambda: (entry := world.book.entry(uid)) is not None and entry.holding == wanted, "the told place")
    finally:
        plane.api("DELETE", "/api/v1/namespaces/default/pods/told?gracePeriodSeconds=0").wanted()
        until(lambda: world.book.entry(uid) is None, "the pod to go")


def test_devices_by_koordinator_and_by_the_topology_once_they_go(cluster, node):
    """The GPUs of the two NUMA nodes are the other way round, and one is broken."""
    plane, world = cluster
    plane.api("POST", NEW, raw_topology(node)).wanted()
    until(lambda: machine_of(world, node) is not None, "its machine")
    devices = [
        {
            "type": "gpu",
            "minor": minor,
            "health": minor != 5,
            "topology": {"socketID": 0, "nodeID": 1 - minor // 4, "pcieID": "0", "busID": f"0000:{minor:02x}:00.0"},
        }
        for minor in range(8)
    ]
    device = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": node}}
    plane.api("POST", DEVICES, {**device, "spec": {"devices": devices}}).wanted()

    def shown():
        record = views(world)[node].record
        layout = record.machine.devices[0]
        return layout.resource, layout.touching(1), record.unhealthy

    until(lambda: shown() == (GPU, 0b11110000, (0b100000,)), "the Device")
    plane.api("DELETE", f"{DEVICES}/{node}").wanted()
    until(lambda: shown() == (GPU, 0b1111, ()), "the topology's own")
