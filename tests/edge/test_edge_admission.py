"""Every class of call that is no AdmissionReview v1, and the replies to those that are, through the application."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.core.decisions import Decision, Endpoint
from webhook.edge.admission import AdmissionDoor, timeout_seconds
from webhook.edge.app import create_app
from webhook.edge.probes import Probes
from webhook.service.admit import Corridor, Door
from webhook.service.clock import Clock
from webhook.service.health import Health
from webhook.service.logs import open_log
from webhook.service.meters import Meters
from webhook.service.services import Services
from webhook.service.settings import Settings
from webhook.service.wiring import build_services

RECORDED = sorted((Path(__file__).parent.parent / "recorded").glob("*.json"))
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5",
        "operation": "CREATE",
        "namespace": "team-a",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {"metadata": {"name": "p"}, "spec": {"containers": []}},
    },
}


class Bench:
    """The application with its log in memory."""

    def __init__(self, **doors) -> None:
        """Take the doors that are given, else those of the settings' defaults."""
        self.stream = io.BytesIO()
        log = open_log(self.stream, "debug")
        built = build_services(Settings(), log)
        if doors:
            chosen = {Endpoint(name): door for name, door in doors.items()}
            corridor = Corridor(chosen, built.meters, log, Clock(monotonic_seconds=lambda: 100.0))
            built = Services(corridor, built.health, built.meters, log)
        self.services = built
        self.client = create_app(built).test_client()

    def post(self, body, path="/validate", content_type="application/json", **options):
        """Send a review, or bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body)
        return self.client.post(path, data=data, content_type=content_type, **options)

    @property
    def lines(self):
        """The log's lines, read."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def metric(self, text):
        """Return the lines of the metrics that start so."""
        return [line for line in self.services.meters.render().decode().splitlines() if line.startswith(text)]


def changed(**fields):
    """REVIEW with fields of the request, or (apiVersion, kind, request) of the document, set; None takes away."""
    review = json.loads(json.dumps(REVIEW))
    for name, value in fields.items():
        holder = review if name in review else review["request"]
        holder[name] = value
        if value is None:
            del holder[name]
    return review


BROKEN = [
    pytest.param(b"", 400, id="empty body"),
    pytest.param(b"{", 400, id="broken JSON"),
    pytest.param(b"\xff\xfe{}", 400, id="invalid text"),
    pytest.param(b"[" * 100_000, 400, id="deep nesting"),
    pytest.param([REVIEW], 400, id="array on top"),
    pytest.param("text", 400, id="text on top"),
    pytest.param(changed(apiVersion="admission.k8s.io/v1beta1"), 400, id="v1beta1"),
    pytest.param(changed(kind="Pod"), 400, id="another kind"),
    pytest.param(changed(request=None), 400, id="no request"),
    pytest.param({**REVIEW, "request": None}, 400, id="request null"),
    pytest.param({**REVIEW, "request": []}, 400, id="request a list"),
    pytest.param(changed(uid=None), 400, id="no uid"),
    pytest.param(changed(uid=""), 400, id="empty uid"),
    pytest.param(changed(uid=7), 400, id="uid a number"),
    pytest.param(changed(uid="x" * 10_000), 400, id="uid of 10,000 characters"),
    pytest.param(changed(operation="PATCH"), 400, id="unknown operation"),
]


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/capacity", "/bind"])
@pytest.mark.parametrize("body, status", BROKEN)
def test_what_is_no_review_gets_a_plain_sentence_and_is_counted(path, body, status):
    bench = Bench()
    reply = bench.post(body, path)
    assert reply.status_code == status
    assert reply.mimetype == "text/plain"
    assert reply.text.endswith(".\n")
    assert reply.text.count("\n") == 1
    assert bench.metric(f'numa_admission_bad_calls_total{{endpoint="{path[1:]}",reason="bad_review"}} 1.0')


@pytest.mark.parametrize(
    "options, status",
    [
        pytest.param({"content_type": "text/yaml"}, 415, id="yaml"),
        pytest.param({"content_type": "application/json-patch+json"}, 415, id="a longer name"),
        pytest.param({"content_type": ""}, 415, id="none"),
        pytest.param({"headers": {"Content-Encoding": "gzip"}}, 415, id="compressed"),
        pytest.param({"content_type": "application/json; charset=utf-8"}, 200, id="with a charset"),
        pytest.param({"content_type": "Application/JSON"}, 200, id="in another case"),
    ],
)
def test_the_content_type_is_json(options, status):
    assert Bench().post(REVIEW, **options).status_code == status


def test_a_body_over_8_mib_is_413():
    reply = Bench().post(b" " * ((8 << 20) + 1))
    assert (reply.status_code, reply.mimetype) == (413, "text/plain")


def test_a_body_of_8_mib_is_read():
    padded = json.dumps(REVIEW).encode()
    assert Bench().post(padded + b" " * ((8 << 20) - len(padded))).status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_other_methods_are_405(method):
    reply = Bench().client.open("/validate", method=method)
    assert reply.status_code == 405
    assert reply.headers["Allow"] == "POST"
    assert bool(reply.data) == (method != "HEAD"), "gunicorn warns of a body that HEAD must not have"


NOWHERE = ["/", "/Validate", "/validate/", "/validate/x", "/metrics", "/livez", "/%2e%2e/validate"]


@pytest.mark.parametrize("path", NOWHERE)
def test_unknown_paths_are_404_with_a_plain_sentence(path):
    reply = Bench().post(REVIEW, path)
    assert (reply.status_code, reply.mimetype) == (404, "text/plain")
    assert "/validate" in reply.text


def test_a_role_serves_only_its_own_paths():
    bench = Bench(validate=Door(lambda _ask, _until: Decision.allow(), 3.0))
    assert bench.post(REVIEW, "/validate").status_code == 200
    assert bench.post(REVIEW, "/capacity").status_code == 404


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/capacity", "/bind"])
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_every_recorded_review_gets_a_verdict_with_its_uid(file, path):
    review = json.loads(file.read_text())
    reply = Bench().post(review, path)
    assert reply.status_code == 200
    assert reply.mimetype == "application/json"
    document = reply.get_json()
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert document["response"]["uid"] == review["request"]["uid"]
    if not document["response"]["allowed"]:
        assert document["response"]["status"]["code"] == 403
    if path != "/mutate":
        assert "patch" not in document["response"]


def raises(_ask, _until):
    raise RuntimeError("a\nlie\x1b[31m in the text")


@pytest.mark.parametrize("endpoint", [endpoint.value for endpoint in Endpoint])
def test_a_fault_of_a_rule_is_a_500_and_one_line_with_the_uid_never_an_allow(endpoint):
    bench = Bench(**{endpoint: Door(raises, 3.0)})
    reply = bench.post(REVIEW, f"/{endpoint}")
    assert (reply.status_code, reply.mimetype) == (500, "text/plain")
    assert "allowed" not in reply.text
    assert "lie" not in reply.text
    (line,) = bench.lines
    assert (line["event"], line["level"], line["uid"], line["fault"]) == ("fault", "error", "705ab4f5", "RuntimeError")
    assert line["fault_text"] == "a\\nlie\\x1b[31m in the text"
    assert "raises" in line["fault_at"]
    assert bench.metric(f'numa_admission_reviews_total{{endpoint="{endpoint}",verdict="fault"}} 1.0')
    assert bench.metric("numa_admission_in_flight 0.0")


HOSTILE_TEXT = "a\nb\r\x1b[31m\u202e\u2028\x00\x7f\u0085"


def test_text_of_the_request_reaches_the_log_escaped_and_on_one_line():
    bench = Bench(validate=Door(lambda _ask, _until: Decision.allow(warnings=("w",)), 3.0))
    review = changed(namespace=HOSTILE_TEXT, name=HOSTILE_TEXT, uid=HOSTILE_TEXT, userInfo={"username": HOSTILE_TEXT})
    assert bench.post(review).status_code == 200
    raw = bench.stream.getvalue()
    assert raw.count(b"\n") == 1
    assert raw.decode().rstrip("\n").isprintable()
    assert bench.lines[0]["namespace"].startswith("a\\nb\\r\\x1b[31m\\u202e")


@pytest.mark.parametrize(
    "decision, event",
    [
        pytest.param(Decision.allow(), None, id="allowed without a word: no line"),
        pytest.param(Decision.allow(warnings=("w",)), "warned", id="warned"),
        pytest.param(Decision(allowed=False), "refused", id="refused"),
    ],
)
def test_what_is_said_is_logged(decision, event):
    bench = Bench(validate=Door(lambda _ask, _until: decision, 3.0))
    bench.post(REVIEW)
    assert [line["event"] for line in bench.lines] == ([event] if event else [])


@pytest.mark.parametrize(
    "waited, query, gives_way, status",
    [
        pytest.param(0.5, "timeout=10s", False, 200, id="in time"),
        pytest.param(1.9, "timeout=2s", False, 504, id="within the margin of the caller's time"),
        pytest.param(2.9, "timeout=10s", False, 504, id="our own time counts where it is shorter"),
        pytest.param(2.9, "", False, 504, id="without a parameter our own counts"),
        pytest.param(0.9, "timeout=1s", True, 200, id="the ledger says unknown instead"),
        pytest.param(1.0, "timeout=never", False, 200, id="a parameter that is none is not counted"),
    ],
)
def test_the_caller_s_time_is_honoured(waited, query, gives_way, status):
    bench = Bench(validate=Door(lambda _ask, _until: Decision(allowed=False), 3.0, gives_way=gives_way))
    reply = bench.post(REVIEW, f"/validate?{query}", environ_overrides={"numa.received": 100.0 - waited})
    assert reply.status_code == status
    if status == 200 and gives_way:
        assert reply.get_json()["response"]["allowed"] is True
        assert "the time that the API server gave" in reply.get_json()["response"]["warnings"][0]


@pytest.mark.parametrize(
    "query, seconds",
    [
        ("timeout=10s", 10.0),
        ("a=b&timeout=1m30s", 90.0),
        ("timeout=1.5s", 1.5),
        ("timeout=500ms", 0.5),
        ("timeout=0s", None),
        ("timeout=-1s", None),
        ("timeout=10", None),
        ("timeout=%31s", None),
        ("timeouts=10s", None),
        ("", None),
    ],
)
def test_a_timeout_is_a_duration_as_go_prints_it(query, seconds):
    assert timeout_seconds(query) == seconds


@given(st.text())
def test_no_query_raises(query):
    timeout_seconds(query)
    timeout_seconds(f"timeout={query}")


def test_a_body_shorter_than_its_length_is_400():
    environ = {
        "PATH_INFO": "/validate",
        "REQUEST_METHOD": "POST",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": "10",
        "wsgi.input": io.BytesIO(b"{}"),
    }
    said = []
    door = AdmissionDoor(Bench().services.corridor, lambda *_: [])
    body = door(environ, lambda status, _headers: said.append(status))
    assert said == ["400 Bad Request"]
    assert b"".join(body) == b"The body ended after 2 of 10 bytes.\n"


def probe(health, path, method="GET"):
    said = []
    environ = {"PATH_INFO": path, "REQUEST_METHOD": method}
    body = b"".join(Probes(health, Meters())(environ, lambda status, _headers: said.append(status[:3])))
    return said[0], body


def test_probes_say_why_not():
    health = Health(ready_checks=(lambda: "The ledger has not read the cluster yet.", lambda: ""))
    assert probe(health, "/readyz")[0] == "503"
    health.serving()
    assert probe(health, "/readyz") == ("503", b"The ledger has not read the cluster yet.\n")
    assert probe(health, "/livez") == ("200", b"ok\n")
    stuck = [0.0]
    health.watch_threads(lambda: stuck[0], 30.0)
    assert probe(health, "/livez")[0] == "200"
    stuck[0] = 31.0
    assert probe(health, "/livez") == ("503", b"Every thread has been busy for 31 s.\n")
    well = Health()
    well.serving()
    assert probe(well, "/readyz") == ("200", b"ok\n")
    well.draining()
    assert probe(well, "/readyz") == ("503", b"The server is draining and will stop.\n")


@pytest.mark.parametrize(
    "path, method, status",
    [("/metrics", "GET", "200"), ("/", "GET", "404"), ("/livez", "POST", "405"), ("/livez", "HEAD", "200")],
)
def test_the_probe_port_answers_only_its_own_paths(path, method, status):
    assert probe(Health(), path, method)[0] == status


def test_no_label_of_a_metric_comes_from_a_request():
    """Names of namespaces, pods and users in a thousand spellings make no new series."""
    bench = Bench()
    bench.post(REVIEW)
    before = len(bench.metric("numa_"))
    for number in range(50):
        user = {"username": f"u{number}"}
        review = changed(namespace=f"n{number}", name=f"p{number}", uid=f"u{number}", userInfo=user)
        bench.post(review)
        bench.post(review, f"/nowhere{number}")
    assert len(bench.metric("numa_")) <= before + 4
