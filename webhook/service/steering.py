"""Steering: which pod is nominated to which node, and when. Pure: time comes in with every call.

A pod whose binding our guard refused would be bound to the same node again for ever (``domain/apiserver-facts.md``
(e3)). The scheduler tries ``status.nominatedNodeName`` first, but wipes it with every failure that it writes, so the
moment counts: after the failure of this try stands in the pod's condition, and again after each. Rules:

1. A pod is nominated once the watch shows a version of it that is younger than the refusal and says SchedulerError.
   Where the text of the failure is the same as before, the scheduler writes nothing: then after ``PATIENCE_SECONDS``.
2. A nomination that is not ours is a preemption's, and stays.
3. A node that was nominated and not taken has failed one of the scheduler's own filters (volumes, spread, affinity,
   ports): it is shunned for this pod for ``SHUN_SECONDS``, and after ``MOST_SHUNNED`` nodes the pod is left alone.
4. A nomination that is wiped without a refusal of ours (another plugin failed, our patch met the scheduler's) is set
   again ``MOST_WIPED`` times; then rule 3 applies.
5. A pod for which nothing fitted waits; when room is freed it is nominated there at once (``service.book``).

A pod whose late-bound volume is tied to the refused node cannot move, and the ledger knows nothing of volumes: the
scheduler passes every other node over (rule 3), and the pod is bound where its volume is once there is room again.
"""

from dataclasses import dataclass, replace
from typing import Final

from webhook.core.ledger.records import PodRecord

PATIENCE_SECONDS: Final = 1.0
"""From a refusal until its failure is taken to be written: measured 5-50 ms, and the shortest back-off is 1 s."""
SHUN_SECONDS: Final = 60.0
"""As long as a refused pod keeps its place: what a filter spoke against may have changed by then."""
MOST_SHUNNED: Final = 8
MOST_WIPED: Final = 3
SETTLED_SECONDS: Final = 0.3
"""A try elsewhere that comes sooner after a nomination had begun before it."""
RETRY_SECONDS: Final = 2.0
"""Between two patches whose outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Course:
    """Where one refused pod is steered to, and what became of it so far."""

    pod: PodRecord
    """As the watch showed it last."""
    target: str = ""
    """The node that it should be nominated to; empty: none fits, or it is left alone."""
    refused_seconds: float = 0.0
    refused_version: int = 0
    """The youngest version of the pod known at the refusal: the scheduler's failure is younger."""
    ours: str = ""
    """The node that we nominated, while nobody has wiped it."""
    nominated_seconds: float = 0.0
    nominated_version: int = 0
    wiped: int = 0
    """How often the nomination to ``target`` was wiped without a refusal of ours."""
    shunned: tuple[tuple[str, float], ...] = ()
    """(node, until when) of nodes that the scheduler passed over."""
    not_before_seconds: float = 0.0
    is_asked: bool = False
    """A patch is on its way."""

    # --- what happens ---

    def refused(self, pod: PodRecord, node: str, steer_to: str, now_seconds: float) -> "Course":
        """Return the course after a binding to ``node`` was turned back."""
        course = self.passed_over(now_seconds) if self._was_ignored_for(node, now_seconds) else self
        shunned = tuple(item for item in course.shunned if item[1] > now_seconds)
        target = "" if len(shunned) >= MOST_SHUNNED else steer_to
        return replace(
            course,
            pod=pod if pod.resource_version >= course.pod.resource_version else course.pod,
            target=target,
            refused_seconds=now_seconds,
            refused_version=max(pod.resource_version, course.pod.resource_version, course.nominated_version),
            ours="",
            wiped=0 if target != course.target else course.wiped,
            shunned=shunned,
            not_before_seconds=0.0,
        )

    def _was_ignored_for(self, node: str, now_seconds: float) -> bool:
        return bool(self.ours) and self.ours != node and now_seconds - self.nominated_seconds >= SETTLED_SECONDS

    def passed_over(self, now_seconds: float) -> "Course":
        """Return the course after the scheduler did not take the node that we had nominated."""
        if not self.ours:
            return self
        others = tuple(item for item in self.shunned if item[0] != self.ours)
        return replace(self, shunned=(*others, (self.ours, now_seconds + SHUN_SECONDS)), ours="", target="")

    def seen(self, pod: PodRecord, now_seconds: float) -> "Course":
        """Return the course after the watch showed ``pod``."""
        if pod.resource_version < self.pod.resource_version:
            return self
        course = replace(self, pod=pod)
        if not course.ours or pod.resource_version <= course.nominated_version or pod.nominated_node == course.ours:
            return course
        if pod.is_unschedulable:
            return course.passed_over(now_seconds)
        if pod.nominated_node:
            return replace(course, ours="", target="")
        course = replace(course, wiped=course.wiped + 1)
        if course.wiped > MOST_WIPED:
            return course.passed_over(now_seconds)
        return replace(course, ours="", refused_version=pod.resource_version - 1)

    def found(self, node: str, now_seconds: float) -> "Course":
        """Return the course after room was freed on ``node`` for the pod, which waited for some."""
        return replace(self, target=node, refused_seconds=now_seconds, wiped=0)

    def waits(self) -> bool:
        """Return whether it was turned back, and no node was known that fits."""
        pod = self.pod
        return not (self.target or self.ours or pod.node_name or pod.nominated_node or pod.is_deleting or pod.has_ended)

    # --- what to do ---

    def asks_at(self) -> float | None:
        """Return from when on the pod should be nominated to ``target``, in seconds; None: not as things stand."""
        pod = self.pod
        if not self.target or self.is_asked or self.ours or pod.node_name or pod.is_deleting or pod.has_ended:
            return None
        if pod.nominated_node:
            return None
        if pod.resource_version > self.refused_version:
            return self.not_before_seconds if pod.is_refused_at_binding else None
        return max(self.not_before_seconds, self.refused_seconds + PATIENCE_SECONDS)

    def shuns(self, tried: str, now_seconds: float) -> frozenset[str]:
        """Return the nodes that the scheduler passed over lately, now that it tries ``tried``."""
        past = frozenset(node for node, until in self.shunned if until > now_seconds)
        return past | {self.ours} if self._was_ignored_for(tried, now_seconds) else past

    # --- what became of a patch ---

    def asked(self) -> "Course":
        """Return the course with a patch on its way."""
        return replace(self, is_asked=True)

    def nominated(self, node: str, version: int, now_seconds: float) -> "Course":
        """Return the course after the API server stored our nomination to ``node`` as ``version``."""
        done = replace(self, is_asked=False)
        if done.target != node:
            return done
        done = replace(done, ours=node, nominated_seconds=now_seconds, nominated_version=version)
        return done.seen(done.pod, now_seconds)  # the watch may have been quicker than the answer

    def conflicted(self, now_seconds: float) -> "Course":
        """Return the course after the pod turned out to have changed: the watch will show what it is now."""
        version = max(self.refused_version, self.pod.resource_version)
        return replace(self, is_asked=False, refused_version=version, refused_seconds=now_seconds)

    def unanswered(self, now_seconds: float) -> "Course":
        """Return the course after a patch whose outcome nobody knows."""
        return replace(self, is_asked=False, not_before_seconds=now_seconds + RETRY_SECONDS)
