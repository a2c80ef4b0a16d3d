"""What the ledger did not expect: logged with both views, and counted."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from structlog.typing import FilteringBoundLogger

from webhook.core.ledger.ledger import Notice
from webhook.core.ledger.proofs import numa_rooms, policy_words
from webhook.core.ledger.records import Entry, NodeView

DIVERGENCES: Final = frozenset(
    {"refused-though-allowed", "refused-not-prevented", "runs-though-refused", "placed-elsewhere"}
)
"""Kinds of notice that say that a kubelet did what we would not have had it do: every AdmissionError is one of them."""
KINDS: Final = (*sorted(DIVERGENCES), "claim-expired", "binding-expired", "place-lost")
"""All kinds of notice."""
_MOST_PODS: Final = 16


class Divergence:
    """Takes the ledger's notices."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        view_of: Callable[[str], NodeView | None],
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Log to ``log``; ``view_of`` tells a node's account."""
        self._log = log
        self._view_of = view_of
        self._notices = Counter(
            "numa_admission_ledger_notices",
            "What the ledger noticed, by kind: surprises by kubelets, claims and bindings that nothing confirmed.",
            ("kind",),
            registry=registry,
        )
        for kind in KINDS:
            self._notices.labels(kind)  # a counter that is not there cannot grow

    def take(self, notices: Iterable[Notice]) -> None:
        """Count ``notices``, and log each divergence with the kubelet's view and with ours."""
        for notice in notices:
            self._notices.labels(notice.kind).inc()
            if notice.kind not in DIVERGENCES:
                continue
            self._log.warning(
                "divergence",
                kind=notice.kind,
                uid=notice.uid,
                namespace=notice.namespace,
                name=notice.name,
                node=notice.node,
                kubelet=notice.detail or "admitted the pod",
                **_ours(self._view_of(notice.node)),
            )


def _ours(view: NodeView | None) -> dict[str, object]:
    """Return what the ledger thinks of a node, short enough for a log line."""
    if view is None or view.record.machine is None or view.bound_state is None:
        return {"ledger": "the node is not known any more"}
    machine = view.record.machine
    return {
        "ledger": f"free {numa_rooms(machine, view.bound_state)} ({policy_words(view.record)})",
        "pods": [_pod(entry) for entry in view.bound[:_MOST_PODS]],
    }


def _pod(entry: Entry) -> str:
    holding = entry.holding
    place = (
        "nothing" if holding is None else f"cpus {holding.cpus:x} devices {[f'{mask:x}' for mask in holding.devices]}"
    )
    return f"{entry.pod.namespace}/{entry.pod.name} {entry.certainty.value}: {place}"
