"""A plain HTTPS client for the control plane's programs: standard library, one connection for each call."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.authority import KeyPair

CALL_SECONDS = 30.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server did not answer with a success; the text is its own."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: its status and its body as it came."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body read as JSON. Raises ValueError where it is none."""
        return json.loads(self.body)

    def wanted(self, *statuses: int) -> "Answer":
        """The answer itself. Raises ApiError where its status is not one of these (none given: not a success)."""
        if self.status in statuses or (not statuses and self.status < 300):
            return self
        raise ApiError(f"HTTP {self.status}: {self.body.decode(errors='replace')}")


@dataclass(frozen=True)
class Client:
    """One user of one program on loopback."""

    port: int
    tls: ssl.SSLContext

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        within_seconds: float = CALL_SECONDS,
    ) -> Answer:
        """Send one request. Raises OSError or http.client.HTTPException where no answer comes."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=within_seconds, context=self.tls)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": content_type, "Accept": JSON})
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()

    def answers(self, path: str) -> bool:
        """Whether a GET of the path answers with a success at this moment."""
        try:
            return self.call("GET", path, within_seconds=2).status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def create_client(port: int, ca_file: Path, user: KeyPair | None = None) -> Client:
    """A client that trusts the authority and shows the user's certificate, where one is given."""
    tls = ssl.create_default_context(cafile=str(ca_file))
    if user is not None:
        tls.load_cert_chain(user.certificate, user.key)
    return Client(port, tls)
