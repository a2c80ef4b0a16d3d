"""A Secret store in a directory, for development: laid out and swapped as the kubelet does it with a mounted Secret.

    DIR/..2026-01-31T23_59_59.123/tls.crt   the files of one version
    DIR/..data -> ..2026-01-31T23_59_59.123 replaced by rename, in one step for all files
    DIR/tls.crt -> ..data/tls.crt           what a server opens

So a server that reads DIR meets what it will meet in a cluster, and never one version's certificate beside another's
key for longer than between two opens.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from certs.store import ConflictError, ForbiddenError, Secret, StoreError, UnavailableError

_DATA = "..data"


class DirectoryStore:
    """The files of a directory as one Secret. Its version is a hash of the content, so that no counter can be lost."""

    def __init__(self, directory: Path) -> None:
        """Take the directory; it is made at the first write."""
        self._directory = directory

    def read(self) -> Secret:
        """Return the current version's files; a directory that does not exist is an empty Secret.

        Raises:
            StoreError: the files cannot be read.
        """
        with _translated(self._directory):
            if not self._directory.exists():
                return Secret()
            with _locked(self._directory, fcntl.LOCK_SH):
                return self._read()

    def write(self, data: Mapping[str, bytes], version: str) -> str:
        """Make ``data`` the current version if that is still ``version``; return the new one.

        Raises:
            ConflictError: the directory holds another version.
            StoreError: the directory cannot be written.
        """
        with _translated(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            with _locked(self._directory, fcntl.LOCK_EX):
                if self._read().version != version:
                    raise ConflictError(f"The files in {self._directory} have changed since they were read.")
                self._swap(data)
        return _version(data)

    def _read(self) -> Secret:
        current = self._directory / _DATA
        try:
            names = sorted(entry.name for entry in current.resolve(strict=True).iterdir())
        except FileNotFoundError:
            return Secret()
        data = {name: (current / name).read_bytes() for name in names}
        return Secret(data, _version(data))

    def _swap(self, data: Mapping[str, bytes]) -> None:
        fresh = Path(tempfile.mkdtemp(prefix="..", dir=self._directory))
        for name, content in data.items():
            descriptor = os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
        current = self._directory / _DATA
        before = current.resolve() if current.is_symlink() else None
        _point(current, fresh.name)
        for name in data:
            if not (self._directory / name).is_symlink():
                _point(self._directory / name, f"{_DATA}/{name}")
        for entry in self._directory.iterdir():
            if entry.is_symlink() and entry.name != _DATA and not entry.exists():
                entry.unlink()
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)


def _point(link: Path, target: str) -> None:
    """Make ``link`` a symlink to ``target``, over whatever file or link had its name."""
    temporary = link.with_name(f"{link.name}.new")
    with suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    temporary.replace(link)


def _version(data: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(data):
        digest.update(f"{len(name)}:{name}{len(data[name])}:".encode())
        digest.update(data[name])
    return digest.hexdigest()


@contextmanager
def _locked(directory: Path, kind: int) -> Iterator[None]:
    """Hold the directory's own lock, which ends with the process whatever kills it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _translated(directory: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except PermissionError as error:
        raise ForbiddenError(f"The directory {directory} may not be used: {error.strerror}.") from error
    except OSError as error:
        raise UnavailableError(f"The directory {directory} cannot be used: {error.strerror}.") from error
