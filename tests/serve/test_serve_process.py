"""The server as an operator starts it: a process, its exit codes, its probes, and how it ends."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from serve_world import PATIENCE_SECONDS, answer, is_ended, post, status_of
from support.projected_folder import project

from certs.mint import mint_development_pair
from certs.pki import mint_authority

PROGRAM = str(Path(sys.executable).with_name("numa-admission"))
RECORDED = Path(__file__).parent.parent / "recorded"
REVIEW = (RECORDED / "pod-create-apply.validating.json").read_bytes()
JSON = "Content-Type: application/json\r\n"
LOOK_SECONDS = 2.0
"""How long a connection is looked at that must stay open."""


class Server:
    """A running `numa-admission serve`."""

    def __init__(self, process: subprocess.Popen, lines: list[str], ca_file: Path) -> None:
        """Read the ports from the lines that it printed."""
        self.process = process
        self.lines = lines
        self._client = ssl.create_default_context(cafile=str(ca_file))
        self.port = int(lines[0].partition("https://127.0.0.1:")[2].split()[0])
        probes = [line for line in lines if "probes http://" in line]
        self.probe_port = int(probes[0].partition("http://127.0.0.1:")[2].split("/")[0]) if probes else 0

    def connect(self) -> ssl.SSLSocket:
        """Connect and do the TLS handshake."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        return self._client.wrap_socket(sock, server_hostname="127.0.0.1")

    def call(self, body: bytes = REVIEW, path: str = "/validate?timeout=3s") -> tuple[int, bytes]:
        """Return status and body of a review's answer."""
        with self.connect() as sock:
            sock.sendall(post(body, path=path, fields=JSON))
            response = answer(sock)
            return status_of(response), response.partition(b"\r\n\r\n")[2]

    def probe(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a probe's answer."""
        with socket.create_connection(("127.0.0.1", self.probe_port), timeout=PATIENCE_SECONDS) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            response = answer(sock)
            return status_of(response), response.partition(b"\r\n\r\n")[2]

    def until_probe(self, path: str, status: int) -> bytes:
        """Ask until the probe answers `status`, and return that answer's body."""
        tick = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / 0.05)):
            found, body = self.probe(path)
            if found == status:
                return body
            tick.wait(0.05)
        raise AssertionError(f"{path} never answered {status}")

    def refuses(self) -> bool:
        """Whether nobody listens any more."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS).close()
        except ConnectionRefusedError:
            return True
        return False


@pytest.fixture
def pair(tmp_path):
    return mint_development_pair(tmp_path / "tls")


@contextmanager
def running(folder: Path, pair, *extra: str, settings: str = "", probes: bool = True) -> Iterator[Server]:
    """Run the server on free ports until the end of the block."""
    file = folder / "settings.yaml"
    file.write_text(settings or "server: {drainSeconds: 0.5}")
    command = [PROGRAM, "serve", "--bind", "127.0.0.1:0", "--settings", str(file)]
    command += ["--tls-cert", str(pair.cert_file), "--tls-key", str(pair.key_file), *extra]
    command += ["--probe-bind", "127.0.0.1:0"] if probes else []
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        lines = [process.stdout.readline() for _ in range(2 if probes else 1)]
        assert lines[0].startswith("numa-admission: ready"), (folder / "server.log").read_text()
        yield Server(process, lines, pair.ca_file)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE_SECONDS)
        process.stdout.close()
        log.close()


def failed_start(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [PROGRAM, "serve", *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


def test_it_answers_with_the_uid_and_its_probes_and_metrics_tell(tmp_path, pair):
    with running(tmp_path, pair) as server:
        assert server.lines[0].rstrip().endswith("answers /mutate, /validate, /capacity, /bind")
        for path in ("/mutate", "/validate", "/capacity", "/bind"):
            status, body = server.call(path=path)
            assert status == 200
            assert json.loads(body)["response"]["uid"] == json.loads(REVIEW)["request"]["uid"]
        assert server.call(path="/nowhere")[0] == 404
        assert server.call(b"{}")[0] == 400
        assert server.until_probe("/readyz", 200) == b"ok\n"
        assert server.probe("/livez") == (200, b"ok\n")
        metrics = server.probe("/metrics")[1].decode()
        for line in (
            'numa_admission_bad_calls_total{endpoint="validate",reason="bad_review"} 1.0',
            'numa_admission_bad_calls_total{endpoint="other",reason="404"} 1.0',
            'numa_admission_review_duration_seconds_count{endpoint="validate"} 1.0',
            'numa_admission_connections_closed_total{reason="client"}',
        ):
            assert line in metrics
        (expiry,) = [line for line in metrics.splitlines() if line.startswith("numa_admission_certificate_expiry")]
        assert float(expiry.split()[1]) > 1.7e9


def test_every_line_of_its_log_is_json(tmp_path, pair):
    with running(tmp_path, pair) as server:
        server.call((RECORDED / "pod-create-apply.mutating.json").read_bytes(), "/mutate")
        server.process.send_signal(signal.SIGHUP)
        server.call()
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    assert "changed" in {line["event"] for line in lines}
    assert [line for line in lines if "A HUP does nothing" in line.get("text", "")]


def test_term_fails_readiness_first_then_drains_and_exits_0(tmp_path, pair):
    with running(tmp_path, pair, settings="server: {drainSeconds: 1.5}") as server, server.connect() as pooled:
        pooled.sendall(post(REVIEW, fields=JSON))
        assert b"connection: keep-alive" in answer(pooled).lower()
        server.until_probe("/readyz", 200)
        server.process.send_signal(signal.SIGTERM)
        assert b"draining" in server.until_probe("/readyz", 503)
        assert server.probe("/livez")[0] == 200
        assert server.call()[0] == 200, "a new connection is still taken"
        pooled.sendall(post(REVIEW, fields=JSON))
        last = answer(pooled)
        assert status_of(last) == 200
        assert b"connection: close" in last.lower()
        assert is_ended(pooled)
        assert server.process.wait(timeout=PATIENCE_SECONDS) == 0
        with pytest.raises(ConnectionRefusedError):
            server.connect()


def test_the_client_is_first_to_close_an_idle_connection(tmp_path, pair):
    """Whoever sends while the server closes has lost the call: an API server repeats no POST."""
    settings = "server: {drainSeconds: 0, gracefulSeconds: 60}"
    with running(tmp_path, pair, settings=settings) as server, server.connect() as used, server.connect() as unused:
        used.sendall(post(REVIEW, fields=JSON))
        assert b"connection: keep-alive" in answer(used).lower()
        server.process.send_signal(signal.SIGTERM)
        until(server.refuses)
        used.settimeout(LOOK_SECONDS)
        with pytest.raises(TimeoutError):
            used.recv(1)
        for pooled in (used, unused):
            pooled.sendall(post(REVIEW, fields=JSON))
            last = answer(pooled)
            assert (status_of(last), b"connection: close" in last.lower()) == (200, True)
            pooled.close()
        assert server.process.wait(timeout=PATIENCE_SECONDS) == 0


def test_connections_that_do_nothing_hold_up_the_end_no_longer_than_they_may(tmp_path, pair):
    settings = "server: {drainSeconds: 0, gracefulSeconds: 4}"
    with running(tmp_path, pair, settings=settings) as server, server.connect() as unused:
        silent = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=PATIENCE_SECONDS) == 0
        assert is_ended(unused)
        silent.close()


def test_int_stops_at_once(tmp_path, pair):
    with running(tmp_path, pair, settings="server: {drainSeconds: 50, gracefulSeconds: 60}") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=PATIENCE_SECONDS) == 0


def test_a_killed_worker_is_replaced(tmp_path, pair):
    with running(tmp_path, pair) as server:
        server.until_probe("/readyz", 200)
        os.kill(int(children_of(server).split()[0]), signal.SIGKILL)
        server.until_probe("/readyz", 200)
        assert server.call()[0] == 200


def test_a_role_of_several_processes_shares_port_and_metrics(tmp_path, pair):
    settings = "server: {drainSeconds: 0.1, workers: 2, role: rules}"
    with running(tmp_path, pair, settings=settings) as server:
        assert server.lines[0].rstrip().endswith("answers /mutate, /validate")
        assert {server.call()[0] for _ in range(20)} == {200}
        assert server.call(path="/capacity")[0] == 404
        metrics = server.probe("/metrics")[1].decode()
        assert 'numa_admission_review_duration_seconds_count{endpoint="validate"} 20.0' in metrics


def client_pair(folder: Path) -> tuple[Path, Path]:
    """Write an authority and one file with a client's certificate and key; return both."""
    now = datetime.now(UTC)
    authority = mint_authority(now, timedelta(days=1), name="clients")
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "api-server")]))
        .issuer_name(authority.certificate.parsed.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(load_pem_private_key(authority.key_pem, None), hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "client-ca.crt").write_bytes(authority.certificate.pem)
    (folder / "client.pem").write_bytes(certificate.public_bytes(Encoding.PEM) + private)
    return folder / "client-ca.crt", folder / "client.pem"


def test_only_a_client_with_a_certificate_is_answered_where_one_is_demanded(tmp_path, pair):
    client_ca, client = client_pair(tmp_path)
    with running(tmp_path, pair, "--client-ca", str(client_ca), probes=False) as server:
        with suppress(OSError):  # TLS 1.3 tells it with the first read, and the reset may be quicker
            assert server.call() == (0, b"")
        server._client.load_cert_chain(client)
        assert server.call()[0] == 200


def test_tls_below_1_2_is_refused(tmp_path, pair):
    with running(tmp_path, pair, probes=False) as server:
        old = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_1", "-cipher", "ALL@SECLEVEL=0"],
            input="", capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert "Cipher is (NONE)" in old.stdout + old.stderr or old.returncode != 0


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path, pair):
    with running(tmp_path, pair) as server:
        with server.connect() as sock:
            before = sock.getpeercert(binary_form=True)
        renewed = mint_development_pair(tmp_path / "tls")
        tick = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / 0.2)):
            client = ssl.create_default_context(cafile=str(renewed.ca_file))
            try:
                with client.wrap_socket(
                    socket.create_connection(("127.0.0.1", server.port), timeout=5), server_hostname="127.0.0.1"
                ) as sock:
                    assert sock.getpeercert(binary_form=True) != before
                    return
            except ssl.SSLCertVerificationError:
                tick.wait(0.2)
        pytest.fail("the renewed certificate was never served")


def until_verdict(server: Server, allowed: bool) -> str:
    """Ask until the review's verdict is this one, and return the process that gave it."""
    tick = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.1)):
        status, body = server.call()
        assert status == 200
        if json.loads(body)["response"]["allowed"] is allowed:
            return children_of(server)
        tick.wait(0.1)
    raise AssertionError(f"the verdict never became {allowed}")


def children_of(server: Server) -> str:
    """The worker processes."""
    return Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()


def settings_metric(server: Server, name: str) -> set[float]:
    """The values of a metric in all workers."""
    lines = server.probe("/metrics")[1].decode().splitlines()
    return {float(line.split()[1]) for line in lines if line.startswith(f"numa_admission_settings_{name}")}


@pytest.mark.parametrize("start", ["role: both", "role: rules, workers: 2", "role: rules"])
def test_changed_settings_are_taken_over_without_a_restart(tmp_path, pair, start):
    """A ConfigMap's symlink swap: the same processes answer otherwise; a bad one changes nothing."""
    first = f"server: {{drainSeconds: 0, {start}}}\nrules: {{enforcement: deny}}\n"
    second = f"server: {{drainSeconds: 0, {start}, threads: 5}}\nrules: {{enforcement: warn}}\n"
    project(tmp_path, {"settings.yaml": first})
    with running(tmp_path, pair, settings=first) as server:
        # One worker answers before the master has forked the other.
        until(lambda: len(children_of(server).split()) == (2 if "workers: 2" in start else 1))
        processes = until_verdict(server, allowed=False)
        before = settings_metric(server, "hash")
        project(tmp_path, {"settings.yaml": second})
        until(lambda: settings_metric(server, "hash").isdisjoint(before))
        until(lambda: settings_metric(server, "restart_needed") == {1})
        assert until_verdict(server, allowed=True) == processes
        after = settings_metric(server, "hash")
        assert len(after) == 1, "every worker has the same"

        project(tmp_path, {"settings.yaml": "rules: {enforcement: deny, families: {cpu: dney}, colour: red}\n"})
        until(lambda: settings_metric(server, "reload_failed") == {1})
        assert settings_metric(server, "hash") == after
        assert until_verdict(server, allowed=True) == processes
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    told = [line for line in lines if line["event"] == "settings"]
    assert {tuple(line["waiting"]) for line in told if "waiting" in line} == {("server.threads",)}
    assert {len(line["faults"]) for line in told if "faults" in line} == {2}


@pytest.mark.parametrize("then", [pytest.param("", id="good"), pytest.param("rules: {enforcement: no}", id="now bad")])
def test_a_worker_that_takes_another_s_place_judges_by_the_settings_in_force(tmp_path, pair, then):
    project(tmp_path, {"settings.yaml": ""})
    with running(tmp_path, pair, settings="rules: {enforcement: deny}") as server:
        first = until_verdict(server, allowed=False)
        project(tmp_path, {"settings.yaml": "rules: {enforcement: warn}"})
        until_verdict(server, allowed=True)
        if then:
            project(tmp_path, {"settings.yaml": then})
            until(lambda: settings_metric(server, "reload_failed") == {1})
        os.kill(int(first.split()[0]), signal.SIGKILL)
        until(lambda: children_of(server) not in {first, ""})
        server.until_probe("/readyz", 200)
        assert json.loads(server.call()[1])["response"]["allowed"] is True


def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds` says yes."""
    tick = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.1)):
        if holds():
            return
        tick.wait(0.1)
    raise AssertionError("it never came")


def test_a_taken_port_is_one_sentence_and_exit_2(pair):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = failed_start("--bind", address, "--tls-cert", str(pair.cert_file), "--tls-key", str(pair.key_file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"numa-admission serve: Cannot listen on {address}: Address already in use.\n"


BAD_STARTS = [
    pytest.param(
        ["--demo", "--bind", "256.0.0.1:0"],
        "Cannot listen on 256.0.0.1:0: there is no such address.",
        id="an address that is none",
    ),
    pytest.param(["--demo", "--bind", "127.0.0.1:99999"], "server.bind: found 127.0.0.1:99999", id="a high port"),
    pytest.param(["--demo", "--bind", "8443"], "server.bind: found 8443, wanted HOST:PORT", id="a port alone"),
    pytest.param(["--demo", "--probe-bind", "x:y"], "server.probeBind: found x:y, wanted HOST:PORT", id="probe port"),
    pytest.param([], "A serving certificate is needed", id="no certificate"),
    pytest.param(["--tls-cert", "none.crt"], "tls.keyFile: found nothing beside certFile", id="no key"),
    pytest.param(["--tls-cert", "none.crt", "--tls-key", "none.key"], "The file none.crt cannot be read", id="no file"),
    pytest.param(["--demo", "--settings", "none.yaml"], "The settings file none.yaml cannot be read", id="no settings"),
]


@pytest.mark.parametrize("arguments, sentence", BAD_STARTS)
def test_what_cannot_start_says_why_and_exits_2(arguments, sentence):
    done = failed_start(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"numa-admission serve: {sentence}")
    assert "Traceback" not in done.stderr


def with_uid(uid: str) -> bytes:
    """The recorded create of 4 GPUs on one NUMA node, of another pod, repaired: capacity is silent on broken ones."""
    review = json.loads(REVIEW)
    metadata = review["request"]["object"]["metadata"]
    metadata |= {"uid": uid, "name": uid}
    metadata["annotations"] = {
        "cpuset-scheduler": "required",
        "scheduling.alibabacloud.com/numa-topology-spec": '{"numaTopologyPolicy":"SingleNUMANode"}',
    }
    return json.dumps(review).encode()


def test_the_demo_brings_its_own_certificate_and_cluster_and_takes_them_away(tmp_path):
    (tmp_path / "settings.yaml").write_text("server: {drainSeconds: 0}")
    command = [PROGRAM, "serve", "--demo", "--bind", "127.0.0.1:0", "--settings", str(tmp_path / "settings.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        lines = [process.stdout.readline() for _ in range(2)]
        ca_file = Path(lines[1].rstrip().rpartition(" ")[2])
        server = Server(process, lines, ca_file)
        verdicts = [server.call(with_uid(f"uid-{number}"), "/capacity") for number in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
    assert not ca_file.exists()
    first, second = (json.loads(body)["response"] for _, body in verdicts)
    assert (first["allowed"], second["allowed"]) == (True, False)
    assert "2 of 4 aliyun.com/gpu" in second["status"]["message"]


def test_a_picture_with_faults_stops_the_start_with_each_of_them(tmp_path):
    picture, settings = tmp_path / "picture.yaml", tmp_path / "settings.yaml"
    picture.write_text("nodes: [{name: a}]\npods: 7\n")
    settings.write_text(f"capacity: {{pictureFile: {picture}}}")
    done = failed_start("--demo", "--bind", "127.0.0.1:0", "--settings", str(settings))
    assert done.returncode == 2
    assert f"{picture}:1:" in done.stderr
    assert f"{picture}:2:" in done.stderr
    assert (
        failed_start("--demo", "--bind", "127.0.0.1:0", "--settings", str(settings), "--role", "nothing").returncode
        == 2
    )


@pytest.mark.parametrize("command", ["check", "explain", "webhook-config"])
def test_the_other_commands_import_nothing_of_the_server(command):
    """A cold start of `check` has 0.2 s."""
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom webhook.cli.main import main\n"
        f"assert CliRunner().invoke(main, [{command!r}, '--help']).exit_code == 0\n"
        "print(*sorted({'flask','gunicorn','kubernetes','jsonschema','structlog','prometheus_client','cryptography'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_help_names_every_command_without_importing_one():
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, timeout=60)
    for name in ("check", "explain", "serve", "webhook-config"):
        assert f"  {name} " in done.stdout
