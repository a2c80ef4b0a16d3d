"""What became of the pods: a watch on them, counted. Independent of the server under proof but for its client."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from proof_machines import GPU
from proof_plan import NAMESPACE

from webhook.cluster.client import Client
from webhook.cluster.errors import ClusterError

ADMISSION_ERRORS = frozenset({"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"})


@dataclass
class PodLife:
    """One pod's life in the clock of the observer."""

    wish: str
    kind: str
    gpus: int
    node: str = ""
    seen: float = 0.0
    running: float | None = None
    ended: float | None = None
    failure: str = ""


@dataclass
class Observer:
    """Follows every pod of the proof's namespace until ``stop``."""

    client: Client
    on_failure: Callable[[str], None] = lambda _wish: None
    """Called with the wish of a bare pod that its kubelet refused: its user will submit it again."""
    pods: dict[str, PodLife] = field(default_factory=dict)
    steps: list[tuple[float, int]] = field(default_factory=list)
    """(moment, change of the GPUs in use)."""
    _stopped: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Follow from now on."""
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._stopped = True

    def _run(self) -> None:
        version = "0"
        while not self._stopped:
            query = {"watch": True, "resourceVersion": version, "timeoutSeconds": 120}
            try:
                with self.client.stream(f"/api/v1/namespaces/{NAMESPACE}/pods", query, silence_seconds=125) as lines:
                    for line in lines:
                        event = orjson.loads(line)
                        self._take(event["type"], event["object"], time.monotonic())
                        version = event["object"]["metadata"]["resourceVersion"]
                        if self._stopped:
                            return
            except ClusterError:
                time.sleep(0.2)

    def _take(self, event: str, pod: dict[str, Any], now: float) -> None:
        metadata, status = pod["metadata"], pod.get("status", {})
        labels = metadata.get("labels", {})
        life = self.pods.get(metadata["uid"])
        if life is None:
            amounts = pod["spec"]["containers"][0]["resources"]["limits"]
            life = PodLife(labels.get("proof", ""), labels.get("proof-kind", ""), int(amounts[GPU]), seen=now)
            self.pods[metadata["uid"]] = life
        life.node = pod["spec"].get("nodeName", "")
        phase = status.get("phase")
        if phase == "Running" and life.running is None:
            life.running = now
            self.steps.append((now, life.gpus))
        if (phase in ("Succeeded", "Failed") or event == "DELETED") and life.ended is None:
            life.ended = now
            if life.running is not None:
                self.steps.append((now, -life.gpus))
            if status.get("reason") in ADMISSION_ERRORS:
                life.failure = status["reason"]
                if life.kind == "pod":
                    self.on_failure(life.wish)

    def errors(self) -> Counter[str]:
        """AdmissionErrors by reason."""
        return Counter(life.failure for life in self.pods.values() if life.failure)

    def gpu_seconds(self, begin: float, end: float) -> float:
        """GPUs in use, summed over the time between two moments of the monotonic clock."""
        total, used, last = 0.0, 0, begin
        for moment, change in sorted(self.steps):
            if moment > end:
                break
            if moment > last:
                total += used * (moment - last)
                last = moment
            used += change
        return total + used * max(0.0, end - last)
