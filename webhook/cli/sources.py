"""Which files a checker reads: paths, folders and stdin, in a steady order."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STDIN_NAME: Final = "<stdin>"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
MOST_BYTES: Final = 64 * 1024 * 1024
"""A file beyond this is no manifest; etcd itself stores at most 1.5 MB an object."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path that gives no text; ``problem`` is one sentence."""

    name: str
    problem: str


def read_sources(paths: Iterable[str], stdin_name: str = STDIN_NAME) -> Iterator[Source | Unreadable]:
    """Yield the text of each path; a folder gives its YAML and JSON files at any depth, sorted, without hidden ones."""
    for path in paths:
        if path == "-":
            yield _decoded(stdin_name, sys.stdin.buffer.read(MOST_BYTES + 1))
            continue
        if not path:  # an unset variable of a pipeline, not a wish for the current folder
            yield Unreadable(path, "The path is empty.")
            continue
        where = Path(path)
        if not where.is_dir():
            yield _file(where)
            continue
        files = sorted(file for file in where.rglob("*") if file.suffix.lower() in SUFFIXES and _is_shown(where, file))
        if not files:
            yield Unreadable(path, "The folder holds no .yaml, .yml or .json file.")
        for file in files:
            yield _file(file)


def _is_shown(root: Path, file: Path) -> bool:
    return file.is_file() and not any(part.startswith(".") for part in file.relative_to(root).parts)


def _file(file: Path) -> Source | Unreadable:
    try:
        with file.open("rb") as stream:
            return _decoded(str(file), stream.read(MOST_BYTES + 1))
    except OSError as error:
        return Unreadable(str(file), f"It cannot be read: {error.strerror or error}.")


def _decoded(name: str, data: bytes) -> Source | Unreadable:
    if len(data) > MOST_BYTES:
        return Unreadable(name, f"It is larger than {MOST_BYTES // 2**20} MiB.")
    try:
        return Source(name, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Unreadable(name, f"It is not UTF-8: byte {error.start} cannot be read.")
