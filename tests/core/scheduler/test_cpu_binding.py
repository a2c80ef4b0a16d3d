"""Which pods' CPUs a scheduler binds, by what their authors wrote, and what is held where it is not the scheduler."""

import pytest
from scheduler_cases import machine, pod
from support import builders

from webhook.core.cpu_binding import binding_of
from webhook.core.demand import CpuBinding
from webhook.core.effective import demand_of
from webhook.core.ledger.holdings import pinned_cpus
from webhook.core.ledger.records import AllocatorKind, NodeRecord
from webhook.core.machine import NodeState
from webhook.core.node_selection import NodeFacts
from webhook.core.placement import Placement
from webhook.core.scheduler import SchedulerAllocator
from webhook.wire.bind_policies import RESOURCE_SPEC

NONE, CPUS, WHOLE = CpuBinding
QOS = "koordinator.sh/qosClass"
CLASS = "koordinator.sh/priority-class"


def koordinator(qos="LSR", spec=None, *, labels=None, **of_spec):
    """Return a Koordinator pod with a QoS class and a resource-spec."""
    annotations = {} if spec is None else {RESOURCE_SPEC: spec}
    return builders.koordinator_pod(labels={QOS: qos, **(labels or {})}, annotations=annotations, spec=of_spec)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(builders.pod(), CPUS, id="ACK: the spec and cpuset-scheduler: required"),
        pytest.param(builders.pod(annotations={"cpuset-scheduler": builders.ABSENT}), NONE, id="ACK: the spec alone"),
        pytest.param(builders.pod(annotations={"cpuset-scheduler": "true"}), NONE, id="ACK: another feature's value"),
        pytest.param(builders.pod(annotations={builders.SPEC_KEY: builders.ABSENT}), NONE, id="ACK: without a spec"),
        pytest.param(builders.pod(annotations={builders.SPEC_KEY: "{}"}), NONE, id="ACK: a spec without a policy"),
        pytest.param(builders.stranger(), NONE, id="no annotation"),
        pytest.param(koordinator("LSR"), CPUS, id="Koordinator: LSR"),
        pytest.param(koordinator("LSE"), CPUS, id="Koordinator: LSE"),
        pytest.param(koordinator("LS"), NONE, id="Koordinator: LS"),
        pytest.param(koordinator(builders.ABSENT), NONE, id="Koordinator: no class"),
        pytest.param(koordinator("lsr"), NONE, id="Koordinator: another case is another word"),
        pytest.param(koordinator(priority=5500), NONE, id="Koordinator: not prod by its number"),
        pytest.param(koordinator(priority=None), CPUS, id="Koordinator: silence is prod"),
        pytest.param(koordinator(labels={CLASS: "koord-prod"}, priority=5500), CPUS, id="Koordinator: prod by label"),
        pytest.param(koordinator(labels={CLASS: "koord-batch"}), NONE, id="Koordinator: not prod by label"),
        pytest.param(koordinator(spec='{"preferredCPUBindPolicy":"SpreadByPCPUs"}'), CPUS, id="a preferred policy"),
        pytest.param(koordinator(spec='{"requiredCPUBindPolicy":"FullPCPUs"}'), WHOLE, id="whole cores are required"),
        pytest.param(koordinator(spec='{"preferredCPUBindPolicy":"FullPCPUs"}'), CPUS, id="whole cores are preferred"),
        pytest.param(koordinator(spec='{"REQUIREDCPUBINDPOLICY":"FullPCPUs"}'), WHOLE, id="names in any case, as Go"),
        pytest.param(
            koordinator(spec='{"requiredCPUBindPolicy":"FullPCPUs","requiredCPUBindPolicy":"SpreadByPCPUs"}'),
            CPUS,
            id="the last of two counts",
        ),
        pytest.param(koordinator(spec='{"preferredCPUBindPolicy":"Default"}'), CPUS, id="the default binds"),
        pytest.param(koordinator(spec='{"preferredCPUBindPolicy":"ConstrainedBurst"}'), NONE, id="one that does not"),
        pytest.param(koordinator(spec='{"requiredCPUBindPolicy":"Fullpcpus"}'), NONE, id="an unknown one binds none"),
        pytest.param(koordinator(spec='{"requiredCPUBindPolicy":7}'), CPUS, id="no text is no policy"),
        pytest.param(koordinator(spec="[[1,2]]"), CPUS, id="no object is no policy"),
        pytest.param(koordinator(spec='{"a"'), CPUS, id="no JSON is no policy"),
    ],
)
def test_what_is_bound(asked, expected):
    """The demand carries what annotations and labels ask for; whole cores alone say nothing."""
    assert binding_of(asked) is expected
    assert demand_of(asked).cpu_binding is expected


def record(kind=AllocatorKind.SCHEDULER, **kubelet) -> NodeRecord:
    """Return a node of two NUMA nodes of eight CPUs."""
    return NodeRecord(NodeFacts("n1", {}), {"cpu": 16_000}, machine(threads=2, **kubelet), kind)


@pytest.mark.parametrize(
    ("on", "demand", "expected"),
    [
        pytest.param(record(static_cpus=False), pod(4, binding=CPUS), 4, id="bound by the scheduler"),
        pytest.param(record(static_cpus=False), pod(4), 0, id="not bound, and the kubelet pins none"),
        pytest.param(record(static_cpus=True), pod(4), 4, id="not bound, but the kubelet pins"),
        pytest.param(record(static_cpus=True), pod(3.5), 0, id="nor does a kubelet pin a fraction"),
        pytest.param(record(full_pcpus_only=True), pod(4), 4, id="the node forces it"),
        pytest.param(record(AllocatorKind.KUBELET, static_cpus=False), pod(4, binding=CPUS), 0, id="no kubelet binds"),
        pytest.param(record(AllocatorKind.KUBELET), pod(4, binding=CPUS), 4, id="a static kubelet pins"),
    ],
)
def test_how_many_cpus_a_pod_gets_for_itself(on, demand, expected):
    """What a result annotation or a picture may say that it holds."""
    assert pinned_cpus(on, demand) == expected


def test_what_the_kubelet_pins_is_taken_but_no_cpuset():
    """CPUs that a static kubelet pins on a scheduler's node are gone; no NUMA node is single or shared by them."""
    on = machine(static_cpus=True)
    answer = SchedulerAllocator().place(on, NodeState.empty(on), pod(4))
    assert isinstance(answer, Placement)
    assert (answer.holding.cpus.bit_count(), answer.holding.cpuset, answer.state.cpusets) == (4, 0, ())
    loose = machine(static_cpus=False)
    answer = SchedulerAllocator().place(loose, NodeState.empty(loose), pod(4))
    assert isinstance(answer, Placement)
    assert answer.holding.cpus == 0
