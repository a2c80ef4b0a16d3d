"""Clients that are silent, slow, huge or wrong: ordinary calls are still answered, and no thread stays lost.

Each world has two threads: a server in which a client can hold a thread is caught with three clients.
"""

import resource
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest
from serve_world import PATIENCE_SECONDS, answer, is_ended, post, serving, status_of

from webhook.serve.connection import Phase
from webhook.serve.limits import Limits

QUICK = Limits(threads=2, handshake_seconds=0.4, request_seconds=0.4, write_seconds=0.4, linger_seconds=0.2)
PATIENT = Limits(threads=2)


def echo(environ, start_response):
    """Answer with the length of the body, or do what the path says."""
    body = environ["wsgi.input"].read()
    if environ["PATH_INFO"] == "/raise":
        raise RuntimeError("on purpose")
    reply = b"x" * 4_000_000 if environ["PATH_INFO"] == "/large" else str(len(body)).encode()
    start_response("200 OK", [("Content-Length", str(len(reply)))])
    return [reply]


@pytest.fixture
def patient(tmp_path):
    with serving(tmp_path, echo, PATIENT) as world:
        yield world
        assert world.faults == []


@pytest.fixture
def quick(tmp_path):
    with serving(tmp_path, echo, QUICK) as world:
        yield world
        assert world.faults == []


def half_a_hello(world):
    """Begin a TLS handshake and stop in the middle of the first message."""
    sock = world.tcp()
    sock.sendall(bytes.fromhex("1603010200010001fc0303") + b"\0" * 20)
    return sock


def half_a_head(world):
    sock = world.tls()
    sock.sendall(b"POST /validate HTTP/1.1\r\nHo")
    return sock


def half_a_body(world):
    sock = world.tls()
    sock.sendall(post(b"x" * 100)[:-50])
    return sock


def used_once(world):
    sock = world.tls()
    sock.sendall(post(b"{}"))
    assert status_of(answer(sock)) == 200
    return sock


WAITING = [
    pytest.param(lambda world: world.tcp(), 200, Phase.HANDSHAKE, id="connected, silent"),
    pytest.param(half_a_hello, 200, Phase.HANDSHAKE, id="half-open TLS"),
    pytest.param(lambda world: world.tls(), 300, Phase.UNUSED, id="300 with TLS done, never used"),
    pytest.param(used_once, 1000, Phase.IDLE, id="1,000 idle after a call"),
    pytest.param(half_a_head, 50, Phase.READING, id="half a head"),
    pytest.param(half_a_body, 50, Phase.READING, id="half a body"),
]


@pytest.mark.parametrize("client, count, phase", WAITING)
def test_clients_that_wait_hold_no_thread(patient, client, count, phase):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(client(patient))
        patient.until(lambda: patient.reactor.roster.by_phase()[phase] == count)
        assert patient.call() == 200
        assert patient.reactor.stuck_seconds() == 0.0


BOUNDED = [
    pytest.param(lambda world: world.tcp(), "slow_handshake", id="connected, silent"),
    pytest.param(half_a_hello, "slow_handshake", id="half-open TLS"),
    pytest.param(half_a_head, "slow_request", id="half a head"),
    pytest.param(half_a_body, "slow_request", id="half a body"),
]


@pytest.mark.parametrize("client, reason", BOUNDED)
def test_what_does_not_come_in_time_is_closed_and_counted(quick, client, reason):
    with client(quick) as sock:
        assert is_ended(sock)
        quick.until(lambda: quick.closed[reason] == 1 and len(quick.reactor.roster) == 0)


def test_a_slow_request_is_told_why(quick):
    with half_a_body(quick) as sock:
        response = answer(sock)
        assert status_of(response) == 408
        assert b"not complete" in response


def test_a_body_that_drips_is_closed_although_bytes_keep_coming(quick):
    """The bound is for the whole request: each byte does not start it anew."""
    with quick.tls() as sock:
        sock.sendall(post(b"x" * 100_000)[:-99_000])
        tick = threading.Event()
        while quick.closed["slow_request"] == 0:
            try:
                sock.sendall(b"x")
            except OSError:
                break
            tick.wait(0.02)
        quick.until(lambda: quick.closed["slow_request"] == 1)


def test_who_reads_no_answer_is_closed_and_holds_no_thread(quick):
    with ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(quick.tls())
            sock.sendall(post(b"{}", path="/large") * 3)
        assert quick.call() == 200
        quick.until(lambda: quick.closed["slow_reader"] == 4)


def test_plain_http_on_the_tls_port_is_told_what_is_wrong(patient):
    with patient.tcp() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        response = answer(sock)
        assert status_of(response) == 400
        assert b"This port speaks HTTPS" in response
        patient.until(lambda: patient.closed["plain_http"] == 1)


def test_garbage_instead_of_tls_is_closed(patient):
    with patient.tcp() as sock:
        sock.sendall(b"\xff" * 500)
        assert is_ended(sock)
    assert patient.call() == 200


def test_pipelined_calls_are_answered_in_their_order_and_others_between(patient):
    count = 200
    with patient.tls() as sock:
        sock.sendall(b"".join(post(b"x" * size) for size in range(count)))
        assert patient.call() == 200
        bodies = [answer(sock).rpartition(b"\r\n\r\n")[2] for _ in range(count)]
    assert bodies == [str(size).encode() for size in range(count)]


@pytest.mark.parametrize("size", [8 << 20, 300_000, 20_000])
def test_a_body_up_to_8_mib_arrives_whole(patient, size):
    with patient.tls() as sock:
        sock.sendall(post(b"x" * size))
        assert answer(sock).endswith(b"\r\n\r\n" + str(size).encode())


def test_a_body_over_8_mib_is_refused_by_its_length_before_it_comes(patient):
    with patient.tls() as sock:
        sock.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 8388609\r\n\r\n")
        response = answer(sock)
        assert status_of(response) == 413
        assert is_ended(sock)


def test_a_chunked_body_over_8_mib_is_refused_when_it_gets_there(patient):
    chunk = b"%x\r\n" % 65536 + b"x" * 65536 + b"\r\n"
    with patient.tls() as sock:
        sock.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(129):
                sock.sendall(chunk)
        except OSError:
            pass  # it closes while we still send; the answer lies there all the same
        assert status_of(answer(sock)) == 413


def test_a_chunked_body_arrives_whole(patient):
    with patient.tls() as sock:
        sock.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert answer(sock).endswith(b"\r\n\r\n5")


def test_expect_continue_is_answered_before_the_body_comes(patient):
    with patient.tls() as sock:
        head, body = post(b"x" * 70_000, fields="Expect: 100-continue\r\n").split(b"\r\n\r\n")
        sock.sendall(head + b"\r\n\r\n")
        assert answer(sock) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert status_of(answer(sock)) == 200


def test_large_bodies_that_do_not_come_cannot_take_all_memory(tmp_path):
    """Eight slow clients hold the whole budget; a ninth, real one still gets its room from the oldest of them."""
    limits = Limits(threads=2, reserved_bytes=8 * 1_000_000)
    with serving(tmp_path, echo, limits) as world, ExitStack() as stack:
        for _ in range(8):
            sock = stack.enter_context(world.tls())
            sock.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
        world.until(lambda: world.reactor.roster.by_phase()[Phase.READING] == 8)
        world.until(lambda: world.call(b"x" * 1_000_000) == 200)
        assert world.closed["evicted"] >= 1


def test_more_connections_than_allowed_push_out_those_that_never_asked(tmp_path):
    limits = Limits(threads=2, max_connections=20)
    with serving(tmp_path, echo, limits) as world, ExitStack() as stack:
        known = stack.enter_context(used_once(world))
        for _ in range(60):
            stack.enter_context(world.tcp())
        world.until(lambda: world.closed["evicted"] >= 40)
        known.sendall(post(b"{}"))
        assert status_of(answer(known)) == 200
        assert world.call() == 200


def test_a_fault_of_the_application_is_a_500_and_no_thread_is_lost(tmp_path):
    with serving(tmp_path, echo, PATIENT) as world:
        statuses = {world.call(path="/raise") for _ in range(5)}
        assert statuses == {500}
        assert world.faults == ["application"] * 5
        assert world.call() == 200


BROKEN = [
    pytest.param(b"POST /validate\r\n\r\n", 400, id="no version"),
    pytest.param(b"POST /validate HTTP/9.9\r\n\r\n", 400, id="another version"),
    pytest.param(b"GE T / HTTP/1.1\r\n\r\n", 400, id="a broken method"),
    pytest.param(b"POST / HTTP/1.1\r\nHost x\r\n\r\n", 400, id="a field without a colon"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, id="two hosts"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, id="a negative length"),
    pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, id="two lengths"),
    pytest.param(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400, id="both lengths"
    ),
    pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="a chunk that is none"),
    pytest.param(b"POST / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431, id="a huge field"),
    pytest.param(b"POST /" + b"x" * 8_000 + b" HTTP/1.1\r\n\r\n", 414, id="a huge path"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="HTTP/2 by prior knowledge"),
]


@pytest.mark.parametrize("raw, status", BROKEN)
def test_broken_http_is_answered_plainly_and_the_connection_ends(patient, raw, status):
    with patient.tls() as sock:
        sock.sendall(raw)
        response = answer(sock)
        assert status_of(response) == status
        assert b"text/plain" in response
        assert is_ended(sock)


def test_after_drain_every_answer_is_the_last_of_its_connection(patient):
    with used_once(patient) as sock:
        patient.reactor.drain()
        sock.sendall(post(b"{}"))
        assert b"connection: close" in answer(sock).lower()
        assert is_ended(sock)
        assert patient.call() == 200, "new connections are still taken"
        patient.reactor.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(patient.address, timeout=5).close()


@pytest.mark.parametrize("client", [lambda world: world.tls(), used_once], ids=["unused", "used"])
def test_a_request_that_has_arrived_is_answered_although_idle_connections_are_closed(tmp_path, client):
    """The one thread is busy, so that the request lies there unseen while its connection still counts as idle."""
    began, go_on = threading.Event(), threading.Event()

    def waiting(environ, start_response):
        if environ["PATH_INFO"] == "/wait":
            began.set()
            go_on.wait(PATIENCE_SECONDS)
        return echo(environ, start_response)

    with (
        serving(tmp_path, waiting, replace(PATIENT, threads=1)) as world,
        world.tls() as busy,
        client(world) as idle,
        used_once(world) as asks,
    ):
        world.until(lambda: world.reactor.roster.by_phase()[Phase.HANDSHAKE] == 0)
        busy.sendall(post(b"{}", path="/wait"))
        assert began.wait(PATIENCE_SECONDS)
        asks.sendall(post(b"{}"))
        world.reactor.close_idle()
        go_on.set()
        assert status_of(answer(asks)) == 200
        assert status_of(answer(busy)) == 200
        assert is_ended(idle)


def test_a_port_without_tls_serves_the_same_way(tmp_path):
    with serving(tmp_path, echo, PATIENT, with_tls=False) as world, world.tcp() as sock:
        sock.sendall(post(b"abc") + post(b"abcd"))
        assert [answer(sock)[-1:] for _ in range(2)] == [b"3", b"4"]
