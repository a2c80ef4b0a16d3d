"""Which requests are looked at, by endpoint, kind, operation and subresource (``DESIGN.md`` 2): one table.

``webhook.core.decide`` answers by it, and ``webhook.core.match_conditions`` makes the CEL of the webhook configurations
from it.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
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
    only_changes: bool = False
    """Whether an UPDATE is judged only where it changes what a rule reads (``webhook.core.changes``)."""


_CREATE: Final = frozenset({Operation.CREATE})
_BOTH: Final = frozenset({Operation.CREATE, Operation.UPDATE})
_PLAIN: Final = frozenset({""})

TABLE: Final = (
    Judged("mutate-pods", Endpoint.MUTATE, Pod, _BOTH, _PLAIN, (Look.OBJECT_MARK,), only_changes=True),
    Judged(
        "validate-pods",
        Endpoint.VALIDATE,
        Pod,
        _BOTH,
        # Not ephemeralcontainers: they ask for nothing, and the API server keeps everything else of the old pod.
        frozenset({"", "resize"}),
        (Look.OBJECT_MARK, Look.OLD_OBJECT_MARK),
        only_changes=True,
    ),
    Judged("validate-workloads", Endpoint.VALIDATE, Workload, _BOTH, _PLAIN, (Look.TEMPLATE_MARK,)),
    Judged("validate-bindings", Endpoint.VALIDATE, Binding, _CREATE, frozenset({"", "binding"}), (Look.BINDING_KEYS,)),
    Judged("validate-nodes", Endpoint.VALIDATE, NodeLabels, _BOTH, _PLAIN, (Look.POLICY_LABELS,)),
    Judged("capacity-pods", Endpoint.CAPACITY, Pod, _CREATE, _PLAIN, (Look.OBJECT_MARK, Look.DEVICES_OR_WHOLE_CORES)),
    Judged("capacity-workloads", Endpoint.CAPACITY, Workload, _BOTH, _PLAIN, (Look.EVERYTHING,)),
    Judged("bind", Endpoint.BIND, Binding, _CREATE, frozenset({"", "binding"}), (Look.EVERYTHING,)),
)

_ROWS: Final[Mapping[tuple[Endpoint, type], Judged]] = MappingProxyType(
    {(row.endpoint, row.subject): row for row in TABLE}
)


def row_for(endpoint: Endpoint, ask: Ask) -> Judged | None:
    """Return the row that says how ``ask`` is judged at ``endpoint``, or None where it is allowed unseen.

    A row only says that the request is of a kind that is judged; whether it carries a mark is for the caller to look.
    """
    row = _ROWS.get((endpoint, type(ask.subject)))
    if row is None or ask.operation not in row.operations or ask.subresource not in row.subresources:
        return None
    return row
