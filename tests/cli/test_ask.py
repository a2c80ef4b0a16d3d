"""``numa-admission ask``: which objects are asked about, and what wrong usage says."""

import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from certs.mint import mint_development_pair
from webhook.cli.ask import ask

ALLOWED, REFUSED, USAGE, UNREADABLE = 0, 1, 2, 3


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return mint_development_pair(tmp_path_factory.mktemp("tls"))


@contextmanager
def server(files, refuses=()):
    """A server over TLS that refuses objects by name; gives its URL and the (path, kind, name) that it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            name = request["object"]["metadata"].get("name", "")
            asked.append((self.path.partition("?")[0], request["object"]["kind"], name))
            response = {"uid": request["uid"], "allowed": name not in refuses}
            if name in refuses:
                response["status"] = {"code": 403, "message": "spec: no. [NO]"}
            body = json.dumps({"response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert_file, files.key_file)
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.server_port}", asked
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


def call(files, url, *arguments, stdin=""):
    return CliRunner().invoke(ask, ["--url", url, "--ca", str(files.ca_file), *arguments], input=stdin)


LISTS = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: one}}
- {apiVersion: v1, kind: PodList, items: [{metadata: {name: two}}]}
"""


def test_each_object_of_a_list_is_asked_about(files):
    """A List as a whole is nothing that a webhook judges: it would be let through unseen."""
    with server(files, refuses=("two",)) as (url, asked):
        result = call(files, url, "-", stdin=LISTS)
    assert result.exit_code == REFUSED
    assert {(kind, name) for _, kind, name in asked} == {("Pod", "one"), ("Pod", "two")}
    assert "spec: no. [NO]" in result.output


def test_names_are_printed_escaped(files):
    with server(files) as (url, _):
        result = call(files, url, "-", stdin='{"kind": "Pod\\u001b[31m", "metadata": {"name": "a\\nb"}}')
    assert result.exit_code == ALLOWED
    assert result.output.splitlines()[0] == r"Pod\x1b[31m a\nb"


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "kind: List\nitems: []\n", "a: b\n", "kind: List\nitems: [{}]\n", "[", "kind: 1\n"],
    ids=repr,
)
def test_what_holds_no_object_is_said(files, text):
    result = call(files, "https://127.0.0.1:1", "-", stdin=text)
    assert result.exit_code == UNREADABLE
    assert result.stderr.startswith("numa-admission ask: <stdin>:")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1", "https://127.0.0.1:abc", "https://[::1", "https://", "127.0.0.1:1", "https://h/x", "https://h:99999"],
)  # fmt: skip
def test_a_url_of_another_form_is_wrong_usage(files, url):
    result = call(files, url, "-")
    assert result.exit_code == USAGE
    assert "is not of the form https://HOST:PORT." in result.stderr


def test_a_server_that_does_not_answer_is_said(files):
    result = call(files, "https://127.0.0.1:1", "-", stdin="kind: Pod\n")
    assert result.exit_code == UNREADABLE
    assert "does not answer" in result.stderr
