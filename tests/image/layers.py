"""The Dockerfile's steps without an engine: each stage is an overlay on this machine's own root, entered by chroot.

This machine's Linux and Python stand for the base image; everything else is what Docker would do. Needs root and a
kernel that mounts overlays, in a mount name space of its own: nothing is mounted for anybody else.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dockerfile import ROOT, Stage, context_files, copied_files

STEP_SECONDS = 900.0
# Where packages come from is the machine's business, as with --build-arg.
OF_THE_MACHINE = ("PIP_INDEX_URL", "PIP_CERT", "PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT", "https_proxy", "no_proxy")


class LayerError(Exception):
    """A step failed; the text ends with what it printed."""


@dataclass(frozen=True)
class Layer:
    """One stage's root file system: what it changes lies in `folder/upper`."""

    folder: Path
    environment: Mapping[str, str]

    def place(self, path: str) -> Path:
        """Where a file of this layer is to be put, given its absolute path inside."""
        place = self.folder / "upper" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def command(
        self, words: Sequence[str], *, workdir: str = "/", user: str = "", mounts: Mapping[str, Path] | None = None
    ) -> list[str]:
        """The command line that runs these words inside; read-only and without any privilege where a user is given.

        Mounts are folders of this machine by their path inside, writable.
        """
        merged = self.folder / "merged"
        lines = [
            "set -e",
            f"mount -t overlay overlay -o {shlex.quote(self._options())} {merged}",
            *(f"mkdir -p {merged}{inside}" for inside in mounts or {}),
            # Where a Python image has its interpreter and its library.
            f"mount --bind {shlex.quote(sys.base_prefix)} {merged}/usr/local",
            f"mount -o remount,bind,ro {merged}/usr/local",
            f"mount --rbind /dev {merged}/dev",
            f"mount -t proc proc {merged}/proc",
        ]
        if user:
            lines += [f"mount -o remount,ro {merged}", f"mount -t tmpfs tmpfs {merged}/tmp"]  # noqa: S108 - the image's
        lines += [f"mount --bind {shlex.quote(str(path))} {merged}{inside}" for inside, path in (mounts or {}).items()]
        become = ["setpriv", "--no-new-privs", "--bounding-set=-all"]
        become += [f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        inner = ["env", "-i", *variables, "sh", "-c", f'cd {shlex.quote(workdir)} && exec "$@"', "sh", *words]
        lines.append("exec " + shlex.join(["chroot", str(merged), *(become if user else []), *inner]))
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(lines)]

    def run(self, words: Sequence[str], **how: object) -> str:
        """Run to the end and return the output. Raises LayerError where it fails."""
        done = subprocess.run(
            self.command(words, **how),
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise LayerError(
                f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            )
        return done.stdout

    def _options(self) -> str:
        return f"lowerdir=/,upperdir={self.folder / 'upper'},workdir={self.folder / 'work'}"


def base_layer(folder: Path, environment: Mapping[str, str]) -> Layer:
    """A fresh layer on this machine's root, without what an image of ours is made of."""
    for name in ("upper", "work", "merged"):
        (folder / name).mkdir(parents=True)
    layer = Layer(folder, environment)
    # The interpreter may link a library of its own, which the linker must find where a Python image has it.
    layer.run(["sh", "-c", "rm -rf /src /opt/numa-admission && ldconfig"])
    return layer


def build(stages: Sequence[Stage], folder: Path) -> Layer:
    """Do every step of every stage; the last stage's layer. Raises LayerError where a step fails."""
    layers: dict[str, Layer] = {}
    for number, stage in enumerate(stages):
        layer = base_layer(folder / f"stage-{number}", stage.environment() | of_the_machine())
        workdir = "/"
        for step in stage.steps:
            if step.keyword == "WORKDIR":
                workdir = step.text
                layer.place(f"{workdir}/x").parent.chmod(0o755)
            elif step.keyword == "COPY":
                copy(layer, Stage("", (step,)), workdir, layers)
            elif step.keyword == "RUN":
                layer.run(["sh", "-c", step.text], workdir=workdir)
        layers[stage.name] = layer
    return Layer(layer.folder, stages[-1].environment())


def of_the_machine() -> dict[str, str]:
    """What a build on this machine needs to reach its packages."""
    return {name: os.environ[name] for name in OF_THE_MACHINE if name in os.environ}


def copy(layer: Layer, stage: Stage, workdir: str, layers: Mapping[str, Layer]) -> None:
    """Do one COPY, from the build context or from another stage; what is copied is root's, as Docker has it."""
    first, *rest = stage.steps[0].words()
    if first.startswith("--from="):
        source, target = rest
        other = layers[first.removeprefix("--from=")]
        shutil.copytree(other.place(source), layer.place(target), symlinks=True)
        return
    for path, place in copied_files(stage, context_files()).items():
        shutil.copyfile(ROOT / path, layer.place(f"{workdir}/{place}"))
