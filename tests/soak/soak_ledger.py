"""Our ledger behind the API server's webhooks, within the test's own process, so that the test can look into it."""

import io
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from controlplane.authority import create_authority
from controlplane.plane import ControlPlane
from controlplane.settling import wait_for_webhooks
from support_guarded import settings_class
from support_server import SERVING_NAMES

from webhook.core.capacity import CapacityRules
from webhook.core.decisions import Endpoint
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.events import Elapsed
from webhook.core.ledger.records import AllocatorKind
from webhook.core.ledger.verdicts import MachineClass
from webhook.service.admit import Corridor, Door
from webhook.service.clock import Clock
from webhook.service.live import LiveLedger, open_live
from webhook.service.logs import open_log
from webhook.service.meters import Meters
from webhook.service.settings_file import read_settings
from webhook.wire.webhook_configurations import Target, webhook_configurations

WEBHOOKS_WITHOUT_LEDGER = frozenset(
    {"mutate-pods", "validate-pods", "validate-workloads", "validate-bindings", "validate-nodes"}
)


class _Reviews(BaseHTTPRequestHandler):
    """Hands each review to ``server.corridor``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        received = time.monotonic()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        endpoint = Endpoint(urlsplit(self.path).path.removeprefix("/"))
        reply = self.server.corridor.answer(endpoint, body, received_seconds=received)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


def open_ledger(plane: ControlPlane, folder: Path) -> tuple[LiveLedger, tuple[MachineClass, ...]]:
    """The live ledger as ``numa-admission serve`` opens it, and its machine classes; nothing is started yet."""
    settings_file = folder / "settings.yaml"
    document = {
        "server": {"role": "ledger", "threads": 32},
        "capacity": {"machineClasses": [settings_class()]},
        "cluster": {"live": True, "kubeconfig": str(plane.kubeconfig())},
    }
    settings_file.write_text(yaml.safe_dump(document))
    settings = read_settings(settings_file)
    rules = CapacityRules(classes=settings.capacity.machine_classes)
    meters = Meters(is_multiprocess=False)
    allocators = {AllocatorKind.KUBELET: KubeletAllocator()}
    log = open_log(io.BytesIO(), "error")
    return open_live(settings, rules, allocators, clock=Clock(), meters=meters, log=log), rules.classes


@contextmanager
def running(live: LiveLedger) -> Iterator[LiveLedger]:
    """Run its threads until the end of the block."""
    for part in live.on_start:
        part()
    stopped = threading.Event()

    def tick() -> None:
        while not stopped.wait(1.0):
            live.divergence.take(live.book.apply((Elapsed(),)))

    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    try:
        yield live
    finally:
        stopped.set()
        ticking.join()
        for part in (*live.on_drain, *live.on_stop):
            part()


@contextmanager
def asked(plane: ControlPlane, live: LiveLedger, folder: Path) -> Iterator[None]:
    """Have the API server ask this ledger about creates and bindings until the end of the block."""
    authority = create_authority(folder / "keys", "ledger of the soak")
    pair = authority.issue_server("server", SERVING_NAMES)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    doors = {
        Endpoint.CAPACITY: Door(lambda ask, _until: live.book.decide_capacity(ask), 2.0, gives_way=True),
        Endpoint.BIND: Door(live.book.decide_bind, 1.0, gives_way=True),
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), _Reviews) as server:
        server.corridor = Corridor(doors, Meters(is_multiprocess=False), open_log(io.BytesIO(), "error"))
        # The API server keeps its connections open; nobody waits for their threads.
        server.block_on_close = False
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        configurations = webhook_configurations(
            "soak",
            Target(url=f"https://127.0.0.1:{server.server_port}"),
            ca_bundle=b64encode(authority.ca_file.read_bytes()).decode(),
            excluded_namespaces=("kube-system",),
            left_out=WEBHOOKS_WITHOUT_LEDGER,
        )
        plane.apply(configurations)
        wait_for_webhooks(plane)
        try:
            yield
        finally:
            plane.kubectl("delete", "validatingwebhookconfiguration", "soak", check=True)
            wait_for_webhooks(plane)
            server.shutdown()
            thread.join()
