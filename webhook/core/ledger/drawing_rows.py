"""The table inside a drawn machine: one row for each NUMA node, with its CPUs and devices and who holds them."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.core.ledger.drawing_text import Line, Signs, Span, Tone, shown
from webhook.core.machine import CpuLayout, Machine, NodeState
from webhook.core.placement import Holding

_FEWEST_CELLS = 8
_MOST_SPACED_DEVICES = 8
"""More devices of one NUMA node stand without spaces between them; all do where the width is short."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds something: its letter, and whether it is asked for."""

    letter: str
    holding: Holding
    tone: Tone
    hue: int

    @property
    def span(self) -> Span:
        """The letter as it stands in cells and legend."""
        return Span(self.letter, self.tone, self.hue)


def draw_rows(
    machine: Machine, state: NodeState, holders: tuple[Holder, ...], width_columns: int, signs: Signs
) -> Iterator[Line]:
    """Yield the heading and a row for each NUMA node, at most ``width_columns`` wide where that can be."""
    table = _Table(machine, state, holders, signs)
    labels = [f"NUMA {numa_id}" for numa_id in machine.numa_ids]
    numa = range(len(machine.numa_ids))
    cpu_words = [_of(state.free_cpus & cpus, cpus & ~machine.reserved_cpus) for cpus in machine.cpus.numa_cpus]
    names = _short_names([layout.resource for layout in machine.devices])
    label_wide = max(map(len, labels))
    cpu_words_wide = max(len("free"), *map(len, cpu_words))
    for most_spaced in (_MOST_SPACED_DEVICES, 0):
        columns = [table.devices(index, most_spaced) for index in range(len(machine.devices))]
        columns_wide = [
            (max(len(name), *(len(cells) for cells, _ in rows)), max(len("free"), *(len(words) for _, words in rows)))
            for name, rows in zip(names, columns, strict=True)
        ]
        fixed = label_wide + 2 + 2 + cpu_words_wide + sum(3 + cells + 2 + words for cells, words in columns_wide)
        if fixed + _FEWEST_CELLS <= width_columns:
            break
    cores_per_cell, rows = table.cpus(max(_FEWEST_CELLS, width_columns - fixed))
    threads = machine.cpus.threads_per_core * cores_per_cell
    heading = "CPUs" if threads == 1 else f"CPUs, {threads} a cell"
    bar_wide = max(len(heading), *map(len, rows))
    head = f"{'':{label_wide}}  {heading:{bar_wide}}  {'free':>{cpu_words_wide}}"
    for name, (cells_wide, words_wide) in zip(names, columns_wide, strict=True):
        head += f"   {shown(name, cells_wide, signs):{cells_wide}}  {'free':>{words_wide}}"
    yield (Span(head, Tone.QUIET),)
    for position in numa:
        line = [Span(f"{labels[position]:{label_wide}}  "), *rows[position]]
        line.append(Span(f"{'':{bar_wide - len(rows[position])}}  {cpu_words[position]:>{cpu_words_wide}}"))
        for column, (cells_wide, words_wide) in zip(columns, columns_wide, strict=True):
            cells, words = column[position]
            line += [Span("   "), *cells, Span(f"{'':{cells_wide - len(cells)}}  {words:>{words_wide}}")]
        yield tuple(_joined(line))


@dataclass(frozen=True, slots=True)
class _Table:
    machine: Machine
    state: NodeState
    holders: tuple[Holder, ...]
    signs: Signs

    def cpus(self, most_cells: int) -> tuple[int, list[list[Span]]]:
        """Return how many cores a cell stands for, and the cells of each NUMA node: one span a column."""
        cores = _cores_by_numa(self.machine.cpus)
        per_cell = max(1, -(-max(map(len, cores)) // most_cells))
        rows = [
            [self._cpu_cell(sum(of_numa[at : at + per_cell])) for at in range(0, len(of_numa), per_cell)]
            for of_numa in cores
        ]
        return per_cell, rows

    def _cpu_cell(self, cpus: int) -> Span:
        """Return the sign of whoever has most of ``cpus``; a holder goes before nobody."""
        signs = self.signs
        shares = [((holder.holding.cpus & cpus).bit_count(), holder.span) for holder in self.holders]
        held = sum(count for count, _ in shares)
        reserved = (self.machine.reserved_cpus & cpus).bit_count()
        free = (self.state.free_cpus & cpus).bit_count()
        shares.append((reserved, Span(signs.reserved, Tone.RESERVED)))
        shares.append((free, Span(signs.free, Tone.FREE)))
        shares.append((cpus.bit_count() - held - reserved - free, Span(signs.unknown, Tone.BROKEN)))
        return max(shares, key=lambda share: share[0])[1]

    def devices(self, index: int, most_spaced: int) -> list[tuple[list[Span], str]]:
        """Return for each NUMA node the cells of one kind of device, one span a column, and what is free of it.

        More than ``most_spaced`` devices stand without spaces between them. A device without a NUMA node stands in the
        first row, one with several in each of them.
        """
        layout = self.machine.devices[index]
        free = self.state.free_devices(self.machine, index)
        rows: list[tuple[list[Span], str]] = []
        homeless = sum(1 << device for device, numa in enumerate(layout.numa_of_device) if not numa)
        for position in range(len(self.machine.numa_ids)):
            here = layout.touching(1 << position) | (homeless if position == 0 else 0)
            cells: list[Span] = []
            spaced = here.bit_count() <= most_spaced
            for device in range(layout.count):
                if here >> device & 1:
                    cells += [Span(" ")] if cells and spaced else []
                    cells.append(self._device_cell(index, device))
            rows.append((cells, _of(free & here, here) if here else ""))
        return rows

    def _device_cell(self, index: int, device: int) -> Span:
        bit = 1 << device
        for holder in self.holders:
            if index < len(holder.holding.devices) and holder.holding.devices[index] & bit:
                return holder.span
        if self.state.unhealthy_devices[index] & bit:
            return Span(self.signs.broken, Tone.BROKEN)
        if self.state.busy_devices[index] & bit:
            return Span(self.signs.unknown, Tone.BROKEN)
        return Span(self.signs.free, Tone.FREE)


def _cores_by_numa(layout: CpuLayout) -> list[list[int]]:
    """Return the cores of each NUMA node as masks, by their lowest CPU; a core that lies in two is cut in two."""
    ordered = sorted(layout.core_cpus, key=lambda core: core & -core)
    return [[core & cpus for core in ordered if core & cpus] for cpus in layout.numa_cpus]


def _short_names(resources: list[str]) -> list[str]:
    """Return what follows the slash, or the whole name where two would be alike."""
    short = [resource.rpartition("/")[2] for resource in resources]
    return [name if short.count(name) == 1 else resource for name, resource in zip(short, resources, strict=True)]


def _of(free: int, total: int) -> str:
    return f"{free.bit_count()} of {total.bit_count()}"


def _joined(spans: list[Span]) -> Iterator[Span]:
    """Yield neighbours of one tone as one span: fewer escape sequences."""
    last: Span | None = None
    for span in spans:
        if last is not None and (last.tone, last.hue) == (span.tone, span.hue):
            last = Span(last.text + span.text, span.tone, span.hue)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last
