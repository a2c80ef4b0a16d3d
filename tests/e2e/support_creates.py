"""A steady stream of pod creates through a real API server, in a process of its own, with a verdict on each answer.

The stream is open: creates fall due at a fixed rate whatever the answers take, so a slow moment shows as a long wait,
never as a lower rate. Each kind of pod has one right answer while everything works:

    plain     none of ours                        created
    aligned   a well-formed pod of ours           created, with the node affinity that mutate adds
    repaired  one that mutate repairs             created, with the exact spec and the affinity
    broken    one that validate refuses           refused by validate
    never     more GPUs than a NUMA node has      refused by capacity

Every create becomes one line of JSON: [moment, seconds, kind, verdict, text]. What was created is deleted again.
"""

import argparse
import enum
import http.client
import itertools
import json
import os
import queue
import random
import signal
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

GPU = "aliyun.com/gpu"
SPEC_KEY = "scheduling.alibabacloud.com/numa-topology-spec"
SPEC = '{"numaTopologyPolicy":"SingleNUMANode"}'
AFFINITY_KEY = "ack.node.gpu.schedule"
SCHEDULER = "stream"
"""A scheduler that the ledger is told to know and that does not run: the creates are what is measured."""
KUBELETS_POOL: Mapping[str, str] = MappingProxyType({"pool": "kubelets"})
"""Nodes whose NUMA nodes the kubelet hands out, so that what it would refuse is certain."""
CALL_SECONDS = 40.0
"""Longer than any request may last at the API server (34 s): who gives up is never we."""
CLEANERS = 12
MOST_LEFT = 500
"""Created pods that wait to be deleted. Who creates faster than they go deletes as well: else what is measured is a
cluster that grows (three cleaners left 60,000 pods in 25 minutes, which a restarted ledger read for minutes)."""
LAG_SECONDS = 1.0
"""Who is behind by more does not catch up, or one slow moment would be followed by a burst."""


class Verdict(enum.StrEnum):
    """What one answer was worth."""

    RIGHT = "right"
    FAILED = "failed"
    """A create of any kind that got no verdict: a webhook that did not answer, or the API server itself."""
    UNSEEN = "unseen"
    """Let through although a webhook had to refuse or change it: a call that failed and was ignored."""
    WRONG = "wrong"
    """Refused by a webhook that had no reason to."""


@dataclass(frozen=True)
class Create:
    """One create and what became of it."""

    moment: float
    """When it was sent, seconds since 1970."""
    seconds: float
    kind: str
    verdict: Verdict
    text: str = ""


SHARES: Mapping[str, int] = MappingProxyType({"plain": 40, "aligned": 25, "repaired": 15, "broken": 10, "never": 10})


def pod_of(kind: str, name: str) -> dict[str, Any]:
    """A pod of this kind."""
    # Not a whole CPU in limits as well: a kubelet that aligns would give it one of its own, and the ledger would care.
    amounts = {"cpu": "100m" if kind == "plain" else "1", "memory": "1Gi"}
    annotations = {}
    if kind in ("aligned", "repaired"):
        amounts[GPU] = "1"
        annotations = {"cpuset-scheduler": "required", SPEC_KEY: SPEC if kind == "aligned" else f"{SPEC[:-1]},}}"}
    if kind == "broken":
        annotations = {"cpuset-scheduler": "required", SPEC_KEY: '{"numaTopologyPolicy":"SingleNumaNode"}'}
    if kind == "never":
        amounts[GPU] = "5"
    container = {"name": "main", "image": "none.invalid/none", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"terminationGracePeriodSeconds": 0, "schedulerName": SCHEDULER, "containers": [container]}
    if kind == "never":
        spec["nodeSelector"] = dict(KUBELETS_POOL)
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def judge(kind: str, status: int, body: Mapping[str, Any]) -> tuple[Verdict, str]:
    """What the API server's answer is worth, by itself: no metric of ours is asked."""
    text = str(body.get("message", ""))
    if status == http.client.CREATED:
        if kind in ("broken", "never"):
            return Verdict.UNSEEN, "created"
        return (Verdict.RIGHT, "") if kind == "plain" or _is_mutated(body) else (Verdict.UNSEEN, "not mutated")
    refused_by = {"broken": "validate-pods.numa-admission.io", "never": "capacity-pods.numa-admission.io"}.get(kind)
    if status == http.client.FORBIDDEN and "denied the request" in text:
        right = refused_by is not None and refused_by in text
        return (Verdict.RIGHT, "") if right else (Verdict.WRONG, text)
    return Verdict.FAILED, f"{status} {text}"


def _is_mutated(pod: Mapping[str, Any]) -> bool:
    has_affinity = AFFINITY_KEY in json.dumps(pod["spec"].get("affinity"))
    return has_affinity and pod["metadata"]["annotations"][SPEC_KEY] == SPEC


class Stream:
    """The creates of one process."""

    def __init__(self, port: int, tls: ssl.SSLContext, namespace: str, rate: float, out: TextIO) -> None:
        """Prepare; ``run`` sends until ``stopping`` is set."""
        self.stopping = threading.Event()
        self._port = port
        self._tls = tls
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._rate = rate
        self._out = out
        self._writing = threading.Lock()
        self._numbers = itertools.count()
        self._taking = threading.Lock()
        self._due = 0.0
        self._created: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
        random.Random(1).shuffle(kinds)
        self._kinds = kinds

    def run(self, clients: int) -> None:
        """Send with so many clients, each on a connection of its own."""
        self._due = time.monotonic()
        senders = [threading.Thread(target=self._send, daemon=True) for _ in range(clients)]
        cleaners = [threading.Thread(target=self._clean, daemon=True) for _ in range(CLEANERS)]
        for thread in (*senders, *cleaners):
            thread.start()
        self.stopping.wait()
        for thread in senders:
            thread.join()
        for _ in cleaners:
            self._created.put(None)
        for thread in cleaners:
            thread.join()

    def _take(self) -> tuple[int, float]:
        with self._taking:
            self._due = max(self._due + 1 / self._rate, time.monotonic() - LAG_SECONDS)
            return next(self._numbers), self._due

    def _send(self) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=CALL_SECONDS, context=self._tls)
        while not self.stopping.is_set():
            number, due = self._take()
            self.stopping.wait(max(due - time.monotonic(), 0))
            kind = self._kinds[number % len(self._kinds)]
            begin = time.monotonic()
            moment = time.time()
            name = f"{kind}-{number}"
            body = json.dumps(pod_of(kind, name))
            try:
                connection.request("POST", self._path, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                verdict, text = judge(kind, response.status, json.loads(response.read()))
                if response.status == http.client.CREATED:
                    self._created.put(name)
            except (OSError, http.client.HTTPException, ValueError) as error:
                verdict, text = Verdict.FAILED, repr(error)
                connection.close()
            self._tell([moment, time.monotonic() - begin, kind, verdict, text])
            if self._created.qsize() > MOST_LEFT:
                self._delete(connection, str(self._created.get()))

    def _clean(self) -> None:
        """Delete what was created, one by one: a whole collection takes longer than a request may last."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=CALL_SECONDS, context=self._tls)
        while (name := self._created.get()) is not None:
            self._delete(connection, name)

    def _delete(self, connection: http.client.HTTPSConnection, name: str) -> None:
        try:
            connection.request("DELETE", f"{self._path}/{name}?gracePeriodSeconds=0")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()

    def _tell(self, line: list[Any]) -> None:
        text = json.dumps(line)
        with self._writing:
            self._out.write(f"{text}\n")
            self._out.flush()


def read_creates(path: Path) -> list[Create]:
    """Read what a stream has written so far."""
    text = path.read_text()
    lines = (json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines())
    return [Create(moment, seconds, kind, Verdict(verdict), text) for moment, seconds, kind, verdict, text in lines]


def _end_all(fault: threading.ExceptHookArgs) -> None:
    """A stream that lost a thread would go on more slowly, and nobody would know."""
    threading.__excepthook__(fault)
    sys.stderr.flush()
    os._exit(1)


def main() -> None:
    """Send until TERM."""
    threading.excepthook = _end_all
    parser = argparse.ArgumentParser()
    parser.add_argument("--api-port", type=int, required=True)
    for name in ("ca", "certificate", "key", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--clients", type=int, default=24)
    options = parser.parse_args()
    tls = ssl.create_default_context(cafile=str(options.ca))
    tls.load_cert_chain(options.certificate, options.key)
    with options.out.open("a") as out:
        stream = Stream(options.api_port, tls, options.namespace, options.rate, out)
        signal.signal(signal.SIGTERM, lambda *_: stream.stopping.set())
        stream.run(options.clients)


if __name__ == "__main__":
    main()
