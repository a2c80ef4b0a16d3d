"""Which settings a running server can take over, and which wait for its next start."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final

from webhook.service.settings import SECTIONS, Settings, key_of

NEEDS_RESTART: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        # Sockets, processes, threads and their bounds are made before the first call.
        "server": frozenset(each.name for each in fields(SECTIONS["server"])),
        # Where the files are; what is in them is read again by itself.
        "tls": frozenset(each.name for each in fields(SECTIONS["tls"])),
        "log": frozenset({"level"}),
        # Which cluster, and under which names this process stands for election and keeps its checkpoint.
        "cluster": frozenset(each.name for each in fields(SECTIONS["cluster"])),
        # The ledger starts with it.
        "capacity": frozenset({"picture_file"}),
    }
)
"""Fields by section; the schema marks the same keys with ``x-needs-restart``."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """What becomes of new settings in a running server."""

    settings: Settings
    """The new ones; keys that need a restart as they were at start."""
    changed: tuple[str, ...]
    """Keys of the file (``rules.enforcement``) that differ from what was in force."""
    waiting: tuple[str, ...]
    """Keys that differ from what the process was started with and wait for a restart."""


def take_over(new: Settings, in_force: Settings, started: Settings) -> Takeover:
    """Return what a server takes over of ``new``: everything but what needs a restart, which stays as ``started``."""
    kept: dict[str, Any] = {}
    waiting: list[str] = []
    for section, names in NEEDS_RESTART.items():
        now, then = getattr(new, section), getattr(started, section)
        differing = [name for name in sorted(names) if getattr(now, name) != getattr(then, name)]
        waiting.extend(f"{section}.{key_of(name)}" for name in differing)
        kept[section] = replace(now, **{name: getattr(then, name) for name in names})
    settings = replace(new, **kept)
    return Takeover(settings, _differing(settings, in_force), tuple(waiting))


def files_of_a_start(settings: Settings) -> Mapping[str, str]:
    """Return the paths of files that a start with ``settings`` reads, by their keys."""
    tls = settings.tls
    named = {"tls.certFile": tls.cert_file, "tls.keyFile": tls.key_file, "tls.clientCaFile": tls.client_ca_file}
    if settings.server.role.has_ledger:
        named["capacity.pictureFile"] = settings.capacity.picture_file
    if settings.cluster.live:
        named["cluster.kubeconfig"] = settings.cluster.kubeconfig
    return MappingProxyType({key: path for key, path in named.items() if path})


def _differing(one: Settings, other: Settings) -> tuple[str, ...]:
    found = [
        f"{section}.{key_of(each.name)}"
        for section, kind in SECTIONS.items()
        for each in fields(kind)
        if getattr(getattr(one, section), each.name) != getattr(getattr(other, section), each.name)
    ]
    if one.workloads != other.workloads:
        found.append("workloads")
    return tuple(found)
