"""Another team's mutating webhook, called after ours: it adds a sidecar to every pod of one namespace."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from controlplane.authority import create_authority
from controlplane.plane import ControlPlane
from controlplane.settling import wait_for_webhooks
from support_server import SERVING_NAMES

NAME = "zz-sidecar"
"""The API server calls mutating configurations in the order of their names: this one after ours."""


class _Injector(BaseHTTPRequestHandler):
    """Answers each review with a patch that appends `server.sidecar` to the containers."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        patch = [{"op": "add", "path": "/spec/containers/-", "value": self.server.sidecar}]
        names = [container["name"] for container in review["request"]["object"]["spec"]["containers"]]
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        if self.server.sidecar["name"] not in names:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def sidecar_injected(plane: ControlPlane, folder: Path, namespace: str, sidecar: dict[str, Any]) -> Iterator[None]:
    """Have every new pod of `namespace` get `sidecar`, after our mutating webhook, until the end of the block."""
    authority = create_authority(folder, "another team's webhook")
    pair = authority.issue_server("server", SERVING_NAMES)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Injector) as server:
        server.sidecar = sidecar
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        plane.apply([_configuration(server.server_port, authority.ca_file, namespace)])
        try:
            wait_for_webhooks(plane)
            yield
        finally:
            plane.kubectl("delete", "mutatingwebhookconfiguration", NAME, check=True)
            wait_for_webhooks(plane)
            server.shutdown()
            thread.join()


def _configuration(port: int, ca_file: Path, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "sidecar.another.team",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/",
                    "caBundle": base64.b64encode(ca_file.read_bytes()).decode(),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }
        ],
    }
