"""Programs that run beside a test and are stopped surely: on success, on a fault, on Ctrl-C, and if Python is killed.

Each program gets a session of its own, so a Ctrl-C at the terminal reaches only pytest, which then stops them in order.
Beside each stands a guard, a shell that waits on a pipe from us: when we die, however, the pipe closes and the guard
kills the program with all its children.
"""

import atexit
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 40


class StartError(Exception):
    """A program did not become ready; the text ends with the last lines of its log."""


@dataclass(frozen=True)
class Running:
    """One program that was started."""

    name: str
    log: Path
    process: "subprocess.Popen[bytes]"
    _guard: "subprocess.Popen[bytes]"

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self.process.poll() is None

    def stop(self, within_seconds: float = STOP_SECONDS) -> int:
        """Ask it to end, and kill it with all its children where it does not in time; its return code."""
        if self.alive:
            self._signal_group(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(within_seconds)
        return self.kill()

    def kill(self) -> int:
        """End it and all its children at once; its return code. Harmless for one that has ended."""
        # Once the guard is dismissed the group's number may belong to a stranger.
        if self._guard.poll() is None:
            self._signal_group(signal.SIGKILL)
        code = self.process.wait(STOP_SECONDS)
        self._dismiss_guard()
        return code

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of what the program has printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal_group(self, number: signal.Signals) -> None:
        # The group lives as long as any child of the program does, also when the program itself is gone.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _dismiss_guard(self) -> None:
        self._guard.kill()
        self._guard.wait(STOP_SECONDS)
        if self._guard.stdin is not None:
            self._guard.stdin.close()


def start_process(name: str, command: list[str], log: Path, environ: Mapping[str, str] | None = None) -> Running:
    """Start a program whose output goes to the end of the log file."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=None if environ is None else dict(environ),
        )
    guard = subprocess.Popen(
        ["/bin/sh", "-c", 'cat >/dev/null; kill -s KILL -- "-$1"', "guard", str(process.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Running(name, log, process, guard)


def wait_until(
    question: Callable[[], bool], *, what: str, within_seconds: float, running: Running | None = None
) -> None:
    """Ask until the answer is yes. Raises StartError where the time is over, or `running`, if any, has ended before."""
    deadline = time.monotonic() + within_seconds
    while not question():
        if running is not None and not running.alive:
            code = running.process.returncode
            raise StartError(f"{running.name} ended with {code} before {what}. Its log ends:\n{running.log_tail()}")
        if time.monotonic() > deadline:
            late = f"{what} did not come within {within_seconds:g} s."
            if running is None:
                raise StartError(late)
            raise StartError(f"{running.name} runs, but {late} Its log ends:\n{running.log_tail()}")
        time.sleep(POLL_SECONDS)


def free_ports(count: int) -> tuple[int, ...]:
    """Distinct ports of 127.0.0.1 that nobody listens on now; another program may still take one before we do."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()


@dataclass(frozen=True)
class Fleet:
    """The programs of one test run by name, in the order of their start; leaving it stops them in the other order."""

    _members: dict[str, Running] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """The guards see to a killed Python; this sees to one that ends without unwinding."""
        atexit.register(self.stop_all)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything, whatever the reason of leaving."""
        self.stop_all()
        atexit.unregister(self.stop_all)

    def add(self, running: Running) -> Running:
        """Take a program in; one of the same name must have been stopped before."""
        before = self._members.get(running.name)
        if before is not None and before.alive:
            running.kill()
            raise StartError(f"{running.name} runs already; stop it before it is started again.")
        self._members[running.name] = running
        return running

    def get(self, name: str) -> Running:
        """The program of this name, running or not. Raises KeyError where none was started."""
        return self._members[name]

    def names(self) -> tuple[str, ...]:
        """The names of those that run now."""
        return tuple(name for name, running in self._members.items() if running.alive)

    def stop_all(self) -> None:
        """Stop every program, the last started first."""
        for running in reversed(self._members.values()):
            running.stop()
