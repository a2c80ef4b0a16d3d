"""All that is told of each pod, by itself and by its node, put together: its record changes when any of it changes.

Which source of a bound pod's place wins, fact by fact; ``tests/cluster/test_cluster_pod_board.py`` goes through it:

| fact | 1st | 2nd | 3rd | 4th | 5th |
|---|---|---|---|---|---|
| CPUs | ``resource-status`` | ACK's ``cpuset`` | NRT ``pod-cpu-allocs`` of the kubelet | checkpoint | the model |
| devices | ``device-allocated`` | ACK's ``gpu-group`` | | checkpoint | the model |
| counts of each NUMA node | | | live NRT: where guessed pods sit | | |

A source of the one says nothing of the other: what no source tells is guessed beside what one does. koordlet leaves
pods that carry a Koordinator cpuset out of ``pod-cpu-allocs`` (``domain/koordinator-ack.md`` 1.6), so that a pod told
by both is one whose annotation has just been written.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from webhook.core.ledger.events import LedgerEvent, PodGone, PodSeen, PodsListed
from webhook.core.ledger.records import Confirmed, PodRecord


class PodBoard:
    """Told by two feeds' threads. Its lock is held while events are handed on, so that they keep their order."""

    def __init__(self, apply: Callable[[Sequence[LedgerEvent]], None]) -> None:
        """Hand events to ``apply``."""
        self._apply = apply
        self._lock = threading.Lock()
        self._known: dict[str, PodRecord] = {}
        """The last record of every pod that has not ended; the same objects as in the ledger."""
        self._cpus: dict[str, Mapping[str, int]] = {}
        """By node, the CPUs of pods by UID, as the node's report tells them."""

    def seen(self, records: Iterable[PodRecord], *, is_list: bool = False) -> None:
        """Pods were listed, added or changed.

        In a list what has ended and was not known holds nothing (in a cluster of Jobs these are most of it), and what
        is bound was bound in an order that nobody knows any more.
        """
        events: list[LedgerEvent] = []
        with self._lock:
            for told in records:
                record = self._completed(told)
                known = self._known.get(record.uid)
                if known is None:
                    is_news = not (is_list and record.has_ended)
                else:
                    is_news = replace(record, resource_version=known.resource_version) != known
                if is_news:
                    self._keep(record)
                    events.append(PodSeen(record, is_history=is_list and bool(record.node_name)))
            if events:
                self._apply(events)

    def gone(self, uid: str, resource_version: int) -> None:
        """A pod was removed."""
        with self._lock:
            self._known.pop(uid, None)
            self._apply((PodGone(uid, resource_version),))

    def listed(self, listed: PodsListed, more: Iterable[LedgerEvent] = ()) -> None:
        """The list of pods is whole; ``more`` is told after it."""
        with self._lock:
            for uid in [uid for uid in self._known if uid not in listed.uids]:
                del self._known[uid]
            self._apply((listed, *more))

    def cpus_told(self, node: str, cpus: Mapping[str, int]) -> None:
        """The report of ``node`` tells the CPUs of these pods, by UID, and of no others."""
        with self._lock:
            before = self._cpus.pop(node, {})
            if cpus:
                self._cpus[node] = dict(cpus)
            events: list[LedgerEvent] = []
            for uid in (*before, *(uid for uid in cpus if uid not in before)):
                known = self._known.get(uid)
                if known is None or known.node_name != node or before.get(uid) == cpus.get(uid):
                    continue
                record = self._completed(replace(known, confirmed=_of_the_pod(known.confirmed)))
                if record != known:
                    self._keep(record)
                    events.append(PodSeen(record, is_history=True))
            if events:
                self._apply(events)

    def cpus_listed(self, nodes: frozenset[str]) -> None:
        """The list of reports is whole."""
        for node in [node for node in self._cpus if node not in nodes]:
            self.cpus_told(node, {})

    def _completed(self, record: PodRecord) -> PodRecord:
        """Return ``record``, whose place only the pod has told, with what its node tells besides."""
        cpus = self._cpus.get(record.node_name, {}).get(record.uid) if record.node_name else None
        told = record.confirmed
        if cpus is None or (told is not None and told.cpus is not None):
            return record
        return replace(record, confirmed=Confirmed(cpus, told.devices if told else (), is_by_kubelet=True))

    def _keep(self, record: PodRecord) -> None:
        if record.has_ended:
            self._known.pop(record.uid, None)
        else:
            self._known[record.uid] = record


def _of_the_pod(told: Confirmed | None) -> Confirmed | None:
    """Return what of ``told`` the pod has told by itself."""
    if told is None or not told.is_by_kubelet:
        return told
    return Confirmed(None, told.devices) if told.devices else None
