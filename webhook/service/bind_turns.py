"""Bindings that wait: until a node's kubelet has answered for those before, or until the watch shows the pod at all.

A kubelet answers within moments, and a refusal costs the pod a second. And a quick scheduler binds a pod before our
watch has shown it: of 1,000 pods under load three were bound so, unjudged, and failed.

The scheduler binds in the background, one goroutine a pod, and the API server grants a binding's review a second
(``DESIGN.md`` 5); most of it may be spent on waiting until the kubelet has answered for the pod before.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from webhook.core.ledger.events import LedgerEvent, PodSeen


@dataclass(slots=True)
class _Queue:
    condition: threading.Condition
    waiting: int = 0


@dataclass(slots=True)
class BindTurns:
    """Who waits for news of what. Every method is called with the ledger's lock held."""

    lock: threading.Lock
    """The ledger's; a waiter gives it back while it waits."""
    most_waiting: int
    """Held calls keep a server thread each: some must stay free for those that are decided at once."""
    _queues: dict[str, _Queue] = field(default_factory=dict)
    _waiting: int = 0

    @property
    def waiting(self) -> int:
        """How many calls are held now."""
        return self._waiting

    def has_room(self) -> bool:
        """Return whether one more call may be held."""
        return self._waiting < self.most_waiting

    @contextmanager
    def queue(self, subject: str) -> Iterator[threading.Condition]:
        """Wait for news of ``subject``, a node's name or a pod's UID: its condition is notified when some was heard."""
        queue = self._queues.get(subject)
        if queue is None:
            queue = self._queues[subject] = _Queue(threading.Condition(self.lock))
        queue.waiting += 1
        self._waiting += 1
        try:
            yield queue.condition
        finally:
            queue.waiting -= 1
            self._waiting -= 1
            if not queue.waiting:
                self._queues.pop(subject, None)

    def heard(self, event: LedgerEvent) -> None:
        """Wake those whom ``event`` may concern; they stand in the lock's queue in the order in which they came."""
        if not self._queues:
            return
        if isinstance(event, PodSeen):
            for subject in (event.pod.node_name, event.pod.uid):
                queue = self._queues.get(subject)
                if queue is not None:
                    queue.condition.notify_all()
            return
        for queue in self._queues.values():
            queue.condition.notify_all()
