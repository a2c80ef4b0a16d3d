"""Which requests are looked at, by endpoint, kind, operation and subresource (``DESIGN.md`` 2): one table.

``webhook.core.decide`` answers by it, and ``webhook.core.match_conditions`` makes the CEL of the webhook configurations
from it.

Decisions of 2026-11-30, where ``DESIGN.md`` 2 and 5 say otherwise: an UPDATE of a pod is asked of only where it changes
what a rule reads, and results of a scheduler by a webhook of their own, for with the policy Fail an outage held up
controllers and schedulers at pods that were there already; ``ephemeralcontainers`` is asked of no more.
"""

import enum
from dataclasses import dataclass
from typing import Final

from webhook.core.decisions import Ask, Endpoint, Operation
from webhook.core.pod import Binding, NodeLabels, Pod, Workload


class Look(enum.Enum):
    """What must be there for a request to be judged; several are alternatives."""

    OBJECT_MARK = "the object carries a mark"
    OLD_OBJECT_MARK = "the old object carries a mark"
    TEMPLATE_MARK = "a pod template carries a mark"
    BINDING_KEYS = "the Binding's annotations have one of our keys"
    POLICY_LABELS = "the Node has a label of the policy family"
    DEVICES_OR_WHOLE_CORES = "a container asks for a GPU, or the pod may get exclusive CPUs"
    EVERYTHING = "always"


class Change(enum.Enum):
    """What an UPDATE must change to be judged; of pods, see ``webhook.core.changes``."""

    READ = "something that a rule reads, beside the scheduler's results"
    RESULTS_ALONE = "a result of the scheduler, and nothing else that a rule reads"
    TEMPLATE = "what surrounds the pod template of one of Kubernetes' own workloads"


@dataclass(frozen=True, slots=True)
class Judged:
    """One row of the table."""

    webhook: str
    """Name of the entry in the webhook configurations."""
    endpoint: Endpoint
    subject: type
    operations: frozenset[Operation]
    subresources: frozenset[str]
    looks: tuple[Look, ...]
    on_update: Change | None = None
    """None: an UPDATE is judged whatever it changes."""


_CREATE: Final = frozenset({Operation.CREATE})
_BOTH: Final = frozenset({Operation.CREATE, Operation.UPDATE})
_PLAIN: Final = frozenset({""})

TABLE: Final = (
    Judged("mutate-pods", Endpoint.MUTATE, Pod, _BOTH, _PLAIN, (Look.OBJECT_MARK,), Change.READ),
    Judged(
        "validate-pods",
        Endpoint.VALIDATE,
        Pod,
        _BOTH,
        # Not ephemeralcontainers: they ask for nothing, and the API server keeps everything else of the old pod.
        frozenset({"", "resize"}),
        (Look.OBJECT_MARK, Look.OLD_OBJECT_MARK),
        Change.READ,
    ),
    # Apart from the row above, so that no scheduler depends on us: it writes its results before it binds.
    Judged(
        "validate-results",
        Endpoint.VALIDATE,
        Pod,
        frozenset({Operation.UPDATE}),
        _PLAIN,
        (Look.OBJECT_MARK, Look.OLD_OBJECT_MARK),
        Change.RESULTS_ALONE,
    ),
    Judged("validate-workloads", Endpoint.VALIDATE, Workload, _BOTH, _PLAIN, (Look.TEMPLATE_MARK,), Change.TEMPLATE),
    Judged("validate-bindings", Endpoint.VALIDATE, Binding, _CREATE, frozenset({"", "binding"}), (Look.BINDING_KEYS,)),
    Judged("validate-nodes", Endpoint.VALIDATE, NodeLabels, _BOTH, _PLAIN, (Look.POLICY_LABELS,)),
    Judged("capacity-pods", Endpoint.CAPACITY, Pod, _CREATE, _PLAIN, (Look.OBJECT_MARK, Look.DEVICES_OR_WHOLE_CORES)),
    Judged("capacity-workloads", Endpoint.CAPACITY, Workload, _BOTH, _PLAIN, (Look.EVERYTHING,), Change.TEMPLATE),
    Judged("bind", Endpoint.BIND, Binding, _CREATE, frozenset({"", "binding"}), (Look.EVERYTHING,)),
)

_JUDGED: Final = frozenset(
    (row.endpoint, row.subject, operation, subresource)
    for row in TABLE
    for operation in row.operations
    for subresource in row.subresources
)


def is_judged(endpoint: Endpoint, ask: Ask) -> bool:
    """Return whether a row of the table judges requests of this kind at ``endpoint``; else ``ask`` is allowed unseen.

    Whether it carries a mark is for the caller to look.
    """
    return (endpoint, type(ask.subject), ask.operation, ask.subresource) in _JUDGED
