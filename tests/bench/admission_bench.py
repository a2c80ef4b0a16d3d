"""`make bench`: the webhooks against an empty Flask handler on the same server, interleaved in one run.

    python tests/bench/admission_bench.py [--rounds N] [--calls N] [--api-server]

Prints, for each endpoint, kind of review and number of clients: median and p99 of a call, calls a second, and the ratio
of throughputs ours / empty (aim: 0.8 for validate and for pods that are none of ours, 0.7 for mutate). With
`--api-server` also what a pod create through a real API server gains in p50 by our webhook, over the empty one's gain.
Machines are shared and noisy: look at the ratios.
"""

import argparse
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
RECORDED = HERE.parent / "recorded"
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from certs.mint import MintedFiles, mint_development_pair  # noqa: E402 - the path is set above
from webhook.core.modes import Rules  # noqa: E402 - as above
from webhook.wire.reviews import decode_review  # noqa: E402 - as above

SKIPPED_SUBRESOURCES = ("status", "eviction", "scale")
"""What no configuration of ours matches."""


def groups() -> dict[tuple[str, str], list[str]]:
    """Return the recorded reviews by endpoint and by whether they are ours, as the server itself would say."""
    wants = Rules().vocabulary.carries_mark
    result: dict[tuple[str, str], list[str]] = {}
    for file in sorted(RECORDED.glob("*.json")):
        ask = decode_review(file.read_bytes(), wants=wants).ask
        if ask.operation.value in ("DELETE", "CONNECT") or ask.subresource in SKIPPED_SUBRESOURCES:
            continue
        endpoint = "mutate" if ".mutating." in file.name else "validate"
        if endpoint == "mutate" and ask.resource == "pods" and ask.subresource:
            continue
        result.setdefault((endpoint, "not ours" if ask.subject is None else "ours"), []).append(file.name)
    return result


@dataclass
class Tally:
    """Seconds of each call, and of each round with its number of calls."""

    calls: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def line(self) -> str:
        ordered = sorted(self.calls)
        p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return f"p50 {statistics.median(ordered) * 1e3:7.3f} ms  p99 {p99 * 1e3:7.3f} ms  {self.rate:7.0f}/s"

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


class Caller:
    """One keep-alive TLS connection that sends prepared requests, as an API server's pooled connection does."""

    def __init__(self, port: int, ca_file: Path) -> None:
        import socket

        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = ssl.create_default_context(cafile=str(ca_file))
        self._sock = context.wrap_socket(plain, server_hostname="localhost")

    def call(self, request: bytes) -> bytes:
        self._sock.sendall(request)
        received = self._sock.recv(65536)
        while b"\r\n\r\n" not in received:
            received += self._sock.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += self._sock.recv(65536)
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"not a verdict: {head[:80]!r} {body[:200]!r}")
        return body


def request_of(endpoint: str, name: str) -> bytes:
    body = json.dumps(json.loads((RECORDED / name).read_text()), separators=(",", ":")).encode()
    return (
        f"POST /{endpoint}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        f"Accept-Encoding: gzip\r\n\r\n"
    ).encode() + body


@contextmanager
def server(command: list[str]) -> Iterator[int]:
    """Run a server until the end of the block; yields its port, which its first line says."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline()
            yield int(line.partition("https://127.0.0.1:")[2].split()[0].rstrip(","))
        finally:
            process.terminate()


def round_of(port: int, ca_file: Path, requests: list[bytes], clients: int, calls: int, tally: Tally) -> None:
    """Make `calls` calls from each of `clients` threads and note them."""
    callers = [Caller(port, ca_file) for _ in range(clients)]
    seconds: list[list[float]] = [[] for _ in callers]
    gate = threading.Barrier(clients + 1)

    def run(which: int) -> None:
        gate.wait()
        for number in range(calls):
            begin = time.perf_counter()
            callers[which].call(requests[number % len(requests)])
            seconds[which].append(time.perf_counter() - begin)

    threads = [threading.Thread(target=run, args=(which,)) for which in range(clients)]
    for thread in threads:
        thread.start()
    gate.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    tally.rates.append(clients * calls / (time.perf_counter() - begin))
    for each in seconds:
        tally.calls.extend(each)


def commands(files: MintedFiles) -> dict[str, list[str]]:
    program = str(Path(sys.executable).with_name("numa-admission"))
    pair = ["--bind", "127.0.0.1:0", "--tls-cert", str(files.cert_file), "--tls-key", str(files.key_file)]
    return {
        "empty": [sys.executable, str(HERE / "empty_handler.py"), *pair],
        "ours": [program, "serve", "--role", "rules", *pair],
    }


def direct(rounds: int, calls: int) -> None:
    """Print the ratios of calls straight to the servers."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        files = mint_development_pair(Path(folder))
        ports = {name: stack.enter_context(server(command)) for name, command in commands(files).items()}
        for (endpoint, what), names in groups().items():
            requests = [request_of(endpoint, name) for name in names]
            for clients in (1, 16):
                tallies = {name: Tally() for name in ports}
                for name, port in ports.items():
                    round_of(port, files.ca_file, requests, clients, 50, Tally())
                for _ in range(rounds):
                    for name, port in ports.items():
                        round_of(port, files.ca_file, requests, clients, max(1, calls // clients), tallies[name])
                ratio = tallies["ours"].rate / tallies["empty"].rate
                print(f"/{endpoint} {what} ({len(names)} reviews), {clients} client(s): throughput ratio {ratio:.2f}")
                for name, tally in tallies.items():
                    print(f"    {name:<5} {tally.line()}")


def through_api_server(rounds: int, creates: int) -> None:
    """Print what a pod create (server dry run) gains in p50 by each webhook, at 1 and 16 clients."""
    import os

    from controlplane.binaries import locate
    from controlplane.settling import wait_for_webhooks
    from controlplane.starting import start

    pod = json.loads((RECORDED / "pod-create-apply.validating.json").read_text())["request"]["object"]
    spec = {"containers": [{**c, "volumeMounts": []} for c in pod["spec"]["containers"]]}
    annotations = {k: v.strip() for k, v in pod["metadata"]["annotations"].items() if "last-applied" not in k}
    annotations["scheduling.alibabacloud.com/numa-topology-spec"] = '{"numaTopologyPolicy":"SingleNUMANode"}'
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "b-", "annotations": annotations}, "spec": spec}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        files = mint_development_pair(Path(folder))
        ports = {name: stack.enter_context(server(command)) for name, command in commands(files).items()}
        plane = stack.enter_context(start(locate(os.environ), Path(folder) / "plane", components=()))
        results: dict[tuple[str, int], list[float]] = {}

        def create(count: int, into: list[float]) -> None:
            for _ in range(count):
                begin = time.perf_counter()
                plane.api("POST", "/api/v1/namespaces/default/pods?dryRun=All", body).wanted(201)
                into.append(time.perf_counter() - begin)

        for _ in range(rounds):
            for name in ("none", *ports):
                if name != "none":
                    plane.apply(json.dumps(_configuration(ports[name], files)))
                    wait_for_webhooks(plane)
                for clients in (1, 16):
                    into = results.setdefault((name, clients), [])
                    create(5, [])
                    threads = [
                        threading.Thread(target=create, args=(creates // clients, into)) for _ in range(clients)
                    ]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                if name != "none":
                    plane.kubectl("delete", "validatingwebhookconfiguration", "bench", check=True)
                    wait_for_webhooks(plane)
    for clients in (1, 16):
        p50 = {name: statistics.median(results[name, clients]) * 1e3 for name in ("none", "empty", "ours")}
        added = {name: p50[name] - p50["none"] for name in ("empty", "ours")}
        print(
            f"through the API server, {clients} client(s): p50 none {p50['none']:.2f} ms, empty adds {added['empty']:.2f}, "
            f"ours adds {added['ours']:.2f}: ratio {added['ours'] / added['empty']:.2f}"
        )


def _configuration(port: int, files: MintedFiles) -> dict:
    import base64

    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "bench"},
        "webhooks": [
            {
                "name": "bench.numa-admission.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",  # the empty handler answers without the uid, which is no answer
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/validate",
                    "caBundle": base64.b64encode(files.ca_file.read_bytes()).decode(),
                },
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ],
            }
        ],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--api-server", action="store_true")
    options = parser.parse_args()
    direct(options.rounds, options.calls)
    if options.api_server:
        through_api_server(options.rounds, 320)
