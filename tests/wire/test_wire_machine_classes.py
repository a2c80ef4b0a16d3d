"""Machine classes: what a declaration becomes, and each way in which it can contradict itself."""

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from support.json_values import values_with
from support.picture_texts import GPU, machine_class

from webhook.core.ledger.records import AllocatorKind
from webhook.core.machine import TopologyPolicy, TopologyScope
from webhook.core.masks import cpu_list, parse_cpu_list
from webhook.wire.machine_classes import class_of, contradictions, read_machine_class, read_machine_classes
from webhook.wire.schema_faults import MACHINE_CLASS_SCHEMA, PICTURE_SCHEMA, read_schema, schema_faults, validator_of


def _read(raw):
    faults = []
    declared = read_machine_class(raw, "c", faults)
    assert faults == []
    return declared


def _class(layout=None, kubelet=None, **changes):
    """Return ``machine_class`` read; a None in ``layout`` takes the key out."""
    raw = machine_class(layout=layout, kubelet=kubelet, **changes)
    raw["layout"] = {key: value for key, value in raw["layout"].items() if value is not None}
    return _read(raw)


@pytest.mark.parametrize("name", [MACHINE_CLASS_SCHEMA, PICTURE_SCHEMA])
def test_published_schemas_are_schemas(name):
    """A schema that is none would let everything pass."""
    Draft202012Validator.check_schema(read_schema(name))


def test_usual_class_becomes_its_machine():
    """Every part of the short form ends where it belongs."""
    declared = _class(kubelet={"topologyManagerScope": "pod", "version": "1.34"})
    machine = declared.machine
    assert [cpu_list(cpus) for cpus in machine.cpus.numa_cpus] == ["0-3,8-11", "4-7,12-15"]
    assert machine.cpus.socket_cpus == machine.cpus.numa_cpus
    assert cpu_list(machine.cpus.core_cpus[1]) == "1,9"
    assert machine.cpus.threads_per_core == 2
    assert cpu_list(machine.reserved_cpus) == "0,8"
    assert machine.devices[0].numa_of_device == (1, 1, 2, 2)
    assert machine.kubelet.policy is TopologyPolicy.SINGLE_NUMA_NODE
    assert machine.kubelet.scope is TopologyScope.POD
    assert (machine.kubelet.static_cpus, machine.kubelet.minor_version) == (True, 34)
    assert (declared.allocator, declared.labels) == (AllocatorKind.KUBELET, (("class", "box"),))
    offered = dict(declared.allocatable)
    assert (offered["cpu"], offered["memory"], offered[GPU], offered["pods"]) == (14000, 128 << 30, 4, 110)


@pytest.mark.parametrize(
    ("layout", "numa_cpus"),
    [
        pytest.param({}, ["0-3,8-11", "4-7,12-15"], id="siblings apart"),
        pytest.param({"siblings": "adjacent"}, ["0-7", "8-15"], id="siblings adjacent"),
        pytest.param({"threadsPerCore": None}, ["0-3", "4-7"], id="no threads"),
        pytest.param({"coresPerNUMANode": None, "cpusPerNUMANode": 8}, ["0-3,8-11", "4-7,12-15"], id="CPUs counted"),
        pytest.param(
            {"coresPerNUMANode": None, "numaCPUs": ["0-5", "8-11"]}, ["0-5", "8-11"], id="CPUs listed, unequal"
        ),
    ],
)
def test_cpus_by_numa_node(layout, numa_cpus):
    """CPU ids are numbered as Linux numbers them, unless they are listed."""
    machine = _class(layout, {"reservedSystemCPUs": "0"}).machine
    assert [cpu_list(cpus) for cpus in machine.cpus.numa_cpus] == numa_cpus
    assert sum(machine.cpus.core_cpus) == machine.cpus.all_cpus


@pytest.mark.parametrize(
    ("layout", "sockets"),
    [
        pytest.param({"numaNodes": 4, "sockets": 2}, ["0-7,16-23", "8-15,24-31"], id="two NUMA nodes a socket"),
        pytest.param({"numaNodes": 1, "sockets": 2}, ["0-1,4-5", "2-3,6-7"], id="two sockets a NUMA node"),
        pytest.param({"numaNodes": 2, "sockets": 1}, ["0-15"], id="one socket"),
    ],
)
def test_cpus_by_socket(layout, sockets):
    """NUMA nodes are dealt out to sockets in order."""
    machine = _class(layout, {"reservedSystemCPUs": "0"}).machine
    assert [cpu_list(cpus) for cpus in machine.cpus.socket_cpus] == sockets


@pytest.mark.parametrize(
    ("devices", "homes", "reports"),
    [
        pytest.param(2, (1, 1, 2, 2), True, id="so many on each"),
        pytest.param([0, 1, None, [0, 1]], (1, 2, 0, 3), True, id="NUMA id of each"),
        pytest.param({"perNUMANode": 1, "reportsNUMA": False}, (1, 2), False, id="the plugin tells no NUMA ids"),
        pytest.param({"numa": [1], "ids": ["a"]}, (2,), True, id="with the plugin's ids"),
    ],
)
def test_devices(devices, homes, reports):
    """Each of the three forms says where every device is."""
    layout = _class({"devices": {GPU: devices}}).machine.devices[0]
    assert (layout.numa_of_device, layout.reports_numa) == (homes, reports)


@pytest.mark.parametrize(
    ("kubelet", "reserved", "millicores"),
    [
        pytest.param({"reservedSystemCPUs": "1,9"}, "1,9", 14000, id="listed"),
        pytest.param(
            {"reservedSystemCPUs": None, "kubeReserved": {"cpu": "1500m"}, "systemReserved": {"cpu": "500m"}},
            "0,8",
            14000,
            id="counted: the kubelet takes a whole core",
        ),
        pytest.param({"reservedSystemCPUs": None, "kubeReserved": {"cpu": "1500m"}}, "0,8", 14500, id="rounded up"),
        pytest.param(
            {"reservedSystemCPUs": None, "cpuManagerPolicy": "none", "kubeReserved": {"cpu": 2}}, "", 14000, id="shared"
        ),
    ],
)
def test_reserved_cpus(kubelet, reserved, millicores):
    """What is kept back is the listed CPUs, or as many as the reservations need, by the kubelet's own choice."""
    raw = machine_class(kubelet=kubelet)
    raw["kubelet"] = {key: value for key, value in raw["kubelet"].items() if value is not None}
    declared = _read(raw)
    assert cpu_list(declared.machine.reserved_cpus) == reserved
    assert dict(declared.allocatable)["cpu"] == millicores


def test_memory_counts_without_huge_pages_and_reservations():
    """Plain memory is what huge pages and reservations leave; the memory manager gets every part of it."""
    declared = _class(
        {"hugepagesPerNUMANode": {"hugepages-1Gi": "8Gi"}},
        {
            "memoryManagerPolicy": "Static",
            "reservedMemory": [{"numaNode": 1, "limits": {"memory": "4Gi"}}],
        },
        allocatable={"ephemeral-storage": "100Gi"},
    )
    offered = dict(declared.allocatable)
    gib = 1 << 30
    assert (offered["memory"], offered["hugepages-1Gi"]) == ((128 - 16 - 4) * gib, 16 * gib)
    assert offered["ephemeral-storage"] == 100 * gib
    memory = {kind.resource: kind for kind in declared.machine.memory}
    assert memory["memory"].total_bytes == (64 * gib, 64 * gib)
    assert memory["memory"].reserved_bytes == (0, 4 * gib)


@pytest.mark.parametrize(
    ("layout", "kubelet", "path"),
    [
        pytest.param({"coresPerNUMANode": None}, {}, "layout", id="no CPUs"),
        pytest.param({"cpusPerNUMANode": 8}, {}, "layout", id="CPUs said twice"),
        pytest.param({"coresPerNUMANode": None, "cpusPerNUMANode": 7}, {}, "layout.cpusPerNUMANode", id="half a core"),
        pytest.param({"coresPerNUMANode": None, "numaCPUs": ["0-7"]}, {}, "layout.numaCPUs", id="a list missing"),
        pytest.param(
            {"coresPerNUMANode": None, "numaCPUs": ["0-7", "7-14"]}, {}, "layout.numaCPUs[1]", id="a CPU twice"
        ),
        pytest.param({"sockets": 3}, {}, "layout.sockets", id="NUMA nodes not dealt evenly"),
        pytest.param({"uncoreCachesPerNUMANode": 3}, {}, "layout.uncoreCachesPerNUMANode", id="uneven caches"),
        pytest.param({"devices": {GPU: {"ids": ["a"]}}}, {}, f'layout.devices["{GPU}"]', id="devices without places"),
        pytest.param({"devices": {GPU: [2]}}, {}, f'layout.devices["{GPU}"][0]', id="no such NUMA node"),
        pytest.param(
            {"devices": {GPU: {"numa": [0], "ids": ["a", "b"]}}}, {}, f'layout.devices["{GPU}"].ids', id="too many ids"
        ),
        pytest.param({"distances": [[10]]}, {}, "layout", id="distances of another machine"),
        pytest.param({}, {"reservedSystemCPUs": "16"}, "kubelet.reservedSystemCPUs", id="reserved CPU that is not"),
        pytest.param({}, {"reservedSystemCPUs": None}, "kubelet.reservedSystemCPUs", id="static without reserved CPUs"),
        pytest.param(
            {"threadsPerCore": None},
            {"reservedSystemCPUs": "0", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            "layout.threadsPerCore",
            id="whole cores of unknown size",
        ),
        pytest.param({"numaNodes": 16}, {}, "kubelet", id="more NUMA nodes than a kubelet starts with"),
        pytest.param(
            {},
            {"cpuManagerPolicyOptions": {"align-by-socket": True}},
            "kubelet",
            id="options that exclude each other",
        ),
        pytest.param(
            {},
            {"reservedMemory": [{"numaNode": 2, "limits": {}}]},
            "kubelet.reservedMemory[0].numaNode",
            id="no NUMA 2",
        ),
        pytest.param(
            {},
            {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "65Gi"}}]},
            "kubelet.reservedMemory[0].limits",
            id="more reserved than there is",
        ),
        pytest.param({"hugepagesPerNUMANode": {"hugepages-1Gi": "65Gi"}}, {}, "layout.hugepagesPerNUMANode", id="huge"),
    ],
)
def test_contradictions_that_no_schema_sees(layout, kubelet, path):
    """Each has one fault, at its own path, and gives no class; the schema has nothing against it."""
    raw = machine_class(layout=layout, kubelet=kubelet)
    for part in ("layout", "kubelet"):
        raw[part] = {key: value for key, value in raw[part].items() if value is not None}
    faults = []
    assert schema_faults(validator_of(MACHINE_CLASS_SCHEMA), raw) == ()
    assert read_machine_class(raw, "c", faults) is None
    assert [fault.path for fault in faults] == [f"c.{path}"]
    assert all(fault.found and fault.wanted for fault in faults)


@pytest.mark.parametrize(
    ("change", "path", "wanted"),
    [
        pytest.param({"nmae": "x"}, "nmae", "did you mean name?", id="unknown key"),
        pytest.param({"name": "Box"}, "name", "lower case", id="no name"),
        pytest.param(
            {"kubelet": {"topologyManagerPolicy": "single"}}, "kubelet.topologyManagerPolicy", "one of", id="policy"
        ),
        pytest.param({"kubelet": {"version": 1.3}}, "kubelet.version", "in quotes", id="a version that YAML ate"),
        pytest.param({"kubelet": {"reservedSystemCPUs": 0}}, "kubelet.reservedSystemCPUs", "a text", id="a number"),
        pytest.param({"matchLabels": {}}, "matchLabels", "1 or more entries", id="would match everything"),
        pytest.param({"layout": {"numaNodes": 2}}, "layout.memoryPerNUMANode", "memoryPerNUMANode", id="missing"),
        pytest.param({"allocatable": {"cpu": []}}, "allocatable.cpu", "a quantity", id="a list for a number"),
    ],
)
def test_schema_faults_in_words(change, path, wanted):
    """What the schema refuses is said with path, found and wanted."""
    faults = schema_faults(validator_of(MACHINE_CLASS_SCHEMA), {**machine_class(), **change})
    assert [fault.path for fault in faults] == [path]
    assert wanted in faults[0].wanted
    assert faults[0].found


@pytest.mark.parametrize(
    ("change", "found", "wanted"),
    [
        *(
            pytest.param({"devices": {GPU: count}}, f"the number {count}", "a number from 0 to 64", id=f"{count}")
            for count in (600, 10**18, -4)
        ),
        pytest.param({"devices": {GPU: [0] * 513}}, "a list with 513 in it", "512 entries or fewer", id="513 devices"),
        pytest.param({"devices": {GPU: [64]}}, "the number 64", "a number from 0 to 63", id="NUMA id"),
        pytest.param(
            {"devices": {GPU: "8"}}, 'the text "8"', "a whole number, a list of NUMA ids, or a map", id="type"
        ),
        pytest.param({"numaNodes": 65}, "the number 65", "a number from 1 to 64", id="NUMA nodes"),
    ],
)
def test_a_fault_of_size_names_the_bounds(change, found, wanted):
    """A title says what kind of value is wanted; who wrote a value of that kind needs to know how large it may be."""
    (fault,) = schema_faults(validator_of(MACHINE_CLASS_SCHEMA), machine_class(layout=change))
    assert (fault.found, fault.wanted) == (found, wanted)


def test_a_name_that_is_too_long_names_the_bound():
    (fault,) = schema_faults(validator_of(MACHINE_CLASS_SCHEMA), machine_class("a" * 254))
    assert (fault.found, fault.wanted) == ("a text of 254 characters", "a text of 253 characters or fewer")


BELOW_NOTHING = [
    ({"memoryPerNUMANode": "-1Gi"}, {}, "layout.memoryPerNUMANode"),
    (
        {"memoryPerNUMANode": "-1Gi", "hugepagesPerNUMANode": {"hugepages-1Gi": "1Gi"}},
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]},
        "layout.memoryPerNUMANode",
    ),
    (
        {"hugepagesPerNUMANode": {"hugepages-1Gi": "-1Gi"}},
        {"reservedMemory": [{"numaNode": 0, "limits": {"hugepages-1Gi": "1Gi"}}]},
        "layout.hugepagesPerNUMANode.hugepages-1Gi",
    ),
    (
        {},
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "-1Gi"}}]},
        "kubelet.reservedMemory[0].limits.memory",
    ),
    ({}, {"kubeReserved": {"cpu": "-1"}}, "kubelet.kubeReserved.cpu"),
    ({}, {"systemReserved": {"memory": "-1Gi"}}, "kubelet.systemReserved.memory"),
]


@pytest.mark.parametrize(("layout", "kubelet", "path"), BELOW_NOTHING, ids=[path for _, _, path in BELOW_NOTHING])
def test_an_amount_below_nothing_is_told_once_by_its_own_key(layout, kubelet, path):
    """Also beside reserved CPUs that are listed, where the kubelet counts no reserved amounts."""
    faults = []
    assert read_machine_class(machine_class(layout=layout, kubelet=kubelet), "c", faults) is None
    assert [(fault.path, fault.wanted) for fault in faults] == [(f"c.{path}", "0 or more")]


def test_two_classes_of_one_name():
    """The second one is a fault, for a name would mean either."""
    faults = []
    assert len(read_machine_classes([machine_class(), machine_class()], "classes", faults)) == 1
    assert [fault.path for fault in faults] == ["classes[1].name"]


def test_first_class_whose_labels_are_all_there():
    """A class without labels describes no node by itself."""
    first, second = _class(matchLabels={"a": "1", "b": "2"}), _class(matchLabels={"a": "1"})
    nameless = _class()
    nameless = type(nameless)(nameless.name, (), nameless.machine, nameless.allocator, nameless.allocatable)
    assert class_of({"a": "1", "b": "2", "c": "3"}, (nameless, first, second)) is first
    assert class_of({"a": "1"}, (nameless, first, second)) is second
    assert class_of({}, (nameless, first, second)) is None


@pytest.mark.parametrize(
    ("capacity", "paths"),
    [
        pytest.param({"cpu": 16000, GPU: 4}, [], id="as declared"),
        pytest.param({"cpu": 16000}, [], id="the device plugin is not up"),
        pytest.param(
            {"cpu": 32000, GPU: 8}, ["status.capacity.cpu", f'status.capacity["{GPU}"]'], id="another machine"
        ),
    ],
)
def test_capacity_that_contradicts_the_class(capacity, paths):
    """A node that has other CPUs or devices is not described by the class."""
    assert [fault.path for fault in contradictions(capacity, _class().machine)] == paths


NAMES = ["name", "layout", "kubelet", "allocatable", "numaNodes", "coresPerNUMANode", "devices", "perNUMANode", "numa"]


@given(values_with([*NAMES, "memoryPerNUMANode", "allocator", "topologyManagerPolicy", "reservedSystemCPUs"]))
def test_nothing_raises(raw):
    """Any JSON value is a class or has a fault, with or without its schema's consent."""
    faults = []
    declared = read_machine_class(raw, "c", faults)
    assert (declared is None) is bool(faults)
    list(schema_faults(validator_of(MACHINE_CLASS_SCHEMA), raw))


def test_listed_cpus_stand_as_written():
    """The masks are those of the lists."""
    machine = _class(
        {"coresPerNUMANode": None, "numaCPUs": ["0,2,4,6", "1,3,5,7"]}, {"reservedSystemCPUs": "0"}
    ).machine
    assert machine.cpus.numa_cpus == (parse_cpu_list("0,2,4,6"), parse_cpu_list("1,3,5,7"))
    assert [cpu_list(core) for core in machine.cpus.core_cpus] == ["0,4", "2,6", "1,5", "3,7"]
