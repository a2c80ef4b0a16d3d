"""What one listener grants its clients: bounds of time, number and memory, each with its derivation."""

from dataclasses import dataclass

MEBIBYTE = 1 << 20

MAX_BODY_BYTES = 8 * MEBIBYTE
"""A review holds an object and an old one; etcd refuses objects over 1.5 MiB, the API server requests over 3 MiB, and
controller-runtime takes 7 MiB. Smaller caps broke other webhooks (kubernetes-sigs/controller-runtime#2598)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one listener. The defaults are those of the admission port; ``for_probes`` gives the other's."""

    threads: int = 8
    """Threads that read, decide and write. None of them ever waits for a client (``reactor``), so this is the number
    of decisions in flight, not of connections; more than a few only fight for the interpreter lock."""
    max_connections: int = 2048
    """An API server keeps 25 idle connections for each webhook and dials ahead in bursts (measured: 176 connections
    for 1,000 calls of 50 clients); three API servers and four webhooks need some 600. An idle TLS connection costs
    about 30 KiB here, so all of them 60 MiB. Above it the connection that proved least is closed."""
    keepalive_seconds: float = 120.0
    """The API server closes its idle connections after 90 s and never repeats a POST that met a closing connection:
    who closes first must be the client (measured: 2 of 1,895 creates failed with 2 s, none with 120 s)."""
    handshake_seconds: float = 5.0
    """From the connect to the end of the TLS handshake: two round trips; the longest webhook time-out we recommend
    is 3 s, so who needs more has lost its caller already."""
    request_seconds: float = 10.0
    """From a request's first byte to its last. A real review is one write of a few kilobytes."""
    write_seconds: float = 10.0
    """Until the client has taken the whole answer."""
    linger_seconds: float = 2.0
    """How long what still arrives is read and thrown away after a last answer, so that the kernel's reset does not
    overtake the answer (RFC 9112 section 9.6)."""
    max_head_bytes: int = 16384
    """Request line and header fields. The API server sends about 300 bytes."""
    max_body_bytes: int = MAX_BODY_BYTES
    small_body_bytes: int = 16384
    """Bodies up to this size need no reservation: with all connections that is 2,048 x 32 KiB = 64 MiB of head and
    body. Recorded reviews of pods have 3-12 kB."""
    reserved_bytes: int = 64 * MEBIBYTE
    """What all larger bodies in flight may take together."""
    heavy_body_bytes: int = 256 * 1024
    """Bodies above this size are decided one at a time: 8 MiB of ``[],[],...`` become more than 200 MB of objects."""
    max_chunks: int = 16384
    """Chunks of one chunked body: 512 bytes on average at 8 MiB. The API server sends none, always a length."""
    max_pipelined: int = 16
    """Requests of one connection that are answered in a row before others get their turn."""

    @staticmethod
    def for_probes() -> "Limits":
        """Return the bounds of the probe and metrics port: few clients, small requests, no bodies."""
        return Limits(
            threads=2,  # a scrape takes milliseconds and must not delay the liveness probe
            max_connections=128,
            keepalive_seconds=30.0,
            request_seconds=5.0,
            write_seconds=5.0,
            max_body_bytes=4096,
            reserved_bytes=MEBIBYTE,
        )
