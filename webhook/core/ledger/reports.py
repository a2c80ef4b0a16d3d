"""A live report of a node against the ledger's account of it: what is busy on each NUMA node, as the node counts.

Every pod stays charged exactly once, by its own entry; a report only says *where* guessed pods sit. So nothing can be
debited twice (the report and the pod) or forgotten (a pod that is younger than the report keeps its own place).
A report that counts other pods than the account does, because one of the two is behind, is left alone: another follows.

The time of a report is when its content last changed: the API server does not store an update that changes nothing, its
time in ``managedFields`` included. So where a pod ended and one of the same amounts took its room within the writer's
period, the next report is not stored, and the last one is older than the pod. After a restart such a pod stays guessed,
until anything else comes to its node or leaves it. It cannot be settled safely: whether the writer has counted since,
or has stopped, is told nowhere; that the old counts agree with the guess does not say that they are about this pod, for
the one before it may have gone only after it was admitted elsewhere. A pod fingerprint changes the content, but not
where a StatefulSet's pod took the room of the one of its own name. What the guess costs is bounded: it warns and never
denies a create, and the bind guard gives way after a few tries (``CapacityRules.most_tries_on_guess``).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Final

from webhook.core.ledger.charges import Charges
from webhook.core.ledger.holdings import told
from webhook.core.ledger.records import AllocatorKind, Certainty, Entry, NodeView, Report
from webhook.core.machine import Machine, NodeState
from webhook.core.masks import members
from webhook.core.occupancy import holds_nothing
from webhook.core.placement import Holding

CPU: Final = "cpu"

AMBIGUOUS_SECONDS: Final = 5.0
"""A report is written up to seconds after the node was looked at; a pod bound in between may be in it or not."""

_MOST_SETS: Final = 4096


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What an account is after a report."""

    view: NodeView
    """The very one that was given where the report says nothing new, or is about other pods; else ``settle`` must
    follow."""
    elsewhere: tuple[tuple[Entry, str], ...] = ()
    """Pods, as they were, that were replayed elsewhere than the node counts them, with what it counts and what was
    replayed."""


_Counts = dict[str, tuple[int, ...]]
"""By resource, for each NUMA position."""
_Share = tuple[Entry, dict[str, list[int]]]
"""A pod and how much of the report is its own."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One pod of the account and what it needs by count."""

    entry: Entry
    needs: Mapping[str, int]


def reconciled(
    charges: Charges, view: NodeView, report: Report, *, now_seconds: float, freed_seconds: float
) -> Reconciled:
    """Return the account with guessed places moved to where ``report`` counts them.

    ``freed_seconds``: when a pod that held something was last heard to end there, by the clock of ``now_seconds``.
    """
    machine = view.record.machine
    if machine is None or view.record.allocator is not AllocatorKind.KUBELET or machine.kubelet.static_memory:
        return Reconciled(view)
    report = replace(report, busy=_usable(machine, report.busy))
    covered = _covered(charges, view, machine, report, freed_seconds)
    if covered is None:
        return Reconciled(view)
    parts, is_certain = covered
    sure = [part for part in parts if _is_sure(view, part.entry)]
    left = _less(report.busy, (_by_numa(machine, part.entry.holding) for part in sure))
    is_contradicted = left is None
    if is_contradicted:
        # The kubelet put a pod elsewhere than the model, or the report is about a pod whose end or beginning is not
        # heard of yet: it is told again.
        if not is_certain or now_seconds - report.as_of_seconds < AMBIGUOUS_SECONDS:
            return Reconciled(view)
        # Then nothing but what a source tells is sure.
        sure = [part for part in parts if part.entry.certainty is Certainty.CONFIRMED]
        left = _less(report.busy, (_by_numa(machine, part.entry.holding) for part in sure))
    kept = {part.entry.uid for part in sure}
    open_parts = [part for part in parts if part.entry.uid not in kept]
    shares: list[_Share] | None = None
    if left is not None and not any(told(view.record, part.entry.pod) is not None for part in open_parts):
        shares = _shares(machine, open_parts, left)
    if shares is not None:
        moved = _moved(charges, view, report, [part.entry for part in sure], shares)
        return Reconciled(moved, tuple(_elsewhere(view, machine, report, shares)))
    if not is_contradicted or view.is_doubted:
        return Reconciled(view)
    # Sources contradict each other, or what was replayed: which of them is wrong cannot be told.
    entry = next(part.entry for part in parts if _is_sure(view, part.entry))
    return Reconciled(charges.doubt(view), ((entry, _difference(machine, report, entry)),))


def _elsewhere(
    view: NodeView, machine: Machine, report: Report, shares: Sequence[_Share]
) -> Iterator[tuple[Entry, str]]:
    """Yield the pods that were known to be elsewhere than their share is, with both views."""
    for entry, share in shares:
        here = _by_numa(machine, entry.holding)
        if _is_sure(view, entry) and any(tuple(amounts) != here[resource] for resource, amounts in share.items()):
            yield entry, _difference(machine, report, entry)


def _difference(machine: Machine, report: Report, entry: Entry) -> str:
    here = _by_numa(machine, entry.holding)
    ours = _words({resource: here[resource] for resource in report.busy})
    kind = entry.certainty.value
    return f"the node counts {_words(report.busy)} in use by NUMA node; of the pod {ours} was {kind}"


def _words(counts: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{resource} {'+'.join(map(str, amounts))}" for resource, amounts in counts.items())


def _usable(machine: Machine, busy: Mapping[str, tuple[int, ...]]) -> _Counts:
    """Return the counts that say where something is: a device on several NUMA nodes is counted on each of them."""
    usable = {CPU: busy[CPU]} if CPU in busy and machine.kubelet.static_cpus else {}
    for layout in machine.devices:
        if layout.resource in busy and all(numa.bit_count() == 1 for numa in layout.numa_of_device):
            usable[layout.resource] = busy[layout.resource]
    return {name: counts for name, counts in usable.items() if len(counts) == len(machine.numa_ids)}


def _covered(
    charges: Charges, view: NodeView, machine: Machine, report: Report, freed_seconds: float
) -> tuple[list[_Part], bool] | None:
    """Return the bound pods that the report counts, and whether these alone can be meant; None where none fit."""
    before: list[_Part] = []
    for entry in view.bound:
        if entry.is_assumed or _bound_seconds(entry) >= report.as_of_seconds + 1:
            continue
        holding = entry.holding
        if holding is None:
            placement = charges.place(view, NodeState.empty(machine), entry.pod.demand)
            holding = placement.holding if placement is not None else None
        if holding is None:
            return None
        by_numa = _by_numa(machine, holding)
        needs = {resource: sum(by_numa[resource]) for resource in report.busy}
        if any(needs.values()):
            before.append(_Part(entry, needs))
    looked_seconds = report.as_of_seconds - AMBIGUOUS_SECONDS
    surely = [part for part in before if _bound_seconds(part.entry) < looked_seconds]
    totals = {resource: sum(counts) for resource, counts in report.busy.items()}
    if totals == _sums(totals, before):
        # One that has ended may have been counted in place of a young one.
        return None if len(surely) < len(before) and freed_seconds >= looked_seconds else (before, True)
    return (surely, False) if totals == _sums(totals, surely) else None


def _sums(resources: Iterable[str], parts: Sequence[_Part]) -> dict[str, int]:
    return {resource: sum(part.needs[resource] for part in parts) for resource in resources}


def _bound_seconds(entry: Entry) -> float:
    return entry.pod.bound_seconds or entry.pod.created_seconds


def _is_sure(view: NodeView, entry: Entry) -> bool:
    if entry.holding is None:
        return False
    return entry.certainty is Certainty.CONFIRMED or (entry.certainty is Certainty.REPLAYED and not view.is_doubted)


def _by_numa(machine: Machine, holding: Holding | None) -> _Counts:
    """Return how much of each resource ``holding`` has on each NUMA position."""
    if holding is None:
        holding = Holding(0, (0,) * len(machine.devices))
    counts = {CPU: tuple((holding.cpus & cpus).bit_count() for cpus in machine.cpus.numa_cpus)}
    for layout, mask in zip(machine.devices, holding.devices, strict=True):
        counts[layout.resource] = tuple(
            (mask & layout.touching(1 << position)).bit_count() for position in range(len(machine.numa_ids))
        )
    return counts


def _less(busy: Mapping[str, tuple[int, ...]], parts: Iterable[_Counts]) -> dict[str, list[int]] | None:
    """Return what is left of ``busy`` beside ``parts``; None where they hold more of a NUMA node than is busy there."""
    left = {resource: list(counts) for resource, counts in busy.items()}
    for part in parts:
        for resource, counts in left.items():
            for position, amount in enumerate(part[resource]):
                counts[position] -= amount
    return None if any(amount < 0 for counts in left.values() for amount in counts) else left


def _shares(machine: Machine, parts: Sequence[_Part], left: dict[str, list[int]]) -> list[_Share] | None:
    """Deal ``left`` out to ``parts``: first to whoever is guessed there already, then the largest first."""
    shares: list[_Share] = []
    homeless: list[_Part] = []
    for part in parts:
        here = {resource: list(_by_numa(machine, part.entry.holding)[resource]) for resource in left}
        if part.entry.holding is not None and _fits(here, left):
            _take(here, left)
            shares.append((part.entry, here))
        else:
            homeless.append(part)
    for part in sorted(homeless, key=lambda part: -sum(part.needs.values())):
        share = _share(part.needs, left, len(machine.numa_ids))
        if share is None:
            return None
        _take(share, left)
        shares.append((part.entry, share))
    return shares


def _fits(share: Mapping[str, Sequence[int]], left: Mapping[str, Sequence[int]]) -> bool:
    return all(
        wanted <= there for resource in left for wanted, there in zip(share[resource], left[resource], strict=True)
    )


def _take(share: Mapping[str, Sequence[int]], left: dict[str, list[int]]) -> None:
    for resource, counts in left.items():
        for position, amount in enumerate(share[resource]):
            counts[position] -= amount


def _share(needs: Mapping[str, int], left: Mapping[str, Sequence[int]], count: int) -> dict[str, list[int]] | None:
    """Return ``needs`` on the fewest NUMA nodes that have it left, the lowest of these first."""
    sets = (numa for width in range(1, count + 1) for numa in combinations(range(count), width))
    for numa in islice(sets, _MOST_SETS):
        if any(sum(left[resource][position] for position in numa) < need for resource, need in needs.items()):
            continue
        share = {resource: [0] * count for resource in needs}
        for resource, need in needs.items():
            for position in numa:
                amount = min(need, left[resource][position])
                share[resource][position] = amount
                need -= amount  # noqa: PLW2901 - what is still to be dealt out
        return share
    return None


def _moved(
    charges: Charges,
    view: NodeView,
    report: Report,
    sure: Sequence[Entry],
    shares: Sequence[_Share],
) -> NodeView:
    """Return the account with each share turned into CPUs and devices that nobody else of the report has."""
    machine = view.record.machine
    if machine is None:
        return view
    free_cpus = machine.cpus.all_cpus & ~machine.reserved_cpus
    free_devices = [layout.all_devices for layout in machine.devices]
    for entry in sure:
        if entry.holding is not None:
            free_cpus &= ~entry.holding.cpus
            free_devices = [free & ~mask for free, mask in zip(free_devices, entry.holding.devices, strict=True)]
    placed: dict[str, Entry] = {}
    for entry, share in shares:
        old = entry.holding or Holding(0, (0,) * len(machine.devices))
        cpus, devices = old.cpus, list(old.devices)
        if CPU in share:
            cpus = 0
            for numa, amount in zip(machine.cpus.numa_cpus, share[CPU], strict=True):
                cpus |= _pick_cpus(machine, numa & free_cpus, amount, old.cpus)
        for index, layout in enumerate(machine.devices):
            if layout.resource in share:
                devices[index] = 0
                for position, amount in enumerate(share[layout.resource]):
                    there = layout.touching(1 << position) & free_devices[index]
                    devices[index] |= _pick(there, amount, old.devices[index])
            free_devices[index] &= ~devices[index]
        free_cpus &= ~cpus
        holding = Holding(cpus, tuple(devices), old.memory)
        moves = holding != entry.holding
        placed[entry.uid] = replace(entry, holding=holding, places=() if moves else entry.places)
    stays = all(placed[entry.uid].holding == entry.holding for entry, _ in shares)
    if stays and not view.is_doubted and (view.is_reported or not _tells_all(view, machine, report, placed)):
        return view
    bound: list[Entry] = []
    counted = {entry.uid for entry in sure} | set(placed)
    clashes = False
    for entry in view.bound:
        mine = placed.get(entry.uid, entry)
        if entry.uid not in counted and entry.holding is not None and _clashes(entry.holding, placed.values()):
            mine, clashes = replace(entry, holding=None, places=()), True
        elif entry.uid in placed and entry.certainty is Certainty.REPLAYED:
            mine = replace(mine, certainty=Certainty.GUESSED)
        bound.append(mine)
    certain = replace(view, is_doubted=False)
    rebuilt = charges.rebuild(certain, view.record, view.since_seconds, tuple(bound))
    stands = all(entry.uid not in placed or entry.holding == placed[entry.uid].holding for entry in rebuilt.bound)
    is_reported = stands and not clashes and _tells_all(rebuilt, machine, report, placed)
    return replace(rebuilt, is_reported=True) if is_reported else rebuilt


def _tells_all(view: NodeView, machine: Machine, report: Report, counted: Container[str]) -> bool:
    """Return whether the report counts every guessed pod, and everything of it of which the NUMA node matters."""
    for entry in view.bound:
        holding = entry.holding
        if entry.certainty is not Certainty.GUESSED or (holding is not None and holds_nothing(holding)):
            continue
        if entry.uid not in counted or holding is None or (holding.cpus and CPU not in report.busy):
            return False
        for layout, mask in zip(machine.devices, holding.devices, strict=True):
            if mask and layout.resource not in report.busy and len(set(layout.numa_of_device)) > 1:
                return False
    return True


def _clashes(holding: Holding, others: Iterable[Entry]) -> bool:
    for other in others:
        theirs = other.holding
        if theirs is not None and (
            holding.cpus & theirs.cpus or any(a & b for a, b in zip(holding.devices, theirs.devices, strict=True))
        ):
            return True
    return False


def _pick_cpus(machine: Machine, free: int, amount: int, wanted: int) -> int:
    """Return ``amount`` CPUs of ``free``: those of ``wanted`` where they suffice, else whole cores, lowest first."""
    if (free & wanted).bit_count() == amount:
        return free & wanted
    picked = 0
    for core in machine.cpus.core_cpus:
        if core & free == core and picked.bit_count() + core.bit_count() <= amount:
            picked |= core
    return picked | _pick(free & ~picked, amount - picked.bit_count(), 0)


def _pick(free: int, amount: int, wanted: int) -> int:
    """Return up to ``amount`` members of ``free``: those of ``wanted`` first, then the lowest."""
    picked = 0
    for pool in (free & wanted, free & ~wanted):
        for member in members(pool):
            if picked.bit_count() >= amount:
                break
            picked |= 1 << member
    return picked
