"""The directory as a Secret, and the files that ``mint`` writes."""

import stat
import threading
from pathlib import Path

import pytest

from certs.directory import DirectoryStore
from certs.mint import mint_development_pair, write_atomically
from certs.store import ConflictError, ForbiddenError, Secret, UnavailableError


def test_what_was_written_is_read_and_mounted(tmp_path: Path):
    """Under the names that a server opens, through the link that is swapped."""
    store = DirectoryStore(tmp_path / "new" / "directory")
    assert store.read() == Secret()
    version = store.write({"tls.crt": b"one", "tls.key": b"two"}, "")

    assert store.read() == Secret({"tls.crt": b"one", "tls.key": b"two"}, version)
    mounted = tmp_path / "new" / "directory" / "tls.crt"
    assert mounted.read_bytes() == b"one"
    assert (mounted.parent / "..data").is_symlink()
    assert stat.S_IMODE(mounted.with_name("tls.key").stat().st_mode) == 0o600


def test_a_swap_leaves_nothing_of_the_old_version(tmp_path: Path):
    store = DirectoryStore(tmp_path)
    version = store.write({"tls.crt": b"one", "gone": b"x"}, "")
    store.write({"tls.crt": b"two"}, version)

    assert (tmp_path / "tls.crt").read_bytes() == b"two"
    assert sorted(entry.name for entry in tmp_path.iterdir() if not entry.name.startswith("..")) == ["tls.crt"]
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir() and not entry.is_symlink()]) == 1


@pytest.mark.parametrize("version", ["", "another"])
def test_a_write_for_another_version_conflicts(tmp_path: Path, version: str):
    store = DirectoryStore(tmp_path)
    store.write({"tls.crt": b"one"}, "")

    with pytest.raises(ConflictError):
        store.write({"tls.crt": b"two"}, version)
    assert store.read().data == {"tls.crt": b"one"}


def test_of_many_writers_one_wins_each_round(tmp_path: Path):
    """Each adds one; no addition is lost, because whoever lost a round reads again."""
    store = DirectoryStore(tmp_path)
    store.write({"count": b"0"}, "")

    def add_ten() -> None:
        own, done = DirectoryStore(tmp_path), 0
        while done < 10:
            try:
                secret = own.read()
                own.write({"count": str(int(secret.data["count"]) + 1).encode()}, secret.version)
                done += 1
            except ConflictError:
                continue

    threads = [threading.Thread(target=add_ten) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert store.read().data == {"count": b"30"}


def test_faults_of_the_file_system_are_errors_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match="cannot be used"):
        DirectoryStore(tmp_path / "file" / "below").write({}, "")

    def denied(*_args: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(ForbiddenError, match="may not be used: Permission denied"):
        DirectoryStore(tmp_path / "x").write({}, "")


def test_minted_files_are_complete_and_the_key_is_private(tmp_path: Path):
    files = mint_development_pair(tmp_path / "made", ["localhost"], ["127.0.0.1"], 3)

    assert [path.name for path in (files.ca_file, files.cert_file, files.key_file)] == ["ca.crt", "tls.crt", "tls.key"]
    assert stat.S_IMODE(files.key_file.stat().st_mode) == 0o600
    assert sorted(entry.name for entry in (tmp_path / "made").iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert b"PRIVATE" not in files.ca_file.read_bytes() + files.cert_file.read_bytes()


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 10**7])
def test_a_lifetime_that_is_none_is_refused(tmp_path: Path, days: float):
    with pytest.raises(ValueError, match=r"more than 0 days and end before the year 9999|cannot be (nan|inf) days"):
        mint_development_pair(tmp_path, ["localhost"], [], days)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "tls.key"
    write_atomically(path, b"old", mode=0o600)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new", mode=0o600)

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
