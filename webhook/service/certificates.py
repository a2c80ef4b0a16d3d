"""The loop that keeps certificates: one look after another at the Secret and the configurations, and the pair in files.

It runs in a process of its own beside the server (``numa-admission certs keep``), not in the server (decision of
2026-11-29): so the process that reads what strangers send has no token and never sees the key that signs, several
worker processes need no agreement on who does it, and a busy server delays no renewal. The two meet in a directory,
which the server reads again when it changes.

A ledger's server has a token, so its pods have no such process and may not read the Secret (decision of 2026-11-30):
the kubelet mounts the pair alone, and is as quick as the rotation grants replicas.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from certs.directory import DirectoryStore
from certs.holdings import BUNDLE, LEAF_CERTIFICATE, LEAF_KEY, Holdings
from certs.moments import Clock, in_words, utc_now
from certs.pki import Pair
from certs.plan import Action
from certs.steps import Outcome, Step
from certs.store import StoreError

_LEAST_PAUSE_SECONDS = 0.5
"""However soon the next look is wanted: a Secret that somebody fights over must not load the API server."""
_MISSING = timedelta(seconds=1)
"""Between two looks while there is no pair yet, and a server that cannot start without one."""
_RETRY = timedelta(seconds=5)

Wait = Callable[[float], bool]
"""Waits for at most so many seconds and returns whether the loop shall end (``threading.Event().wait``)."""


class Stepper(Protocol):
    """``certs.rotate.Rotator`` or ``certs.trust.TrustKeeper``."""

    def step(self, now: datetime) -> Step:
        """Look once, and do what is due."""
        ...


class CertificateKeeper:
    """Looks again and again, and lays the pair down where a server reads it."""

    def __init__(
        self,
        stepper: Stepper,
        files: DirectoryStore | None,
        log: FilteringBoundLogger,
        clock: Clock = utc_now,
    ) -> None:
        """Take the collaborators; without ``files`` nothing is laid down.

        ``clock`` should be the API server's (``server_clock``), by which certificates are judged.
        """
        self._stepper = stepper
        self._files = files
        self._log = log
        self._clock = clock
        self._laid: Pair | None = None
        self._last_error = ""

    def look(self) -> Step:
        """Do one step, lay down what the Secret holds then, and tell what is new.

        A Secret that cannot be read, or holds no pair, leaves the files as they are: the last good pair goes on.
        """
        step = self._stepper.step(self._clock())
        if step.holdings is not None:
            step = self._lay_down(step, step.holdings)
        self._tell(step)
        return step

    @property
    def has_pair(self) -> bool:
        """Whether a pair was laid down."""
        return self._laid is not None

    def run(self, wait: Wait, *, until_first_pair: bool = False) -> None:
        """Look until ``wait`` returns true, or, with ``until_first_pair``, until a pair lies in the files."""
        while True:
            began = self._clock()
            step = self.look()
            if until_first_pair and self.has_pair:
                return
            # The step's answers may tell that the clock was set back by hours: no reason to sleep for them.
            pause_seconds = (step.look_at - max(began, self._clock())).total_seconds()
            if until_first_pair:
                pause_seconds = min(pause_seconds, _MISSING.total_seconds())
            if wait(max(pause_seconds, _LEAST_PAUSE_SECONDS)):
                return

    def _lay_down(self, step: Step, held: Holdings) -> Step:
        leaf = held.leaf
        if self._files is None or leaf is None or leaf == self._laid:
            return step
        wanted = {LEAF_CERTIFICATE: leaf.certificates_pem, LEAF_KEY: leaf.key_pem, BUNDLE: held.bundle}
        try:
            found = self._files.read()
            if dict(found.data) != wanted:
                self._files.write(wanted, found.version)
        except StoreError as error:
            return Step(
                step.action,
                step.reason,
                self._clock() + _RETRY,
                Outcome.FAILED,
                _sentence(str(error)),
                step.patched,
                held,
            )
        self._laid = leaf
        self._log.info(
            "certificate",
            text="A certificate was laid down for the server.",
            fingerprint=leaf.certificate.fingerprint,
            ends=in_words(leaf.certificate.not_after),
        )
        return step

    def _tell(self, step: Step) -> None:
        if step.action is not Action.KEEP and step.outcome is Outcome.DONE:
            self._log.info("rotation", action=step.action.value, text=step.reason)
        if step.patched:
            self._log.info("trust", text="The bundle was put into configurations.", configurations=list(step.patched))
        if step.outcome is Outcome.FAILED and step.error != self._last_error:
            self._log.error("rotation", text=step.error)
        self._last_error = step.error if step.outcome is Outcome.FAILED else ""


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
