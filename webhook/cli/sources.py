"""Which files a checker reads: paths, folders and stdin, in a steady order."""

import os
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


class Walk:
    """What the folders of one call do not give, and what of that is worth a word afterwards."""

    def __init__(self, ignored: tuple[str, ...] = ()) -> None:
        """Take patterns (``*``, ``?``, ``[...]``; a ``*`` also stands for slashes) of what a folder does not give.

        One without a slash is compared with the name of each file and folder; one with a slash with the path from the
        folder that was named, with or without that folder before it.
        """
        self._ignored = ignored
        self._used: set[str] = set()
        self.links_to_folders = 0
        """Links that were not followed: they may lead in circles."""

    @property
    def unused(self) -> tuple[str, ...]:
        """The patterns that have taken nothing, in order."""
        return tuple(pattern for pattern in self._ignored if pattern not in self._used)

    def ignores(self, root: Path, file: Path) -> bool:
        """Return whether a pattern takes the file, or a folder below ``root`` that it is in."""
        path = file.relative_to(root)
        taking = {pattern for pattern in self._ignored if _takes(pattern, root, path)}
        self._used |= taking
        return bool(taking)


def _takes(pattern: str, root: Path, path: Path) -> bool:
    wanted = pattern.rstrip("/")
    is_path = "/" in wanted
    wanted = wanted.removeprefix("./").removeprefix(f"{root.as_posix().rstrip('/')}/")
    return any(
        fnmatchcase(part.as_posix() if is_path else part.name, wanted) for part in (path, *path.parents) if part.name
    )


def read_sources(
    paths: Iterable[str], stdin_name: str = STDIN_NAME, walk: Walk | None = None
) -> Iterator[Source | Unreadable]:
    """Yield the text of each path; a folder gives its YAML and JSON files at any depth, sorted, without hidden ones.

    A file that is named itself is read whatever ``walk`` ignores. Links to folders are not followed but counted.
    """
    walk = walk or Walk()
    for path in paths:
        if path == "-":
            yield _decoded(stdin_name, sys.stdin.buffer.read(MOST_BYTES + 1))
            continue
        if not path:  # an unset variable of a pipeline, not a wish for the current folder
            yield Unreadable(path, "The path is empty.")
            continue
        where = Path(path)
        if where.is_dir():
            yield from _walked(where, path, walk)
        else:
            yield _file(where)


def _walked(root: Path, path: str, walk: Walk) -> Iterator[Source | Unreadable]:
    files = sorted(_below(root, walk))
    if not files:
        yield Unreadable(path, "The folder holds no .yaml, .yml or .json file.")
        return
    kept = [file for file in files if not walk.ignores(root, file)]
    if not kept:
        yield Unreadable(path, "Every .yaml, .yml and .json file of the folder is ignored.")
    for file in kept:
        # Opening a pipe would wait for a writer for ever. A folder is here because it cannot be listed.
        if file.exists() and not (file.is_file() or file.is_dir()):
            yield Unreadable(str(file), "It is no regular file.")
            continue
        source = _file(file) if not file.is_dir() else Unreadable(str(file), "The folder cannot be listed.")
        if isinstance(source, Source):
            source = Source(source.name, source.text, is_walked=True, chart=_chart_of(file))
        yield source


def _below(root: Path, walk: Walk) -> Iterator[Path]:
    """Yield what is named as manifests are, whatever it is, and each folder that cannot be listed."""
    closed: list[Path] = []
    for folder, folders, names in os.walk(root, onerror=lambda error: closed.append(Path(error.filename))):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [Path(folder, name) for name in folders if Path(folder, name).is_symlink()]
        walk.links_to_folders += sum(not walk.ignores(root, link) for link in links)
        files = (Path(folder, name) for name in names if not name.startswith("."))
        yield from (file for file in files if file.suffix.lower() in SUFFIXES)
    yield from closed


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
        if isinstance(error, FileNotFoundError) and file.is_symlink():
            return Unreadable(str(file), "It is a link that leads nowhere.")
        return Unreadable(str(file), f"It cannot be read: {error.strerror or error}.")


def _decoded(name: str, data: bytes) -> Source | Unreadable:
    if len(data) > MOST_BYTES:
        return Unreadable(name, f"It is larger than {MOST_BYTES // 2**20} MiB.")
    try:
        return Source(name, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Unreadable(name, f"It is not UTF-8: byte {error.start} cannot be read.")
