"""Which files a checker reads: paths, folders and stdin, in a steady order."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

STDIN_NAME: Final = "<stdin>"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
MOST_BYTES: Final = 64 * 1024 * 1024
"""A file beyond this is no manifest; etcd itself stores at most 1.5 MB an object."""
_CHART_FILE: Final = "Chart.yaml"
_TEMPLATES: Final = "templates"


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file."""

    name: str
    text: str
    is_walked: bool = False
    """Whether a folder gave it; nobody has named it, so it may be no manifest at all."""
    chart: str = ""
    """The Helm chart among whose templates it lies; empty: none."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path that gives no text; ``problem`` is one sentence."""

    name: str
    problem: str


def read_sources(
    paths: Iterable[str], stdin_name: str = STDIN_NAME, ignored: tuple[str, ...] = ()
) -> Iterator[Source | Unreadable]:
    """Yield the text of each path; a folder gives its YAML and JSON files at any depth, sorted, without hidden ones.

    ``ignored`` are patterns of what a folder does not give (``*``, ``?``, ``[...]``; a ``*`` also stands for slashes):
    one without a slash is compared with the name of each file and folder, one with a slash with the path from the
    folder that was named. A file that is named itself is read whatever they say.
    """
    for path in paths:
        if path == "-":
            yield _decoded(stdin_name, sys.stdin.buffer.read(MOST_BYTES + 1))
            continue
        if not path:  # an unset variable of a pipeline, not a wish for the current folder
            yield Unreadable(path, "The path is empty.")
            continue
        where = Path(path)
        if where.is_dir():
            yield from _walked(where, path, ignored)
        else:
            yield _file(where)


def _walked(root: Path, path: str, ignored: tuple[str, ...]) -> Iterator[Source | Unreadable]:
    files = sorted(file for file in root.rglob("*") if file.suffix.lower() in SUFFIXES and _is_shown(root, file))
    if not files:
        yield Unreadable(path, "The folder holds no .yaml, .yml or .json file.")
        return
    kept = [file for file in files if not _is_ignored(file.relative_to(root), ignored)]
    if not kept:
        yield Unreadable(path, "Every .yaml, .yml and .json file of the folder is ignored.")
    for file in kept:
        source = _file(file)
        if isinstance(source, Source):
            source = Source(source.name, source.text, is_walked=True, chart=_chart_of(file))
        yield source


def _is_shown(root: Path, file: Path) -> bool:
    return file.is_file() and not any(part.startswith(".") for part in file.relative_to(root).parts)


def _is_ignored(path: Path, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern takes the file, or a folder that it is in."""
    for pattern in patterns:
        wanted = pattern.rstrip("/")
        for part in (path, *path.parents):
            if fnmatchcase(part.as_posix() if "/" in wanted else part.name, wanted.removeprefix("./")):
                return True
    return False


def _chart_of(file: Path) -> str:
    """Return the folder of the chart whose template ``file`` would be; empty where it is none."""
    for folder in file.parents:
        if folder.name == _TEMPLATES and (folder.parent / _CHART_FILE).is_file():
            return str(folder.parent)
    return ""


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
