"""Ways around the server itself: classes 5C-24 to 5C-26, 5C-33 to 5C-35 and 5C-38, through the application.

More of 5C-25 is in `tests/serve/test_serve_hostile.py`.
"""

import io
import json
from contextlib import ExitStack

import pytest
from bypass_world import review, running
from serve.serve_world import answer, post, serving, status_of
from support import server_rules
from support.builders import ABSENT, SINGLE, SPEC_KEY, container, raw_pod

from webhook.core.decisions import Decision, Endpoint
from webhook.edge.app import create_app
from webhook.serve.limits import Limits
from webhook.service.admit import Corridor, Door
from webhook.service.logs import open_log
from webhook.service.services import Services
from webhook.service.settings import Settings
from webhook.service.wiring import build_services

JSON = "application/json"
MIB = 1 << 20


class Server:
    """The application of the rules, with its log in memory."""

    def __init__(self, judge=None) -> None:
        """Answer validate by `judge` where one is given."""
        self.log = io.BytesIO()
        log = open_log(self.log)
        self.services = build_services(Settings(), log)
        if judge is not None:
            doors = {Endpoint.VALIDATE: Door(judge, 3.0), Endpoint.MUTATE: Door(judge, 3.0, patches=True)}
            corridor = Corridor(doors, self.services.meters, log)
            self.services = Services(corridor, self.services.health, self.services.meters, log)
        self.application = create_app(self.services)

    def post(self, body, path="/validate", content_type=JSON):
        return self.application.test_client().post(path, data=body, content_type=content_type)

    def verdict(self, body, path="/validate"):
        """The verdict on the call, once the API server's own checks of a reply have passed."""
        reply = self.post(body, path)
        assert reply.status_code == 200, reply.text
        return server_rules.judge_reply(body, reply.data, mutating=path == "/mutate")

    def series(self):
        return len(self.services.meters.render().splitlines())


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


HUGE = [
    pytest.param(
        review(raw_pod(annotations={f"key-{number}": "x" * 1000 for number in range(1500)})),
        True,
        id="5C-24 1.5 MB of annotations",
    ),
    pytest.param(review(raw_pod(annotations={SPEC_KEY: "{" * MIB})), False, id="5C-24 a spec of 1 MiB"),
    pytest.param(
        review(raw_pod(containers=[container(f"c{number}") for number in range(1000)])),
        True,
        id="5C-24 1,000 containers",
    ),
    pytest.param(
        review(raw_pod(containers=[container(f"c{number}", cpu="0.5") for number in range(1000)])),
        False,
        id="5C-24 1,000 containers with a fault each",
    ),
    pytest.param(review(raw_pod(spec={"x": nested(900)})), True, id="5C-24 deep nesting"),
    pytest.param(review(raw_pod(annotations={"k" * MIB: "v"})), True, id="5C-24 a key of 1 MiB"),
    pytest.param(
        review(raw_pod(annotations={f"spec{'-' * MIB}": SINGLE})), True, id="5C-38 a key like ours with 1 MiB"
    ),
    pytest.param(
        review(raw_pod(annotations={f"{'numa' + '-' * 500}" * 2000 + "topologyspec!x": SINGLE})),
        True,
        id="5C-38 a key that makes a pattern try again and again",
    ),
    pytest.param(
        review(raw_pod(annotations={SPEC_KEY: '{"numaTopologyPolicy":' + "/*" * 2000})),
        False,
        id="5C-38 a comment that does not end",
    ),
    pytest.param(
        review(raw_pod(containers=[container(requests={"cpu": "9" * 100_000}, limits={"cpu": "1" + "0" * 100_000})])),
        False,
        id="5C-38 a quantity of 100,000 digits",
    ),
    pytest.param(
        review(raw_pod(containers=[container(requests={"cpu": "1e999999999"}, limits={"cpu": "1e999999999"})])),
        False,
        id="5C-38 an exponent",
    ),
    pytest.param(
        review(
            raw_pod(),
            raw_pod(
                annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": ABSENT, "resource-spec" + " " * MIB: "numa" * 1000}
            ),
        ),
        True,
        id="5C-38 the old object's keys",
    ),
]


@pytest.mark.parametrize("body, allowed", HUGE)
def test_the_huge_gets_a_verdict(body, allowed):
    """Not a fault, not a time-out: a verdict that the API server takes, from both endpoints."""
    server = Server()
    assert server.verdict(body).allowed is allowed
    assert server.verdict(body, "/mutate").allowed


VALID = review(raw_pod())


def without(**fields):
    """VALID with fields of its document, or of its request, set."""
    document = json.loads(VALID)
    for name, value in fields.items():
        holder = document if name in document else document["request"]
        holder[name] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
@pytest.mark.parametrize(
    "body, content_type, status",
    [
        pytest.param(VALID, JSON, 200, id="5C-26 a review, from anybody"),
        pytest.param(VALID, "text/plain", 415, id="5C-26 another content type"),
        pytest.param(without(apiVersion="admission.k8s.io/v1beta1"), JSON, 400, id="5C-26 v1beta1"),
        pytest.param(without(uid=None), JSON, 400, id="5C-26 no uid"),
        pytest.param(without(request=None), JSON, 400, id="5C-26 request null"),
        pytest.param(b"[" + VALID + b"]", JSON, 400, id="5C-26 a list on top"),
        pytest.param(VALID[:-1], JSON, 400, id="5C-26 half a review"),
        pytest.param(b"x" * (8 * MIB + 1), JSON, 413, id="5C-26 over 8 MiB"),
    ],
)
def test_only_reviews_get_a_verdict(path, body, content_type, status):
    """What is no AdmissionReview v1 is told so, and never allowed."""
    reply = Server().post(body, path, content_type)
    assert reply.status_code == status
    assert (status == 200) is (b'"allowed"' in reply.data)


@pytest.mark.parametrize(
    "path", ["/", "/validate/", "/Validate", "/validate/x", "//validate"], ids="5C-26 path {}".format
)
def test_other_paths_are_none_of_ours(path):
    """Nothing but the exact path is answered by a verdict."""
    assert Server().post(VALID, path).status_code in {404, 405}


def raising(*_question) -> Decision:
    raise LookupError("a table has no row")


@pytest.mark.parametrize("path", ["/validate", "/mutate"], ids="5C-33 {}".format)
def test_a_fault_is_never_taken_for_a_rule_that_does_not_apply(path):
    """A fault inside is a 500, so the failure policy decides, and a line with the call's uid."""
    server = Server(raising)
    reply = server.post(VALID, path)
    assert reply.status_code == 500
    assert b"allowed" not in reply.data
    (line,) = server.log.getvalue().splitlines()
    assert json.loads(line)["uid"] == "705ab4f5-9393-11e8-b7cc-42010a800002"


HOSTILE = [
    pytest.param("a\nb", id="5C-34 a line break"),
    pytest.param("a\r\nX-Header: b", id="5C-34 a header"),
    pytest.param("\x1b[31mred\x1b[0m", id="5C-34 an escape sequence"),
    pytest.param("a\0b", id="5C-34 NUL"),
    pytest.param("gpu\u202egnp.exe", id="5C-34 a right-to-left override"),
    pytest.param("\U0001f600" * 100, id="5C-34 emoji"),
    pytest.param("\ud800", id="5C-34 a lone surrogate"),
    pytest.param("\u2028", id="5C-34 a line separator"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_the_request_is_said_escaped(text):
    """In message, warning and log: nothing but characters that print, and no line break but our own."""
    server = Server()
    raw = raw_pod(
        annotations={
            SPEC_KEY: f'{{"numaTopologyPolicy":"{text}","{text}":1}}',
            f"{SPEC_KEY}{text}": text,
            "cpuset": text,
        },
        labels={f"gpu-topology{text}": text},
        containers=[container(text, cpu=text)],
        metadata={"name": text, "namespace": text},
        spec={"schedulerName": text, "nodeName": text},
    )
    body = review(raw, name=text, namespace=text, userInfo={"username": text, "groups": [text]})
    reply = server.post(body)
    if reply.status_code == 400:  # a lone surrogate is no JSON text: the call is broken, and no verdict
        assert text == "\ud800"
        return
    verdict = server_rules.judge_reply(body, reply.data, mutating=False)
    assert not verdict.allowed
    said = json.loads(reply.data)["response"]
    for line in (*said["status"]["message"].split("\n"), *said.get("warnings", ())):
        assert line.isprintable()
    for line in server.log.getvalue().decode().splitlines():
        assert line.isprintable()
        json.loads(line)


@pytest.mark.parametrize("count", [1, 50], ids="5C-35 {} namespaces, names and users".format)
def test_metrics_do_not_grow_with_names(count):
    """No series comes from a text of a request."""
    server = Server()
    server.verdict(review(raw_pod(annotations={SPEC_KEY: "{}"})))
    before = server.series()
    for number in range(count):
        raw = raw_pod(annotations={SPEC_KEY: "{}"}, metadata={"name": f"p{number}"})
        user = {"username": f"u{number}", "groups": [f"g{number}"]}
        server.verdict(review(raw, namespace=f"n{number}", name=f"p{number}", userInfo=user))
    assert server.series() == before


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"", id="5C-25 a connection that never says anything"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="5C-25 half a TLS handshake"),
        pytest.param(b"GET /validate HTTP/1.1\r\nHost: x\r\n\r\n", id="5C-25 plain HTTP on the TLS port"),
    ],
)
def test_bad_connections_do_not_keep_good_calls_waiting(begin, tmp_path):
    """More of them than there are threads, and a review is still judged."""
    server = Server()
    limits = Limits(threads=2)
    with serving(tmp_path, server.application, limits) as world, ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(world.tcp()).sendall(begin)
        with world.tls() as sock:
            sock.sendall(post(VALID, fields=f"Content-Type: {JSON}\r\n"))
            reply = answer(sock)
    assert status_of(reply) == 200
    verdict = server_rules.judge_reply(VALID, reply.partition(b"\r\n\r\n")[2], mutating=False)
    assert verdict.allowed


@pytest.mark.parametrize("path", ["/validate", "/mutate"], ids="5C-28 {}".format)
def test_the_same_call_twice_is_answered_the_same(path):
    """The rules keep nothing: a retry or a reinvocation gets the same reply."""
    server = Server()
    body = review(running(annotations={SPEC_KEY: "{}"}))
    assert server.post(body, path).data == server.post(body, path).data
