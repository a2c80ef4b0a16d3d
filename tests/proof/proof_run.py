"""One run of the proof: a control plane, hollow nodes, users; with our server or without; and its numbers."""

import json
import os
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from controlplane.binaries import locate
from controlplane.plane import ControlPlane
from controlplane.starting import start
from hollow_nodes import hollow_nodes
from proof_load import Users
from proof_machines import hollow_classes
from proof_plan import NAMESPACE, draw
from proof_server import guarding
from proof_watch import Observer

from webhook.cluster.client import Client


@dataclass(frozen=True)
class Setup:
    """What both runs share."""

    seed: int = 1
    nodes: int = 30
    seconds: float = 120.0
    load: float = 1.1
    """Asked GPUs, of those that there are."""

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * 8


@dataclass(frozen=True)
class Numbers:
    """What a run has shown."""

    pods: int
    errors: Counter[str]
    gpu_use_end: float
    """Mean over the last third, as a share of all GPUs."""
    gpu_use: float
    """Mean over the whole run."""
    wishes: int
    wishes_run: int
    """Of these, so many had a pod running."""
    running_p50_seconds: float
    running_p95_seconds: float
    """From a wish's first submit to its first running pod."""
    counts: Counter[str]
    refused_bindings: int = 0

    @property
    def admission_errors(self) -> int:
        """All of them."""
        return self.errors.total()


def run_once(setup: Setup, folder: Path, *, with_us: bool) -> Numbers:
    """Run the load on a new control plane."""
    folder.mkdir(parents=True, exist_ok=True)
    binaries = locate(os.environ)
    with start(binaries, folder / "plane", components={"scheduler", "controller-manager"}) as plane:
        plane.create_namespace(NAMESPACE)
        flags = ["--nodes", str(setup.nodes), "--stop-delay", "300ms"]
        with (
            hollow_nodes(plane.kubeconfig(), hollow_classes(), folder, flags),
            guarding(plane, folder) if with_us else nullcontext(),
        ):
            return _measure(plane, setup, folder)


def _measure(plane: ControlPlane, setup: Setup, folder: Path) -> Numbers:
    users = Users(plane, draw(setup.seed, setup.seconds, setup.gpus, setup.load))
    observer = Observer(Client.from_environment(plane.kubeconfig()), users.resubmit)
    observer.start()
    begin, end = users.run(setup.seconds)
    # Kubelets answer within moments for what was bound last.
    time.sleep(2.0)
    observer.stop()
    first: dict[str, float] = {}
    for life in observer.pods.values():
        if life.running is not None and life.running <= end:
            first[life.wish] = min(first.get(life.wish, life.running), life.running)
    waits = sorted(first[name] - asked for name, asked in users.first_asked.items() if name in first)
    cuts = quantiles(waits, n=20) if len(waits) > 1 else [0.0] * 19
    lives = [vars(life) for life in observer.pods.values()]
    (folder / "pods.json").write_text(json.dumps(lives, indent=1))
    return Numbers(
        pods=len(observer.pods),
        errors=observer.errors(),
        gpu_use_end=observer.gpu_seconds(end - setup.seconds / 3, end) / (setup.seconds / 3) / setup.gpus,
        gpu_use=observer.gpu_seconds(begin, end) / setup.seconds / setup.gpus,
        wishes=len(users.first_asked),
        wishes_run=len(first),
        running_p50_seconds=cuts[9],
        running_p95_seconds=cuts[18],
        counts=users.counts,
    )
