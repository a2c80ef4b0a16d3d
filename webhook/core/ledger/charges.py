"""One node's account: charging pods to it and discharging them, as functions from ``NodeView`` to ``NodeView``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from webhook.core.demand import PodDemand
from webhook.core.ledger.events import RecalledPlace
from webhook.core.ledger.holdings import Told, held_alone, holding_on, is_within, same_places, told
from webhook.core.ledger.records import AllocatorKind, Certainty, Entry, EntryState, NodeRecord, NodeView, PodRecord
from webhook.core.machine import Machine, NodeState
from webhook.core.occupancy import give_back, holds_nothing, is_free, take
from webhook.core.placement import Allocator, ContainerPlace, Holding, Placement, Rejection

Allocators = Mapping[AllocatorKind, Allocator]

VERDICTS_REMEMBERED: Final = 16384
"""Pairs of machine class and pod shape whose verdict on the empty machine is kept: a cluster has some hundreds."""

# A place is asked for again at once: a binding is judged and then charged, a pod is bound where its virtual place was
# found. About 1.5 kB each.
ANSWERS_REMEMBERED: Final = 2048


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
        record = view.record
        allocator = self.allocators.get(record.allocator)
        if allocator is None or record.machine is None:
            return None
        if record.allocator is AllocatorKind.KUBELET and _is_nobodys_business(record, demand):
            places = tuple(ContainerPlace(container.name) for container in demand.containers)
            return Placement(Holding(0, (0,) * len(record.machine.devices)), places, state)
        answer = _answer(allocator, record.machine, state, demand)
        return answer if isinstance(answer, Placement) else None

    def rejection(self, kind: AllocatorKind, machine: Machine, state: NodeState, demand: PodDemand) -> Rejection | None:
        """Return why ``machine`` in ``state`` refuses ``demand``; None: it does not, or there is no model for it."""
        allocator = self.allocators.get(kind)
        answer = None if allocator is None else _answer(allocator, machine, state, demand)
        return answer if isinstance(answer, Rejection) else None

    def takes_empty(self, kind: AllocatorKind, machine: Machine, demand: PodDemand) -> bool:
        """Return whether ``machine``, empty and healthy, takes ``demand``; True where there is no model for it."""
        allocator = self.allocators.get(kind)
        return allocator is None or _takes_empty(allocator, machine, demand)

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
        """Return the account with ``pod`` charged to it, last in order; ``settle`` must follow."""
        entry = Entry(
            pod,
            EntryState.BOUND,
            view.record.name,
            Certainty.GUESSED,
            until_seconds=assumed_until_seconds,
            is_assumed=assumed_until_seconds is not None,
            since_seconds=now_seconds,
        )
        state = view.bound_state
        if state is not None:
            known = told(view.record, pod)
            if known is not None and not is_free(state, known.holding):
                # What a source tells beats whatever the model had put there.
                return self.rebuild(view, view.record, now_seconds, (*view.bound, entry))
            if known is not None:
                state = take(state, known.holding)
            entry, state = self._placed(view, state, entry, known, is_history=is_history)
        totals = with_pod(view.bound_totals, pod.demand)
        return _changed(
            view,
            (*view.bound, entry),
            state,
            totals,
            now_seconds,
            is_doubted=view.is_doubted,
            is_reported=view.is_reported and entry.certainty is not Certainty.GUESSED,
        )

    def unbind(self, view: NodeView, uid: str, now_seconds: float) -> NodeView:
        """Return the account without the bound pod ``uid``, what it held given back; ``settle`` must follow."""
        entry = next(entry for entry in view.bound if entry.uid == uid)
        bound = tuple(other for other in view.bound if other is not entry)
        state = view.bound_state
        if state is not None:
            state = self.given_back(view.record, state, held_alone(entry, bound))
        still_doubted = view.is_doubted and any(
            other.holding is None or not holds_nothing(other.holding) for other in bound
        )
        totals = without_pod(view.bound_totals, entry.pod.demand)
        # Which of the guessed pods sat where is not reported: once one has gone, it matters.
        still_reported = view.is_reported and entry.certainty is not Certainty.GUESSED
        return _changed(view, bound, state, totals, now_seconds, is_doubted=still_doubted, is_reported=still_reported)

    def amend(self, view: NodeView, entry: Entry) -> NodeView:
        """Return the account with a bound pod's record replaced; its place stays."""
        uid = entry.pod.uid
        bound = tuple([entry if other.pod.uid == uid else other for other in view.bound])
        return _changed(
            view,
            bound,
            view.bound_state,
            view.bound_totals,
            view.since_seconds,
            is_doubted=view.is_doubted,
            is_reported=view.is_reported,
        )

    def recall(self, view: NodeView, places: Iterable[RecalledPlace]) -> NodeView:
        """Return the account with the places that a checkpoint remembers; they beat guesses and nothing else."""
        machine = view.record.machine
        if machine is None or view.is_doubted:
            return view
        remembered = {place.uid: place for place in places}
        sure = [entry.holding for entry in view.bound if entry.certainty is not Certainty.GUESSED]
        recalled: dict[str, Entry] = {}
        for entry in view.bound:
            place = remembered.get(entry.uid)
            if place is None or entry.certainty is not Certainty.GUESSED:
                continue
            holding = holding_on(machine, place.cpus, place.devices)
            if holding is None or not is_within(machine, holding, entry.pod.demand):
                continue
            known = told(view.record, entry.pod)
            if (known is not None and not known.agrees(holding)) or any(_overlap(holding, other) for other in sure):
                continue
            if view.record.allocator is AllocatorKind.SCHEDULER:
                holding = replace(holding, cpuset=holding.cpus)
            certainty = Certainty.REPLAYED
            if entry.holding is not None and entry.holding.memory:  # which a checkpoint does not remember
                holding, certainty = replace(holding, memory=entry.holding.memory), Certainty.GUESSED
            recalled[entry.uid] = replace(entry, holding=holding, places=(), certainty=certainty)
            sure.append(holding)
        if not recalled:
            return view
        bound = tuple(recalled.get(entry.uid, entry) for entry in view.bound)
        return self.rebuild(view, view.record, view.since_seconds, bound)

    def doubt(self, view: NodeView) -> NodeView:
        """Return the account with every unconfirmed place on it turned into a guess."""
        return replace(
            view,
            bound=tuple(
                replace(entry, certainty=Certainty.GUESSED) if entry.certainty is Certainty.REPLAYED else entry
                for entry in view.bound
            ),
            is_doubted=bool(view.bound),
            is_reported=False,
        )

    def rebuild(
        self, view: NodeView, record: NodeRecord, now_seconds: float, bound: tuple[Entry, ...] | None = None
    ) -> NodeView:
        """Return the account built anew on ``record``; ``settle`` must follow.

        First what sources tell (all of it, in any order the same), then the places that were known and are still free,
        replayed before guessed; what is left is guessed by the model.
        """
        entries = view.bound if bound is None else bound
        totals: dict[str, int] = {}
        for entry in entries:
            totals = with_pod(totals, entry.pod.demand)
        state = _empty_state(record)
        keeps = view.record.allocator is record.allocator and same_places(view.record.machine, record.machine)
        virtual = view.virtual if keeps else tuple(replace(entry, holding=None) for entry in view.virtual)
        if state is None:
            nowhere = (_held(entry, Certainty.GUESSED, None) for entry in entries)
            done = {entry.uid: entry for entry in nowhere}
        else:
            fresh = replace(view, record=record, bound=())
            done, state = self._placed_anew(fresh, state, entries, keeps=keeps)
        ordered = tuple(done[entry.uid] for entry in entries)
        fresh = replace(view, record=record, virtual=virtual)
        return _changed(fresh, ordered, state, totals, now_seconds, is_doubted=view.is_doubted)

    def _placed_anew(
        self, view: NodeView, state: NodeState, entries: tuple[Entry, ...], *, keeps: bool
    ) -> tuple[dict[str, Entry], NodeState]:
        known = {entry.uid: found for entry in entries if (found := told(view.record, entry.pod)) is not None}
        for found in known.values():
            state = take(state, found.holding)
        done: dict[str, Entry] = {}
        in_part: list[Entry] = []
        for entry in entries:
            if entry.uid in known and known[entry.uid].is_whole:
                holding = known[entry.uid].holding
                done[entry.uid] = _held(entry, Certainty.CONFIRMED, holding)
            elif entry.uid in known:
                in_part.append(entry)
        guesses = (Certainty.GUESSED, Certainty.CONFIRMED)
        replayed = [entry for entry in entries if entry.certainty is Certainty.REPLAYED]
        guessed = [entry for entry in entries if entry.certainty in guesses]
        # The unknown half of a place lies beside the known one: it comes before what is guessed as a whole.
        for kept, places_rest in ((replayed, False), (in_part, True), (guessed, False)):
            for entry in kept:
                if entry.uid in done:
                    continue
                rest = _rest(entry, known.get(entry.uid)) if keeps else None
                if rest is not None and is_free(state, rest):
                    certainty = Certainty.GUESSED if entry.certainty in guesses else entry.certainty
                    done[entry.uid] = entry if entry.certainty is certainty else replace(entry, certainty=certainty)
                    state = take(state, rest)
                elif places_rest:
                    done[entry.uid], state = self._placed(view, state, entry, known[entry.uid], is_history=True)
        for entry in entries:
            if entry.uid not in done:
                done[entry.uid], state = self._placed(view, state, entry, known.get(entry.uid), is_history=True)
        return done, state

    def _placed(
        self, view: NodeView, state: NodeState, entry: Entry, known: Told | None, *, is_history: bool
    ) -> tuple[Entry, NodeState]:
        """Return ``entry`` with the place that the model gives it beside what is ``known``, and the state after.

        ``known`` is held in ``state`` already.
        """
        demand = entry.pod.demand
        if known is not None:
            holding = known.holding if known.is_whole else self._completed(view, state, demand, known)
            certainty = Certainty.CONFIRMED if known.is_whole else Certainty.GUESSED
            return replace(entry, holding=holding, places=(), certainty=certainty), take(state, known.rest_of(holding))
        placement = self.place(view, state, demand)
        is_kubelet = view.record.allocator is AllocatorKind.KUBELET
        if placement is None:
            # The kubelet will refuse it, or it runs against the model; either way it holds no known CPUs and devices.
            sure = is_kubelet and not entry.pod.is_answered and not is_history and not view.is_guessed
            certainty = Certainty.REPLAYED if sure else Certainty.GUESSED
            return _held(entry, certainty, None), state
        holding = placement.holding
        sure = is_kubelet and not is_history and not view.is_guessed
        certainty = Certainty.REPLAYED if sure or holds_nothing(holding) else Certainty.GUESSED
        return _held(entry, certainty, holding, placement.containers), placement.state

    def _completed(self, view: NodeView, state: NodeState, demand: PodDemand, known: Told) -> Holding:
        """Return ``known`` with what the model gives beside exactly that; alone, if it refuses."""
        machine = view.record.machine
        if machine is None:
            return known.holding
        placement = self.place(view, known.open_for(machine, state), demand)
        return known.holding if placement is None else known.completed(placement.holding)

    def given_back(self, record: NodeRecord, state: NodeState, holding: Holding | None) -> NodeState:
        """Return ``state`` of the node with ``holding`` free again."""
        allocator = self.allocators.get(record.allocator)
        if holding is None or record.machine is None:
            return state
        if allocator is None:
            return give_back(record.machine, state, holding)
        return allocator.release(record.machine, state, holding)


@lru_cache(maxsize=ANSWERS_REMEMBERED)
def _answer(allocator: Allocator, machine: Machine, state: NodeState, demand: PodDemand) -> Placement | Rejection:
    """Return the answer of a model, which is a pure function of these values."""
    return allocator.place(machine, state, demand)


@lru_cache(maxsize=VERDICTS_REMEMBERED)
def _takes_empty(allocator: Allocator, machine: Machine, demand: PodDemand) -> bool:
    return isinstance(allocator.place(machine, NodeState.empty(machine), demand), Placement)


def _held(
    entry: Entry, certainty: Certainty, holding: Holding | None, places: tuple[ContainerPlace, ...] = ()
) -> Entry:
    # In full, as below.
    return Entry(
        entry.pod,
        entry.state,
        entry.node,
        certainty,
        holding,
        places,
        entry.until_seconds,
        entry.tries,
        entry.is_assumed,
        entry.since_seconds,
    )


def _changed(
    view: NodeView,
    bound: tuple[Entry, ...],
    state: NodeState | None,
    totals: Mapping[str, int],
    now_seconds: float,
    *,
    is_doubted: bool,
    is_reported: bool = False,
) -> NodeView:
    # Constructed in full: ``dataclasses.replace`` costs three times as much, and this is the path of every event.
    return NodeView(
        view.record,
        bound,
        view.virtual,
        state,
        view.full_state,
        totals,
        view.full_totals,
        now_seconds,
        is_doubted,
        is_reported,
    )


def _is_nobodys_business(record: NodeRecord, demand: PodDemand) -> bool:
    """Return whether the kubelet hands out nothing for ``demand``: no device, no exclusive CPU, no memory."""
    machine = record.machine
    if machine is None or (machine.memory and machine.kubelet.static_memory):
        return False
    return not any(container.devices or demand.exclusive_cpus(container) for container in demand.containers)


def _empty_state(record: NodeRecord) -> NodeState | None:
    if record.machine is None:
        return None
    state = NodeState.empty(record.machine)
    return replace(state, unhealthy_devices=record.unhealthy) if record.unhealthy else state


def _rest(entry: Entry, known: Told | None) -> Holding | None:
    """Return what ``entry`` holds besides what is told of it; None: nothing is known, or it is told otherwise."""
    if entry.holding is None or known is None:
        return entry.holding
    return known.rest_of(entry.holding) if known.agrees(entry.holding) else None


def _overlap(one: Holding, other: Holding | None) -> bool:
    if other is None:
        return False
    return bool(one.cpus & other.cpus) or any(a & b for a, b in zip(one.devices, other.devices, strict=False))
