"""A guarded cluster whose ledger lives within the test's own process, so that the test can look into it."""

import io
import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from controlplane.authority import create_authority
from controlplane.binaries import Binaries
from controlplane.plane import ControlPlane
from controlplane.settling import wait_for_webhooks
from controlplane.starting import start
from hollow_nodes import hollow_nodes
from support.webhook_names import OF_THE_RULES
from support_guarded import Cluster, hollow_class, settings_class
from support_nodes import Node
from support_server import SERVING_NAMES
from support_truth import converges, until

from webhook.core.capacity import CapacityRules
from webhook.core.decisions import Endpoint
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.events import Elapsed
from webhook.core.ledger.records import AllocatorKind, Entry, NodeView, PodRecord
from webhook.core.ledger.verdicts import MachineClass, Outcome, judge
from webhook.service.admit import Corridor, Door
from webhook.service.book import Book
from webhook.service.clock import Clock
from webhook.service.live import LiveLedger, open_live
from webhook.service.logs import open_log
from webhook.service.meters import Meters
from webhook.service.settings_file import read_settings
from webhook.wire.pods import read_pod
from webhook.wire.webhook_configurations import Target, webhook_configurations

NAME = "living-ledger"


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


@dataclass(frozen=True)
class Ours:
    """The live ledger as ``numa-admission serve`` opens it, its machine classes, and what it says of itself."""

    live: LiveLedger
    classes: tuple[MachineClass, ...]
    meters: Meters
    log: io.BytesIO

    def notices(self, kind: str) -> int:
        """How often the ledger has noticed something of this kind."""
        return int(self.meters.registry.get_sample_value("numa_admission_ledger_notices_total", {"kind": kind}) or 0)

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log about this event."""
        lines = self.log.getvalue().decode().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]


def open_ledger(plane: ControlPlane, folder: Path) -> Ours:
    """Open it; nothing is started yet."""
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
    log = io.BytesIO()
    live = open_live(settings, rules, allocators, clock=Clock(), meters=meters, log=open_log(log, "info"))
    return Ours(live, rules.classes, meters, log)


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
    authority = create_authority(folder / "keys", "living ledger")
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
            NAME,
            Target(url=f"https://127.0.0.1:{server.server_port}"),
            ca_bundle=b64encode(authority.ca_file.read_bytes()).decode(),
            excluded_namespaces=("kube-system",),
            left_out=OF_THE_RULES,
        )
        plane.apply(configurations)
        wait_for_webhooks(plane)
        try:
            yield
        finally:
            plane.kubectl("delete", "validatingwebhookconfiguration", NAME, check=True)
            wait_for_webhooks(plane)
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Living(Cluster):
    """A guarded cluster whose ledger lives in this process."""

    ours: Ours

    @property
    def book(self) -> Book:
        """The ledger's book."""
        return self.ours.live.book

    def view(self, node: str) -> NodeView:
        """The ledger's account of a node."""
        found = self.book.view(node)
        assert found is not None, f"the ledger does not know node {node}"
        return found

    def entry(self, namespace: str, name: str) -> Entry | None:
        """The ledger's entry of a pod that is stored; None where there is none."""
        stored = self.get(namespace, name)
        return self.book.entry(stored["metadata"]["uid"]) if stored else None

    def node(self, pool: str) -> Node:
        """The node of a pool."""
        return Node(self.plane, f"{pool}-0")

    def fits(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Whether the ledger knows of room for the pod now."""
        asked = PodRecord.asked(
            read_pod({**body, "metadata": {**body["metadata"], "uid": "probe"}}), namespace=namespace
        )
        with self.book._lock:
            return judge(self.book._ledger, asked).outcome is Outcome.FITS

    def converges(self) -> None:
        """Wait until the ledger is what a fresh list says; nothing is negative and no claim outlives its limit."""
        converges(self.plane, self.book, self.ours.classes)

    def is_turned_back(self, namespace: str, name: str) -> bool:
        """Whether the pod's condition says that our guard has turned its binding back."""
        stored = self.get(namespace, name) or {"status": {}}
        conditions = stored["status"].get("conditions", ())
        return any("BINDING_WOULD_FAIL" in condition.get("message", "") for condition in conditions)

    def no_admission_errors(self, namespace: str) -> None:
        """Check that no kubelet has refused a pod of the namespace."""
        assert [line for line in self.admission_errors() if line["pod"].startswith(f"{namespace}/")] == []

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """Have nobody ask the ledger until the end of the block, as while no leader answers; it follows on."""
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        stored = self.plane.get(f"{path}/{NAME}")
        self.plane.api("DELETE", f"{path}/{NAME}").wanted()
        try:
            wait_for_webhooks(self.plane)
            yield
        finally:
            self.plane.api("POST", path, {**stored, "metadata": {"name": NAME}}).wanted()
            wait_for_webhooks(self.plane)

    def takes(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Have a pod run; then no pod of the namespace was refused by a kubelet, and the ledger is a fresh list."""
        self.create(namespace, body).wanted()
        self.runs(namespace, body["metadata"]["name"])
        self.no_admission_errors(namespace)
        self.converges()


@contextmanager
def living_cluster(
    binaries: Binaries,
    folder: Path,
    *,
    pools: int,
    objects: Iterable[Mapping[str, Any]] = (),
    flags: Sequence[str] = (),
) -> Iterator[Living]:
    """Start it all, ``objects`` (CRDs) first; ``flags`` are the hollow kubelets'."""
    names = [f"pool-{at}" for at in range(pools)]
    with ExitStack() as stack:
        plane = stack.enter_context(start(binaries, folder / "plane"))
        if wanted := list(objects):
            plane.apply(wanted)
        classes = {"classes": [hollow_class(name) for name in names]}
        hollow = stack.enter_context(hollow_nodes(plane.kubeconfig(), classes, folder, flags))
        ours = open_ledger(plane, folder)
        stack.enter_context(running(ours.live))
        until(lambda: not ours.live.feeding.freshness.trust(), "the ledger to be synced")
        stack.enter_context(asked(plane, ours.live, folder))
        yield Living(plane, hollow, iter(names), ours)
