"""Pods that a kubelet may still admit in another order than that of their bindings.

A kubelet takes what the watch brings it in the order of the bindings, but sorts what arrives together by creation time
(kubernetes/kubernetes:pkg/kubelet/kubelet.go ``HandlePodAdditions``), to the second. So of two pods in flight the one
that was bound first stays first if it is older; else either may be.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from webhook.core.ledger.charges import Charges
from webhook.core.ledger.records import Entry, EntryState, NodeView
from webhook.core.machine import Machine, NodeState
from webhook.core.masks import members
from webhook.core.placement import Holding, Placement

# Pods in flight on one node up to which every order of their admission is tried: 4! orders share 64 replays of about
# 30 us each, 2 ms at worst; equal pods, which is what a workload's replicas are, need one order only.
MOST_IN_FLIGHT: Final = 3

Signature = tuple[tuple[int, ...], ...]


def every_order_works(charges: Charges, view: NodeView, in_flight: Sequence[Entry], entry: Entry) -> bool:
    """Return whether the node's kubelet takes ``entry`` and all ``in_flight`` in every order that may come.

    Each must get the same NUMA nodes in every order: else the ledger could not tell afterwards where it sits, and a
    place that is only guessed proves nothing. Which of equal CPUs and devices of a NUMA node it gets makes no odds.
    """
    machine, state = view.record.machine, view.bound_state
    if machine is None or state is None:
        return False
    for other in in_flight:
        if other.state is EntryState.BOUND and other.holding is not None:
            state = charges.given_back(view.record, state, other.holding)
    entries = [*in_flight, entry]
    if all(other.pod.demand == entry.pod.demand for other in in_flight):
        return _all_alike(charges, view, machine, state, entries)
    if len(in_flight) > MOST_IN_FLIGHT:
        return False
    return _Orders(charges, view, machine, entries).work_from(state, frozenset())


def _all_alike(charges: Charges, view: NodeView, machine: Machine, state: NodeState, entries: Sequence[Entry]) -> bool:
    """Return whether equal pods all fit; where it is open who comes first they must sit on the same NUMA nodes."""
    is_settled = all(_stays_first(one, next_) for one, next_ in pairwise(entries))
    first: Signature | None = None
    for entry in entries:
        placement = charges.place(view, state, entry.pod.demand)
        if placement is None:
            return False
        state = placement.state
        signature = signature_of(machine, placement.holding)
        first = signature if first is None else first
        if signature != first and not is_settled:
            return False
    return True


class _Orders:
    """A walk through all orders that shares their beginnings."""

    def __init__(self, charges: Charges, view: NodeView, machine: Machine, entries: Sequence[Entry]) -> None:
        self._charges = charges
        self._view = view
        self._machine = machine
        self._entries = entries
        self._places: dict[str, Signature] = {}

    def work_from(self, state: NodeState, done: frozenset[int]) -> bool:
        """Return whether all orders of those that are not ``done`` work from ``state``."""
        for at, entry in enumerate(self._entries):
            if at in done or any(
                before not in done and _stays_first(self._entries[before], entry) for before in range(at)
            ):
                continue
            placement = self._charges.place(self._view, state, entry.pod.demand)
            if placement is None or not self._is_as_before(entry, placement):
                return False
            if not self.work_from(placement.state, done | {at}):
                return False
        return True

    def _is_as_before(self, entry: Entry, placement: Placement) -> bool:
        signature = signature_of(self._machine, placement.holding)
        return self._places.setdefault(entry.uid, signature) == signature


def _stays_first(one: Entry, other: Entry) -> bool:
    """Return whether ``one``, bound first, is admitted first for sure. A pod not stored yet has no creation time."""
    return 0 < one.pod.created_seconds < other.pod.created_seconds


def signature_of(machine: Machine, holding: Holding) -> Signature:
    """Return how many CPUs and devices of each NUMA node are held: what a later admission can tell apart."""
    rows = [tuple((holding.cpus & cpus).bit_count() for cpus in machine.cpus.numa_cpus)]
    for layout, mask in zip(machine.devices, holding.devices, strict=True):
        rows.append(tuple(sorted(layout.numa_of_device[device] for device in members(mask))))
    return tuple(rows)
