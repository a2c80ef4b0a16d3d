"""What the benches of the webhooks share: the two servers, recorded reviews, a connection, a tally."""

import json
import socket
import ssl
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from certs.mint import MintedFiles
from webhook.core.modes import Rules
from webhook.wire.reviews import decode_review

HERE = Path(__file__).parent
RECORDED = HERE.parent / "recorded"

UNMATCHED_SUBRESOURCES = ("status", "eviction", "scale")
"""What no configuration of ours matches."""


def recorded_groups() -> dict[tuple[str, str], list[str]]:
    """Names of the recorded reviews by endpoint and by whether they are ours, as the server itself would say."""
    wants = Rules().vocabulary.carries_mark
    groups: dict[tuple[str, str], list[str]] = {}
    for file in sorted(RECORDED.glob("*.json")):
        ask = decode_review(file.read_bytes(), wants=wants).ask
        if ask.operation.value in ("DELETE", "CONNECT") or ask.subresource in UNMATCHED_SUBRESOURCES:
            continue
        endpoint = "mutate" if ".mutating." in file.name else "validate"
        if endpoint == "mutate" and ask.resource == "pods" and ask.subresource:
            continue
        groups.setdefault((endpoint, "not ours" if ask.subject is None else "ours"), []).append(file.name)
    return groups


def request_of(endpoint: str, name: str) -> bytes:
    """The bytes of a recorded review's call, with the headers of an API server."""
    body = json.dumps(json.loads((RECORDED / name).read_text()), separators=(",", ":")).encode()
    return (
        f"POST /{endpoint}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        f"Accept-Encoding: gzip\r\n\r\n"
    ).encode() + body


def server_commands(files: MintedFiles) -> dict[str, list[str]]:
    """The command lines of the yardstick and of our rules, on free ports."""
    program = str(Path(sys.executable).with_name("numa-admission"))
    pair = ["--bind", "127.0.0.1:0", "--tls-cert", str(files.cert_file), "--tls-key", str(files.key_file)]
    return {
        "empty": [sys.executable, str(HERE / "empty_handler.py"), *pair],
        "ours": [program, "serve", "--role", "rules", *pair],
    }


@contextmanager
def server(command: list[str]) -> Iterator[int]:
    """Run a server until the end of the block; yields its port, which its first line says."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline()
            yield int(line.partition("https://127.0.0.1:")[2].split()[0].rstrip(","))
        finally:
            process.terminate()


class Caller:
    """One keep-alive TLS connection that sends prepared requests, as an API server's pooled connection does."""

    def __init__(self, port: int, ca_file: Path) -> None:
        """Connect to a server on loopback."""
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = ssl.create_default_context(cafile=str(ca_file)).wrap_socket(plain, server_hostname="localhost")

    def call(self, request: bytes) -> bytes:
        """Send a request and return the body of its answer. Raises AssertionError where that is no verdict."""
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

    def close(self) -> None:
        """End the connection."""
        self._sock.close()


@dataclass
class Tally:
    """Seconds of each call, and calls a second of each round."""

    calls: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    @property
    def p50_ms(self) -> float:
        """The median of a call in milliseconds."""
        return statistics.median(self.calls) * 1e3

    @property
    def p99_ms(self) -> float:
        """The slowest call but one in a hundred, in milliseconds."""
        ordered = sorted(self.calls)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3

    @property
    def rate(self) -> float:
        """The median of the rounds' calls a second."""
        return statistics.median(self.rates)


def ratio_of(tallies: Mapping[str, Tally], name: str, to: str) -> tuple[float, float, float]:
    """Quartiles of the ratio of throughputs, each of two rounds that ran one after the other."""
    ratios = [one / other for one, other in zip(tallies[name].rates, tallies[to].rates, strict=True)]
    return tuple(statistics.quantiles(ratios, n=4)) if len(ratios) > 1 else (ratios[0],) * 3
