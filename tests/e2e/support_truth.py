"""The ledger against the API server's truth: whatever it lived through, it ends as one filled from a fresh list."""

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "ledger"))

from controlplane.plane import ControlPlane
from ledger_walk import check_books

from webhook.cluster.client import Client
from webhook.core.capacity import CapacityRules
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.events import Elapsed
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, EntryState, PodRecord
from webhook.core.ledger.verdicts import MachineClass
from webhook.service.book import Book
from webhook.service.feeding import Feeding
from webhook.service.logs import open_log

WITHIN_SECONDS = 60.0


def until(condition: Callable[[], object], what: str, within_seconds: float = WITHIN_SECONDS) -> None:
    """Wait for something outside; the limit is only there so that a fault ends."""
    end = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Fed:
    """A book and its feeds."""

    book: Book
    feeding: Feeding


@contextmanager
def fed(plane: ControlPlane, classes: tuple[MachineClass, ...] = ()) -> Iterator[Fed]:
    """A book that has just been filled from lists, and that follows the cluster until the end of the block."""
    book = Book(Ledger({AllocatorKind.KUBELET: KubeletAllocator()}), CapacityRules(), time.time, str)
    client = Client.from_environment(plane.kubeconfig())
    feeding = Feeding(client, book, open_log(io.BytesIO(), "error"), classes=classes)
    feeding.start()
    try:
        until(lambda: feeding.freshness.trust() == "", "the feeds to be synced")
        yield Fed(book, feeding)
    finally:
        feeding.stop()


def facts(book: Book) -> tuple[dict[str, Any], dict[str, Any]]:
    """What no history decides: nodes, plain counts, who is bound where, and each pod's record."""
    snapshot = book.snapshot()
    nodes = {
        name: (
            view.record,
            {resource: amount for resource, amount in view.bound_totals.items() if amount},
            sorted(entry.uid for entry in view.bound),
        )
        for name, view in snapshot.views.items()
    }
    return nodes, {uid: _without_version(entry.pod) for uid, entry in snapshot.entries.items()}


def _without_version(pod: PodRecord) -> dict[str, Any]:
    # A change that says nothing new is not taken over, so the version may lag behind.
    return {name: getattr(pod, name) for name in pod.__slots__ if name != "resource_version"}


def converges(plane: ControlPlane, book: Book, classes: tuple[MachineClass, ...] = ()) -> None:
    """Wait until ``book`` is what a fresh list says and holds no claim; then nothing in it may be negative or late.

    Where that never comes, the difference is shown.
    """

    def is_settled() -> bool:
        claims = [entry for entry in book.snapshot().entries.values() if entry.state is EntryState.CLAIMED]
        return not claims and facts(book) == facts(truth.book)

    with fed(plane, classes) as truth:
        try:
            until(is_settled, "the ledger to equal a fresh list")
        except AssertionError:
            assert facts(book) == facts(truth.book)
            raise
        is_sound(book)


def is_sound(book: Book) -> None:
    """Check what must hold at every moment: nothing lost, given twice, negative, or kept beyond its limit."""
    now = time.time()
    book.apply((Elapsed(),))
    with book._lock:
        check_books(book._ledger, now)
