"""The context that follows its files: real handshakes, a clock that is moved, files swapped as the kubelet does."""

import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from certs_world import NAMES, START, MovingClock, mint_for_clients, seconds
from cryptography.hazmat.primitives import serialization
from handshakes import as_data, connected, seen

import certs.files
from certs.bundle import bundle_of
from certs.directory import DirectoryStore
from certs.faults import CertificateError
from certs.files import ReloadingServerContext
from certs.names import Names, names_of
from certs.pki import Pair, mint_authority, mint_leaf

NAME = NAMES.dns[0]
LONG = (START - timedelta(days=3650), timedelta(days=36500))  # for what OpenSSL judges by the machine's clock


@dataclass
class Server:
    """A mounted Secret and the context that follows it."""

    directory: Path
    clock: MovingClock
    authority: Pair
    first: Pair
    reloading: ReloadingServerContext

    def mount(self, data: dict[str, bytes]) -> None:
        """Swap the files as the kubelet does."""
        store = DirectoryStore(self.directory)
        store.write(data, store.read().version)

    def next_leaf(self, names: Names = NAMES) -> Pair:
        """Return a new good leaf."""
        return mint_leaf(self.authority, names, self.clock.now, timedelta(days=10))

    def served(self) -> str:
        """Return the fingerprint that the next connection gets."""
        return seen(self.reloading.context(), bundle_of([self.authority.certificate]), NAME).fingerprint


@pytest.fixture
def server(tmp_path: Path, authority: Pair, leaf: Pair, clock: MovingClock) -> Server:
    """A server that serves ``leaf`` and looks every 5 seconds."""
    DirectoryStore(tmp_path).write(as_data(leaf), "")
    reloading = ReloadingServerContext(
        tmp_path / "tls.crt", tmp_path / "tls.key", clock=clock, required_names=NAMES, check_every_seconds=5
    )
    return Server(tmp_path, clock, authority, leaf, reloading)


def test_a_new_pair_is_served_to_the_first_connection_after_the_interval(server: Server):
    new = server.next_leaf()
    server.mount(as_data(new))

    server.clock.forward(4.9)
    assert server.served() == server.first.certificate.fingerprint
    server.clock.forward(0.1)
    assert server.served() == new.certificate.fingerprint

    state = server.reloading.state()
    assert (state.fingerprint, state.not_after) == (new.certificate.fingerprint, new.certificate.not_after)
    assert (state.loads, state.refusals, state.last_error) == (2, 0, "")
    assert state.loaded_at == state.looked_at == START + seconds(5)


def test_what_the_client_sees_is_tls_1_3_and_http_1_1(server: Server):
    found = seen(server.reloading.context(), bundle_of([server.authority.certificate]), NAME)

    assert (found.version, found.protocol) == ("TLSv1.3", "http/1.1")
    assert server.reloading.context().minimum_version is ssl.TLSVersion.TLSv1_2


def _wrong_key(server: Server) -> dict[str, bytes]:
    return {**as_data(server.next_leaf()), "tls.key": server.next_leaf().key_pem}


def _expired(server: Server) -> dict[str, bytes]:
    return as_data(mint_leaf(server.authority, NAMES, START - timedelta(days=2), timedelta(days=1)))


def _not_yet_valid(server: Server) -> dict[str, bytes]:
    return as_data(mint_leaf(server.authority, NAMES, START + timedelta(days=2), timedelta(days=1)))


def _missing_name(server: Server) -> dict[str, bytes]:
    return as_data(server.next_leaf(names_of(["another.numa.svc"])))


def _half_certificate(server: Server) -> dict[str, bytes]:
    data = as_data(server.next_leaf())
    return {**data, "tls.crt": data["tls.crt"][:300]}


def _half_chain(server: Server) -> dict[str, bytes]:
    data = as_data(server.next_leaf())
    return {**data, "tls.crt": data["tls.crt"] + server.authority.certificate.pem[:100]}


def _half_key(server: Server) -> dict[str, bytes]:
    data = as_data(server.next_leaf())
    return {**data, "tls.key": data["tls.key"][:-40]}


def _empty_key(server: Server) -> dict[str, bytes]:
    return {**as_data(server.next_leaf()), "tls.key": b""}


def _no_key(server: Server) -> dict[str, bytes]:
    return {"tls.crt": server.next_leaf().certificates_pem}


def _encrypted_key(server: Server) -> dict[str, bytes]:
    new = server.next_leaf()
    key = serialization.load_pem_private_key(new.key_pem, None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    return {**as_data(new), "tls.key": sealed}


def _swapped_files(server: Server) -> dict[str, bytes]:
    data = as_data(server.next_leaf())
    return {"tls.crt": data["tls.key"], "tls.key": data["tls.crt"]}


def _huge(server: Server) -> dict[str, bytes]:
    return {**as_data(server.next_leaf()), "tls.crt": b"x" * (2 << 20)}


BAD = [
    pytest.param(_wrong_key, "wrong_key", id="key of another certificate"),
    pytest.param(_expired, "expired", id="expired"),
    pytest.param(_not_yet_valid, "not_yet_valid", id="not yet valid"),
    pytest.param(_missing_name, "missing_name", id="missing SAN"),
    pytest.param(_half_certificate, "unreadable", id="half-written certificate"),
    pytest.param(_half_chain, "unreadable", id="half-written chain"),
    pytest.param(_half_key, "unreadable", id="half-written key"),
    pytest.param(_empty_key, "unreadable", id="empty key"),
    pytest.param(_no_key, "unreadable", id="key file gone"),
    pytest.param(_encrypted_key, "unreadable", id="encrypted key"),
    pytest.param(_swapped_files, "unreadable", id="certificate and key swapped"),
    pytest.param(_huge, "unreadable", id="huge file"),
]


@pytest.mark.parametrize(("spoil", "code"), BAD)
def test_a_bad_pair_is_never_served_and_a_good_one_after_it_is(
    server: Server, spoil: Callable[[Server], dict[str, bytes]], code: str
):
    """The last good pair stays, the state says why, and recovery needs no restart."""
    server.mount(spoil(server))
    server.clock.forward(5)

    assert server.served() == server.first.certificate.fingerprint
    state = server.reloading.state()
    assert (state.fingerprint, state.last_error_code) == (server.first.certificate.fingerprint, code)
    assert state.last_error.endswith(".")
    assert (state.loads, state.refusals) == (1, 1)

    good = server.next_leaf()
    server.mount(as_data(good))
    server.clock.forward(5)
    assert server.served() == good.certificate.fingerprint
    assert (server.reloading.state().last_error, server.reloading.state().refusals) == ("", 1)


@pytest.mark.parametrize(("spoil", "code"), BAD)
def test_a_server_does_not_start_on_a_bad_pair(server: Server, spoil: Callable[[Server], dict[str, bytes]], code: str):
    """There is no last good pair yet, and a sentence at the start is better than refused handshakes."""
    server.mount(spoil(server))

    with pytest.raises(CertificateError) as raised:
        ReloadingServerContext(
            server.directory / "tls.crt", server.directory / "tls.key", clock=server.clock, required_names=NAMES
        )
    assert raised.value.code == code


def test_a_pair_that_was_too_early_is_served_once_its_time_comes(server: Server):
    """The files do not change in between, the moment does."""
    server.mount(_not_yet_valid(server))
    server.clock.forward(5)
    assert server.served() == server.first.certificate.fingerprint

    server.clock.forward(2 * 86400)
    assert server.served() != server.first.certificate.fingerprint


def test_files_that_are_set_back_clear_the_error(server: Server):
    server.mount(_wrong_key(server))
    server.clock.forward(5)
    server.served()
    server.mount(as_data(server.first))
    server.clock.forward(5)

    assert server.served() == server.first.certificate.fingerprint
    assert server.reloading.state().last_error == ""
    assert server.reloading.state().loads == 1


def test_files_written_in_place_are_followed_too(tmp_path: Path, authority: Pair, leaf: Pair, clock: MovingClock):
    """Same inode, same size, time stamps put back: only the content tells."""
    again = mint_leaf(authority, NAMES, clock.now, timedelta(days=10))
    files = {tmp_path / name: content for name, content in as_data(leaf).items()}
    for path, content in files.items():
        path.write_bytes(content)
    reloading = ReloadingServerContext(tmp_path / "tls.crt", tmp_path / "tls.key", clock=clock)
    for name, content in as_data(again).items():
        before = (tmp_path / name).stat()
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    clock.forward(5)
    reloading.context()

    assert reloading.state().fingerprint == again.certificate.fingerprint


def test_a_swap_between_certificate_and_key_is_not_taken_for_a_bad_pair(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    """The kubelet swaps after the certificate was opened and before the key is."""
    new = server.next_leaf()
    read = certs.files._read_file

    def swapping(path: Path) -> bytes | str:
        content = read(path)
        if path.name == "tls.crt" and new is not None and not swapped:
            swapped.append(path)
            server.mount(as_data(new))
        return content

    swapped: list[Path] = []
    monkeypatch.setattr(certs.files, "_read_file", swapping)
    server.clock.forward(5)

    assert server.served() == new.certificate.fingerprint
    assert server.reloading.state().refusals == 0


def test_files_that_never_stand_still_are_left_for_the_next_look(server: Server, monkeypatch: pytest.MonkeyPatch):
    """A bounded number of readings: a connection is waiting."""
    counted = iter(range(10**6))
    monkeypatch.setattr(certs.files, "_read_file", lambda _path: str(next(counted)).encode())
    server.clock.forward(5)

    assert server.served() == server.first.certificate.fingerprint
    assert "keep changing" in server.reloading.state().last_error


def test_a_pipe_in_a_file_s_place_holds_up_no_connection(server: Server):
    """Nobody writes to it: who opened it as a file would wait for ever."""
    file = server.directory / "tls.crt"
    file.unlink()
    os.mkfifo(file)
    server.clock.forward(5)
    assert server.served() == server.first.certificate.fingerprint
    assert server.reloading.state().last_error == f"The file {file} cannot be read: it is no regular file."


def test_a_fault_that_nobody_foresaw_costs_no_connection(server: Server, monkeypatch: pytest.MonkeyPatch):
    def broken(_path: Path) -> bytes:
        raise RuntimeError("boom")

    monkeypatch.setattr(certs.files, "_read_file", broken)
    server.clock.forward(5)

    assert server.served() == server.first.certificate.fingerprint
    assert server.reloading.state().last_error_code == "unexpected"


def test_a_clock_that_is_set_back_does_not_stop_the_looks(server: Server):
    new = server.next_leaf()
    server.mount(as_data(new))
    server.clock.forward(-60)

    assert server.served() == new.certificate.fingerprint


def test_a_connection_outlives_the_pair_it_was_made_with(server: Server):
    """The API server keeps connections for as long as it calls; a reload must not cut them."""
    client = ssl.create_default_context(cadata=server.authority.certificate.pem.decode())
    client.verify_flags |= 0x200000
    with connected(server.reloading.context(), client, NAME) as (near, far):
        server.mount(as_data(server.next_leaf()))
        server.clock.forward(5)
        assert server.served() != server.first.certificate.fingerprint
        near.sendall(b"still here")
        assert far.recv(10) == b"still here"


def test_nobody_waits_while_somebody_looks(server: Server):
    """The one who holds the look may be slow (a disk); the others are handed what there is."""
    server.mount(as_data(server.next_leaf()))
    server.clock.forward(5)
    with server.reloading._looking:
        assert server.served() == server.first.certificate.fingerprint
    assert server.served() != server.first.certificate.fingerprint


def test_many_threads_get_whole_contexts_while_the_files_change(server: Server):
    """Each context is one of the mounted pairs, and each mounted pair was loaded once however many threads ask."""
    leaves = [server.next_leaf() for _ in range(6)]
    barrier = threading.Barrier(5)
    got: list[ssl.SSLContext] = []

    def ask() -> None:
        for _ in leaves:
            barrier.wait(10)  # the files have been changed
            got.extend(server.reloading.context() for _ in range(20))
            barrier.wait(10)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for new in leaves:
        server.mount(as_data(new))
        server.clock.forward(5)
        barrier.wait(10)
        barrier.wait(10)
    for thread in threads:
        thread.join(10)

    assert server.reloading.state().loads == 1 + len(leaves)
    assert len(got) == 4 * 20 * len(leaves)
    bundle = bundle_of([server.authority.certificate])
    distinct = {seen(context, bundle, NAME).fingerprint for context in dict.fromkeys(got)}
    assert {leaf.certificate.fingerprint for leaf in leaves} <= distinct


def test_reloads_leave_no_file_open(server: Server):
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    for _ in range(20):
        server.mount(as_data(server.next_leaf()))
        server.clock.forward(5)
        server.reloading.context()

    assert server.reloading.state().loads == 21
    assert opened() == before


def test_with_client_authorities_a_client_must_show_its_certificate(
    tmp_path: Path, authority: Pair, leaf: Pair, clock: MovingClock
):
    """mTLS: nobody, somebody of another authority, the right one; then the authority is replaced without restart."""
    mounted = {**as_data(leaf), "client-ca.crt": authority.certificate.pem}
    store = DirectoryStore(tmp_path / "mounted")
    store.write(mounted, "")
    server_files = [tmp_path / "mounted" / name for name in ("tls.crt", "tls.key", "client-ca.crt")]
    reloading = ReloadingServerContext(*server_files, clock=clock)
    bundle = authority.certificate.pem
    stranger = mint_authority(*LONG)
    pairs = {"known": _client(authority, tmp_path / "known"), "stranger": _client(stranger, tmp_path / "stranger")}

    with pytest.raises((ssl.SSLError, ConnectionError)):
        seen(reloading.context(), bundle, NAME)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        seen(reloading.context(), bundle, NAME, pairs["stranger"])

    store.write({**mounted, "client-ca.crt": stranger.certificate.pem}, store.read().version)
    clock.forward(5)
    assert seen(reloading.context(), bundle, NAME, pairs["stranger"]).fingerprint == leaf.certificate.fingerprint
    assert reloading.state().loads == 2


@pytest.mark.parametrize("broken", [b"", b"not PEM", None])
def test_broken_client_authorities_do_not_hold_up_a_renewal(
    tmp_path: Path, authority: Pair, leaf: Pair, clock: MovingClock, broken: bytes | None
):
    """The pair is replaced, the client authorities stay as they were, and the state says so."""
    store = DirectoryStore(tmp_path)
    store.write({**as_data(leaf), "client-ca.crt": authority.certificate.pem}, "")
    files = [tmp_path / name for name in ("tls.crt", "tls.key", "client-ca.crt")]
    reloading = ReloadingServerContext(*files, clock=clock)
    new = mint_leaf(authority, NAMES, clock.now, timedelta(days=10))
    spoilt = {} if broken is None else {"client-ca.crt": broken}
    store.write({**as_data(new), **spoilt}, store.read().version)
    clock.forward(5)

    assert reloading.context().verify_mode is ssl.CERT_REQUIRED
    assert reloading.state().fingerprint == new.certificate.fingerprint
    assert reloading.state().last_error_code == "unreadable"
    assert reloading.look().loads == 2, "the half that is good is not loaded again"


def _client(authority: Pair, path: Path) -> str:
    pair = mint_for_clients(authority, *LONG)
    path.write_bytes(pair.certificates_pem + pair.key_pem)
    return str(path)
