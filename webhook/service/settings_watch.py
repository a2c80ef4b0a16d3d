"""The settings file as it changes under a running server: good ones are taken, bad ones refused whole.

Made for a folder that a ConfigMap is mounted into (the kubelet swaps the symlink ``..data``), and for any other way in
which a file changes: contents are compared, not times or inodes.

Decision of 2026-11-29: a good file with a change that needs a restart (``settings_restart``) is taken all the same;
those keys keep the values of the start, and a warning and a metric say which wait. Refusing it whole would hold up a
change of rules, which may be urgent, for one that nobody can see the effect of anyway. A file that such a key names and
that is not there is told at once, and refuses nothing: a rollout may bring it with the next container.
"""

import hashlib
import os
import threading
from collections.abc import Callable
from typing import Final, Literal

from prometheus_client import Counter, Gauge
from structlog.typing import FilteringBoundLogger

from certs.regular import open_regular
from webhook.core.plain_text import plain
from webhook.service.logs import fault_text
from webhook.service.meters import Meters
from webhook.service.settings import Settings
from webhook.service.settings_file import SettingsError, SettingsFile, is_cut_off, read_content
from webhook.service.settings_restart import files_of_a_start, take_over

LOOK_EVERY_SECONDS: Final = 1.0
"""The kubelet itself needs up to about 90 s to bring a changed ConfigMap, so that more haste gains nothing."""

_HASH_DIGITS: Final = 12
"""Of the SHA-256: 48 bits, which a metric's floating point number holds exactly."""


def hash_of(content: bytes) -> str:
    """Return the first twelve hex digits of the content's SHA-256, as logs and the metric name settings."""
    return hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]


class SettingsWatch:
    """Looks at the file again and again; ``take`` is called, by one thread at a time, with settings to judge by."""

    def __init__(
        self,
        file: SettingsFile,
        take: Callable[[Settings], None],
        meters: Meters,
        log: FilteringBoundLogger,
    ) -> None:
        """Begin with the settings of the start, which are in force.

        Raises:
            SettingsError: the settings of the start are faulty.
        """
        self._file = file
        self._take = take
        self._log = log
        self._meters = SettingsMeters(meters)
        self._started = self._in_force = file.settings(file.content)
        self._judged: bytes | str = file.content
        self._last_seen: bytes | str = file.content
        self._hash = hash_of(file.content)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._meters.hash.set(int(self._hash, 16))

    def start(self) -> None:
        """Start the thread; call it after the fork."""
        self._thread = threading.Thread(target=self._run, name="settings", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def catch_up(self) -> None:
        """Take what the process before this one had in force, if there was one, and judge what is in the file now."""
        kept = self._file.kept.read()
        if kept is not None and kept != self._judged:
            self._judged = kept
            self._change(self._file.settings(kept), kept)
        self.look()
        self.look()

    def look(self) -> None:
        """Look once. Content is judged when two looks in a row find it, so that no half-written file is taken."""
        found = self._read()
        is_still = found == self._last_seen
        self._last_seen = found
        if not is_still or found == self._judged:
            return
        self._judged = found
        try:
            new, content = self._settings_of(found)
        except SettingsError as error:
            self._refuse(error, found)
        else:
            self._change(new, content)

    def _settings_of(self, found: bytes | str) -> tuple[Settings, bytes]:
        if isinstance(found, str):
            raise SettingsError((found,))
        if is_cut_off(found):  # a start takes that for defaults; here it would undo what is in force
            raise SettingsError(("The settings file sets nothing, wanted a map; {} sets everything to its default.",))
        return self._file.settings(found), found

    def _change(self, new: Settings, content: bytes) -> None:
        takeover = take_over(new, self._in_force, self._started)
        self._take(takeover.settings)
        self._in_force, self._hash = takeover.settings, hash_of(content)
        self._file.kept.keep(content)
        self._meters.hash.set(int(self._hash, 16))
        self._meters.failed.set(0)
        self._meters.waits.set(bool(takeover.waiting))
        self._meters.reloads.labels("taken").inc()
        self._log.info(
            "settings",
            text="The settings file has changed; its settings are in force.",
            hash=self._hash,
            changed=list(takeover.changed),
        )
        if takeover.waiting:
            self._log.warning(
                "settings",
                text="These settings have changed in the file and need a restart; until then the old values count.",
                hash=self._hash,
                waiting=list(takeover.waiting),
            )
        if unreadable := _unreadable(new, takeover.waiting):
            self._log.error(
                "settings",
                text="These settings name files that a restart in this place could not read, and would fail.",
                hash=self._hash,
                faults=unreadable,
            )

    def _refuse(self, error: SettingsError, found: bytes | str) -> None:
        self._meters.failed.set(1)
        self._meters.reloads.labels("refused").inc()
        self._log.error(
            "settings",
            text="The settings file has changed and is refused whole; the previous settings stay in force.",
            hash=self._hash,
            refused=hash_of(found) if isinstance(found, bytes) else "",
            faults=list(error.faults),
        )

    def _read(self) -> bytes | str:
        try:
            return read_content(self._file.path)
        except SettingsError as error:
            return str(error)

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_SECONDS):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - a thread that dies unseen is worse
                self._meters.failed.set(1)
                self._log.error("fault", **fault_text(error))


def _unreadable(settings: Settings, keys: tuple[str, ...]) -> list[str]:
    """Return a sentence for each of ``keys`` that names a file which cannot be read."""
    faults = []
    for key, path in files_of_a_start(settings).items():
        try:
            if key in keys:
                os.close(open_regular(path, os.O_RDONLY))
        except OSError as error:
            faults.append(f"{key}: found {plain(path)}, wanted a file that can be read: {error.strerror or error}.")
    return faults


class SettingsMeters:
    """What is counted of it; nothing is in force yet."""

    def __init__(self, meters: Meters) -> None:
        """Make the metrics in the process's registry."""

        def gauge(name: str, text: str, mode: Literal["liveall", "livemax"]) -> Gauge:
            return Gauge(f"numa_admission_settings_{name}", text, registry=registry, multiprocess_mode=mode)

        registry = meters.registry
        of_file = "First 48 bits of the SHA-256 of the settings file whose settings are in force."
        self.hash = gauge("hash", of_file, "liveall")
        self.failed = gauge("reload_failed", "1 while the file is refused and previous ones are in force.", "livemax")
        self.waits = gauge("restart_needed", "1 while the file sets what only a restart takes over.", "livemax")
        self.reloads = Counter(
            "numa_admission_settings_reloads",
            "Changes of the settings file, by outcome.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("taken", "refused"):
            self.reloads.labels(outcome)
