"""The loop beside the server: what it lays down, when it ends, and what it does when the Secret cannot be read."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.directory import DirectoryStore
from certs.files import ReloadingServerContext
from certs.names import names_of
from certs.plan import Action, Asked
from certs.policy import Policy
from certs.rotate import Rotator
from certs.steps import Step
from certs.store import NoConfigurations, Secret, UnavailableError
from webhook.service.certificates import CertificateKeeper
from webhook.service.logs import open_log

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Policy(names=names_of(["rules.numa.svc"]))


class Broken:
    """A store that never answers."""

    def read(self) -> Secret:
        """Never."""
        raise UnavailableError("No answer")


class Days:
    """A clock and a wait that move together; the wait says to end once the days are over."""

    def __init__(self, days: float) -> None:
        self.now = START
        self._end = START + timedelta(days=days)
        self.waits: list[float] = []

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += timedelta(seconds=seconds)
        return self.now >= self._end


@pytest.fixture
def secret(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "secret")


@pytest.fixture
def log() -> Iterator[io.BytesIO]:
    stream = io.BytesIO()
    yield stream
    stream.close()


def rotator(secret: DirectoryStore) -> Rotator:
    return Rotator(secret, NoConfigurations(), POLICY)


def test_first_pair_is_laid_down_without_the_signers_key(
    secret: DirectoryStore, tmp_path: Path, log: io.BytesIO
) -> None:
    days = Days(1)
    keeper = CertificateKeeper(rotator(secret), DirectoryStore(tmp_path / "tls"), open_log(log), days)
    keeper.run(days.wait, until_first_pair=True)
    assert keeper.has_pair
    assert days.waits == []
    laid = {path.name for path in (tmp_path / "tls").iterdir() if not path.name.startswith("..")}
    assert laid == {"tls.crt", "tls.key", "ca.crt"}
    served = ReloadingServerContext(tmp_path / "tls" / "tls.crt", tmp_path / "tls" / "tls.key", clock=days)
    assert served.state().not_after > START + timedelta(days=80)


def test_renewed_leaf_replaces_the_laid_one(secret: DirectoryStore, tmp_path: Path, log: io.BytesIO) -> None:
    """After two thirds of its 90 days; the authority of five years stays."""
    days = Days(61)
    files = DirectoryStore(tmp_path / "tls")
    CertificateKeeper(rotator(secret), files, open_log(log), Days(1)).look()
    first = files.read().data
    days.now = START + timedelta(days=60, seconds=1)
    CertificateKeeper(rotator(secret), files, open_log(log), days).look()
    second = files.read().data
    assert first["tls.crt"] != second["tls.crt"]
    assert first["ca.crt"] == second["ca.crt"]


def test_first_pair_is_waited_for_while_the_store_does_not_answer(
    secret: DirectoryStore, tmp_path: Path, log: io.BytesIO
) -> None:
    """Each second, for a server waits for it."""
    days = Days(1)
    files = DirectoryStore(tmp_path / "tls")

    class Late:
        def step(self, now: datetime) -> Step:
            late = len(days.waits) < 2
            return (Rotator(Broken(), NoConfigurations(), POLICY) if late else rotator(secret)).step(now)

    keeper = CertificateKeeper(Late(), files, open_log(log), days)
    keeper.run(days.wait, until_first_pair=True)
    assert keeper.has_pair
    assert days.waits == [1.0, 1.0]
    assert secret.read().data["tls.crt"] == files.read().data["tls.crt"]


def test_unreadable_secret_leaves_the_files_and_is_told_once(
    secret: DirectoryStore, tmp_path: Path, log: io.BytesIO
) -> None:
    files = DirectoryStore(tmp_path / "tls")
    CertificateKeeper(rotator(secret), files, open_log(log), Days(1)).look()
    before = files.read()
    broken = CertificateKeeper(Rotator(Broken(), NoConfigurations(), POLICY), files, open_log(log), Days(1))
    broken.look()
    broken.look()
    assert files.read() == before
    assert log.getvalue().count(b"No answer") == 1


def test_loop_ends_when_told_although_no_pair_ever_comes(tmp_path: Path, log: io.BytesIO) -> None:
    days = Days(0.001)
    keeper = CertificateKeeper(
        Rotator(Broken(), NoConfigurations(), POLICY), DirectoryStore(tmp_path / "tls"), open_log(log), days
    )
    keeper.run(days.wait, until_first_pair=True)
    assert not keeper.has_pair


def test_fight_over_the_secret_does_not_load_the_api_server(
    secret: DirectoryStore, tmp_path: Path, log: io.BytesIO
) -> None:
    """Every step wants the next one at once; the loop grants half a second."""
    days = Days(0.0001)

    class Restless:
        def step(self, now: datetime) -> object:
            return rotator(secret).step(now, Asked.LEAF)

    CertificateKeeper(Restless(), DirectoryStore(tmp_path / "tls"), open_log(log), days).run(days.wait)
    assert min(days.waits) >= 0.5


def test_clock_that_is_set_back_during_a_look_does_not_put_the_loop_to_sleep(log: io.BytesIO, tmp_path: Path) -> None:
    """The answers of the look itself tell the API server's new time; until the next look they are counted on from."""
    days = Days(0.01)
    set_back = timedelta(hours=5)

    class Answered:
        def step(self, now: datetime) -> Step:
            if not days.waits:
                days.now -= set_back
            return Step(Action.KEEP, "Nothing is due.", now + timedelta(seconds=30))

    ended = iter([False, True])
    keeper = CertificateKeeper(Answered(), DirectoryStore(tmp_path / "tls"), open_log(log), days)
    keeper.run(lambda seconds: [days.wait(seconds), next(ended)][1])
    assert max(days.waits) <= 30
