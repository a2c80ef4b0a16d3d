"""The API server's clock: by it certificates are judged, so by it they are made; a node's own clock may be wrong.

A rotator whose clock is an hour ahead would mint certificates that the API server refuses for an hour, and every pod
that it judges with them. So the loop asks: each answer of the API server carries its moment in the ``Date`` header, an
answer that refuses included.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from structlog.typing import FilteringBoundLogger

from certs.moments import utc_now
from webhook.cluster.client import Client
from webhook.cluster.errors import ClusterError

ASK_AGAIN_SECONDS: Final = 30.0
JITTER: Final = timedelta(seconds=2)
"""A ``Date`` lacks up to a second, and an answer takes its time: what differs by less is the same clock."""
WORTH_TELLING: Final = timedelta(seconds=60)
"""A difference that an operator should hear of: well above what time synchronisation leaves, well below what hurts."""
_CALL_SECONDS = 5.0


class ServerClock:
    """Returns the API server's moment; while none was ever told, this machine's own. For one thread."""

    def __init__(
        self,
        client: Client,
        log: FilteringBoundLogger | None = None,
        *,
        own: Callable[[], datetime] = utc_now,
        monotonic_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the client, whose other calls tell the time as well; nothing is asked yet.

        To ``log`` goes a line when this machine's clock is found to be wrong.
        """
        self._client = client
        self._log = log
        self._own = own
        self._monotonic_seconds = monotonic_seconds
        self._base: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        """Return the moment. Never raises: where the API server does not answer, its clock is counted on from before.

        Steps back only where the API server's clock did.
        """
        told = self._client.told
        if told is None or self._monotonic_seconds() - told.monotonic_seconds > ASK_AGAIN_SECONDS:
            # Everyone may ask this; where even that is forbidden, the refusal bears a Date too.
            with suppress(ClusterError):
                self._client.get("/version", timeout_seconds=_CALL_SECONDS)
            told = self._client.told
        if told is not None:
            counted = self._counted(told.monotonic_seconds)
            if counted is None or abs(counted - told.moment) > JITTER:
                self._base = (told.moment, told.monotonic_seconds)
                self._tell(self._own() - told.moment - self._since(told.monotonic_seconds))
        return self._counted(self._monotonic_seconds()) or self._own()

    def _tell(self, ahead: timedelta) -> None:
        if self._log is None or abs(ahead) < WORTH_TELLING:
            return
        direction = "ahead of" if ahead > timedelta(0) else "behind"
        seconds = abs(ahead).total_seconds()
        text = f"This node's clock is {seconds:.0f} s {direction} the API server's; certificates follow the latter."
        self._log.warning("clock", text=text)

    def _since(self, monotonic_seconds: float) -> timedelta:
        return timedelta(seconds=self._monotonic_seconds() - monotonic_seconds)

    def _counted(self, monotonic_seconds: float) -> datetime | None:
        if self._base is None:
            return None
        moment, at = self._base
        return moment + timedelta(seconds=monotonic_seconds - at)
