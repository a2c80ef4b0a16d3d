"""What a pod create through a real API server gains in time by a webhook: ours against the empty handler.

Both servers are registered at once; a label of the pod says which of them is called, or none, so that creates of all
all kinds follow each other on the same API server. Creates are dry runs: nothing fills up. For mutate there is a third
webhook, an empty handler that sends the very patch that ours makes: what it adds beyond the empty one is what the API
server needs to apply a patch.
"""

import base64
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench_servers import server, server_commands
from controlplane.binaries import locate
from controlplane.plane import ControlPlane
from controlplane.settling import wait_for_webhooks
from controlplane.starting import start

from certs.mint import MintedFiles, mint_development_pair

LABEL = "bench.numa-admission/webhook"
SPEC = "scheduling.alibabacloud.com/numa-topology-spec"
KINDS = (("validate", "ValidatingWebhookConfiguration"), ("mutate", "MutatingWebhookConfiguration"))
CLIENTS = (1, 16)
BURST = 16
"""Creates of one kind in a row, of all clients together."""


def through_api_server(rounds: int, creates: int) -> None:
    """Print p50 of a create without a webhook, with the empty one and with ours; about `creates` of each a round."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        files = mint_development_pair(Path(folder))
        ports = {name: stack.enter_context(server(command)) for name, command in server_commands(files).items()}
        plane = stack.enter_context(start(locate(os.environ), Path(folder) / "plane", components=()))
        for endpoint, kind in KINDS:
            paths = {name: (port, endpoint) for name, port in ports.items()}
            if endpoint == "mutate":
                paths["patching"] = (ports["empty"], "patch")
            configurations = [_configuration(kind, name, port, path, files) for name, (port, path) in paths.items()]
            plane.apply(configurations)
            wait_for_webhooks(plane)
            for clients in CLIENTS:
                seconds: dict[str, list[float]] = {name: [] for name in ("none", *paths)}
                _bursts(plane, endpoint, seconds, clients, 2)
                for each in seconds.values():
                    each.clear()
                _bursts(plane, endpoint, seconds, clients, max(1, rounds * creates // 4 // BURST))
                _print(endpoint, clients, seconds)
            for configuration in configurations:
                plane.kubectl("delete", kind.lower(), configuration["metadata"]["name"], check=True)
            wait_for_webhooks(plane)


def _print(endpoint: str, clients: int, seconds: dict[str, list[float]]) -> None:
    p50 = {name: statistics.median(each) * 1e3 for name, each in seconds.items()}
    added = {name: each - p50["none"] for name, each in p50.items() if name != "none"}
    ratios = [f"{added['ours'] / each:.2f} of {name}" for name, each in added.items() if name != "ours"]
    print(
        f"/{endpoint} through the API server, {clients} client(s), {len(seconds['ours'])} creates each: p50 without a "
        f"webhook {p50['none']:.2f} ms; added by {', '.join(f'{name} {each:.2f}' for name, each in added.items())} ms; "
        f"ours is {' and '.join(ratios)}",
        flush=True,
    )


def _bursts(plane: ControlPlane, endpoint: str, seconds: dict[str, list[float]], clients: int, count: int) -> None:
    """Run `count` bursts of each kind in turn, each client on a connection of its own."""
    tls = plane.users.client("admin").tls
    port = int(plane.server_url.rpartition(":")[2])
    connections = [http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=tls) for _ in range(clients)]
    bodies = {name: json.dumps(_pod(name, endpoint)).encode() for name in seconds}

    def create(connection: http.client.HTTPSConnection, name: str) -> None:
        for _ in range(BURST // clients):
            begin = time.perf_counter()
            connection.request(
                "POST",
                "/api/v1/namespaces/default/pods?dryRun=All",
                bodies[name],
                {"Content-Type": "application/json"},
            )
            response = connection.getresponse()
            answer = response.read()
            seconds[name].append(time.perf_counter() - begin)
            if response.status != http.client.CREATED:
                raise AssertionError(f"not created: {answer[:400]!r}")

    for _ in range(count):
        for name in seconds:
            threads = [threading.Thread(target=create, args=(each, name)) for each in connections]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    for connection in connections:
        connection.close()


def _pod(webhook: str, endpoint: str) -> dict[str, Any]:
    """A pod of ours that the endpoint lets in: the guide's own for mutate, which repairs it; else a right one."""
    text = (
        '{"numaTopologyPolicy":"SingleNUMANode",}'
        if endpoint == "mutate"
        else '{"numaTopologyPolicy":"SingleNUMANode"}'
    )
    amounts = {"cpu": "4", "memory": "4Gi", "aliyun.com/gpu": "1"}
    container = {"name": "main", "image": "nginx", "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {"containers": [container]}
    if endpoint == "validate":
        spec["nodeSelector"] = {"ack.node.gpu.schedule": "topology"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "bench-",
            "labels": {LABEL: webhook},
            "annotations": {"cpuset-scheduler": "required", SPEC: text},
        },
        "spec": spec,
    }


def _configuration(kind: str, name: str, port: int, path: str, files: MintedFiles) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"bench-{name}"},
        "webhooks": [
            {
                "name": f"{name}.bench.numa-admission.io",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "objectSelector": {"matchLabels": {LABEL: name}},
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/{path}",
                    "caBundle": base64.b64encode(files.ca_file.read_bytes()).decode(),
                },
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }
        ],
    }
