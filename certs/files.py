"""A TLS context for servers that follows its files: new pairs without restart, bad pairs never.

Made for a directory that a Secret is mounted into (the kubelet swaps the symlink ``..data``), and for any other way
in which files change. There is no thread: whoever accepts connections calls ``context()`` for each, and once in a while
one such call looks at the files.

Gunicorn's ``ssl_context`` hook is called once per accepted connection, in the thread that serves it:

    reloading = ReloadingServerContext(cert_file, key_file)
    def ssl_context(config, default_ssl_context_factory):
        return reloading.context()
"""

import ssl
import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from certs.checks import faults_of_server
from certs.contexts import server_context
from certs.faults import CertificateError, UnreadableError
from certs.moments import Clock, utc_now
from certs.names import Names
from certs.pki import Pair, read_certificates, read_pair
from certs.regular import open_regular

_LARGEST_FILE_BYTES = 1 << 20  # what a Secret may hold
_READS_UNTIL_STILL = 4  # a swap between two reads shows as a difference; more than this many are no swap but a writer


@dataclass(frozen=True, slots=True)
class ReloadState:
    """What is served and how the last look at the files went; for metrics and logs."""

    fingerprint: str
    """SHA-256 of the served leaf, 64 hex digits."""
    subject: str
    not_before: datetime
    not_after: datetime
    loaded_at: datetime
    """When the served pair was picked up."""
    looked_at: datetime
    """When the files were last looked at."""
    loads: int = 1
    """How many times a context was made, the first included."""
    refusals: int = 0
    """How many looks found files that differ from what is served and must not be served."""
    last_error: str = ""
    """Why the files were refused at the last look; empty if they are what is served."""
    last_error_code: str = ""
    """The code of that fault (``certs.faults``), for a metric label."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """The files at one look: their bytes, or the sentence (text) that says why there are none."""

    certificate: bytes | str
    key: bytes | str
    client_ca: bytes | str | None


@dataclass(frozen=True, slots=True)
class _Served:
    """What is handed out, replaced whole: a reader without the lock sees one consistent value."""

    context: ssl.SSLContext
    pair: Pair
    client_ca: bytes | None
    contents: _Contents
    """The files when they were last good in full."""
    state: ReloadState


class ReloadingServerContext:
    """Hand out a server's ``ssl.SSLContext`` and keep it up to date with its files.

    Thread-safe. ``context()`` costs a clock reading and a comparison, about 1 us; once per ``check_every_seconds`` one
    caller (never two, and the others do not wait) also reads the files, about 0.3 ms, and if they changed makes a new
    context of them, a few ms.

    The files are compared by content, not by time stamp or inode: two writes within one tick of a file system's clock
    look alike to ``stat``, and three small reads cost little more.

    Args:
        cert_file: PEM, the leaf first, then its intermediates.
        key_file: PEM, unencrypted.
        client_ca_file: PEM of the authorities that may sign clients; if given, a client must show a certificate.
        required_names: names that every new leaf must cover.
        clock: the wall clock.
        check_every_seconds: how old a look may be. The kubelet itself takes up to about 90 s to project a Secret, so
            that more haste gains nothing.

    Raises:
        CertificateError: the files cannot be served at the start; there is no last good pair to fall back on.
    """

    def __init__(
        self,
        cert_file: Path | str,
        key_file: Path | str,
        client_ca_file: Path | str | None = None,
        *,
        required_names: Names | None = None,
        clock: Clock = utc_now,
        check_every_seconds: float = 5.0,
    ) -> None:
        """Read the files and make the first context."""
        self._cert_file = Path(cert_file)
        self._key_file = Path(key_file)
        self._client_ca_file = Path(client_ca_file) if client_ca_file is not None else None
        self._required = required_names or Names()
        self._clock = clock
        self._interval = timedelta(seconds=check_every_seconds)
        self._looking = threading.Lock()
        now = clock()
        contents = self._read_still()
        pair = self._pair_of(contents, now)
        client_ca = self._client_ca_of(contents)
        state = ReloadState(
            fingerprint=pair.certificate.fingerprint,
            subject=pair.certificate.subject,
            not_before=pair.certificate.not_before,
            not_after=pair.certificate.not_after,
            loaded_at=now,
            looked_at=now,
        )
        self._served = _Served(server_context(pair, client_ca), pair, client_ca, contents, state)

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection: that of the newest good pair. Never raises."""
        now = self._clock()
        if self._is_due(now) and self._looking.acquire(blocking=False):
            try:
                self._look(now)
            except Exception as error:  # noqa: BLE001 - whatever it is, the connection at hand gets its context
                state = replace(self._served.state, looked_at=now, last_error=f"Unexpected: {error!r}.")
                self._served = replace(self._served, state=replace(state, last_error_code="unexpected"))
            finally:
                self._looking.release()
        return self._served.context

    def state(self) -> ReloadState:
        """Return what is served now. Reads no file: on an idle server it is as old as the last connection."""
        return self._served.state

    def look(self) -> ReloadState:
        """Look at the files now, whether it is due or not, and return the state. For probes and for idle servers."""
        with self._looking:
            self._look(self._clock())
        return self._served.state

    def _is_due(self, now: datetime) -> bool:
        # A wall clock that was set back would otherwise silence us until it has caught up.
        looked_at = self._served.state.looked_at
        return now - looked_at >= self._interval or now < looked_at

    def _look(self, now: datetime) -> None:
        served = self._served
        fault: CertificateError | None = None
        pair, client_ca, contents = served.pair, served.client_ca, served.contents
        # The pair and the client authorities fail and recover apart: a broken file of these must not hold up a renewal.
        try:
            contents = self._read_still()
        except CertificateError as error:
            fault = error
        if contents != served.contents:
            try:
                client_ca = self._client_ca_of(contents)
            except CertificateError as error:
                fault = error
            try:
                pair = self._pair_of(contents, now)
            except CertificateError as error:
                fault = error
        if (pair, client_ca) != (served.pair, served.client_ca):
            try:
                served = self._serving(pair, client_ca, now)
            except CertificateError as error:
                fault = error
        state = replace(
            served.state,
            looked_at=now,
            refusals=served.state.refusals + (fault is not None),
            last_error=str(fault or ""),
            last_error_code=fault.code if fault else "",
        )
        self._served = replace(served, state=state, contents=served.contents if fault else contents)

    def _serving(self, pair: Pair, client_ca: bytes | None, now: datetime) -> _Served:
        served = self._served
        state = replace(
            served.state,
            fingerprint=pair.certificate.fingerprint,
            subject=pair.certificate.subject,
            not_before=pair.certificate.not_before,
            not_after=pair.certificate.not_after,
            loaded_at=now,
            loads=served.state.loads + 1,
        )
        return replace(served, context=server_context(pair, client_ca), pair=pair, client_ca=client_ca, state=state)

    def _pair_of(self, contents: _Contents, now: datetime) -> Pair:
        """Return the pair, or raise the first thing that keeps it from being served."""
        pair = read_pair(_there(contents.certificate), _there(contents.key), what=f"certificate {self._cert_file.name}")
        for fault in faults_of_server(pair.certificate, now, self._required):
            raise fault
        return pair

    def _client_ca_of(self, contents: _Contents) -> bytes | None:
        if contents.client_ca is None:
            return None
        pem = _there(contents.client_ca)
        read_certificates(pem, what="The file of client authorities")
        return pem

    def _read_still(self) -> _Contents:
        """Return the contents, read until two readings agree, so that no half of a swap is taken for a bad pair."""
        contents = self._read()
        for _ in range(_READS_UNTIL_STILL):
            again = self._read()
            if again == contents:
                return contents
            contents = again
        raise UnreadableError(f"The files beside {self._cert_file} keep changing while they are read.")

    def _read(self) -> _Contents:
        return _Contents(
            certificate=_read_file(self._cert_file),
            key=_read_file(self._key_file),
            client_ca=_read_file(self._client_ca_file) if self._client_ca_file is not None else None,
        )


def _there(content: bytes | str) -> bytes:
    if isinstance(content, str):
        raise UnreadableError(content)
    return content


def _read_file(path: Path) -> bytes | str:
    try:
        with open(path, "rb", opener=open_regular) as stream:
            read = stream.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        return f"The file {path} cannot be read: {error.strerror or error}."
    if len(read) > _LARGEST_FILE_BYTES:
        return f"The file {path} is larger than {_LARGEST_FILE_BYTES} bytes."
    return read
