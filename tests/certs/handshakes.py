"""A real TLS handshake on loopback: what a client sees of a server's context."""

import hashlib
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from certs.pki import Pair


@dataclass(frozen=True)
class Seen:
    """What the client saw."""

    fingerprint: str
    version: str | None
    protocol: str | None


@contextmanager
def connected(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str
) -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    """Give the client's and the server's end of one connection after the handshake; either side's fault is raised."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        dialled = socket.create_connection(listener.getsockname(), timeout=10)
        accepted, _ = listener.accept()
        accepted.settimeout(10)
        served = pool.submit(server.wrap_socket, accepted, server_side=True)
        try:
            with client.wrap_socket(dialled, server_hostname=name) as near, served.result() as far:
                yield near, far
        finally:
            dialled.close()
            if served.exception() is None:
                served.result().close()
            accepted.close()


def seen(server: ssl.SSLContext, authorities: bytes, name: str, client_pair: str | None = None) -> Seen:
    """Shake hands as the API server does (authorities from a bundle, name checked) and return what was seen.

    The certificate's dates are not checked: OpenSSL judges them by the machine's clock, and ours stands elsewhere.
    """
    client = ssl.create_default_context(cadata=authorities.decode())
    client.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME
    client.set_alpn_protocols(["h2", "http/1.1"])
    if client_pair is not None:
        client.load_cert_chain(client_pair)
    with connected(server, client, name) as (near, far):
        far.sendall(b"x")  # TLS 1.3: a client learns only now that its certificate was refused
        assert near.recv(1) == b"x"
        der = near.getpeercert(binary_form=True)
        assert der is not None
        return Seen(hashlib.sha256(der).hexdigest(), near.version(), near.selected_alpn_protocol())


def as_data(pair: Pair) -> dict[str, bytes]:
    """Return the pair as the files of a Secret."""
    return {"tls.crt": pair.certificates_pem, "tls.key": pair.key_pem}
