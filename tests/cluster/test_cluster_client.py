"""The client: what goes out, what comes back, and which error each failure is."""

import socket
import threading
from contextlib import closing, contextmanager

import pytest
import yaml
from support.api_server import fake_api

from webhook.cluster import errors
from webhook.cluster.client import Client


@contextmanager
def raw_server(*answers):
    """Answer each request on a connection of its own with these bytes; yield the URL and the requests."""
    requests = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                raw = b""
                while b"\r\n\r\n" not in raw:
                    raw += connection.recv(65536)
                head, _, body = raw.partition(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.lower().split(b"\r\n")
                        if line.startswith(b"content-length")
                    ),
                    0,
                )
                while len(body) < length:
                    body += connection.recv(65536)
                requests.append((head.decode(), body.decode()))
                if answer is None:
                    done.wait(10)
                else:
                    connection.sendall(answer)

    done = threading.Event()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with closing(listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        done.set()
        thread.join(10)


def reply(status=200, body=b"{}", headers=""):
    length = "" if "ransfer" in headers else f"Content-Length: {len(body)}\r\n"
    return f"HTTP/1.1 {status} X\r\n{length}Connection: close\r\n{headers}\r\n".encode() + body


@pytest.mark.parametrize(
    ("call", "line", "content_type", "body"),
    [
        (lambda c: c.get("/a", {"limit": 5, "watch": True, "none": None}), "GET /a?limit=5&watch=true", "", ""),
        (lambda c: c.get("/a", {"continue": "x/+ y"}), "GET /a?continue=x%2F%2B+y", "", ""),
        (lambda c: c.post("/a", {"k": "ä"}), "POST /a", "application/json", '{"k":"ä"}'),
        (lambda c: c.put("/a", {}, query={"dryRun": "All"}), "PUT /a?dryRun=All", "application/json", "{}"),
        (lambda c: c.patch("/a", {"s": 1}), "PATCH /a", "application/merge-patch+json", '{"s":1}'),
        (lambda c: c.patch("/a", [], "application/json-patch+json"), "PATCH /a", "application/json-patch+json", "[]"),
        (lambda c: c.delete("/a"), "DELETE /a", "", ""),
        (lambda c: c.delete("/a", {"preconditions": {"uid": "u"}}), "DELETE /a", "application/json",
         '{"preconditions":{"uid":"u"}}'),
    ],
)  # fmt: skip
def test_what_is_sent(call, line, content_type, body):
    with raw_server(reply()) as (url, requests):
        assert call(Client.of_server(url)) == {}
    head, sent = requests[0]
    assert head.split(" HTTP")[0] == line
    assert sent == body
    types = [each.split(": ")[1] for each in head.split("\r\n") if each.lower().startswith("content-type")]
    assert types == ([content_type] if content_type else [])


STATUS = b'{"kind":"Status","message":"it is so","reason":"AlreadyExists"}'


@pytest.mark.parametrize(
    ("answer", "error", "facts"),
    [
        (reply(404, STATUS), errors.NotFound, {"status": 404, "reason": "AlreadyExists"}),
        (reply(409, STATUS), errors.Conflict, {"status": 409, "reason": "AlreadyExists"}),
        (reply(410, STATUS), errors.Gone, {}),
        (reply(401, b"Unauthorized"), errors.Forbidden, {"status": 401}),
        (reply(403, STATUS), errors.Forbidden, {"status": 403}),
        (reply(422, STATUS), errors.Rejected, {"status": 422}),
        (reply(302, b"", "Location: http://elsewhere/\r\n"), errors.Rejected, {"status": 302}),
        (reply(429, STATUS, "Retry-After: 7\r\n"), errors.Unavailable, {"status": 429, "retry_after_seconds": 7.0}),
        (reply(503, b"<html>"), errors.Unavailable, {"status": 503}),
        (reply(200, b"<html>"), errors.BadAnswer, {}),
        (reply(200, b"[]"), errors.BadAnswer, {}),
        (reply(200, b""), errors.BadAnswer, {}),
        (b"nonsense\r\n\r\n", errors.Unavailable, {"status": 0}),
        (b"", errors.Unavailable, {"status": 0}),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", errors.Unavailable, {"status": 0}),
        (None, errors.TimedOut, {}),
    ],
)
def test_which_error_an_answer_is(answer, error, facts):
    with raw_server(answer) as (url, _), pytest.raises(errors.ClusterError, match="GET /a") as caught:
        Client.of_server(url).get("/a", timeout_seconds=0.3)
    assert type(caught.value) is error
    for name, value in facts.items():
        assert getattr(caught.value, name) == value


def test_nobody_there_is_unavailable():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(errors.Unavailable):
        Client.of_server(f"http://127.0.0.1:{port}").get("/a")


def test_an_answer_that_drips_ends_at_the_deadline():
    drip = reply(headers="Transfer-Encoding: chunked\r\n", body=b"1\r\n{\r\n" + b"1\r\n \r\n" * 3)
    with raw_server(drip + b"5\r\n") as (url, _), pytest.raises(errors.Unanswered):
        Client.of_server(url).get("/a", timeout_seconds=0.2)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_come_whole_however_they_are_cut(size):
    text = b'{"a":1}\n\n{"b":"' + b"x" * 3000 + b'"}\n{"c":3}\nrest without an end'
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    with raw_server(reply(headers="Transfer-Encoding: chunked\r\n", body=body)) as (url, _):
        lines = list(Client.of_server(url).stream("/a"))
    assert [line[:6] for line in lines] == [b'{"a":1', b"", b'{"b":"', b'{"c":3']


def test_closing_a_stream_wakes_whoever_waits_for_its_next_line():
    with fake_api() as (api, url):
        api.serve("/things")
        stream = Client.of_server(url).stream("/things", {"watch": True})
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(stream), daemon=True)
        thread.start()
        api.wait_until(lambda: api.watching.get("/things") == 1)
        api.put("/things", {"metadata": {"name": "a"}})
        stream.close()
        stream.close()
        thread.join(5)
        assert not thread.is_alive()


def kubeconfig(folder, **user):
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": user.pop("server", "http://127.0.0.1:1")}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


def test_a_kubeconfigs_token_is_sent(tmp_path):
    with raw_server(reply()) as (url, requests):
        Client.from_environment(kubeconfig(tmp_path, server=url, token="abc")).get("/a")  # noqa: S106 - no secret
    assert "authorization: bearer abc" in requests[0][0].lower()


@pytest.mark.parametrize("text", [None, "", "a: [", "current-context: x"])
def test_a_kubeconfig_that_is_none_is_told_as_such(tmp_path, text):
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.NotConfigured):
        Client.from_environment(path)


def test_a_pod_without_its_token_is_told_so(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    with pytest.raises(errors.NotConfigured, match="token"):
        Client.from_environment()
