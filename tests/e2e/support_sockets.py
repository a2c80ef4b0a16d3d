"""Which ports a program and its children really use, as Linux tells it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from controlplane.processes import Running

PROC = Path("/proc")
LISTENING, ESTABLISHED = "0A", "01"


@dataclass(frozen=True)
class Ports:
    """TCP ports of one program."""

    listened_on: frozenset[int]
    connected_to: frozenset[int]
    """Of the other side, where the connection was opened by the program."""


def ports_of(running: Running) -> Ports:
    """The ports that a program and all its children use at this moment."""
    inodes = set(_socket_inodes(running.process.pid))
    rows = [row for row in _tcp_rows() if row.inode in inodes]
    listened_on = frozenset(row.local_port for row in rows if row.state == LISTENING)
    opened = (row for row in rows if row.state == ESTABLISHED and row.local_port not in listened_on)
    return Ports(listened_on, frozenset(row.remote_port for row in opened))


@dataclass(frozen=True)
class _Row:
    local_port: int
    remote_port: int
    state: str
    inode: str


def _tcp_rows() -> Iterator[_Row]:
    for name in ("tcp", "tcp6"):
        for line in (PROC / "net" / name).read_text().splitlines()[1:]:
            words = line.split()
            local, remote = (int(word.rpartition(":")[2], 16) for word in words[1:3])
            yield _Row(local, remote, words[3], words[9])


def _socket_inodes(session: int) -> Iterator[str]:
    """Each program of ours is started in a session of its own."""
    for process in PROC.glob("[0-9]*"):
        # A process may end while it is looked at.
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                for descriptor in (process / "fd").iterdir():
                    target = str(descriptor.readlink())
                    if target.startswith("socket:["):
                        yield target.removeprefix("socket:[").removesuffix("]")
