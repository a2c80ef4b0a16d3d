"""A proof ends soon, whatever a pod asks for: it is made under the ledger's lock."""

import pytest

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.ledger.proofs import MOST_DEVICES_TRIED, _variants
from webhook.core.pod import ContainerKind

GPU = "aliyun.com/gpu"


@pytest.mark.parametrize("count", [100_000, 10**18, 10**21], ids=["many", "absurd", "beyond 64 bits"])
def test_changes_to_try_are_few_however_many_devices_are_asked_for(count):
    """A loop over every smaller number would never end."""
    container = ContainerDemand("main", ContainerKind.APP, 1000, ((GPU, count),))
    demand = PodDemand(QosClass.GUARANTEED, (container,), totals={"cpu": 1000, GPU: count})
    tried = list(_variants(demand, lambda _: 8))
    assert 0 < len(tried) <= MOST_DEVICES_TRIED + 8
