"""What each node is to one pod that finds no place: the first reason that speaks against it, in a few words."""

from collections.abc import Iterable

from webhook.core.ledger.drawing import Note
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, NodeView, PodRecord
from webhook.core.placement import Rejection
from webhook.core.spelling import in_units


def node_notes(ledger: Ledger, pod: PodRecord, names: Iterable[str]) -> dict[str, Note]:
    """Return for each node of ``names`` that the ledger knows whether it takes ``pod`` now, or why not."""
    index, wanted = ledger.index, pod.eligibility
    barriers = (
        (index.present & ~index.matching(wanted), "its selector, affinity or node name leave this node out"),
        (index.present & ~index.ready, "the node is not ready"),
        (index.closed(wanted), "the node is cordoned"),
        (index.repelling(wanted), "it does not tolerate the node's taint"),
    )
    notes: dict[str, Note] = {}
    for name in names:
        slot, view = index.slot(name), ledger.views.get(name)
        if slot is None or view is None:
            continue
        words = next((words for mask, words in barriers if mask >> slot & 1), "") or _against(ledger, pod, view)
        who = pod.name
        notes[name] = Note(f"{who}: {words}" if words else f"{who} would fit", is_good=not words)
    return notes


def _against(ledger: Ledger, pod: PodRecord, view: NodeView) -> str:
    """Return why an eligible node does not take ``pod``; empty where it does."""
    for resource, amount in {**pod.demand.totals, "pods": 1}.items():
        free = view.free(resource)
        if amount > 0 and free < amount:
            if resource == "cpu":
                left = in_units(max(0, free), 1000)
                return f"asks for {in_units(amount, 1000)} CPUs, {left} are free by plain count"
            return f"asks for {amount} {resource}, {max(0, free)} free by plain count"
    machine, state = view.record.machine, view.full_state
    allocator = ledger.charges.allocators.get(view.record.allocator)
    if machine is None or state is None or allocator is None:
        return "the node's NUMA nodes are not known"
    answer = allocator.place(machine, state, pod.demand)
    if not isinstance(answer, Rejection):
        return ""
    if view.record.allocator is not AllocatorKind.KUBELET:
        return "has room by plain count, the scheduler holds it back"
    guess = "; places here are guessed" if view.is_guessed else ""
    return f"has room by plain count, the kubelet would refuse it with {answer.reason}{guess}"
