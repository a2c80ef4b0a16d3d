"""Which CPUs a pod is bound to, as Koordinator's scheduler packs them.

It is ``takeCPUs`` with the bind policy ``FullPCPUs``, the default, of
koordinator-sh/koordinator:pkg/scheduler/plugins/nodenumaresource/cpu_accumulator.go (v1.8.0), and not the kubelet's
packing: one NUMA node that has enough whole cores gives them from the lowest on, the last perhaps in part, before any
core that is already begun.
"""

from collections.abc import Callable, Iterator, Sequence

from webhook.core.kubelet.tables import CpuTable
from webhook.core.masks import members
from webhook.core.scheduler.scoring import Scoring


def pick_cpus(table: CpuTable, available: int, count: int, scoring: Scoring) -> int | None:
    """Return ``count`` CPUs of ``available`` as a mask; None where there are fewer.

    On three sockets or more it may be a CPU or so more than ``count``: the scheduler goes on to the next socket for a
    whole core though less than one is needed.
    """
    if count < 1:
        return 0
    if count > available.bit_count():
        return None
    return _Accumulator(table, available, count, scoring).run()


class _Accumulator:
    """What is free, what is taken, how many are still needed."""

    __slots__ = ("_free", "_needed", "_ranked", "_table", "_taken")

    def __init__(self, table: CpuTable, available: int, count: int, scoring: Scoring) -> None:
        self._table = table
        self._free = available
        self._needed = count
        self._taken = 0
        self._ranked: Callable[[int], int] = int.__neg__ if scoring is Scoring.LEAST_ALLOCATED else int.__pos__

    def run(self) -> int:
        if self._from_one_node() or self._from_one_socket() or self._from_whole_sockets():
            return self._taken
        for cpu in self._spread():
            if self._needed < 1:
                break
            self._take(1 << cpu)
        return self._taken

    def _take(self, cpus: int) -> None:
        self._taken |= cpus
        self._free &= ~cpus
        self._needed -= cpus.bit_count()

    def _whole(self, cores: Sequence[int]) -> list[int]:
        """Return those of ``cores`` that are free as a whole, by core id."""
        per_core = self._table.cpus_per_core
        return [core & self._free for core in cores if (core & self._free).bit_count() == per_core]

    def _take_first(self, cores: Sequence[int]) -> bool:
        """Take all that is needed from ``cores`` in their order, if they suffice."""
        if len(cores) * self._table.cpus_per_core < self._needed:
            return False
        for core in cores:
            for cpu in members(core):
                if self._needed < 1:
                    return True
                self._take(1 << cpu)
        return True

    def _from_one_node(self) -> bool:
        table = self._table
        nodes = sum(1 for cpus in table.numa_cpus if cpus)
        if self._needed > table.cpu_count // nodes:
            return False
        found = [(whole, position) for position in range(len(table.numa_cpus)) if (whole := self._whole_of(position))]
        found.sort(key=lambda pair: (self._ranked(len(pair[0])), self._ranked(self._in_socket(pair[0][0])), pair[1]))
        return any(self._take_first(cores) for cores, _ in found)

    def _whole_of(self, position: int) -> list[int]:
        return self._whole(self._table.cores_of_numa[position]) if self._free & self._table.numa_cpus[position] else []

    def _in_socket(self, core: int) -> int:
        """Return how many CPUs are free on the socket of ``core``."""
        return next((self._free & socket).bit_count() for socket in self._table.socket_cpus if socket & core)

    def _sockets(self) -> list[tuple[list[int], int]]:
        cores_of_socket = enumerate(self._table.cores_of_socket)
        return [(whole, index) for index, cores in cores_of_socket if (whole := self._whole(cores))]

    def _from_one_socket(self) -> bool:
        if self._needed > self._table.cpus_per_socket:
            return False
        found = sorted(self._sockets(), key=lambda pair: (self._ranked(len(pair[0])), pair[1]))
        return any(self._take_first(cores) for cores, _ in found)

    def _from_whole_sockets(self) -> bool:
        """Take sockets that are needed as a whole, the fullest first, then cores of those with the fewest."""
        per_core = self._table.cpus_per_core
        left: list[list[int]] = []
        for cores, _ in sorted(self._sockets(), key=lambda pair: (-len(pair[0]), pair[1])):
            if self._needed < len(cores) * per_core:
                left.append(cores)
                continue
            for core in cores:
                self._take(core)
            if self._needed < 1:
                return True
        if self._needed < per_core:
            return False
        for cores in sorted(left, key=len):
            for core in cores:
                self._take(core)
                if self._needed < 1:
                    return True
                if self._needed < per_core:
                    break
        return False

    def _spread(self) -> Iterator[int]:
        """Yield what is free, one CPU of each core in turn: first the sockets begun, then cores that are begun."""
        table, free = self._table, self._free
        in_numa = [(free & cpus).bit_count() for cpus in table.numa_cpus]
        cores: list[tuple[tuple[int, int, int, int, int, int], int]] = []
        for index, socket in enumerate(table.socket_cpus):
            rank = -(socket & self._taken).bit_count(), self._ranked((free & socket).bit_count())
            for core in table.cores_of_socket[index]:
                inside = core & free
                if inside:
                    numa = next(position for position, cpus in enumerate(table.numa_cpus) if cpus & core)
                    among = self._ranked(in_numa[numa]), inside.bit_count(), index, core & -core
                    cores.append(((*rank, *among), inside))
        cores.sort()
        left = [list(members(inside)) for _, inside in cores]
        if free.bit_count() <= table.cpus_per_core:
            yield from (cpu for cpus in left for cpu in cpus)
            return
        while left:
            yield from [cpus.pop(0) for cpus in left]
            left = [cpus for cpus in left if cpus]
