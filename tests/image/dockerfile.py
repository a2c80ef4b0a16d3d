"""The Dockerfile read as data, and the build context that `.dockerignore` leaves of the tree.

Only what our Dockerfile uses is understood; anything else is an error and no guess.
"""

import fnmatch
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Step:
    """One instruction with its continuation lines joined."""

    keyword: str
    text: str

    def words(self) -> list[str]:
        """The words of the text, JSON form or shell form."""
        return list(json.loads(self.text)) if self.text.startswith("[") else shlex.split(self.text)


@dataclass(frozen=True)
class Stage:
    """What stands from one FROM to the next."""

    name: str
    steps: tuple[Step, ...]

    def of(self, keyword: str) -> list[Step]:
        """Its steps of this keyword, in order."""
        return [step for step in self.steps if step.keyword == keyword]

    def environment(self) -> dict[str, str]:
        """The variables of its ENV steps, with $PATH as it is in a slim Python image."""
        found = {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}
        for step in self.of("ENV"):
            for word in step.words():
                name, _, value = word.partition("=")
                found[name] = value.replace("$PATH", found["PATH"])
        return found


def read_stages(text: str) -> list[Stage]:
    """The stages in their order. Raises ValueError for an instruction that nobody here understands."""
    stages: list[tuple[str, list[Step]]] = []
    for step in read_steps(text):
        if step.keyword == "FROM":
            name = re.search(r" AS (\S+)$", step.text)
            stages.append((name[1] if name else "", []))
        elif stages:
            stages[-1][1].append(step)
        elif step.keyword != "ARG":
            raise ValueError(f"{step.keyword} stands before the first FROM.")
    return [Stage(name, tuple(steps)) for name, steps in stages]


KEYWORDS = frozenset({"ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "EXPOSE", "ENTRYPOINT", "CMD"})


def read_steps(text: str) -> Iterator[Step]:
    """All instructions in their order. Raises ValueError for an unknown one."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            keyword, _, rest = line.strip().partition(" ")
            if keyword not in KEYWORDS:
                raise ValueError(f"{keyword} is not understood.")
            yield Step(keyword, rest.strip())


def context_files(root: Path = ROOT) -> set[Path]:
    """The files of the tree that the ignore file lets into the build context, relative to the root.

    As Docker has it: the last pattern that matches a file, or a folder above it, decides; `!` lets in again.
    """
    patterns = [
        line.strip()
        for line in (root / ".dockerignore").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    found = set()
    for top in {pattern[1:] for pattern in patterns if pattern.startswith("!")}:
        place = root / top
        for path in [place] if place.is_file() else place.rglob("*"):
            if path.is_file() and not _is_ignored(path.relative_to(root), patterns):
                found.add(path.relative_to(root))
    return found


def _is_ignored(path: Path, patterns: list[str]) -> bool:
    ignored = False
    for pattern in patterns:
        wanted = not pattern.startswith("!")
        if any(_matches(each, pattern.removeprefix("!")) for each in (path, *path.parents[:-1])):
            ignored = wanted
    return ignored


def _matches(path: Path, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(path.name, pattern[3:])
    return len(path.parts) == len(Path(pattern).parts) and fnmatch.fnmatchcase(path.as_posix(), pattern)


def copied_files(stage: Stage, context: set[Path]) -> Mapping[Path, Path]:
    """Where the context's files that COPY names go, relative to the stage's WORKDIR: source to target.

    Raises ValueError for a name that the context does not have: Docker would end the build there.
    """
    found: dict[Path, Path] = {}
    for step in stage.of("COPY"):
        *sources, target = step.words()
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            files = [path for path in context if path == Path(source) or Path(source) in path.parents]
            if not files:
                raise ValueError(f"COPY names {source}, which is not in the build context.")
            for path in files:
                within = path.relative_to(source) if path != Path(source) else Path(path.name)
                found[path] = Path(target) / within
    return found
