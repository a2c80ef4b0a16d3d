"""Scenes under a steady stream of creates: what happened to the creates while something happened to us.

Used by `test_e2e_rollout` and by `make outage-proof`, which differ in how long they look and in
how far the certificates' clock is compressed. What can happen is in `support_events`.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.plane import ControlPlane
from controlplane.processes import Running, wait_until
from support_creates import Create, Verdict, read_creates
from support_stage import FAILED_OPEN, beside, webhook_counts

SETTLE_SECONDS = 3.0
"""How long creates are still counted for a scene whose event is over: what it broke shows by then."""
TAIL_BYTES = 8192
PATIENCE_SECONDS = 60.0
END_SECONDS = 180.0
HEAD = """\
| scene | took | creates | a second | failed | passed unseen | wrongly refused | calls ignored | p50 / p99 / max ms |
|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Kill:
    """A kill -9, in seconds since 1970."""

    at: float
    spread_at: float
    """When everybody who calls had to know."""


@dataclass(frozen=True)
class Scene:
    """What happened to the creates while something happened to us."""

    name: str
    seconds: float
    creates: tuple[Create, ...]
    failed_open: Mapping[str, int]
    """Webhook to calls that failed and were ignored, by the API server's own count."""
    kill: "Kill | None" = None

    @property
    def rate(self) -> float:
        """Creates a second that were sent."""
        return len(self.creates) / self.seconds

    def of(self, verdict: Verdict) -> list[Create]:
        """The creates with this verdict."""
        return [each for each in self.creates if each.verdict is verdict]

    def in_flight(self, verdict: Verdict) -> int:
        """How many of these were on their way when something was killed."""
        if self.kill is None:
            return 0
        at = self.kill.at
        return sum(each.moment <= at <= each.moment + each.seconds for each in self.of(verdict))

    def percentile_milliseconds(self, share: float) -> float:
        """Of the times that creates took."""
        times = sorted(each.seconds for each in self.creates)
        return times[min(int(len(times) * share), len(times) - 1)] * 1000

    def failures_beside_the_kill(self) -> list[Create]:
        """What went wrong with creates that were answered before the kill, or sent when everybody knew of it."""
        if self.kill is None:
            raise ValueError(f"Nothing was killed in the scene {self.name}.")
        bad = [each for each in self.creates if each.verdict is not Verdict.RIGHT]
        return [each for each in bad if not self.kill.at - each.seconds <= each.moment <= self.kill.spread_at]

    def row(self) -> str:
        """One line of the table whose head is `HEAD`."""
        failed, unseen, wrong = (len(self.of(each)) for each in (Verdict.FAILED, Verdict.UNSEEN, Verdict.WRONG))
        ignored = ", ".join(f"{name} {count}" for name, count in sorted(self.failed_open.items())) or "none"
        times = " / ".join(f"{self.percentile_milliseconds(share):.0f}" for share in (0.5, 0.99, 1))
        flight = f" ({self.in_flight(Verdict.FAILED)} in flight)" if self.kill else ""
        counts = f"{len(self.creates)} | {self.rate:.0f} | {failed}{flight} | {unseen} | {wrong}"
        return f"| {self.name} | {self.seconds:.0f} s | {counts} | {ignored} | {times} |"

    def text(self) -> str:
        """What went wrong, for a failed assertion."""
        bad = Counter((each.verdict, each.kind, each.text[:300]) for each in self.creates if each.text)
        lines = [f"{count} x {verdict} {kind}: {text}" for (verdict, kind, text), count in bad.most_common(10)]
        return "\n".join([f"{self.name}: {len(self.creates)} creates, ignored calls {dict(self.failed_open)}", *lines])


@dataclass(frozen=True)
class _Window:
    name: str
    begin: float
    end: float
    failed_open: Counter[str]
    kill: Kill | None


@dataclass
class Play:
    """Scenes one after another, under one stream."""

    plane: ControlPlane
    stream: Running
    out: Path
    windows: list[_Window] = field(default_factory=list)

    def scene(self, name: str, happen: Callable[[], Kill | None]) -> None:
        """Let something happen; it returns once it is over, and tells what was killed, if anything."""
        self.flows_for(SETTLE_SECONDS)
        before, begin = webhook_counts(self.plane, FAILED_OPEN), time.time()
        kill = happen()
        self.flows_for(SETTLE_SECONDS)
        failed_open = webhook_counts(self.plane, FAILED_OPEN) - before
        self.windows.append(_Window(name, begin, time.time(), failed_open, kill))

    def flows_for(self, seconds: float) -> None:
        """Wait until creates have gone on for so long from now."""
        wanted = time.time() + seconds
        wait_until(
            lambda: self._newest() > wanted,
            what="an answered create",
            within_seconds=seconds + PATIENCE_SECONDS,
            running=self.stream,
        )

    def _newest(self) -> float:
        """The moment of the newest answered create; 0 before the first."""
        with self.out.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            *_, line, _ = [b"[0]", *file.read().splitlines(keepends=True), b""]
        return float(json.loads(line)[0]) if line.endswith((b"\n", b"[0]")) else 0.0

    def scenes(self) -> list[Scene]:
        """The scenes with their creates; whole once the stream has ended."""
        creates = read_creates(self.out)
        return [
            Scene(
                each.name,
                each.end - each.begin,
                tuple(create for create in creates if each.begin <= create.moment < each.end),
                each.failed_open,
                each.kill,
            )
            for each in self.windows
        ]


@contextmanager
def streaming(plane: ControlPlane, folder: Path, namespace: str, rate: float) -> Iterator[Play]:
    """Send creates at this rate until the end of the block; then every one has its answer."""
    out = folder / f"creates-{namespace}.jsonl"
    args = (f"--out={out}", f"--namespace={namespace}", f"--rate={rate}")
    out.touch()
    with beside(plane, folder, "support_creates", *args) as stream:
        play = Play(plane, stream, out)
        play.flows_for(0)
        yield play
        _end(stream)


def _end(stream: Running) -> None:
    os.kill(stream.process.pid, signal.SIGTERM)
    code = stream.process.wait(END_SECONDS)
    assert code == 0, stream.log_tail()
