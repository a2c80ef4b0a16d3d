"""The API server's clock where the node's own is wrong: what is minted by it is valid for who judges."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "cluster"))

from small_api import small_api

from certs.directory import DirectoryStore
from certs.names import names_of
from certs.policy import Policy
from certs.rotate import Rotator
from certs.store import NoConfigurations
from webhook.cluster.client import Client
from webhook.cluster.secrets import ClusterSecretStore
from webhook.service.certificates import CertificateKeeper
from webhook.service.logs import open_log
from webhook.service.server_clock import ASK_AGAIN_SECONDS, JITTER, ServerClock

NOON = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
OWN = NOON + timedelta(days=3)


class Dated(ThreadingHTTPServer):
    """Answers every GET with this status and this ``Date`` header, and counts them."""

    date: str | None = "Mon, 01 Jun 2026 12:00:00 GMT"
    status = 200
    asked = 0


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response_only(self.server.status)
        if self.server.date is not None:
            self.send_header("Date", self.server.date)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Dated]:
    with Dated(("127.0.0.1", 0), _Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Ticks:
    """A monotonic clock that moves when told; it starts with the client's first answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._first: float | None = None
        self.seconds = 0.0

    def __call__(self) -> float:
        if self._first is None and self._client.told is not None:
            self._first = self._client.told.monotonic_seconds
        return self.seconds + (self._first or 0.0)


def clock_of(server: Dated, stream: io.BytesIO | None = None, own: datetime = OWN) -> tuple[ServerClock, Ticks]:
    client = Client.of_server(f"http://127.0.0.1:{server.server_port}")
    ticks = Ticks(client)
    log = open_log(stream) if stream is not None else None
    return ServerClock(client, log, own=lambda: own, monotonic_seconds=ticks), ticks


def test_the_moment_is_the_servers_and_counts_on(server: Dated) -> None:
    clock, ticks = clock_of(server)
    assert clock() == NOON
    ticks.seconds = 20.5
    assert clock() == NOON + timedelta(seconds=20.5)
    assert server.asked == 1


@pytest.mark.parametrize("status", [200, 401, 403, 404, 503])
def test_a_refusal_tells_the_time_too(server: Dated, status: int) -> None:
    """A hardened cluster may forbid /version."""
    server.status = status
    assert clock_of(server)[0]() == NOON


@pytest.mark.parametrize("date", [None, "", "soon", "Mon, 01 Jun 2026 12:00:00 -0000", "Mon, 99 Jun 2026 12:00:00 GMT"])
def test_without_a_readable_date_the_own_clock_counts(server: Dated, date: str | None) -> None:
    server.date = date
    assert clock_of(server)[0]() == OWN


def test_a_server_that_does_not_answer_leaves_the_own_clock() -> None:
    client = Client.of_server("http://127.0.0.1:1")
    assert ServerClock(client, own=lambda: OWN)() == OWN


def test_a_date_that_only_lacks_its_fraction_does_not_set_the_clock_back(server: Dated) -> None:
    clock, ticks = clock_of(server)
    server.date = "Mon, 01 Jun 2026 12:00:01 GMT"
    clock()
    ticks.seconds = ASK_AGAIN_SECONDS + 1
    server.date = "Mon, 01 Jun 2026 12:00:00 GMT"
    assert clock() == NOON + timedelta(seconds=ASK_AGAIN_SECONDS + 2)
    assert server.asked == 2


def test_a_clock_that_was_set_is_followed(server: Dated) -> None:
    clock, ticks = clock_of(server)
    clock()
    ticks.seconds = ASK_AGAIN_SECONDS + 1
    server.date = "Mon, 01 Jun 2026 09:00:00 GMT"
    assert clock() - (NOON - timedelta(hours=3)) < timedelta(seconds=ASK_AGAIN_SECONDS + 2)


@pytest.mark.parametrize(
    ("own", "told"),
    [
        pytest.param(NOON + timedelta(seconds=5), "", id="five seconds are nothing"),
        pytest.param(NOON + timedelta(hours=1), "3600 s ahead of", id="an hour ahead"),
        pytest.param(NOON - timedelta(hours=2), "7200 s behind", id="two hours behind"),
    ],
)
def test_a_wrong_clock_is_told_once(server: Dated, own: datetime, told: str) -> None:
    with io.BytesIO() as stream:
        clock, _ = clock_of(server, stream, own)
        clock()
        clock()
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [told in line["text"] for line in lines] == ([True] if told else [])


@contextmanager
def keeper_at(own_ahead: timedelta, folder: Path) -> Iterator[tuple[CertificateKeeper, DirectoryStore]]:
    """The loop of a node whose clock is wrong, against an API server over HTTP."""
    files = DirectoryStore(folder)
    with small_api() as (_, url), io.BytesIO() as stream:
        client = Client.of_server(url)
        clock = ServerClock(client, own=lambda: datetime.now(UTC) + own_ahead)
        secrets = ClusterSecretStore(client, "numa", "tls")
        rotator = Rotator(secrets, NoConfigurations(), Policy(names=names_of(["rules.numa.svc"])))
        yield CertificateKeeper(rotator, files, open_log(stream), clock), files


@pytest.mark.parametrize("hours", [-24 * 400, -2, 0, 2, 24, 24 * 400])
def test_what_a_wrong_node_mints_is_valid_for_the_api_server(hours: int, tmp_path: Path) -> None:
    """Ahead by more than the backdate, the leaf would be refused for hours; behind by years, it would be born dead."""
    with keeper_at(timedelta(hours=hours), tmp_path / "tls") as (keeper, files):
        step = keeper.look()
    assert step.holdings is not None
    assert step.holdings.leaf is not None
    assert files.read().data["tls.crt"] == step.holdings.leaf.certificates_pem
    now = datetime.now(UTC)
    for certificate in (step.holdings.leaf.certificate, *step.holdings.trusted):
        assert certificate.valid_at(now)
        # A replica or another API server whose clock is behind takes it too.
        assert certificate.valid_at(now - timedelta(minutes=59))
        assert now + timedelta(days=89) < certificate.not_after < now + timedelta(days=1826) + JITTER
