"""The model of NUMA-aware schedulers: Koordinator's, and ACK's as far as it is documented.

The pod as a whole is placed, by the policy of its annotation or its node. Rules: ``domain/koordinator-ack.md`` 2, and
Koordinator's own code (v1.8.0), which ``tests/koordinator`` runs and compares with. ACK's scheduler is closed and said
to behave alike; what is not verified of it stands in ``policies.UNVERIFIED``. A refusal of this model therefore warns
and never denies, with one exception that is documented: ``policies.is_wider_than_a_numa_node``.
"""

from webhook.core.scheduler.allocator import SchedulerAllocator
from webhook.core.scheduler.policies import UNVERIFIED, is_wider_than_a_numa_node
from webhook.core.scheduler.scoring import Scoring

__all__ = ["UNVERIFIED", "SchedulerAllocator", "Scoring", "is_wider_than_a_numa_node"]
