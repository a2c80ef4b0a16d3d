"""Which CPUs a request takes, packed (``takeByTopologyNUMAPacked`` of cpumanager/cpu_assignment.go).

Whole NUMA nodes and sockets, then (where asked) whole or part uncore caches, then whole cores, then single threads;
among equals the one with the fewest free CPUs comes first, then the lowest id. Oddities of the original are kept: a
socket or core counts as free when its free CPUs equal the machine's *average* per socket or core, and what is taken
then is the whole of it; an order may name a thing twice, and taking it twice counts twice.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from webhook.core.kubelet.tables import CpuTable
from webhook.core.masks import members

# Pods are aligned: what is asked is mostly a few numbers of CPUs from one NUMA node, whose free CPUs are few different
# masks. About 250 bytes each.
PICKS_REMEMBERED: Final = 8192


class CpuPickError(Exception):
    """The kubelet cannot pick the CPUs; ``str`` gives its own words.

    CpuPickError
    +-- CpuShortageError   fewer are available than requested
    +-- CpuAccountingError the kubelet's own accounting fails
    +-- CpuEndlessError    the kubelet never answers
    """


class CpuShortageError(CpuPickError):
    """Fewer CPUs are available than requested."""

    def __init__(self, requested: int, available: int) -> None:
        """Keep the two numbers."""
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")


class CpuAccountingError(CpuPickError):
    """The kubelet took another number of CPUs than it wanted (seen on odd layouts only)."""


class CpuEndlessError(CpuPickError):
    """The kubelet loops for ever over NUMA nodes that have no whole group of CPUs left, and admits no pod any more."""

    def __init__(self) -> None:
        """Say it in our words: the kubelet says nothing."""
        super().__init__("an endless search of the kubelet for whole groups of CPUs")


def take_packed(table: CpuTable, available: int, count: int, *, spread: bool = False, by_uncore: bool = False) -> int:
    """Return ``count`` CPUs of ``available`` as a mask.

    Raises:
        CpuPickError: ``available`` has fewer.
    """
    if count < 1:
        return 0
    if count > available.bit_count():
        raise CpuShortageError(count, available.bit_count())
    if count == available.bit_count() and table.is_regular:
        return available
    return _picked(table, available, count, spread, by_uncore)


@lru_cache(maxsize=PICKS_REMEMBERED)
def _picked(table: CpuTable, available: int, count: int, spread: bool, by_uncore: bool) -> int:
    picker = _Picker(table, available, count)
    levels = (picker.take_numa_nodes, picker.take_sockets)
    for take in levels if table.is_numa_first else reversed(levels):
        take()
        if picker.needed < 1:
            return picker.taken
    if by_uncore:
        picker.take_uncore_caches()
        if picker.needed < 1:
            return picker.taken
    if not spread:
        picker.take_cores()
        if picker.needed < 1:
            return picker.taken
    picker.take_threads(spread=spread)
    if picker.needed >= 1:
        raise CpuAccountingError("failed to allocate cpus")
    return picker.taken


class _Picker:
    """The kubelet's accumulator: what is free, what is taken, how many are still needed."""

    __slots__ = ("free", "needed", "table", "taken")

    def __init__(self, table: CpuTable, available: int, count: int) -> None:
        self.table = table
        self.free = available
        self.taken = 0
        self.needed = count

    def _take(self, cpus: int) -> None:
        self.taken |= cpus
        self.free &= ~self.taken
        self.needed -= cpus.bit_count()

    def take_numa_nodes(self) -> None:
        if self.needed < self.table.smallest_numa:
            return
        free = self.free
        for position in numa_order(self.table, free):
            cpus = self.table.numa_cpus[position]
            if free & cpus == cpus and self.needed >= cpus.bit_count():
                self._take(cpus)

    def take_sockets(self) -> None:
        if self.needed < self.table.smallest_socket:
            return
        free = self.free
        for index in socket_order(self.table, free):
            cpus = self.table.socket_cpus[index]
            if (free & cpus).bit_count() == self.table.cpus_per_socket and self.needed >= cpus.bit_count():
                self._take(cpus)

    def take_uncore_caches(self) -> None:
        table = self.table
        for index in _uncore_order(table, self.free):
            if self.needed >= table.cpus_per_uncore:
                free = self.free
                for whole in _uncore_order(table, free):
                    cpus = table.uncore_cpus[whole]
                    if free & cpus == cpus and self.needed >= cpus.bit_count():
                        self._take(cpus)
            if self.needed < 1:
                return
            self._take_part_of_uncore(index)
            if self.needed < 1:
                return

    def _take_part_of_uncore(self, index: int) -> None:
        """Take the rest from one uncore cache if it holds exactly the cores that are needed, lowest core ids first."""
        table = self.table
        cores_needed = (self.needed + table.cpus_per_core - 1) // table.cpus_per_core
        inside = self.free & table.uncore_cpus[index]
        cores = [core for core in table.cores_of_uncore[index] if core & inside][:cores_needed]
        cpus = 0
        for core in cores:
            cpus |= core & self.free
        if self.needed % 2 and table.cpus_per_core > 1 and cpus.bit_count() > self.needed:
            cpus ^= 1 << (cpus.bit_length() - 1)
        if cpus.bit_count() == self.needed:
            self._take(cpus)

    def take_cores(self) -> None:
        smallest = self.table.smallest_core
        if self.needed < smallest:
            return
        free, per_core = self.free, self.table.cpus_per_core
        for cores in core_groups(self.table, free):
            for core in cores:
                if (free & core).bit_count() == per_core and self.needed >= (size := core.bit_count()):
                    self.taken |= core
                    self.needed -= size
                    if self.needed < smallest:
                        break
            self.free = free & ~self.taken
            if self.needed < smallest:
                return

    def take_threads(self, *, spread: bool) -> None:
        free = self.free
        for cpu in _spread_cpus(self.table, free) if spread else _packed_cpus(self.table, free):
            self._take(1 << cpu)
            if self.needed < 1:
                return


def numa_order(table: CpuTable, free: int) -> list[int]:
    """Return the NUMA positions with free CPUs in the order in which they are filled; an odd layout may repeat one."""
    if table.is_numa_first:
        return _by_free(free, range(len(table.numa_cpus)), table.numa_cpus)
    order: list[int] = []
    for socket in socket_order(table, free):
        inside = free & table.socket_cpus[socket]
        order += _by_free(
            free, [position for position, cpus in enumerate(table.numa_cpus) if cpus & inside], table.numa_cpus
        )
    return order


def socket_order(table: CpuTable, free: int) -> list[int]:
    """Return the sockets with free CPUs in the order in which they are filled; an odd layout may repeat one."""
    if not table.is_numa_first:
        return _by_free(free, range(len(table.socket_cpus)), table.socket_cpus)
    order: list[int] = []
    for position in numa_order(table, free):
        inside = free & table.numa_cpus[position]
        order += _by_free(
            free, [socket for socket, cpus in enumerate(table.socket_cpus) if cpus & inside], table.socket_cpus
        )
    return order


def core_groups(table: CpuTable, free: int) -> Iterator[tuple[int, ...]]:
    """Yield groups of cores (CPU masks by core id) in the order in which they are filled."""
    if table.is_numa_first:
        for socket in socket_order(table, free):
            yield table.cores_of_socket[socket]
    else:
        for position in numa_order(table, free):
            yield table.cores_of_numa[position]


def _by_free(free: int, candidates: range | list[int], cpus: tuple[int, ...]) -> list[int]:
    pairs = [(count, index) for index in candidates if (count := (free & cpus[index]).bit_count())]
    pairs.sort()
    return [index for _, index in pairs]


def _uncore_order(table: CpuTable, free: int) -> list[int]:
    order: list[int] = []
    for position in numa_order(table, free):
        inside = free & table.numa_cpus[position]
        order += _by_free(
            free, [index for index, cpus in enumerate(table.uncore_cpus) if cpus & inside], table.uncore_cpus
        )
    return order


def _packed_cpus(table: CpuTable, free: int) -> Iterator[int]:
    for cores in core_groups(table, free):
        broken = [(count, core & -core, core) for core in cores if (count := (free & core).bit_count())]
        broken.sort()
        for _, _, core in broken:
            yield from members(core & free)


def _spread_cpus(table: CpuTable, free: int) -> Iterator[int]:
    for socket in socket_order(table, free):
        yield from members(free & table.socket_cpus[socket])
