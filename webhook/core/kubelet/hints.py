"""What a container or a pod asks of the topology manager, and the hints that the CPU and device managers give for it.

One ``Ask`` per resource with an opinion. A set of NUMA nodes *holds* it if what is free there, with what finished init
containers of the pod left, reaches the request, and everything that is left to reuse touches the set
(cpumanager/policy_static.go ``generateCPUTopologyHints``, devicemanager/topology_hints.go).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from webhook.core.kubelet.tables import WIDEST_ENUMERATED, CpuTable, DeviceTable, MembersIn, masks_of_width

Hint = tuple[int | None, bool]
"""A mask of NUMA nodes, or None for no affinity, and whether it is preferred."""


class Ask(NamedTuple):
    """What one resource wants: where it can be had, how wide it should sit, and how many are still needed."""

    name: str
    members_in: MembersIn
    universe: int
    width: int
    free: int
    missing: int
    """The request less what is reused."""
    reused: int = 0
    """Members of finished init containers: the NUMA nodes must touch each of them."""
    is_possible: bool = True
    """False: too few on the whole machine; the kubelet then gives an empty list."""

    def holds(self, numa_mask: int) -> bool:
        """Return whether the NUMA nodes of ``numa_mask`` can take it."""
        inside = self.members_in[numa_mask]
        return (self.free & inside).bit_count() >= self.missing and not self.reused & ~inside

    def prefers(self, numa_mask: int) -> bool:
        """Return whether there is a preferred hint for ``numa_mask`` (of the universe)."""
        return numa_mask.bit_count() == self.width and self.holds(numa_mask)

    def preferred_widths(self) -> tuple[int, ...]:
        """Return the widths that preferred hints can have, ascending."""
        return (self.width,)

    def preferred_masks(self, width: int, within: int) -> Iterator[int]:
        """Return the preferred masks of ``width`` NUMA nodes of ``within``, lowest first, as they are found."""
        return filter(self.holds, masks_of_width(within & self.universe, width) if width == self.width else ())

    def hints(self) -> tuple[Hint, ...]:
        """Return the hints as the manager lists them, in its order: narrow sets first, then by the lowest nodes."""
        if not self.is_possible:
            return ()
        return tuple((mask, width == self.width) for width, mask in _subsets(self.universe) if self.holds(mask))


@dataclass(frozen=True, slots=True)
class ListedAsk:
    """An ask whose preferred masks follow another rule than the width: its hints are listed."""

    name: str
    universe: int
    listed: tuple[Hint, ...]
    width: int
    is_possible: bool = True

    def prefers(self, numa_mask: int) -> bool:
        """Return whether there is a preferred hint for ``numa_mask``."""
        return (numa_mask, True) in self.listed

    def preferred_widths(self) -> tuple[int, ...]:
        """Return the widths of the preferred hints, ascending."""
        return tuple(sorted({mask.bit_count() for mask, preferred in self.listed if preferred and mask is not None}))

    def preferred_masks(self, width: int, within: int) -> Iterator[int]:
        """Yield the preferred masks of ``width`` NUMA nodes of ``within``, lowest first."""
        found = [mask for mask, preferred in self.listed if preferred and mask is not None and not mask & ~within]
        return iter(sorted(mask for mask in found if mask.bit_count() == width))

    def hints(self) -> tuple[Hint, ...]:
        """Return the hints."""
        return self.listed


AnyAsk = Ask | ListedAsk


def _subsets(universe: int) -> Iterator[tuple[int, int]]:
    """Yield every non-empty subset of ``universe`` with its width, narrow ones first."""
    for width in range(1, universe.bit_count() + 1):
        for mask in masks_of_width(universe, width):
            yield width, mask


def cpu_ask(table: CpuTable, free: int, reusable: int, request: int, *, by_socket: bool = False) -> AnyAsk:
    """Return what ``request`` (above 0) exclusive CPUs want; ``reusable``: what the pod's init containers left."""
    ask = Ask(
        table.name,
        table.members_in,
        table.universe,
        table.width(request),
        free,
        request - reusable.bit_count(),
        reusable,
    )
    by_socket = by_socket and table.universe.bit_count() <= WIDEST_ENUMERATED
    return _aligned_by_socket(table, ask) if by_socket else ask


def _aligned_by_socket(table: CpuTable, ask: Ask) -> ListedAsk:
    """Return ``ask`` with the masks that span the fewest sockets preferred too (``isHintSocketAligned``)."""
    fewest = -(-ask.width // table.numa_per_socket) if table.numa_per_socket else -1
    listed = tuple(
        (mask, preferred or (mask is not None and table.socket_count(mask) == fewest))
        for mask, preferred in ask.hints()
    )
    return ListedAsk(ask.name, ask.universe, listed, ask.width, is_possible=bool(listed))


def device_ask(table: DeviceTable, free: int, reusable: int, request: int) -> Ask | None:
    """Return what ``request`` (0 counts too) devices want; None where the resource has no opinion.

    A device without any NUMA id that is left to reuse neither binds nor counts; one whose NUMA ids the machine does not
    have lies in no set, so it binds and cannot be satisfied.
    """
    if not table.gives_hints:
        return None
    reused = reusable & table.with_topology
    return Ask(
        table.name,
        table.members_in,
        table.universe,
        table.width(request),
        free,
        request - reused.bit_count(),
        reused,
        is_possible=(free | reusable).bit_count() >= request,
    )
