"""The yardstick of `make bench`: an empty Flask handler on our own server, with the same TLS, worker and limits.

    python tests/bench/empty_handler.py --bind 127.0.0.1:0 --tls-cert F --tls-key F

answers every POST to /mutate, /validate and /bind with one fixed reply, after reading the body. The uid of the call,
without which the API server takes no reply, is found by a search in the first bytes, which costs about a microsecond:
nothing is parsed. A POST to /patch gets the patch that our mutate makes of the bench's pod as well, so that what an API
server needs to apply a patch can be told from what we need to make it.
"""

import argparse
import base64
import json
import re
import sys
from pathlib import Path

from flask import Flask, request

from certs.files import ReloadingServerContext
from webhook.edge.probes import Probes
from webhook.serve.plan import Plan, open_listener
from webhook.serve.server import serve_plan
from webhook.service.logs import open_log
from webhook.service.services import Services
from webhook.service.settings import ServerSettings, Settings
from webhook.service.wiring import build_services

REPLY = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true}}'
UID = re.compile(rb'"uid":"([0-9a-f-]{36})"')
"""The call's own uid is the first of the document, as an API server writes it."""


AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"matchExpressions": [{"key": "ack.node.gpu.schedule", "operator": "In", "values": ["topology"]}]}
PATCH = (
    {
        "op": "replace",
        "path": "/metadata/annotations/scheduling.alibabacloud.com~1numa-topology-spec",
        "value": '{"numaTopologyPolicy":"SingleNUMANode"}',
    },
    {"op": "add", "path": "/spec/affinity", "value": {}},
    {"op": "add", "path": "/spec/affinity/nodeAffinity", "value": {}},
    {"op": "add", "path": f"/spec/affinity/nodeAffinity/{AFFINITY}", "value": {"nodeSelectorTerms": [TERM]}},
)
PATCHING = REPLY.replace(
    b'"allowed":true',
    b'"allowed":true,"patchType":"JSONPatch","patch":"' + base64.b64encode(json.dumps(PATCH).encode()) + b'"',
)


def empty_app(_services: Services) -> Flask:
    """Return the least that a Flask webhook can be."""
    app = Flask(__name__, static_folder=None)

    @app.post("/mutate")
    @app.post("/validate")
    @app.post("/bind")
    def answer():
        found = UID.search(request.get_data(), 0, 400)
        return REPLY % (found[1] if found else b""), 200, {"Content-Type": "application/json"}

    @app.post("/patch")
    def patch():
        found = UID.search(request.get_data(), 0, 400)
        return PATCHING % (found[1] if found else b""), 200, {"Content-Type": "application/json"}

    return app


def plan_of(bind: str, cert: Path, key: Path) -> Plan:
    """Return the plan of the yardstick's server."""
    listener = open_listener(bind)
    host, port = listener.getsockname()[:2]
    return Plan(
        server=ServerSettings(bind=bind, drain_seconds=0.0),
        listener=listener,
        probe_listener=None,
        tls=ReloadingServerContext(cert, key),
        build=lambda: build_services(Settings(), open_log(sys.stderr.buffer)),
        application=empty_app,
        probes=lambda services: Probes(services.health, services.meters),
        on_ready=lambda: print(f"empty handler: ready, https://{host}:{port}", flush=True),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bind", default="127.0.0.1:0")
    parser.add_argument("--tls-cert", type=Path, required=True)
    parser.add_argument("--tls-key", type=Path, required=True)
    options = parser.parse_args()
    serve_plan(plan_of(options.bind, options.tls_cert, options.tls_key))
