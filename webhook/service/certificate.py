"""The serving certificate as operators see it: metrics of its end and its refusal, readiness, a line for a change."""

from structlog.typing import FilteringBoundLogger

from certs.files import ReloadingServerContext
from webhook.service.clock import Clock
from webhook.service.meters import Meters


class CertificateWatch:
    """Looks at a reloading context now and then; called by one thread."""

    def __init__(self, tls: ReloadingServerContext, meters: Meters, log: FilteringBoundLogger, clock: Clock) -> None:
        """Start with what is served now."""
        self._tls = tls
        self._meters = meters
        self._log = log
        self._clock = clock
        self._fingerprint = tls.state().fingerprint
        self._error = ""

    def look(self) -> None:
        """Have the files looked at, and tell what is new."""
        state = self._tls.look()
        self._meters.set_certificate_expiry(state.not_after.timestamp())
        self._meters.set_certificate_refused(is_refused=bool(state.last_error))
        if state.fingerprint != self._fingerprint:
            self._log.info("certificate", text="A new certificate is served.", ends=state.not_after.isoformat())
        if state.last_error and state.last_error != self._error:
            self._log.error("certificate", text=state.last_error, code=state.last_error_code)
        self._fingerprint, self._error = state.fingerprint, state.last_error

    def why_not_ready(self) -> str:
        """Return a sentence where no API server would accept the certificate any more."""
        end = self._tls.state().not_after
        ended = end.timestamp() <= self._clock.wall_seconds()
        return f"The serving certificate ended at {end.isoformat(timespec='seconds')}." if ended else ""
