"""Hollow kubelets as a program beside a test: nodes that refuse pods exactly as the kubelet does."""

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.processes import Running, start_process, wait_until

HERE = Path(__file__).parent
NO_GO = 3  # exit code of the build script where there is no Go


class OracleMissingError(Exception):
    """The oracle cannot be built here; the text says why. A test skips with it."""


def oracle_binary() -> Path:
    """The kubelet-oracle program, built where it is not yet. Raises OracleMissingError."""
    built = subprocess.run([HERE / "build"], capture_output=True, text=True, check=False)
    if built.returncode:
        raise OracleMissingError(built.stderr.strip())
    return Path(built.stdout.strip())


@dataclass(frozen=True)
class Hollow:
    """A running set of hollow kubelets."""

    running: Running

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it has said so far: events `ready`, `refused`, `lost`, `admitted` (where asked for), `metrics`."""
        text = self.running.log.read_text()
        said = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]
        return [line for line in said if line["event"] == event]

    def metrics(self) -> dict[str, Any]:
        """Totals of now: nodes, admitted, refused, refused_by_reason, active, succeeded, deadline_exceeded, deleted."""
        before = len(self.lines("metrics"))
        self.running.process.send_signal(signal.SIGUSR1)
        wait_until(
            lambda: len(self.lines("metrics")) > before, what="its metrics", within_seconds=10, running=self.running
        )
        return self.lines("metrics")[-1]


@contextmanager
def hollow_nodes(
    kubeconfig: Path, classes: Mapping[str, Any] | Path, folder: Path, flags: Sequence[str] = ()
) -> Iterator[Hollow]:
    """Play nodes of these machine classes (README) until the block ends; they are Ready when it begins."""
    if not isinstance(classes, Path):
        path = folder / "hollow-classes.json"
        path.write_text(json.dumps(classes))
        classes = path
    command = [str(oracle_binary()), "hollow", "--kubeconfig", str(kubeconfig), "--machine", str(classes), *flags]
    log = folder / "hollow.log"
    log.touch()
    hollow = Hollow(start_process("hollow kubelets", command, log))
    try:
        wait_until(lambda: bool(hollow.lines("ready")), what="its nodes", within_seconds=60, running=hollow.running)
        yield hollow
    finally:
        hollow.running.stop()
