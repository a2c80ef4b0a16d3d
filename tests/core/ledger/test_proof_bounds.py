"""A proof ends soon, whatever a pod asks for: it is made under the ledger's lock."""

import itertools
from dataclasses import replace

import pytest
from ledger_world import demand, machine, node, pod

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.ledger.events import NodeSeen, PodSeen
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.node_notes import node_notes
from webhook.core.ledger.proofs import MOST_DEVICES_TRIED, _variants, prove
from webhook.core.ledger.records import AllocatorKind
from webhook.core.ledger.verdicts import judge, replicas_that_fit
from webhook.core.machine import TopologyPolicy
from webhook.core.pod import ContainerKind
from webhook.service.allocators import allocator_models

GPU = "aliyun.com/gpu"


@pytest.mark.parametrize("count", [100_000, 10**18, 10**21], ids=["many", "absurd", "beyond 64 bits"])
def test_changes_to_try_are_few_however_many_devices_are_asked_for(count):
    """A loop over every smaller number would never end."""
    container = ContainerDemand("main", ContainerKind.APP, 1000, ((GPU, count),))
    demand = PodDemand(QosClass.GUARANTEED, (container,), totals={"cpu": 1000, GPU: count})
    tried = list(_variants(demand, lambda _: 8))
    assert 0 < len(tried) <= MOST_DEVICES_TRIED + 8


@pytest.mark.parametrize("numa_policy", ["", "SingleNUMANode", "Restricted", "BestEffort"])
@pytest.mark.parametrize("totals", [{"memory": 1 << 60}, {"cpu": 10_000}, {GPU: 1}, {GPU: 99}], ids=str)
@pytest.mark.parametrize("kind", AllocatorKind)
def test_a_pod_without_containers_is_answered_on_every_node(kind, totals, numa_policy):
    """Its overhead alone may be what finds no room; nothing may fail for want of a widest container."""
    for policy, qos, node_name in itertools.product(TopologyPolicy, QosClass, ("", "n1")):
        ledger = Ledger(allocator_models())
        ledger.apply(NodeSeen(node("n1", machine(policy=policy), kind=kind)), 0.0)
        ledger.apply(PodSeen(pod("there", demand((3, 4), (3, 4)), node_name="n1")), 1.0)
        asked = pod("empty", PodDemand(qos, (), numa_policy=numa_policy, totals=totals))
        asked = replace(asked, eligibility=replace(asked.eligibility, node_name=node_name))
        verdict = judge(ledger, asked)
        assert verdict.placement is None
        assert prove(ledger, asked, verdict, 2.0).paragraph
        assert node_notes(ledger, asked, ["n1"])
        assert replicas_that_fit(ledger, asked, 3).pods == 0
