"""The allocator models, one for each kind of node: the one place that names them all."""

from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.charges import Allocators
from webhook.core.ledger.records import AllocatorKind
from webhook.core.scheduler.allocator import SchedulerAllocator


def allocator_models() -> Allocators:
    """Return the models; nodes whose allocator is not known have none."""
    return {AllocatorKind.KUBELET: KubeletAllocator(), AllocatorKind.SCHEDULER: SchedulerAllocator()}
