"""Replayed places into the checkpoint and back: they can be listed from nowhere, and a restart must not forget them.

Nodes are dealt out to a fixed number of shards by their names; a shard is one ConfigMap, replaced whole, so whatever
moment a process is killed at, each shard is a state that was true once. A place never changes while its pod lives, so
an old shard only lacks the youngest pods (they are guessed) and names some that are gone (they match nobody).
"""

import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from webhook.cluster.checkpoints import MOST_BLOB_BYTES
from webhook.cluster.errors import ClusterError
from webhook.core.ledger.events import Recalled, RecalledPlace
from webhook.core.ledger.records import Certainty, Entry, EntryState, NodeView
from webhook.core.occupancy import holds_nothing
from webhook.service.logs import fault_text
from webhook.wire.checkpoint import CheckpointError, SavedPlace, digest_of, pack_node, seal, unseal

SHARDS: Final = 16
EVERY_SECONDS: Final = 5.0
MOST_BYTES_A_ROUND: Final = 600_000
"""Written in one round, whatever changes: 120 kB a second. What is left over has waited longest and goes first."""


class Maps(Protocol):
    """Where blobs are kept (``webhook.cluster.checkpoints.CheckpointMaps``)."""

    def read(self, shard: int) -> bytes | None:
        """Return the blob of a shard."""
        ...

    def write(self, shard: int, blob: bytes) -> bool:
        """Replace the blob of a shard."""
        ...


def shard_of(node: str, shards: int = SHARDS) -> int:
    """Return the shard that keeps ``node``; the same in every process."""
    return zlib.crc32(node.encode()) % shards


def saved_places(view: NodeView) -> Iterator[SavedPlace]:
    """Yield the places on a node that only we know: replayed, and of something.

    Memory that a kubelet pins is not kept: such a pod is guessed after a restart.
    """
    machine = view.record.machine
    if machine is None or view.is_doubted:
        return
    for entry in view.bound:
        holding = entry.holding
        if entry.certainty is not Certainty.REPLAYED or holding is None or holding.memory or holds_nothing(holding):
            continue
        devices = tuple(
            (layout.resource, mask) for layout, mask in zip(machine.devices, holding.devices, strict=False) if mask
        )
        yield SavedPlace(digest_of(entry.uid), holding.cpus, devices)


@dataclass(slots=True)
class Checkpoint:
    """What has been written and what has changed since; without I/O."""

    shards: int = SHARDS
    _bound: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    _packed: list[dict[str, tuple[SavedPlace, ...]]] = field(default_factory=list)
    _dirty: "OrderedDict[int, None]" = field(default_factory=OrderedDict)
    generation: int = 0
    dropped_nodes: int = 0
    """Nodes that found no room in their shard at the last sealing."""

    def __post_init__(self) -> None:
        """Make the shards."""
        self._packed = [{} for _ in range(self.shards)]

    def look(self, views: Mapping[str, NodeView]) -> None:
        """Note what has changed since the last look; nodes whose value is the same one are passed over."""
        for name, view in views.items():
            if self._bound.get(name) is view.bound:
                continue
            self._bound[name] = view.bound
            self._keep(name, tuple(saved_places(view)))
        for name in [name for name in self._bound if name not in views]:
            del self._bound[name]
            self._keep(name, ())

    def _keep(self, name: str, places: tuple[SavedPlace, ...]) -> None:
        shard = shard_of(name, self.shards)
        packed = self._packed[shard]
        if packed.get(name, ()) == places:
            return
        if places:
            packed[name] = places
        else:
            packed.pop(name, None)
        self._dirty.setdefault(shard)

    def next_shard(self) -> int | None:
        """Return the changed shard that has waited longest; None: all is written."""
        return next(iter(self._dirty), None)

    def blob(self, shard: int) -> bytes:
        """Return the bytes of a shard as it is now, never more than a ConfigMap holds."""
        self.generation += 1
        nodes = self._packed[shard]
        resources = tuple(sorted({name for places in nodes.values() for place in places for name, _ in place.devices}))
        parts = [pack_node(name, nodes[name], resources) for name in sorted(nodes)]
        blob = seal(self.generation, resources, parts)
        kept = len(parts)
        while len(blob) > MOST_BLOB_BYTES and kept:
            kept = kept * MOST_BLOB_BYTES * 9 // (len(blob) * 10)
            blob = seal(self.generation, resources, parts[:kept])
        self.dropped_nodes = len(parts) - kept
        return blob

    def written(self, shard: int) -> None:
        """Note that a shard is stored."""
        self._dirty.pop(shard, None)

    def all_dirty(self) -> None:
        """Note that nothing is known of what is stored: another has led meanwhile."""
        for shard in range(self.shards):
            self._dirty.setdefault(shard)


def recalled(blobs: Iterable[bytes], entries: Iterable[Entry]) -> tuple[tuple[Recalled, ...], tuple[str, ...]]:
    """Return the events that give guessed pods the places which ``blobs`` tell, and what was wrong with blobs."""
    known: dict[str, tuple[SavedPlace, ...]] = {}
    problems: list[str] = []
    for blob in blobs:
        try:
            known.update(unseal(blob)[1])
        except CheckpointError as error:
            problems.append(str(error))
    guessed: dict[str, list[str]] = {}
    for entry in entries:
        if entry.node in known and entry.certainty is Certainty.GUESSED and entry.state is EntryState.BOUND:
            guessed.setdefault(entry.node, []).append(entry.uid)
    events: list[Recalled] = []
    for node, uids in guessed.items():
        by_digest = {place.digest: place for place in known[node]}
        found = ((uid, by_digest.get(digest_of(uid))) for uid in uids)
        places = tuple(RecalledPlace(uid, place.cpus, place.devices) for uid, place in found if place is not None)
        if places:
            events.append(Recalled(node, places))
    return tuple(events), tuple(problems)


class Views(Protocol):
    """Gives the nodes as they are now (``service.book.Book``)."""

    def views(self) -> Mapping[str, NodeView]:
        """Return every node by name, a copy."""
        ...


@dataclass(slots=True)
class CheckpointCounts:
    """What has been written since the start; written by one thread, read by any (single numbers only)."""

    stored: int = 0
    """Shards stored."""
    conflicts: int = 0
    """Shards that another process had written meanwhile."""
    failures: int = 0
    """Rounds that the API server ended, by a refusal or no answer."""
    stored_bytes: int = 0
    shard_bytes: dict[int, int] = field(default_factory=dict)
    """Size of each shard as it was stored last."""
    last_stored_seconds: float = 0.0
    """Seconds since 1970; 0: nothing has been stored."""
    unwritten_since_seconds: float | None = None
    """Since when something has been known that is not stored; None: nothing is."""
    dropped_nodes: int = 0
    """Nodes that found no room in the shard sealed last."""
    recalled_places: int = 0
    """Places that a stored checkpoint gave back."""


class Checkpointing:
    """A thread that writes what has changed, every few seconds, while this process leads."""

    def __init__(
        self,
        maps: Maps,
        book: Views,
        leads: Callable[[], bool],
        log: FilteringBoundLogger,
        *,
        every_seconds: float = EVERY_SECONDS,
        shards: int = SHARDS,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; ``start`` begins. ``now_seconds`` is the wall clock."""
        self._maps = maps
        self._book = book
        self._leads = leads
        self._log = log
        self._every_seconds = every_seconds
        self._shards = shards
        self._checkpoint = Checkpoint(shards)
        self._was_leading = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._now_seconds = now_seconds
        self.counts = CheckpointCounts()

    def read(self) -> tuple[bytes, ...]:
        """Return the blobs that are stored.

        Raises:
            ClusterError: one of them could not be read; try again, they are worth waiting for.
        """
        blobs = (self._maps.read(shard) for shard in range(self._shards))
        return tuple(blob for blob in blobs if blob is not None)

    def start(self) -> None:
        """Start the thread (after a fork)."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a leader writes what is left."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
            self.round(most_bytes=1 << 30)

    def round(self, most_bytes: int = MOST_BYTES_A_ROUND) -> int:
        """Write what has changed, at least one shard and about ``most_bytes``; return how many bytes."""
        counts = self.counts
        if not self._leads():
            self._was_leading = False
            counts.unwritten_since_seconds = None
            return 0
        if not self._was_leading:
            self._was_leading = True
            self._checkpoint.all_dirty()
        self._checkpoint.look(self._book.views())
        if counts.unwritten_since_seconds is None and self._checkpoint.next_shard() is not None:
            counts.unwritten_since_seconds = self._now_seconds()
        written = 0
        try:
            while written < most_bytes and (shard := self._checkpoint.next_shard()) is not None:
                blob = self._checkpoint.blob(shard)
                counts.dropped_nodes = self._checkpoint.dropped_nodes
                if not self._leads():
                    break
                if not self._write(shard, blob) and not self._write(shard, blob):
                    break  # twice another's: somebody else leads, or will have written the same
                self._checkpoint.written(shard)
                written += len(blob)
        except ClusterError as error:
            counts.failures += 1
            self._log.warning("checkpoint", problem=str(error))
        if self._checkpoint.next_shard() is None:
            counts.unwritten_since_seconds = None
        return written

    def _write(self, shard: int, blob: bytes) -> bool:
        counts = self.counts
        if not self._maps.write(shard, blob):
            counts.conflicts += 1
            return False
        counts.stored += 1
        counts.stored_bytes += len(blob)
        counts.shard_bytes[shard] = len(blob)
        counts.last_stored_seconds = self._now_seconds()
        return True

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                self.round()
            except Exception as error:  # noqa: BLE001 - the thread must outlive a fault of ours; it is logged
                self._log.error("fault", **fault_text(error))
