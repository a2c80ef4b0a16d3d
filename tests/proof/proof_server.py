"""A stand-in for `numa-admission serve` on a live cluster, until the feeds are wired: the same parts, a small feeder."""

import argparse
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from certs.files import ReloadingServerContext  # noqa: E402
from webhook.cluster.client import Client  # noqa: E402
from webhook.cluster.errors import ClusterError  # noqa: E402
from webhook.cluster.nominations import nominate  # noqa: E402
from webhook.core.decisions import Endpoint  # noqa: E402
from webhook.core.kubelet.allocator import KubeletAllocator  # noqa: E402
from webhook.core.ledger.events import Elapsed, NodeGone, NodeSeen, PodGone, PodSeen  # noqa: E402
from webhook.core.ledger.ledger import Ledger  # noqa: E402
from webhook.core.ledger.records import AllocatorKind, NodeRecord  # noqa: E402
from webhook.edge.app import create_app  # noqa: E402
from webhook.edge.probes import Probes  # noqa: E402
from webhook.serve.server import Plan, open_listener, serve_plan  # noqa: E402
from webhook.service.admit import Corridor, Door  # noqa: E402
from webhook.service.book import Book  # noqa: E402
from webhook.service.clock import Clock  # noqa: E402
from webhook.service.health import Health  # noqa: E402
from webhook.service.logs import fault_text, open_log  # noqa: E402
from webhook.service.meters import Meters  # noqa: E402
from webhook.service.services import Services  # noqa: E402
from webhook.service.settings_file import read_settings  # noqa: E402
from webhook.service.steering_work import Steering  # noqa: E402
from webhook.service.wiring import LedgerSource, capacity_rules_of  # noqa: E402
from webhook.wire.machine_classes import class_of  # noqa: E402
from webhook.wire.nodes import read_node  # noqa: E402
from webhook.wire.pod_records import read_pod_record  # noqa: E402


class Feeder:
    """Lists and watches nodes and pods."""

    def __init__(self, client, classes, book, log):
        self.client, self.classes, self.book, self.log = client, classes, book, log
        self.synced = {"/api/v1/nodes": False, "/api/v1/pods": False}

    def start(self):
        threading.Thread(target=self.run, args=("/api/v1/nodes", self.node), daemon=True).start()

    def run(self, path, read):
        while True:
            try:
                listed = self.client.get(path)
                for item in listed["items"]:
                    self.take(read("ADDED", item, True))
                self.synced[path] = True
                if path == "/api/v1/nodes":
                    threading.Thread(target=self.run, args=("/api/v1/pods", self.pod), daemon=True).start()
                version = listed["metadata"]["resourceVersion"]
                while True:
                    query = {"watch": True, "resourceVersion": version, "timeoutSeconds": 300}
                    with self.client.stream(path, query, silence_seconds=310) as lines:
                        for line in lines:
                            event = orjson.loads(line)
                            version = event["object"]["metadata"]["resourceVersion"]
                            self.take(read(event["type"], event["object"], False))
            except ClusterError:
                time.sleep(0.5)
            except Exception as error:
                self.log.error("fault", **fault_text(error))
                time.sleep(0.5)

    def take(self, event):
        for notice in self.book.apply((event,)):
            view = self.book.view(notice.node)
            guessed = [e.pod.name for e in view.bound if e.certainty.value == "guessed"] if view else []
            self.log.info(
                "ledger", kind=notice.kind, pod=notice.name, node=notice.node, detail=notice.detail, guessed=guessed
            )

    def node(self, kind, raw, is_list):
        if kind == "DELETED":
            return NodeGone(raw["metadata"]["name"])
        reading = read_node(raw)
        declared = class_of(reading.facts.labels, self.classes)
        return NodeSeen(
            NodeRecord(
                reading.facts,
                reading.allocatable,
                declared and declared.machine,
                declared.allocator if declared else AllocatorKind.UNKNOWN,
            )
        )

    def pod(self, kind, raw, is_list):
        if kind == "DELETED":
            return PodGone(raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]))
        return PodSeen(read_pod_record(raw), is_history=is_list)

    def trust(self):
        return "" if all(self.synced.values()) else "not-synced"


def build(settings, kubeconfig, log):
    clock, meters = Clock(), Meters()
    client = Client.from_environment(kubeconfig)
    steering = Steering(partial(nominate, client), log, clock.wall_seconds)
    feeder = Feeder(client, settings.capacity.machine_classes, None, log)
    rules = capacity_rules_of(settings, LedgerSource())
    book = Book(
        Ledger({AllocatorKind.KUBELET: KubeletAllocator()}),
        rules,
        clock.wall_seconds,
        feeder.trust,
        follower=steering,
        most_held_bindings=settings.server.threads * 3 // 4,
    )
    feeder.book = book
    steering.start()
    feeder.start()
    doors = {
        Endpoint.CAPACITY: Door(lambda ask, _until: book.decide_capacity(ask), 2.0, gives_way=True),
        Endpoint.BIND: Door(book.decide_bind, 1.0, gives_way=True),
    }
    last = [0.0]

    def tick():
        if time.monotonic() - last[0] > 1:
            last[0] = time.monotonic()
            feeder.take(Elapsed())

    health = Health((lambda: feeder.trust(),))
    return Services(Corridor(doors, meters, log, clock), health, meters, log, on_tick=(tick,))


def main():
    parser = argparse.ArgumentParser()
    for name in ("kubeconfig", "bind", "probe-bind", "settings", "tls-cert", "tls-key"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    settings = read_settings(Path(given.settings))
    server = replace(settings.server, bind=given.bind, probe_bind=given.probe_bind)
    tls = ReloadingServerContext(given.tls_cert, given.tls_key, None)
    serve_plan(
        Plan(
            server=server,
            listener=open_listener(given.bind),
            probe_listener=open_listener(given.probe_bind),
            tls=tls,
            build=lambda: build(settings, given.kubeconfig, open_log(sys.stderr.buffer)),
            application=create_app,
            probes=lambda services: Probes(services.health, services.meters),
        )
    )


if __name__ == "__main__":
    main()
