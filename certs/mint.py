"""Mint a throw-away authority and leaf into files, for development, tests and clusters that mount their own Secret."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.moments import utc_now
from certs.names import Names, names_of
from certs.pki import mint_authority, mint_leaf

_LAST_MOMENT = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MintedFiles:
    """Where the minted PEM files are."""

    ca_file: Path
    cert_file: Path
    key_file: Path


def mint_development_pair(
    directory: Path,
    dns_names: Iterable[str] = ("localhost",),
    ip_addresses: Iterable[str] = ("127.0.0.1",),
    days: float = 30,
    *,
    now: datetime | None = None,
) -> MintedFiles:
    """Write ``ca.crt``, ``tls.crt`` and ``tls.key`` for the names into ``directory``, which is made if it is missing.

    The authority's key is forgotten, so that nothing else can ever be signed by it. Each file replaces its predecessor
    in one step; the key can be read by this user only.

    Raises:
        ValueError: no name, a bad name, or a number of days that is not above 0 or reaches past the year 9999.
        OSError: the directory cannot be written.
    """
    names = names_of(dns_names, ip_addresses)
    return mint_into(directory, names, lifetime_of(days), now or utc_now())


def lifetime_of(days: float) -> timedelta:
    """Return ``days`` as a span of time.

    Raises:
        ValueError: it is no number, or too large for any calendar.
    """
    try:
        return timedelta(days=days)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"A lifetime cannot be {days} days.") from error


def mint_into(directory: Path, names: Names, lifetime: timedelta, now: datetime) -> MintedFiles:
    """Write a new authority's certificate and a leaf by it; both live for ``lifetime`` from ``now``.

    Raises:
        ValueError: no name is given, or the lifetime is not above 0 or reaches past the year 9999.
        OSError: the directory cannot be written.
    """
    if not timedelta(0) < lifetime < _LAST_MOMENT - now:
        raise ValueError(f"A certificate must live for more than 0 days and end before the year 9999, not {lifetime}.")
    authority = mint_authority(now, lifetime, name="numa-admission development")
    leaf = mint_leaf(authority, names, now, lifetime)
    files = MintedFiles(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(files.ca_file, authority.certificate.pem)
    write_atomically(files.key_file, leaf.key_pem, mode=0o600)
    write_atomically(files.cert_file, leaf.certificates_pem)
    return files


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace ``path`` by a file with ``content``: readers see the old or the new one, never a part.

    The file has ``mode`` from its first byte on, whatever the umask adds is taken away.

    Raises:
        OSError: the directory cannot be written; no temporary file is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    with suppress(FileNotFoundError):
        temporary.unlink()  # of a process with our number that was killed
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
