"""Users that do what the plan says, and what users do when they are told no: try again."""

import heapq
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from controlplane.plane import ControlPlane
from proof_plan import Wish

RETRY_SECONDS = 1.0
"""A refused create, or a pod that its node refused, is submitted again after so long."""


@dataclass
class Users:
    """Carry out the wishes; ``run`` returns once the time is over."""

    plane: ControlPlane
    wishes: tuple[Wish, ...]
    first_asked: dict[str, float] = field(default_factory=dict)
    """When each wish was first submitted."""
    counts: Counter[str] = field(default_factory=Counter)
    _due: list[tuple[float, int, str, Wish, int]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _number: int = 0
    _attempts: Counter[str] = field(default_factory=Counter)
    _over: bool = False

    def resubmit(self, name: str) -> None:
        """Submit the bare pod of this wish again, a little later."""
        wish = next(wish for wish in self.wishes if wish.name == name)
        self._attempts[name] += 1
        self._later(time.monotonic() + RETRY_SECONDS, "create", wish, self._attempts[name])

    def run(self, seconds: float) -> tuple[float, float]:
        """Do everything in its time; returns when it began and ended, on the monotonic clock."""
        begin = time.monotonic()
        end = begin + seconds
        for wish in self.wishes:
            self._later(begin + wish.at_seconds, "create", wish, 0)
        with ThreadPoolExecutor(4) as pool:
            while (now := time.monotonic()) < end:
                with self._changed:
                    wait = self._due[0][0] - now if self._due else 1.0
                    if wait > 0:
                        self._changed.wait(min(wait, end - now))
                        continue
                    _, _, action, wish, attempt = heapq.heappop(self._due)
                pool.submit(self._do, action, wish, attempt)
            self._over = True
        return begin, end

    def _later(self, moment: float, action: str, wish: Wish, attempt: int) -> None:
        with self._changed:
            self._number += 1
            heapq.heappush(self._due, (moment, self._number, action, wish, attempt))
            self._changed.notify()

    def _do(self, action: str, wish: Wish, attempt: int) -> None:
        if self._over:
            return
        try:
            getattr(self, f"_{action}")(wish, attempt)
        except Exception as error:  # noqa: BLE001 - a user who fails once must not end the run; it is counted
            self.counts[f"{action} failed: {type(error).__name__}"] += 1

    def _create(self, wish: Wish, attempt: int) -> None:
        now = time.monotonic()
        self.first_asked.setdefault(wish.name, now)
        path, body = wish.body(attempt)
        answer = self.plane.api("POST", path, body)
        if answer.status == 403:
            self.counts["creates refused"] += 1
            self._later(now + RETRY_SECONDS, "create", wish, attempt)
            return
        answer.wanted()
        self.counts[f"{wish.kind}s created"] += 1
        if wish.kind == "deployment":
            self._later(now + wish.run_seconds, "delete", wish, 0)
            if wish.scale_to is not None:
                self._later(now + wish.run_seconds / 2, "scale", wish, 0)

    def _delete(self, wish: Wish, _attempt: int) -> None:
        path, _ = wish.body()
        self.plane.api("DELETE", f"{path}/{wish.name}").wanted(200, 202, 404)

    def _scale(self, wish: Wish, _attempt: int) -> None:
        path, _ = wish.body()
        body = {"spec": {"replicas": wish.scale_to}}
        answer = self.plane.api("PATCH", f"{path}/{wish.name}", body, content_type="application/merge-patch+json")
        answer.wanted(200, 404)
