"""Another team's webhooks: one that changes and one that refuses every new pod of one namespace."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from controlplane.authority import create_authority
from controlplane.plane import ControlPlane
from controlplane.settling import wait_for_webhooks
from support_server import SERVING_NAMES

Respond = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Takes the request of a review, returns the fields of its response beside the uid."""


@contextmanager
def sidecar_injected(plane: ControlPlane, folder: Path, namespace: str, sidecar: dict[str, Any]) -> Iterator[None]:
    """Have every new pod of `namespace` get `sidecar`, after our mutating webhook, until the end of the block."""

    def inject(request: Mapping[str, Any]) -> Mapping[str, Any]:
        if sidecar["name"] in [container["name"] for container in request["object"]["spec"]["containers"]]:
            return {"allowed": True}
        patch = [{"op": "add", "path": "/spec/containers/-", "value": sidecar}]
        return {
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }

    # The API server calls mutating configurations in the order of their names: this one after ours.
    with _asked(plane, folder, namespace, "MutatingWebhookConfiguration", name="zz-sidecar", respond=inject):
        yield


@contextmanager
def denied_by_another(plane: ControlPlane, folder: Path, namespace: str) -> Iterator[None]:
    """Have a validating webhook that is not ours refuse every new pod of ``namespace`` until the end of the block."""

    def deny(_request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"allowed": False, "status": {"code": 403, "message": "not here"}}

    with _asked(plane, folder, namespace, "ValidatingWebhookConfiguration", name="denies", respond=deny):
        yield


class _Answers(BaseHTTPRequestHandler):
    """Answers each review with what `server.respond` says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response = {"uid": request["uid"], **self.server.respond(request)}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def _asked(
    plane: ControlPlane, folder: Path, namespace: str, kind: str, *, name: str, respond: Respond
) -> Iterator[None]:
    authority = create_authority(folder, "another team's webhook")
    pair = authority.issue_server("server", SERVING_NAMES)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.respond = respond
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        entry = {
            "name": f"{name}.another.team",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.server_port}/",
                "caBundle": base64.b64encode(authority.ca_file.read_bytes()).decode(),
            },
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
        api = "admissionregistration.k8s.io/v1"
        plane.apply([{"apiVersion": api, "kind": kind, "metadata": {"name": name}, "webhooks": [entry]}])
        try:
            wait_for_webhooks(plane)
            yield
        finally:
            plane.kubectl("delete", kind.lower(), name, check=True)
            wait_for_webhooks(plane)
            server.shutdown()
            thread.join()
