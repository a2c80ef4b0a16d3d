"""Cases that real programs judged: the committed ones, and those that such a program draws just now."""

import gzip
import json
import os
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

NO_GO = 3
"""Exit code of a ``build`` script where there is no Go toolchain."""


class CaseJudge(Protocol):
    """Something of ours that is compared with recorded cases, one after the other."""

    def judge(self, case: dict) -> None:
        """Compare one case."""
        ...


Judge = TypeVar("Judge", bound=CaseJudge)


def read_lines(lines: Iterable[str | bytes]) -> Iterator[dict]:
    """Yield the cases of JSON lines."""
    for line in lines:
        if line.strip():
            yield json.loads(line)


def recorded(path: Path) -> Iterator[dict]:
    """Yield the cases of a committed file."""
    with gzip.open(path, "rt") as lines:
        yield from read_lines(lines)


def judged(judge: Judge, cases: Iterable[dict]) -> Judge:
    """Return ``judge`` after all ``cases``."""
    for case in cases:
        judge.judge(case)
    return judge


@dataclass(frozen=True)
class FreshCases:
    """A program that draws and judges cases, and the variables of the environment that ask for some."""

    build: Path
    """The script that builds it and prints where it is."""
    cases: str
    """Names the variable that holds how many; without it nothing is drawn."""
    seed: str
    """Names the variable that repeats a run."""
    shares: Mapping[str, float]
    """The part of the cases that each profile draws."""

    def judged(self, judge: Judge, profile: str) -> tuple[Judge, str, int]:
        """Return ``judge`` after the profile's cases, their seed, and how many were asked for; skips without Go."""
        built = subprocess.run([self.build], capture_output=True, text=True, check=False)
        if built.returncode == NO_GO:
            pytest.skip("no Go toolchain: only the committed sample was compared")
        assert built.returncode == 0, built.stderr
        seed = os.environ.get(self.seed) or str(secrets.randbelow(10**6))
        cases = max(int(int(os.environ[self.cases]) * self.shares[profile]), 1)
        command = [built.stdout.strip().splitlines()[-1], "generate", "--seed", seed, "--cases", str(cases)]
        with subprocess.Popen([*command, "--profile", profile], stdout=subprocess.PIPE) as oracle:
            judged(judge, read_lines(oracle.stdout))
        assert oracle.returncode == 0
        return judge, seed, cases
