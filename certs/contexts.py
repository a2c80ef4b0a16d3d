"""From a checked pair in memory to an ``ssl.SSLContext`` for servers; the settings and their reasons in one place."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from certs.faults import UnreadableError
from certs.pki import Pair


def server_context(pair: Pair, client_ca_pem: bytes | None = None) -> ssl.SSLContext:
    """Return a context that serves ``pair``; with ``client_ca_pem`` a client must show a certificate signed by these.

    Raises:
        UnreadableError: OpenSSL refuses the pair (a key that is too weak, for example) or the client authorities.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Go clients of every supported Kubernetes speak 1.2 at least (crypto/tls, default since Go 1.18).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Renegotiation (TLS 1.2) lets a client make the server do handshakes without end; no API server asks for it.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # client-go keeps no session cache, so that tickets are bytes and signatures for nothing; and a resumed session
    # would outlive the pair that it was made with.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    # API servers speak HTTP/1.1 to webhooks behind a Service (kubernetes/kubernetes#75791).
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _as_file(pair.certificates_pem + pair.key_pem) as path:
            context.load_cert_chain(path, password=_no_password)
        if client_ca_pem is not None:
            context.load_verify_locations(cadata=client_ca_pem.decode("ascii", "replace"))
            context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError, ValueError) as error:
        raise UnreadableError(
            f"OpenSSL refuses the certificate, its key or the client authorities: {error}."
        ) from error
    return context


def _no_password() -> bytes:
    """Answer OpenSSL, which would otherwise ask the terminal and hang the server."""
    return b""


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Give ``content`` a path for as long as the block runs, so that exactly the bytes that were checked are loaded.

    ``load_cert_chain`` takes paths only; reading the mounted files once more could meet a swap. In memory where the
    system can (the container's file system is read-only), else a file that only this user can read.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls-pair", os.MFD_CLOEXEC)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as stream:
                stream.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="tls-pair-") as stream:
        stream.write(content)
        stream.flush()
        yield stream.name
