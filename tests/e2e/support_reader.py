"""A reader who does what a page says: its commands in a shell, with what he has, in the folder of the clone."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.binaries import locate_helm
from controlplane.plane import ControlPlane, scrubbed_environment
from support.console_blocks import Step, read_steps

ROOT = Path(__file__).parents[2]
COMMAND_SECONDS = 300.0
FINDINGS = 1
"""Exit code of those that say what is wrong with manifests; for anything else it is a failure."""
JUDGES = ("numa-admission ask", "numa-admission audit", "numa-admission check")


@dataclass
class Reader:
    """Follows pages."""

    environment: Mapping[str, str]
    folder: Path = ROOT
    words: Mapping[str, str] = field(default_factory=dict)
    """Words of the page that stand for something of the reader's own, such as CA."""

    def run(self, step: Step) -> str:
        """Do one step and return what it printed; fails where the step does, or prints something else than shown."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self.own(step.command)],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
            env=dict(self.environment),
            cwd=self.folder,
        )
        self.judge(step, done)
        return done.stdout

    def judge(self, step: Step, done: "subprocess.CompletedProcess[str]") -> None:
        """Fail where the step has failed, or has printed something else than the page shows."""
        allowed = {0, FINDINGS} if step.command.startswith(JUDGES) else {0}
        printed = done.stdout + done.stderr
        assert done.returncode in allowed, f"{step.place}\nended with {done.returncode}:\n{printed}"
        shown = Step(step.page, step.line, step.heading, step.command, tuple(map(self.own, step.output)))
        wanted = "\n".join(shown.output)
        assert any(map(shown.is_shown_by, (done.stdout, printed))), (
            f"{step.place}\nThe page shows:\n{wanted}\nIt prints:\n{printed}"
        )

    def own(self, text: str) -> str:
        """The text with the reader's own words."""
        for word, meant in self.words.items():
            text = text.replace(word, meant)
        return text


def steps_of(page: str, headings: Iterable[str]) -> list[Step]:
    """The steps below these headings of a page of the clone, heading after heading."""
    every = read_steps(ROOT / page)
    found = [step for heading in headings for step in every if step.heading == heading]
    missing = set(headings) - {step.heading for step in found}
    assert not missing, f"{page} has no commands under {missing}"
    return found


def home_environment(folder: Path) -> dict[str, str]:
    """A shell that finds numa-admission and nothing of the person who runs the tests."""
    environment = scrubbed_environment(folder)
    return {**environment, "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])}


def admin_environment(plane: ControlPlane) -> dict[str, str]:
    """The same with kubectl, helm, and the admin's access to the cluster."""
    home = Path(tempfile.mkdtemp(prefix="reader-", dir=plane.folder))
    environment = home_environment(home)
    path = os.pathsep.join([str(plane.binaries.folder), environment["PATH"]])
    return with_helm({**environment, "PATH": path, "KUBECONFIG": str(plane.kubeconfig())}, home)


def with_helm(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The same with the run's Helm, which a page calls `helm` whatever its version."""
    binaries, program = locate_helm(os.environ)
    own = folder / "programs"
    own.mkdir()
    (own / "helm").symlink_to(binaries.path(program))
    return {**environment, "PATH": os.pathsep.join([str(own), environment["PATH"]])}
