"""Cluster pictures: what a text becomes, and every fault of it at once with its place."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import values_with
from support.picture_texts import GPU, machine_class, pictures, text

from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.records import AllocatorKind, Certainty, EntryState
from webhook.core.ledger.verdicts import Outcome
from webhook.core.machine import TopologyPolicy
from webhook.core.node_selection import Taint
from webhook.service.picture import demo_picture, demo_text, events_of, fits_together, ledger_of, load_picture
from webhook.wire.machine_classes import POLICY_LABEL
from webhook.wire.nodes import read_node
from webhook.wire.picture_nodes import MOST_NODES, expand
from webhook.wire.pod_records import read_pod_record, seconds_of

ALLOCATORS = {AllocatorKind.KUBELET: KubeletAllocator()}


def _sound(source):
    picture = load_picture(source)
    assert [str(fault) for fault in picture.faults] == []
    return picture


def _faults(source):
    return [str(fault).split(" ", 1)[1] for fault in load_picture(source).faults]


def _node(**changes):
    return {"name": "n", "class": "box", **changes}


def _pod(**changes):
    return {"name": "p", "node": "n", "resources": {"cpu": 2, "memory": "1Gi", GPU: 1}, **changes}


def _one(*, node=None, pods=(), **declared):
    return text(classes=[machine_class(**declared)], nodes=[_node(**(node or {}))], pods=list(pods))


# --- the demo ---


def test_demo_is_sound():
    """The built-in picture has no fault, every class is used, and every running pod's place is told."""
    picture = demo_picture()
    assert picture.faults == ()
    assert {record.machine.name for record in picture.nodes} == {declared.name for declared in picture.classes}
    ledger = ledger_of(picture, ALLOCATORS, 0.0)
    assert not any(view.is_guessed for view in ledger.views.values())
    assert {entry.state for entry in ledger.entries.values()} == {EntryState.BOUND}


def test_demo_keeps_its_comments_word():
    """A 4-GPU pod fits once and is then refused for good, 2 GPUs still fit, 8 never do."""
    picture = demo_picture()
    asked = [
        next(iter(_sound(_one(pods=[{"name": f"ask-{gpus}", "resources": {"cpu": 24, GPU: gpus}}])).pods))
        for gpus in (4, 4, 2, 8)
    ]
    ledger = ledger_of(picture, ALLOCATORS, 0.0)
    answers = fits_together(ledger, asked, picture.classes, now_seconds=0.0)
    assert [answer.verdict.outcome for answer in answers] == [
        Outcome.FITS,
        Outcome.WOULD_FAIL,
        Outcome.FITS,
        Outcome.NEVER,
    ]
    assert [answer.verdict.node for answer in answers if answer.fits] == ["gpu-2", "gpu-1"]
    assert not any(answer.verdict.rests_on_guess for answer in answers)
    assert "2 of 4 aliyun.com/gpu" in answers[1].proof.paragraph


def test_equal_pods_get_places_of_their_own():
    """The same record twice is two pods: each claims its own room."""
    picture = _sound(_one())
    pod = next(iter(_sound(_one(pods=[{"name": "ask", "resources": {GPU: 2}}])).pods))
    answers = fits_together(ledger_of(picture, ALLOCATORS, 0.0), [pod] * 3, picture.classes, now_seconds=0.0)
    assert [answer.fits for answer in answers] == [True, True, False]
    assert len({answer.pod.uid for answer in answers}) == 3


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(text(nodes=[]), id="no sections"),
        pytest.param(text(pods=[{"name": "ask", "resources": {GPU: 2}}]), id="pods alone"),
        pytest.param('{"apiVersion": "v1", "kind": "List", "items": []}', id="a dump of an empty cluster"),
        pytest.param('{"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}', id="a dump of pods alone"),
    ],
)
def test_a_picture_of_no_machine_is_a_fault(source):
    """Else every question would be answered with "cannot be told" and every map be empty."""
    wanted = "a ClusterPicture, or Nodes and the file of their classes"
    assert _faults(source) == [f"found neither a node nor a machine class, wanted {wanted}."]


def test_classes_alone_are_a_picture():
    """A pool may be scaled to zero: what fits no machine of it can be told."""
    assert _sound(text(classes=[machine_class()])).nodes == ()


# --- nodes ---


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, "Restricted", id="the class's"),
        pytest.param({POLICY_LABEL: "BestEffort"}, "BestEffort", id="the node's own"),
        pytest.param({POLICY_LABEL: ""}, "", id="the node has none"),
    ],
)
def test_the_policy_that_a_scheduler_reads_from_the_node(labels, expected):
    """The label stands in the class's matchLabels or on the node, in the short form and in a dump."""
    declared = machine_class(allocator="scheduler", matchLabels={"pool": "gpu", POLICY_LABEL: "Restricted"})
    (short,) = _sound(text(classes=[declared], nodes=[_node(labels=labels)])).nodes
    assert (short.machine.node_policy, short.allocator) == (expected, AllocatorKind.SCHEDULER)
    plain = machine_class(allocator="scheduler", matchLabels={"pool": "gpu"})
    dumped = {"kind": "Node", "metadata": {"name": "n", "labels": {"pool": "gpu", **labels}}, "status": {}}
    picture = load_picture(f"{text(classes=[plain])}\n---\n{json.dumps(dumped)}")
    assert [node.machine.node_policy for node in picture.nodes] == [labels.get(POLICY_LABEL, "")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("gpu-{08..11}", ["gpu-08", "gpu-09", "gpu-10", "gpu-11"], id="as wide as written"),
        pytest.param("gpu-{9..10}", ["gpu-9", "gpu-10"], id="grows"),
        pytest.param("r{1..2}-{a}", ["r1-{a}", "r2-{a}"], id="other braces stay"),
        pytest.param("r{1..2}n{0..1}", ["r1n0", "r1n1", "r2n0", "r2n1"], id="two ranges"),
        pytest.param("gpu", ["gpu"], id="no range"),
    ],
)
def test_name_ranges(names, expected):
    """A range stands for its names, in order."""
    assert list(expand(names)) == expected


def test_node_takes_over_its_class():
    """Labels, allocatable amounts and machine come from the class; what the node says itself counts more."""
    picture = _sound(
        _one(
            node={
                "labels": {"zone": "a"},
                "taints": [{"key": "gpu", "effect": "NoSchedule"}],
                "ready": False,
                "unschedulable": True,
                "unhealthy": {GPU: [0, 3]},
                "allocatable": {"memory": "100Gi"},
            }
        )
    )
    record = picture.nodes[0]
    assert record.facts.labels == {"kubernetes.io/hostname": "n", "class": "box", "zone": "a"}
    assert record.facts.taints == (Taint("gpu", "", "NoSchedule"),)
    assert (record.facts.ready, record.facts.unschedulable) == (False, True)
    assert record.unhealthy == (0b1001,)
    assert (record.allocatable[GPU], record.allocatable["memory"], record.allocatable["cpu"]) == (2, 100 << 30, 14000)
    assert record.machine is picture.classes[0].machine


def test_equal_nodes_share_a_machine_also_where_their_kubelet_differs():
    """The ledger judges equal nodes together by the machine's identity."""
    picture = _sound(
        text(
            classes=[machine_class()],
            nodes=[
                {"names": "a-{1..2}", "class": "box"},
                {"names": ["b-{1..2}"], "class": "box", "kubelet": {"topologyManagerPolicy": "restricted"}},
                {"name": "c", "labels": {"class": "box"}, "kubelet": {"topologyManagerPolicy": "restricted"}},
            ],
        )
    )
    machines = {record.name: record.machine for record in picture.nodes}
    assert machines["a-1"] is machines["a-2"]
    assert machines["b-1"] is machines["b-2"] is machines["c"]
    assert machines["b-1"].kubelet.policy is TopologyPolicy.RESTRICTED
    assert machines["b-1"].reserved_cpus == machines["a-1"].reserved_cpus


# --- pods ---


def test_short_pod_is_a_pod_of_kubernetes():
    """Every field of the short form ends in the record; on a node it runs."""
    containers = [
        {"name": "setup", "kind": "init", "resources": {"cpu": 1}},
        {"name": "agent", "kind": "sidecar", "resources": {"cpu": 1, "memory": "1Gi"}},
        {"name": "main", "requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
    ]
    raw = {"name": "p", "namespace": "team", "node": "n", "owner": "Job/train", "terminating": True}
    record = _sound(_one(pods=[{**raw, "containers": containers}])).pods[0]
    assert (record.uid, record.namespace, record.node_name) == ("team/p", "team", "n")
    assert (record.phase, record.is_answered, record.is_deleting) == ("Running", True, True)
    assert record.owner == "Job/train"
    assert [(c.name, c.kind.value, c.cpu_millicores) for c in record.demand.containers] == [
        ("setup", "init container", 1000),
        ("agent", "sidecar", 1000),
        ("main", "container", 500),
    ]


def test_told_places_are_confirmed_and_others_guessed():
    """What the picture does not tell can only be guessed, after what it tells has its place."""
    pods = [
        _pod(name="a"),
        _pod(name="b", holds={"cpus": "1,9", "devices": {GPU: [0]}}),
        {"name": "c", "node": "n", "resources": {"memory": "1Gi"}},
    ]
    entries = ledger_of(_sound(_one(pods=pods)), ALLOCATORS, 0.0).entries
    assert {name: entries[f"default/{name}"].certainty for name in "abc"} == {
        "a": Certainty.GUESSED,
        "b": Certainty.CONFIRMED,
        "c": Certainty.REPLAYED,
    }
    assert entries["default/a"].holding.devices == (0b10,)


def test_waiting_pods_hold_virtual_places():
    """A pod without a node is planned as the ledger plans a pending one."""
    pods = [{"name": "waits", "resources": {"cpu": 2, "memory": "1Gi", GPU: 2}}]
    entry = ledger_of(_sound(_one(pods=pods)), ALLOCATORS, 0.0).entries["default/waits"]
    assert (entry.state, entry.node, entry.certainty) == (EntryState.PENDING, "n", Certainty.VIRTUAL)


# --- a dump of kubectl ---

DUMP_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"class": "box"}},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
    "status": {
        "allocatable": {"cpu": "13500m", "memory": "60Gi", "pods": "110", GPU: "4"},
        "capacity": {"cpu": "16", GPU: "4"},
        "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.31.4-vendor.2"},
    },
}
DUMP_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "team",
        "uid": "u-1",
        "resourceVersion": "77",
        "creationTimestamp": "2025-01-31T12:00:00Z",
    },
    "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {GPU: "1"}}}]},
    "status": {"phase": "Pending", "containerStatuses": [{}]},
}


def _dump(*items):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def _dumped(**status):
    return {**DUMP_NODE, "status": {**DUMP_NODE["status"], **status}}


def test_dump_beside_a_file_of_classes():
    """What ``kubectl get nodes,pods -o yaml`` prints is a picture, with classes from another file."""
    picture = load_picture({"dump": _dump(DUMP_POD, DUMP_NODE), "classes": text(classes=[machine_class()])})
    assert picture.faults == ()
    (node,), (pod,) = picture.nodes, picture.pods
    assert (node.facts.ready, node.facts.unschedulable) == (True, True)
    assert node.facts.taints == (Taint("k", "v", "NoExecute"),)
    assert node.allocatable == {"cpu": 13500, "memory": 60 << 30, "pods": 110, GPU: 4}
    assert node.machine.kubelet.minor_version == 31
    assert node.machine.cpus == picture.classes[0].machine.cpus
    assert (pod.uid, pod.resource_version, pod.is_answered) == ("u-1", 77, True)
    assert pod.created_seconds == 1738324800.0


def test_node_that_no_class_describes_has_no_topology():
    """Nothing is made up: its NUMA nodes are not known."""
    picture = _sound(_dump(DUMP_NODE))
    assert (picture.nodes[0].machine, picture.nodes[0].allocator) == (None, AllocatorKind.UNKNOWN)


@pytest.mark.parametrize(
    ("status", "field", "expected"),
    [
        pytest.param({}, "phase", "Pending", id="no status"),
        pytest.param({"phase": "Failed", "reason": "X"}, "failure_reason", "X", id="why it failed"),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            "is_unschedulable",
            True,
            id="no node was found",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]},
            "is_refused_at_binding",
            True,
            id="its binding was turned back",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "True", "reason": "Unschedulable"}]},
            "is_unschedulable",
            False,
            id="a reason that is over",
        ),
        pytest.param({"nominatedNodeName": "n"}, "nominated_node", "n", id="nominated"),
    ],
)
def test_pod_status(status, field, expected):
    """What the scheduler and the kubelet have written is in the record."""
    assert getattr(read_pod_record({**DUMP_POD, "status": status}), field) == expected


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", "2025-01-31T12:00:00", "9999-99-99T00:00:00Z", 5])
def test_unreadable_moments_are_nought(timestamp):
    """A moment without its zone would depend on where we run."""
    assert seconds_of(timestamp) == 0.0


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param(None, False, id="none"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="unknown"),
        pytest.param([None, {"type": "Ready", "status": "True"}], True, id="beside a null"),
    ],
)
def test_node_readiness(conditions, ready):
    """Only a condition that says so makes a node ready."""
    assert read_node({"status": {"conditions": conditions}}).facts.ready is ready


# --- faults ---


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        pytest.param("", ["found no document, wanted a cluster picture."], id="empty"),
        pytest.param("classes: [", ["This is no YAML: did not find expected node content."], id="no YAML"),
        pytest.param("kind: Deployment", ['kind: found the text "Deployment", wanted Node, Pod, List or'], id="kind"),
        pytest.param("nodse: []", ["nodse: found an unknown key, wanted one of"], id="unknown section"),
        pytest.param("pods: {}", ["pods: found a map, wanted a list."], id="not a list"),
        pytest.param("nodes: []\nnodes: []", ["nodes: found the key twice, wanted it once."], id="a key twice"),
        pytest.param(
            _one(node={"class": "bix"}), ['nodes[0].class: found the text "bix", wanted one of box'], id="class"
        ),
        pytest.param(text(nodes=[{"name": "n"}]), ["nodes[0].class: found nothing, wanted a class"], id="no class"),
        pytest.param(_one(node={"names": "m"}), ["nodes[0]: found both or neither of name and names"], id="two names"),
        pytest.param(
            text(classes=[machine_class()], nodes=[{"names": "g-{5..1}", "class": "box"}]),
            [f"nodes[0].names: found no names, wanted 1 to {MOST_NODES} of them"],
            id="a range downwards",
        ),
        pytest.param(
            text(classes=[machine_class()], nodes=[{"names": "g-{0..999999999}{5..1}", "class": "box"}]),
            ["nodes[0].names: found no names"],
            id="a huge range of nothing",
        ),
        pytest.param(
            text(classes=[machine_class()], nodes=[{"names": "g-{0..999999999}", "class": "box"}]),
            ["nodes[0].names: found 1000000000 names"],
            id="a huge range",
        ),
        *(
            pytest.param(
                text(classes=[machine_class()], nodes=[{"names": names, "class": "box"}]),
                [f"nodes[0].names{told}"],
                id=f"a range too large: {told}",
            )
            for names, told in (
                ("gpu-{1..1000000000}", ": found 1000000000 names, wanted 1 to"),
                ("gpu-{0..99999999999999}", ": found more than 1000000000000 names, wanted 1 to"),
                (f"gpu-{{1..{'9' * 200}}}", ": found more than 1000000000000 names, wanted"),
                ("gpu-{0..999999}{0..9999999999}", ": found more than 1000000000000 names, wanted 1"),
                (["a-{1..15000}", "b-{1..5001}"], "[1]: found 5001 names, wanted 20000 in all, with the 15000 before"),
            )
        ),
        pytest.param(
            text(classes=[machine_class()], nodes=[{"names": "a" * 254, "class": "box"}]),
            [f'nodes[0].names: found the text "{"a" * 10}'],
            id="a name that is too long",
        ),
        pytest.param(
            text(classes=[machine_class()], nodes=[{"names": "G-{1..2}", "class": "box"}]),
            ['nodes[0].names: found the text "G-1", wanted names of lower case'],
            id="names that are none",
        ),
        pytest.param(
            text(classes=[machine_class()], nodes=[_node(), _node()]), ["nodes[1].name: found n again"], id="node twice"
        ),
        pytest.param(
            _one(node={"unhealthy": {GPU: [4], "other": [0]}}),
            [
                f'nodes[0].unhealthy["{GPU}"]: found device 4, wanted a number from 0 to 3.',
                "nodes[0].unhealthy.other: found a resource",
            ],
            id="devices that are not there",
        ),
        pytest.param(
            _one(node={"kubelet": {"reservedSystemCPUs": "99"}}),
            ["nodes[0].kubelet.reservedSystemCPUs: found CPUs 99"],
            id="a kubelet of its own that cannot be",
        ),
        pytest.param(
            _one(pods=[_pod(node="m")]), ['pods[0].node: found the text "m", wanted the name'], id="no such node"
        ),
        pytest.param(_one(pods=[_pod(), _pod()]), ["pods[1].name: found default/p again"], id="pod twice"),
        pytest.param(
            _one(pods=[_pod(resources={"cpu": "many"})]),
            ["pods[0]: found the text", "pods[0]: found the text"],
            id="no quantity, as request and as limit",
        ),
        pytest.param(
            _one(pods=[_pod(containers=[{"name": "c"}])]),
            ["pods[0]: found both resources and containers, wanted one of them."],
            id="two forms",
        ),
        pytest.param(
            _one(pods=[_pod(holds={"cpus": "0,1", "devices": {GPU: [1]}})]),
            ["pods[0].holds.cpus: found CPUs 0, wanted CPUs of 1-7,9-15."],
            id="holds a reserved CPU",
        ),
        pytest.param(
            _one(pods=[_pod(holds={"cpus": "1", "devices": {GPU: [1, 2]}})]),
            [
                "pods[0].holds.cpus: found 1 CPU, wanted 2, as many as",
                f'pods[0].holds.devices["{GPU}"]: found 2 devices, wanted 1, as many',
            ],
            id="holds too few and too many",
        ),
        pytest.param(
            _one(pods=[_pod(holds={"cpus": "1,9"})]),
            [f"pods[0].holds.devices: found nothing of {GPU}, wanted 1 device."],
            id="says nothing of its devices",
        ),
        pytest.param(
            _one(
                pods=[
                    _pod(holds={"cpus": "1,9", "devices": {GPU: [0]}}),
                    _pod(name="q", holds={"cpus": "2,10", "devices": {GPU: [0]}}),
                ]
            ),
            [f'pods[1].holds.devices["{GPU}"]: found what default/p holds too'],
            id="held twice",
        ),
        pytest.param(
            _one(pods=[{"name": "p", "holds": {"cpus": "1"}}]),
            ["pods[0].holds: found a place, wanted nothing for a pod that is on no node."],
            id="holds without a node",
        ),
        pytest.param(_dump({"kind": "Service"}), ['items[0].kind: found the text "Service"'], id="another kind"),
        pytest.param(
            _dump({"kind": "Node"}), ["items[0].metadata.name: found nothing, wanted the name"], id="nameless"
        ),
        pytest.param(
            _dump({**DUMP_POD, "metadata": {"name": "\x1b[2J"}}),
            ["items[0].metadata: found a name or namespace that is none"],
            id="a name that a terminal would obey",
        ),
        pytest.param(
            _dump(_dumped(allocatable={"cpu": "-64"}, capacity={"cpu": "-64"})),
            [
                "items[0].status.allocatable.cpu: found -64, wanted 0 or more.",
                "items[0].status.capacity.cpu: found -64, wanted 0 or more.",
            ],
            id="less than no CPU",
        ),
        pytest.param(
            f"{text(classes=[machine_class()])}\n---\n{_dump(_dumped(allocatable={GPU: '1e18'}))}",
            [f'items[0].status.allocatable["{GPU}"]: found {10**18}, wanted 4 at most, as class box has.'],
            id="a Node with more devices than its class",
        ),
        pytest.param(
            _one(node={"allocatable": {GPU: 5, "memory": "-1Gi"}}),
            [
                f'nodes[0].allocatable["{GPU}"]: found 5, wanted 4 at most, as class box has.',
                "nodes[0].allocatable.memory: found -1073741824, wanted 0 or more.",
            ],
            id="a node with more devices than its class",
        ),
        pytest.param(
            _one(allocatable={GPU: 5}),
            [f'classes[0].allocatable["{GPU}"]: found 5, wanted 4 at most, as class box has.'],
            id="a class with more devices than its layout",
        ),
        pytest.param(
            _one(layout={"memoryPerNUMANode": "-1Gi"}),
            ["classes[0].layout.memoryPerNUMANode: found -1073741824, wanted 0 or more."],
            id="less than no memory",
        ),
    ],
)
def test_faults(source, faults):
    """Each fault is told once, by path, found and wanted, and nothing follows from it."""
    told = _faults(source)
    assert len(told) == len(faults)
    for found, expected in zip(told, faults, strict=True):
        assert found.startswith(expected)


def test_a_key_without_a_value_is_as_if_it_were_not_there():
    """``pods:`` with everything behind it commented out; an unknown key is told all the same."""
    empty = text(classes=[machine_class(kubelet=None)], nodes=[_node(labels=None)], pods=None)
    assert _sound(empty).pods == ()
    (fault,) = _faults(text(classes=None, nodes=[], podz=None))
    assert fault.startswith("podz: found an unknown key")


@pytest.mark.parametrize(
    ("homes", "wanted"),
    [([], "none, as the class has."), ([0], "0, the only one."), ([0, 1], "a number from 0 to 1.")],
    ids=["no device", "one device", "two devices"],
)
@pytest.mark.parametrize("of_pod", [False, True], ids=["unhealthy", "held"])
def test_a_device_that_is_not_there_is_told_by_those_that_are(homes, wanted, of_pod):
    """A class without devices has no range of numbers to name."""
    numbers = {GPU: [5]}
    told = _faults(
        text(
            classes=[machine_class(layout={"devices": {GPU: homes}})],
            nodes=[_node() if of_pod else _node(unhealthy=numbers)],
            pods=[_pod(holds={"cpus": "1,9", "devices": numbers})] if of_pod else [],
        )
    )
    assert [fault.rpartition("found device 5, wanted ")[2] for fault in told if "found device 5" in fault] == [wanted]


def test_a_place_on_a_machine_whose_cpus_are_all_reserved():
    box = machine_class(kubelet={"reservedSystemCPUs": "0-15"})
    told = _faults(text(classes=[box], nodes=[_node()], pods=[_pod(holds={"cpus": "1", "devices": {GPU: [0]}})]))
    assert "pods[0].holds.cpus: found CPUs 1, wanted none, as every CPU is reserved." in told


def test_every_fault_at_once_with_its_place():
    """Faults of all files and documents stand together in the order of their lines."""
    first = "classes:\n- name: box\n  layout: {numaNodes: 2}\n---\nnodes:\n- name: N\n  class: box\n"
    second = "nodes:\n- name: m\n  class: box\n  redy: true\n"
    told = [str(fault).split(":", 3)[:3] for fault in load_picture({"a.yaml": first, "b.yaml": second}).faults]
    assert told == [["a.yaml", "3", "3"], ["a.yaml", "6", "3"], ["b.yaml", "4", "3"]]


def test_node_unlike_its_class():
    """A class that does not describe the node proves nothing about it, so it is said."""
    other = {**DUMP_NODE, "status": {**DUMP_NODE["status"], "capacity": {"cpu": "96", GPU: "8"}}}
    picture = load_picture({"a": _dump(other), "b": text(classes=[machine_class()])})
    assert [fault.fault.path for fault in picture.faults] == [
        "items[0].status.capacity.cpu",
        f'items[0].status.capacity["{GPU}"]',
    ]


NAMES = [
    "classes",
    "nodes",
    "pods",
    "name",
    "names",
    "class",
    "holds",
    "cpus",
    "devices",
    "resources",
    "spec",
    "metadata",
]


@settings(max_examples=60)
@given(values_with([*NAMES, "kind", "items", "containers", "layout", "kubelet", "unhealthy"]))
def test_no_document_raises(value):
    """Whatever JSON can hold is a picture or has faults."""
    load_picture(json.dumps(value))


@given(st.text(max_size=40))
def test_no_text_raises(source):
    """Whatever a file can hold is a picture or has faults."""
    load_picture(source)


# --- conservation ---


@settings(max_examples=80, deadline=None)
@given(pictures())
def test_conservation(source):
    """In the ledger of a picture free + reserved + held is the machine, by NUMA node, CPU and device; none twice."""
    picture = _sound(source)
    ledger = ledger_of(picture, ALLOCATORS, 0.0)
    assert set(ledger.views) == {record.name for record in picture.nodes}
    for view in ledger.views.values():
        machine = view.record.machine
        holdings = [entry.holding for entry in (*view.bound, *view.virtual) if entry.holding is not None]
        for cpus in machine.cpus.numa_cpus:
            parts = [view.full_state.free_cpus, machine.reserved_cpus, *(holding.cpus for holding in holdings)]
            assert sum((part & cpus).bit_count() for part in parts) == cpus.bit_count()
        for index, layout in enumerate(machine.devices):
            free = view.full_state.free_devices(machine, index)
            parts = [free, *(holding.devices[index] for holding in holdings if holding.devices)]
            assert sum(part.bit_count() for part in parts) == layout.count
            assert sum(parts) == layout.all_devices
        pods = [entry.pod for entry in (*view.bound, *view.virtual)]
        for resource in ("cpu", GPU):
            asked = sum(pod.demand.totals.get(resource, 0) for pod in pods)
            assert view.free(resource) == view.record.allocatable[resource] - asked


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_events_give_the_same_ledger_twice(source):
    """A picture told again changes nothing: the demo server may load it into a ledger that has it."""
    picture = _sound(source)
    ledger = ledger_of(picture, ALLOCATORS, 0.0)
    before = ledger.content()
    for event in events_of(picture):
        ledger.apply(event, 1.0)
    assert ledger.content() == before


def test_demo_text_names_its_schema():
    """Whoever opens the file finds the format."""
    assert "cluster-picture.schema.json" in demo_text()
