"""One node's account: charging pods to it and discharging them, as functions from ``NodeView`` to ``NodeView``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from webhook.core.demand import PodDemand
from webhook.core.ledger.records import (
    AllocatorKind,
    Certainty,
    Confirmed,
    Entry,
    EntryState,
    NodeRecord,
    NodeView,
    PodRecord,
)
from webhook.core.machine import Machine, NodeState
from webhook.core.occupancy import give_back, holds_nothing, holds_unhealthy, is_free, take
from webhook.core.placement import Allocator, Holding, Placement

Allocators = Mapping[AllocatorKind, Allocator]


def with_pod(totals: Mapping[str, int], demand: PodDemand) -> dict[str, int]:
    """Return the plain count ``totals`` with one more pod of ``demand``."""
    result = dict(totals)
    for resource, amount in demand.totals.items():
        result[resource] = result.get(resource, 0) + amount
    result["pods"] = result.get("pods", 0) + 1
    return result


def without_pod(totals: Mapping[str, int], demand: PodDemand) -> dict[str, int]:
    """Return the plain count ``totals`` with one pod of ``demand`` less."""
    result = dict(totals)
    for resource, amount in demand.totals.items():
        result[resource] = result.get(resource, 0) - amount
    result["pods"] = result.get("pods", 0) - 1
    return result


@dataclass(frozen=True, slots=True)
class Charges:
    """The account's rules; holds nothing but the allocator models."""

    allocators: Allocators

    def open(self, record: NodeRecord, now_seconds: float) -> NodeView:
        """Return the account of a node with nothing on it."""
        state = _empty_state(record)
        return NodeView(record, bound_state=state, full_state=state, since_seconds=now_seconds)

    def place(self, view: NodeView, state: NodeState, demand: PodDemand) -> Placement | None:
        """Return where the node's allocator would put ``demand`` in ``state``; None: refused, or no model for it."""
        allocator = self.allocators.get(view.record.allocator)
        if allocator is None or view.record.machine is None:
            return None
        answer = allocator.place(view.record.machine, state, demand)
        return answer if isinstance(answer, Placement) else None

    # --- bound pods ---

    def bind(
        self,
        view: NodeView,
        pod: PodRecord,
        now_seconds: float,
        *,
        is_history: bool = False,
        assumed_until_seconds: float | None = None,
    ) -> NodeView:
        """Return the account with ``pod`` charged to it, last in order."""
        entry = Entry(
            pod,
            EntryState.BOUND,
            view.record.name,
            Certainty.GUESSED,
            until_seconds=assumed_until_seconds,
            is_assumed=assumed_until_seconds is not None,
        )
        totals = with_pod(view.bound_totals, pod.demand)
        if view.record.machine is None or view.bound_state is None:
            return replace(view, bound=(*view.bound, entry), bound_totals=totals, since_seconds=now_seconds)
        confirmed = _confirmed_holding(view.record.machine, pod)
        if confirmed is not None and not is_free(view.bound_state, confirmed):
            # A confirmed place beats whatever the model had put there.
            return self.rebuild(view, view.record, now_seconds, (*view.bound, entry))
        entry = self._placed(view, view.bound_state, entry, confirmed, is_history=is_history)
        state = take(view.bound_state, entry.holding) if entry.holding else view.bound_state
        return replace(
            view, bound=(*view.bound, entry), bound_state=state, bound_totals=totals, since_seconds=now_seconds
        )

    def _placed(
        self, view: NodeView, state: NodeState, entry: Entry, confirmed: Holding | None, *, is_history: bool
    ) -> Entry:
        """Return ``entry`` with the place that is confirmed, else the one that the model gives it in ``state``."""
        demand = entry.pod.demand
        placement = self.place(view, state, demand)
        pins_unknown_cpus = entry.pod.confirmed is not None and entry.pod.confirmed.cpus is None
        if confirmed is not None and not (pins_unknown_cpus and placement is not None and placement.holding.cpus):
            return replace(entry, holding=confirmed, certainty=Certainty.CONFIRMED)
        if placement is None:
            # The kubelet will refuse it, or it runs against the model; either way it holds no known CPUs and devices.
            surprise = entry.pod.is_answered or view.record.allocator is not AllocatorKind.KUBELET
            certainty = Certainty.GUESSED if surprise else Certainty.REPLAYED
            return replace(entry, holding=None, certainty=certainty)
        holding = placement.holding
        if confirmed is not None:
            holding = replace(holding, devices=confirmed.devices)
            if not is_free(state, holding):
                return replace(entry, holding=None, certainty=Certainty.GUESSED)
        sure = view.record.allocator is AllocatorKind.KUBELET and not is_history and not view.is_guessed
        certainty = Certainty.REPLAYED if holds_nothing(holding) or (sure and confirmed is None) else Certainty.GUESSED
        return replace(entry, holding=holding, places=placement.containers, certainty=certainty)

    def unbind(self, view: NodeView, uid: str, now_seconds: float) -> NodeView:
        """Return the account without the bound pod ``uid``, what it held given back."""
        entry = next(entry for entry in view.bound if entry.uid == uid)
        bound = tuple(other for other in view.bound if other.uid != uid)
        state = view.bound_state
        if state is not None and entry.holding is not None and view.record.machine is not None:
            state = give_back(view.record.machine, state, entry.holding)
        still_doubted = view.is_doubted and any(
            other.holding is None or not holds_nothing(other.holding) for other in bound
        )
        return replace(
            view,
            bound=bound,
            bound_state=state,
            bound_totals=without_pod(view.bound_totals, entry.pod.demand),
            is_doubted=still_doubted,
            since_seconds=now_seconds,
        )

    def amend(self, view: NodeView, entry: Entry) -> NodeView:
        """Return the account with a bound pod's record replaced; its place stays."""
        return replace(view, bound=tuple(entry if other.uid == entry.uid else other for other in view.bound))

    def recall(self, view: NodeView, uid: str, cpus: int, devices: tuple[tuple[str, int], ...]) -> NodeView:
        """Return the account with the place that a checkpoint remembers, unless a confirmed one speaks against it."""
        machine = view.record.machine
        if machine is None or view.bound_state is None:
            return view
        entry = next((entry for entry in view.bound if entry.uid == uid), None)
        if entry is None or entry.certainty is Certainty.CONFIRMED:
            return view
        holding = _holding(machine, cpus, devices)
        if holding is None or not _within(machine, holding, entry.pod.demand):
            return view
        state = give_back(machine, view.bound_state, entry.holding) if entry.holding else view.bound_state
        if not is_free(state, holding):
            return view
        recalled = replace(entry, holding=holding, places=(), certainty=Certainty.REPLAYED)
        return replace(self.amend(view, recalled), bound_state=take(state, holding))

    def doubt(self, view: NodeView) -> NodeView:
        """Return the account with every unconfirmed place on it turned into a guess."""
        return replace(
            view,
            bound=tuple(
                replace(entry, certainty=Certainty.GUESSED) if entry.certainty is Certainty.REPLAYED else entry
                for entry in view.bound
            ),
            is_doubted=bool(view.bound),
        )

    def rebuild(
        self, view: NodeView, record: NodeRecord, now_seconds: float, bound: tuple[Entry, ...] | None = None
    ) -> NodeView:
        """Return the account built anew on ``record``: confirmed places, then kept ones still free, then guesses."""
        entries = view.bound if bound is None else bound
        same_machine = view.record.machine == record.machine
        fresh = replace(view, record=record, bound=())
        state = _empty_state(record)
        done: dict[str, Entry] = {}
        if state is not None and record.machine is not None:
            for entry in entries:
                confirmed = _confirmed_holding(record.machine, entry.pod)
                if confirmed is not None and is_free(state, confirmed):
                    done[entry.uid] = self._placed(fresh, state, entry, confirmed, is_history=True)
                    state = take(state, done[entry.uid].holding or Holding())
            for entry in entries:
                if entry.uid in done or not same_machine or entry.holding is None or not is_free(state, entry.holding):
                    continue
                done[entry.uid] = entry
                state = take(state, entry.holding)
            for entry in entries:
                if entry.uid not in done:
                    done[entry.uid] = self._placed(fresh, state, entry, None, is_history=True)
                    state = take(state, done[entry.uid].holding or Holding())
        ordered = tuple(done.get(entry.uid, replace(entry, holding=None, places=())) for entry in entries)
        totals: dict[str, int] = {}
        for entry in ordered:
            totals = with_pod(totals, entry.pod.demand)
        return replace(
            view, record=record, bound=ordered, bound_state=state, bound_totals=totals, since_seconds=now_seconds
        )

    # --- virtual places ---

    def reserve(self, view: NodeView, entry: Entry) -> NodeView:
        """Return the account with a virtual place added; ``settle`` must follow."""
        return replace(view, virtual=(*(other for other in view.virtual if other.uid != entry.uid), entry))

    def free_virtual(self, view: NodeView, uid: str) -> NodeView:
        """Return the account without the virtual place of ``uid``; ``settle`` must follow."""
        return replace(view, virtual=tuple(entry for entry in view.virtual if entry.uid != uid))

    def settle(self, view: NodeView) -> tuple[NodeView, tuple[Entry, ...]]:
        """Return the account with its full state computed anew, and the virtual places that reality has taken."""
        state, totals = view.bound_state, view.bound_totals
        kept: list[Entry] = []
        lost: list[Entry] = []
        for entry in view.virtual:
            demand = entry.pod.demand
            if state is None or not _fits_plainly(view.record, totals, demand):
                lost.append(entry)
                continue
            holding, places = entry.holding, entry.places
            if holding is None or holding.memory or not is_free(state, holding) or holds_unhealthy(state, holding):
                placement = self.place(view, state, demand)
                if placement is None:
                    lost.append(entry)
                    continue
                holding, places = placement.holding, placement.containers
            state = take(state, holding)
            totals = with_pod(totals, demand)
            kept.append(entry if holding is entry.holding else replace(entry, holding=holding, places=places))
        return replace(view, virtual=tuple(kept), full_state=state, full_totals=totals), tuple(lost)


def _fits_plainly(record: NodeRecord, totals: Mapping[str, int], demand: PodDemand) -> bool:
    return all(
        record.allocatable.get(resource, 0) - totals.get(resource, 0) >= amount
        for resource, amount in demand.totals.items()
        if amount > 0
    )


def _empty_state(record: NodeRecord) -> NodeState | None:
    if record.machine is None:
        return None
    state = NodeState.empty(record.machine)
    return replace(state, unhealthy_devices=record.unhealthy) if record.unhealthy else state


def _holding(machine: Machine, cpus: int, devices: tuple[tuple[str, int], ...]) -> Holding | None:
    """Return a holding on ``machine``; None where it names CPUs or devices that the machine does not have."""
    masks = [0] * len(machine.devices)
    for resource, mask in devices:
        index = machine.device_index(resource)
        if index is None or mask & ~machine.devices[index].all_devices:
            return None
        masks[index] |= mask
    if cpus & ~machine.cpus.all_cpus:
        return None
    return Holding(cpus, tuple(masks))


def _confirmed_holding(machine: Machine, pod: PodRecord) -> Holding | None:
    """Return what ``pod``'s result annotation says it holds; None without one or where it claims too much."""
    confirmed: Confirmed | None = pod.confirmed
    if confirmed is None:
        return None
    holding = _holding(machine, confirmed.cpus or 0, confirmed.devices)
    return holding if holding is not None and _within(machine, holding, pod.demand) else None


def _within(machine: Machine, holding: Holding, demand: PodDemand) -> bool:
    """Return whether ``holding`` is no more than ``demand`` may ever hold at one time or leave behind."""
    if holding.cpus.bit_count() * 1000 > sum(container.cpu_millicores for container in demand.containers):
        return False
    for layout, mask in zip(machine.devices, holding.devices, strict=True):
        asked = sum(
            count for container in demand.containers for name, count in container.devices if name == layout.resource
        )
        if mask.bit_count() > asked:
            return False
    return True
