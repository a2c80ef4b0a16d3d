"""Which source wins, row by row of the table in ``webhook/wire/node_sources.py``."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import any_value

from webhook.core.ledger.records import AllocatorKind, NodeRecord
from webhook.core.ledger.verdicts import MachineClass
from webhook.core.machine import (
    CpuLayout,
    DeviceLayout,
    KubeletConfig,
    Machine,
    TopologyPolicy,
    TopologyScope,
)
from webhook.wire.devices import read_node_devices
from webhook.wire.node_reports import report_of
from webhook.wire.node_sources import NodeAssembler, NodeSources
from webhook.wire.node_topologies import read_node_topology
from webhook.wire.nodes import read_node

GPU = "aliyun.com/gpu"
KUBELET, SCHEDULER, UNKNOWN = AllocatorKind.KUBELET, AllocatorKind.SCHEDULER, AllocatorKind.UNKNOWN
NONE, RESTRICTED, SINGLE = TopologyPolicy.NONE, TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE

CLASS_MACHINE = Machine(
    numa_ids=(0, 1),
    # Hyper-threads: CPU n and n + 4 are one core.
    cpus=CpuLayout((0b00110011, 0b11001100), (0b00110011, 0b11001100), (0x11, 0x22, 0x44, 0x88)),
    reserved_cpus=0x11,
    devices=(DeviceLayout(GPU, (1, 1, 2, 2)),),
    distances=((10, 20), (20, 10)),
    kubelet=KubeletConfig(policy=RESTRICTED, scope=TopologyScope.POD, full_pcpus_only=True, minor_version=30),
    name="gpu-a",
)
GPU_A = MachineClass("gpu-a", (("pool", "gpu"),), CLASS_MACHINE, KUBELET, (("cpu", 6000), (GPU, 4)))


def node(*, labels=None, gpus="4", status=True):
    amounts = {"cpu": "8", GPU: gpus, "pods": "110"}
    raw = {"metadata": {"name": "n1", "labels": labels or {}}}
    if status:
        raw["status"] = {
            "capacity": amounts,
            "allocatable": amounts | {"cpu": "6"},
            "nodeInfo": {"kubeletVersion": "v1.34.1"},
        }
    return raw


def topology(
    *, cpus=(4, 4), reserved=(0, 0), gpus=(2, 2), policy="restricted", old=(), koordlet=None, costs=None, busy=0
):
    raw = {
        "metadata": {"name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "topologyPolicies": list(old),
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}] if policy else [],
        "zones": [
            {
                "name": f"node-{at}",
                "type": "Node",
                "costs": [{"name": f"node-{other}", "value": cost} for other, cost in enumerate(costs[at])]
                if costs
                else [],
                "resources": [
                    {"name": "cpu", "capacity": str(count), "allocatable": str(count - reserved[at]),
                     "available": str(count - reserved[at] - busy)},
                    {"name": GPU, "capacity": str(gpus[at]), "allocatable": str(gpus[at]), "available": str(gpus[at])},
                ],
            }
            for at, count in enumerate(cpus)
        ],
    }  # fmt: skip
    if koordlet is not None:
        raw["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Koordinator"}
        raw["metadata"]["annotations"] = koordlet
    return raw


def device(minor, numa, *, healthy=True):
    return {"type": "gpu", "minor": minor, "health": healthy, "topology": {"nodeID": numa}}


IN_CLASS = {"pool": "gpu"}
ACK_LABEL = {"ack.node.gpu.schedule": "topology"}
CPU_MANAGER = "kubelet.koordinator.sh/cpu-manager-policy"
DETAIL = '{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":0,"socket":0,"node":0}]}'


def record(raw_node=None, raw_topology=None, devices=None, classes=(GPU_A,)) -> NodeRecord:
    return NodeAssembler(classes).record(
        NodeSources(
            read_node(raw_node or node()),
            read_node_topology(raw_topology) if raw_topology else None,
            read_node_devices({"spec": {"devices": devices}}) if devices is not None else None,
        )
    )


@pytest.mark.parametrize(
    ("labels", "told", "kind"),
    [
        ({}, None, UNKNOWN),
        (IN_CLASS, None, KUBELET),
        (ACK_LABEL, None, SCHEDULER),
        ({"node.koordinator.sh/numa-topology-policy": "Restricted"}, None, SCHEDULER),
        ({"ack.node.gpu.schedule": "share"}, None, UNKNOWN),
        (IN_CLASS | ACK_LABEL, None, SCHEDULER),
        ({}, topology(), KUBELET),
        (ACK_LABEL, topology(), KUBELET),
        (ACK_LABEL, topology(policy="none"), SCHEDULER),
        ({}, topology(policy="none"), KUBELET),
        ({}, topology(policy=""), UNKNOWN),
        (IN_CLASS, topology(policy=""), KUBELET),
        ({}, topology(policy="", old=["None"], koordlet={}), SCHEDULER),
        ({}, topology(policy="", old=["RestrictedPodLevel"], koordlet={}), KUBELET),
    ],
    ids=[
        "nothing told",
        "class",
        "ACK's label",
        "Koordinator's label",
        "another ACK mode",
        "label over class",
        "an aligning kubelet",
        "an aligning kubelet over the label",
        "label over a kubelet that does not align",
        "a kubelet that does not align",
        "a topology without policy",
        "class under a topology without policy",
        "koordlet, the kubelet not aligning",
        "koordlet, the kubelet aligning",
    ],
)
def test_allocator_kind(labels, told, kind):
    assert record(node(labels=labels), told).allocator is kind


@pytest.mark.parametrize(
    ("labels", "told", "policy", "scope"),
    [
        (IN_CLASS, None, RESTRICTED, TopologyScope.POD),
        (IN_CLASS, topology(policy="single-numa-node"), SINGLE, TopologyScope.POD),
        (IN_CLASS, topology(policy="", old=["SingleNUMANodeContainerLevel"]), SINGLE, TopologyScope.CONTAINER),
        ({}, topology(policy="none", old=["SingleNUMANodePodLevel"]), NONE, TopologyScope.CONTAINER),
        ({}, topology(policy=""), NONE, TopologyScope.CONTAINER),
    ],
    ids=["class", "attributes over class", "old field over class", "attributes over old field", "default"],
)
def test_kubelet_policy_and_scope(labels, told, policy, scope):
    kubelet = record(node(labels=labels), told).machine.kubelet
    assert (kubelet.policy, kubelet.scope) == (policy, scope)


@pytest.mark.parametrize(
    ("labels", "told", "static", "whole_cores"),
    [
        (IN_CLASS, None, True, True),
        ({}, topology(), False, False),
        ({}, topology(reserved=(1, 0)), True, False),
        ({}, topology(busy=1), True, False),
        ({}, topology(koordlet={CPU_MANAGER: '{"policy":"static","options":{"full-pcpus-only":"true"}}'}), True, True),
        (IN_CLASS, topology(koordlet={CPU_MANAGER: '{"policy":"none","options":{}}'}), False, False),
        (IN_CLASS, topology(koordlet={CPU_MANAGER: "{}"}), True, True),
    ],
    ids=["class", "nobody", "reserved CPUs", "exclusive CPUs", "koordlet", "koordlet over class", "koordlet is silent"],
)
def test_cpu_manager(labels, told, static, whole_cores):
    kubelet = record(node(labels=labels), told).machine.kubelet
    assert (kubelet.static_cpus, kubelet.full_pcpus_only) == (static, whole_cores)


def test_numa_nodes_by_koordlet_then_counts_then_class():
    by_koordlet = record(node(labels=IN_CLASS), topology(koordlet={"node.koordinator.sh/cpu-topology": DETAIL})).machine
    assert (by_koordlet.numa_ids, by_koordlet.cpus.core_cpus) == ((0,), (0b11,))
    agreeing = record(node(labels=IN_CLASS), topology()).machine
    assert agreeing.cpus == CLASS_MACHINE.cpus, "the class names the CPUs that are counted"
    other = record(node(labels=IN_CLASS), topology(cpus=(6, 2))).machine
    assert other.cpus.numa_cpus == (0b00111111, 0b11000000), "a count that the class contradicts wins over it"
    assert other.cpus.threads_per_core == 1
    assert record(node(labels=IN_CLASS)).machine.cpus == CLASS_MACHINE.cpus
    assert record(node()).machine is None
    assert record(node(), topology(cpus=(0, 0))).machine is None


@pytest.mark.parametrize(
    ("labels", "told", "reserved"),
    [
        (IN_CLASS, None, 0x11),
        ({}, topology(reserved=(1, 2)), 0b00110001),
        (IN_CLASS, topology(reserved=(2, 0)), 0x11),
        (IN_CLASS, topology(reserved=(0, 2)), 0x44),
        (IN_CLASS, topology(), 0),
        (IN_CLASS, topology(reserved=(2, 0), koordlet={CPU_MANAGER: '{"reservedCPUs":"2,6"}'}), 0x44),
    ],
    ids=["class", "counts", "counts that the class names", "counts over class", "none over class", "koordlet"],
)
def test_reserved_cpus(labels, told, reserved):
    assert record(node(labels=labels), told).machine.reserved_cpus == reserved


@pytest.mark.parametrize(
    ("labels", "told", "devices", "numa", "unhealthy"),
    [
        (IN_CLASS, None, None, (1, 1, 2, 2), ()),
        ({}, topology(), None, (1, 1, 2, 2), ()),
        ({}, topology(gpus=(1, 2)), None, (1, 2, 2, 0), ()),
        (IN_CLASS, topology(gpus=(1, 2)), None, (1, 1, 2, 2), (0b0010,)),
        (IN_CLASS, topology(gpus=(3, 1)), None, (1, 1, 1, 2), ()),
        (IN_CLASS, topology(), [device(0, 1), device(1, 0, healthy=False)], (2, 1), (0b10,)),
        ({}, topology(), [device(0, 0), device(2, -1)], (1, 0, 0), (0b010,)),
        ({}, topology(), [device(0, 7)], (0,), ()),
        ({}, topology(), [], (1, 1, 2, 2), ()),
    ],
    ids=[
        "class",
        "counts",
        "counts, one on no NUMA node",
        "fewer than the class has",
        "counts that the class contradicts",
        "Device over both",
        "a minor that is missing",
        "a NUMA node that is not there",
        "an empty Device",
    ],
)
def test_devices_and_their_health(labels, told, devices, numa, unhealthy):
    made = record(node(labels=labels), told, devices)
    assert made.machine.devices[0].numa_of_device == numa
    assert made.unhealthy == unhealthy


def test_a_device_that_the_node_does_not_offer_does_not_count():
    """In another ACK mode, or before the plugin has registered, the resource is not in the Node's status."""
    raw = node()
    del raw["status"]["capacity"][GPU]
    assert record(raw, topology(), [device(0, 0)]).machine.devices == ()


def test_distances_by_costs_then_class():
    costs = ((10, 31), (32, 10))
    assert record(node(labels=IN_CLASS), topology(costs=costs)).machine.distances == costs
    assert record(node(labels=IN_CLASS), topology()).machine.distances == CLASS_MACHINE.distances
    assert record(node(), topology()).machine.distances == ()


def test_plain_counts_and_version_by_the_node_then_class():
    own, bare = record(node(labels=IN_CLASS)), record(node(labels=IN_CLASS, status=False))
    assert (own.allocatable["cpu"], own.machine.kubelet.minor_version) == (6000, 34)
    assert (dict(bare.allocatable), bare.machine.kubelet.minor_version) == ({"cpu": 6000, GPU: 4}, 30)


def test_the_first_class_whose_labels_are_there_counts_and_one_without_labels_never():
    other = replace(GPU_A, name="gpu-b", machine=replace(CLASS_MACHINE, name="gpu-b"))
    assembler = NodeAssembler((replace(other, labels=()), GPU_A, other))
    assert assembler.class_of(IN_CLASS).name == "gpu-a"
    assert assembler.class_of({}) is None


def test_equal_nodes_share_one_machine():
    assembler = NodeAssembler((GPU_A,))
    one, other = (
        assembler.record(NodeSources(read_node(node(labels=IN_CLASS)), read_node_topology(topology())))
        for _ in range(2)
    )
    assert one.machine is other.machine


@pytest.mark.parametrize(
    ("told", "busy"),
    [
        (topology(busy=1), {"cpu": (1, 1), GPU: (0, 0)}),
        (topology(busy=1, policy=""), None),
        (topology(busy=1, koordlet={}), None),
        (topology(busy=1, cpus=(4,), gpus=(2,)), None),
    ],
    ids=["NFD", "an unknown writer", "koordlet", "other NUMA nodes"],
)
def test_only_a_live_writer_reports(told, busy):
    report = report_of(read_node_topology(told), CLASS_MACHINE)
    assert (report and dict(report.busy)) == busy


@given(any_value, any_value, any_value)
def test_nothing_is_raised_whatever_the_sources_say(raw_node, raw_topology, raw_devices):
    for classes in ((), (GPU_A,)):
        record(raw_node, raw_topology, raw_devices if isinstance(raw_devices, list) else [raw_devices], classes)


@given(st.lists(st.integers(0, 10**7), max_size=5), st.lists(st.integers(-5, 10**7), min_size=5, max_size=5))
def test_no_count_is_too_large_to_be_read(cpus, gpus):
    made = record(node(), topology(cpus=cpus, reserved=[0] * 5, gpus=gpus))
    assert made.machine is None or made.machine.cpus.all_cpus.bit_count() <= 8191
