"""Steering at work: follows the book, keeps the courses of refused pods, and has threads that send what is due."""

import enum
import heapq
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Final

from structlog.typing import FilteringBoundLogger

from webhook.cluster.nominations import Nominated, Nomination, Outcome
from webhook.core.ledger.events import LedgerEvent, PodGone, PodSeen, PodsListed
from webhook.core.ledger.records import PodRecord
from webhook.service.logs import fault_text
from webhook.service.steering import Course

THREADS: Final = 4
"""A patch takes 3-10 ms on a quiet API server, so four send 400 a second and more; 300 bindings a second are designed
for, of which only the refused ones need one."""
MOST_COURSES: Final = 20_000
"""Refused pods that are remembered, about 1 kB each; above it the oldest is forgotten and begins anew if refused."""

MOST_RECONSIDERED: Final = 32
"""Waiting pods that are looked at when room is freed; equal ones cost one evaluation of 50 us."""


class Ended(enum.Enum):
    """What became of a pod whose binding was turned back."""

    AS_STEERED = "bound_as_steered"
    """Bound to the node that it was steered to."""
    ELSEWHERE = "bound_elsewhere"
    """Bound to another, which takes it too, or by itself once there was room."""
    GONE = "gone"
    """Deleted, or ended, before it was bound."""


Nominate = Callable[[Nomination], Nominated]


class Steering:
    """Follows the book (``service.book.Follower``); its own lock is never held while the book's is asked for."""

    def __init__(
        self,
        nominate: Nominate,
        log: FilteringBoundLogger,
        now_seconds: Callable[[], float],
        on_outcome: Callable[[str], None] = lambda _word: None,
        threads: int = THREADS,
    ) -> None:
        """Keep the means: ``nominate`` sends one patch, ``on_outcome`` counts what became of it."""
        self._nominate = nominate
        self._log = log
        self._now_seconds = now_seconds
        self._on_outcome = on_outcome
        self._changed = threading.Condition()
        self._courses: dict[str, Course] = {}
        self._moments: list[tuple[float, str]] = []
        self._is_stopped = False
        self._may_not = False
        self.ended: Counter[Ended] = Counter(dict.fromkeys(Ended, 0))
        """How the courses ended."""
        self._threads = [
            threading.Thread(target=self._run, name=f"steering-{number}", daemon=True) for number in range(threads)
        ]

    # --- following the book ---

    def shunned(self, uid: str, tried: str, now_seconds: float) -> frozenset[str]:
        """Return the nodes that pod ``uid`` must not be steered to."""
        with self._changed:
            course = self._courses.get(uid)
            return course.shuns(tried, now_seconds) if course is not None else frozenset()

    def refused(self, pod: PodRecord, node: str, steer_to: str, now_seconds: float) -> None:
        """Begin or go on with the course of a pod whose binding to ``node`` is turned back."""
        with self._changed:
            old = self._courses.pop(pod.uid, None)  # put back at the end: the dict's order is that of the refusals
            if old is None and len(self._courses) >= MOST_COURSES:
                del self._courses[next(iter(self._courses))]
            self._keep((old or Course(pod)).refused(pod, node, steer_to, now_seconds))

    def heard(self, event: LedgerEvent, now_seconds: float) -> None:
        """Take note of what the watch shows of a refused pod."""
        with self._changed:
            if not self._courses:
                return
            match event:
                case PodSeen(pod=pod) if pod.uid in self._courses:
                    if pod.node_name or pod.has_ended:
                        self._end(pod)
                    else:
                        self._keep(self._courses[pod.uid].seen(pod, now_seconds))
                case PodGone(uid=uid) if uid in self._courses:
                    self._end(self._courses[uid].pod)
                case PodsListed(uids=uids):
                    for uid in [uid for uid in self._courses if uid not in uids]:
                        self._end(self._courses[uid].pod)
                case _:
                    pass

    def _end(self, pod: PodRecord) -> None:
        """Forget the course of a pod that is bound, has ended or is gone."""
        course = self._courses.pop(pod.uid)
        if not pod.node_name:
            self.ended[Ended.GONE] += 1
        else:
            self.ended[Ended.AS_STEERED if pod.node_name == course.target else Ended.ELSEWHERE] += 1

    def waiting(self, node: str, now_seconds: float) -> tuple[str, ...]:
        """Return the pods that have waited longest for room on any node."""
        with self._changed:
            waiting = (
                uid
                for uid, course in self._courses.items()
                if course.waits() and node not in course.shuns("", now_seconds)
            )
            return tuple(islice(waiting, MOST_RECONSIDERED))

    def found(self, uid: str, node: str, now_seconds: float) -> None:
        """Steer a pod that waited to ``node``."""
        with self._changed:
            course = self._courses.get(uid)
            if course is not None:
                self._keep(course.found(node, now_seconds))

    def courses(self) -> tuple[Course, ...]:
        """Return every course as it is now."""
        with self._changed:
            return tuple(self._courses.values())

    def _keep(self, course: Course) -> None:
        self._courses[course.pod.uid] = course
        moment = course.asks_at()
        if moment is not None:
            heapq.heappush(self._moments, (moment, course.pod.uid))
            self._changed.notify()

    # --- sending ---

    def start(self) -> None:
        """Start the threads (after a fork)."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; what is not sent yet is not sent."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=1.0)

    def forget(self) -> None:
        """Forget every course: another process leads now."""
        with self._changed:
            self._courses.clear()
            self._moments.clear()

    def _run(self) -> None:
        while (nomination := self.take()) is not None:
            try:
                answer = self._nominate(nomination)
            except Exception as error:  # noqa: BLE001 - a thread must outlive one bad answer; it is logged
                self._log.error("fault", **fault_text(error))
                answer = Nominated(Outcome.UNANSWERED)
            self.answered(nomination, answer)

    def take(self, *, waits: bool = True) -> Nomination | None:
        """Return the next patch that is due, once it is; None at the end, or where none is due and ``waits`` is off."""
        with self._changed:
            while not self._is_stopped:
                now = self._now_seconds()
                nomination = self._next(now)
                if nomination is not None:
                    return nomination
                if not waits:
                    return None
                self._changed.wait(self._moments[0][0] - now if self._moments else None)
        return None

    def _next(self, now_seconds: float) -> Nomination | None:
        while self._moments and self._moments[0][0] <= now_seconds:
            _, uid = heapq.heappop(self._moments)
            course = self._courses.get(uid)
            moment = course.asks_at() if course is not None else None
            if course is None or moment is None:
                continue
            if moment > now_seconds:
                heapq.heappush(self._moments, (moment, uid))
                continue
            self._courses[uid] = course.asked()
            pod = course.pod
            return Nomination(uid, pod.namespace, pod.name, pod.resource_version, course.target)
        return None

    def answered(self, nomination: Nomination, answer: Nominated) -> None:
        """Take what became of a patch."""
        self._on_outcome(answer.outcome.value)
        now = self._now_seconds()
        with self._changed:
            course = self._courses.get(nomination.uid)
            if course is None:
                return
            match answer.outcome:
                case Outcome.STORED:
                    self._keep(course.nominated(nomination.node, answer.resource_version, now))
                case Outcome.CHANGED:
                    self._keep(course.conflicted(now))
                case Outcome.UNANSWERED:
                    self._keep(course.unanswered(now))
                case Outcome.GONE | Outcome.REJECTED | Outcome.FORBIDDEN:
                    del self._courses[nomination.uid]
        if answer.outcome is Outcome.FORBIDDEN and not self._may_not:
            self._may_not = True
            self._log.warning("steering-forbidden", needs="patch on pods/status")
        if answer.outcome is Outcome.STORED:
            self._log.info(
                "nominated",
                namespace=nomination.namespace,
                name=nomination.name,
                uid=nomination.uid,
                node=nomination.node,
            )
