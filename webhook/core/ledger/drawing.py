"""Machines drawn as text: NUMA nodes, CPUs, devices, who holds what, and where a pod would go. Values in, lines out."""

import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.core.ledger.drawing_rows import Holder, draw_rows
from webhook.core.ledger.drawing_text import UNICODE, Line, Signs, Span, Tone, flow, shown, width_of, wrap
from webhook.core.ledger.proofs import policy_words
from webhook.core.ledger.records import AllocatorKind, Certainty, Entry, EntryState, NodeView
from webhook.core.occupancy import holds_nothing
from webhook.core.spelling import counted, in_units

_GIB: Final = 1 << 30
_SHOWN_NAMES: Final = 3
"""Names in the title of machines that are alike; the others are counted."""
_NARROWEST: Final = 60


@dataclass(frozen=True, slots=True)
class Note:
    """What a node is to the pod in question."""

    words: str
    is_good: bool


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw."""

    width_columns: int = 100
    """Of the frame; 60 at least."""
    signs: Signs = UNICODE
    asked: frozenset[str] = frozenset()
    """UIDs of the pods in question: their places are marked."""
    notes: Mapping[str, Note] = field(default_factory=dict)
    """By node name."""


def draw_nodes(views: Iterable[NodeView], look: Look) -> Iterator[Line]:
    """Yield the lines of every machine in ``views``, in their order; empty ones that are alike are drawn once.

    Each line is at most ``look.width_columns`` wide, unless a machine has more kinds of devices than fit beside eight
    cells of CPUs.
    """
    groups: dict[object, list[NodeView]] = {}
    for view in views:
        groups.setdefault(_likeness(view, look), []).append(view)
    for group in groups.values():
        yield from _draw(group, look)


def _likeness(view: NodeView, look: Look) -> object:
    """Return what is equal for machines that may be drawn as one: only empty ones are."""
    record, facts = view.record, view.record.facts
    if view.bound or view.virtual:
        return record.name
    about = (facts.ready, facts.unschedulable, facts.taints, look.notes.get(record.name))
    return (record.machine, record.allocator, view.full_state, tuple(sorted(record.allocatable.items())), about)


def _draw(group: list[NodeView], look: Look) -> Iterator[Line]:
    view = group[0]
    record, signs = view.record, look.signs
    width = max(_NARROWEST, look.width_columns)
    inner = width - 4
    holders, legend = _holders(view, look)
    rows: list[Line] = []
    if record.machine is not None and view.full_state is not None:
        rows.extend(draw_rows(record.machine, view.full_state, holders, inner, signs))
        inner = max(inner, *map(width_of, rows))
    else:
        rows.append((Span("NUMA nodes: not known; no class or report describes this machine", Tone.BAD),))
    rows.extend(flow(legend, inner))
    others = [entry for entry in (*view.bound, *view.virtual) if not _has_place(entry)]
    rows.extend((Span(line, Tone.QUIET),) for line in _others(others, inner, signs))
    rows.extend(flow(((Span(words, Tone.QUIET),) for words in _plain_counts(view)), inner, ", "))
    note = look.notes.get(record.name)
    if note is not None:
        sign, tone = (signs.good, Tone.GOOD) if note.is_good else (signs.bad, Tone.BAD)
        rows.extend((Span(line, tone),) for line in wrap(f"{sign} {shown(note.words, 1000, signs)}", inner))
    yield _top(group, inner, signs)
    for row in rows:
        padding = " " * (inner - width_of(row))
        yield (Span(f"{signs.down} ", Tone.FRAME), *row, Span(padding), Span(f" {signs.down}", Tone.FRAME))
    yield (Span(f"{signs.corners[2]}{signs.across * (inner + 2)}{signs.corners[3]}", Tone.FRAME),)


def _top(group: list[NodeView], inner: int, signs: Signs) -> Line:
    """Return the upper edge, with names at its left and what kind of machine it is at its right."""
    record = group[0].record
    kind = [record.machine.name] if record.machine is not None and record.machine.name else []
    if record.machine is not None and record.allocator is AllocatorKind.KUBELET:
        kind.append(policy_words(record))
    elif record.allocator is AllocatorKind.SCHEDULER:
        kind.append("placed by the scheduler")
    names = [view.record.name for view in group]
    title = ", ".join(names[:_SHOWN_NAMES])
    if len(names) > _SHOWN_NAMES:
        title += f" and {len(names) - _SHOWN_NAMES} more"
    if len(names) > 1:
        title += " (alike, empty)"
    room = inner - 4  # two spaces around each text, and at least two dashes between them
    state = shown(_readiness(group[0]), room // 3, signs)
    state_wide = len(state) + 2 if state else 0
    right = shown(", ".join(kind), room - state_wide - min(len(title), room // 3), signs)
    left = shown(title, room - state_wide - len(right), signs)
    line = [Span(f"{signs.corners[0]}{signs.across} ", Tone.FRAME), Span(left, Tone.TITLE)]
    if state:
        line += [Span(", ", Tone.TITLE), Span(state, Tone.BAD)]
    line.append(Span(" ", Tone.FRAME))
    tail = f"{signs.across}{signs.corners[1]}"
    right = f" {right} " if right else ""
    dashes = inner + 4 - width_of(line) - len(right) - len(tail)
    line += [Span(signs.across * dashes, Tone.FRAME), Span(right, Tone.QUIET), Span(tail, Tone.FRAME)]
    return tuple(line)


def _readiness(view: NodeView) -> str:
    facts = view.record.facts
    words = [] if facts.ready else ["not ready"]
    words += ["cordoned"] if facts.unschedulable else []
    words += [f"taint {taint}" for taint in facts.taints]
    words += ["places guessed"] if view.is_guessed else []
    return ", ".join(words)


def _has_place(entry: Entry) -> bool:
    return entry.holding is not None and not holds_nothing(entry.holding)


def _holders(view: NodeView, look: Look) -> tuple[tuple[Holder, ...], list[Line]]:
    """Return who holds something, with letters: capital for bound pods, small for others; and the legend's items."""
    holders: list[Holder] = []
    legend: list[Line] = []
    crowd = 0
    letters = {True: iter(string.ascii_uppercase), False: iter(string.ascii_lowercase)}
    for hue, entry in enumerate((*view.bound, *view.virtual)):
        if entry.holding is None or not _has_place(entry):
            continue
        is_asked = entry.uid in look.asked
        tone = Tone.ASKED if is_asked else Tone.HELD
        letter = next(letters[entry.state is EntryState.BOUND], look.signs.crowd)
        holder = Holder(letter, entry.holding, tone, hue)
        holders.append(holder)
        if letter == look.signs.crowd:
            crowd += 1
            continue
        words = shown(_about(entry, is_asked=is_asked), look.width_columns - 8, look.signs)
        legend.append((holder.span, Span(f" {words}", Tone.GOOD if is_asked else Tone.PLAIN)))
    if crowd:
        legend.append((Span(f"{look.signs.crowd} {counted(crowd, 'more pod')}"),))
    return tuple(holders), legend


def _about(entry: Entry, *, is_asked: bool) -> str:
    pod = entry.pod
    words = [pod.owner] if pod.owner else []
    if is_asked:
        words.append("would go here")
    elif entry.state is not EntryState.BOUND:
        words.append("not bound yet")
    elif entry.certainty is Certainty.GUESSED:
        words.append("place guessed")
    if pod.is_deleting:
        words.append("terminating")
    name = f"{pod.namespace}/{pod.name}"
    return f"{name} ({', '.join(words)})" if words else name


def _others(entries: list[Entry], width_columns: int, signs: Signs) -> Iterator[str]:
    """Yield who is on the machine without CPUs or devices of its own, or with ones that nobody knows."""
    for words, members in (
        ("Shares CPUs", [entry for entry in entries if entry.holding is not None]),
        ("Place not known", [entry for entry in entries if entry.holding is None]),
    ):
        if members:
            names = ", ".join(f"{entry.pod.namespace}/{entry.pod.name}" for entry in members[:8])
            more = f" and {len(members) - 8} more" if len(members) > 8 else ""
            yield from wrap(f"{words}: {shown(names, width_columns * 3, signs)}{more}", width_columns)


def _plain_counts(view: NodeView) -> list[str]:
    """Return, resource by resource, what a scheduler that is blind to NUMA nodes sees."""
    record = view.record
    parts = [f"Free by plain count: {_cpus(view.free('cpu'))} of {_cpus(record.allocatable.get('cpu', 0))} CPUs"]
    if record.machine is not None:
        resources = [layout.resource for layout in record.machine.devices]
    else:
        resources = sorted(resource for resource in record.allocatable if "/" in resource)
    parts += [f"{view.free(resource)} of {record.allocatable.get(resource, 0)} {resource}" for resource in resources]
    if "memory" in record.allocatable:
        parts.append(f"{view.free('memory') // _GIB} of {record.allocatable['memory'] // _GIB} GiB of memory")
    return parts


def _cpus(millicores: int) -> str:
    return in_units(millicores, 1000)
