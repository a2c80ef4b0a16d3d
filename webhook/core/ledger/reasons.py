"""The reasons that rest on the ledger: a closed list, as ``webhook.core.reasons`` is for the stateless rules."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from webhook.core.findings import Family, Severity
from webhook.core.reasons import Reason

CAPACITY_NEVER: Final = Reason(
    "CAPACITY_NEVER",
    Family.CAPACITY,
    Severity.ERROR,
    "No machine that the pod may go to could take it, even empty and healthy.",
    "Ask for less, or for another kind of machine.",
)
CAPACITY_WOULD_FAIL: Final = Reason(
    "CAPACITY_WOULD_FAIL",
    Family.CAPACITY,
    Severity.ERROR,
    "A scheduler would bind the pod now, and every node's kubelet would refuse it for good.",
    "Try again when room is free, or ask for less.",
)
CAPACITY_WOULD_WAIT: Final = Reason(
    "CAPACITY_WOULD_WAIT",
    Family.CAPACITY,
    Severity.WARNING,
    "No eligible node has room now; the pod would stay Pending.",
    "Nothing to do if waiting is fine; the pod starts when room is free.",
)
CAPACITY_UNKNOWN: Final = Reason(
    "CAPACITY_UNKNOWN",
    Family.CAPACITY,
    Severity.WARNING,
    "Whether the pod fits cannot be told.",
    "Nothing to do; the pod was let through unjudged.",
)
REPLICAS_EXCEED_ROOM: Final = Reason(
    "REPLICAS_EXCEED_ROOM",
    Family.CAPACITY,
    Severity.WARNING,
    "Fewer replicas fit now than the workload asks for.",
    "Nothing to do if waiting is fine; the others start when room is free.",
)
BINDING_WOULD_FAIL: Final = Reason(
    "BINDING_WOULD_FAIL",
    Family.CAPACITY,
    Severity.ERROR,
    "The node's kubelet would refuse the pod for good.",
    "Nothing to do: the scheduler tries again.",
)
BINDING_OUT_OF_TURN: Final = Reason(
    "BINDING_OUT_OF_TURN",
    Family.CAPACITY,
    Severity.ERROR,
    "The node's kubelet has not answered for pods bound just before, and in another order it would refuse one of them.",
    "Nothing to do: the scheduler tries again in a moment.",
)

LEDGER_REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {value.code: value for value in list(globals().values()) if isinstance(value, Reason)}
)
"""Every reason of the ledger by its code, in the order of this file."""
