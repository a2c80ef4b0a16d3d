"""The bind guard at 300 bindings a second: real reviews over HTTPS to a ledger that follows 1,000 nodes meanwhile.

    python tests/bench/bind_bench.py [--nodes N] [--rate N] [--seconds S] [--rounds N]

A cluster of its own process (lists and watches over HTTP) creates pods of 1, 2 and 4 GPUs; a scheduler that is blind to
NUMA picks a node with room by plain counts, and asks `/bind` at the moment that the rate says, however long the calls
before take. A binding that passes is stored, its kubelet answers soon, and the pod ends after a while: four events of
the watch for each binding, which the same process takes in. Rounds go in turn to our server and to an empty Flask
handler on the same server; the ledger follows the cluster in both, so that the machine is as busy.

Printed: milliseconds from the moment a binding was due to its answer, and the processor's share of the ledger's
process. Steering is off: the patches of refused pods are another API call's time, and no part of the answer.
"""

import argparse
import json
import multiprocessing
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import yaml

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

from bench_servers import RECORDED, Caller, server_commands  # noqa: E402 - the path is set above

from certs.mint import mint_development_pair  # noqa: E402 - as above

GPU = "aliyun.com/gpu"
SIZES = (1, 1, 1, 2, 2, 4)
"""GPUs of a pod, and as many CPUs."""
GPUS_PER_NODE = 8
CALLERS = 16
SEEN_SECONDS = 0.5
"""From a pod's create to its binding: a scheduler takes milliseconds, our watch as well."""
ANSWER_SECONDS = 0.1
"""From a binding to the kubelet's word."""
BUSY = 0.7
"""Part of the GPUs that is in use: the pods' lives are as long as that takes at the rate."""
MACHINE = {
    "name": "two-by-four",
    "matchLabels": {"machine": "two-by-four"},
    "layout": {"numaNodes": 2, "coresPerNUMANode": 8, "memoryPerNUMANode": "64Gi", "devices": {GPU: 4}},
    "kubelet": {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,8",
    },
}


def cluster(connection: Connection, nodes: int, life_seconds: float) -> None:
    """Serve nodes and pods; take ("create", name, GPUs) and ("bind", name, GPUs, node), until told to end."""
    from feeds_bench import _fat  # noqa: PLC0415 - the other process needs none of it
    from support.api_server import fake_api  # noqa: PLC0415 - as above
    from support.feed_world import raw_node, raw_pod  # noqa: PLC0415 - as above

    later: queue.PriorityQueue[tuple[float, str, int, str]] = queue.PriorityQueue()

    def stored(name: str, gpus: int, node: str = "", phase: str = "Pending") -> None:
        pod = raw_pod(name, node=node, cpu=str(gpus), gpu=str(gpus), phase=phase)
        api.put("/api/v1/pods", _fat(pod, nodes, 0))

    def answer() -> None:
        while True:
            due, name, gpus, node = later.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if node:
                stored(name, gpus, node, "Running")
                later.put((due + life_seconds, name, gpus, ""))
            else:
                api.delete("/api/v1/pods", name, "team")
                connection.send(name)

    with fake_api() as (api, url):
        api.serve("/api/v1/pods")
        for at in range(nodes):
            api.put("/api/v1/nodes", raw_node(f"node-{at:05}", cpu="14", labels=MACHINE["matchLabels"]))
        connection.send(url)
        threading.Thread(target=answer, daemon=True).start()
        while (message := connection.recv()) != "end":
            kind, *told = message
            if kind == "create":
                stored(*told)
            else:
                name, gpus, node = told
                stored(name, gpus, node)
                later.put((time.monotonic() + ANSWER_SECONDS, name, gpus, node))


@dataclass
class Scheduler:
    """Who picks nodes by plain counts, and keeps them."""

    cluster: Connection
    nodes: int
    random: Random = field(default_factory=lambda: Random(7))
    lock: threading.Lock = field(default_factory=threading.Lock)
    free: list[int] = field(default_factory=list)
    bound: dict[str, tuple[int, int]] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        """Begin with empty nodes."""
        self.free = [GPUS_PER_NODE] * self.nodes

    def create(self) -> tuple[str, int]:
        """Return the name and the GPUs of a pod that is stored now."""
        self.number += 1
        name, gpus = f"pod-{self.number:07}", self.random.choice(SIZES)
        with self.lock:
            self.cluster.send(("create", name, gpus))
        return name, gpus

    def pick(self, name: str, gpus: int) -> int:
        """Return a node with room by plain counts, which the pod holds now."""
        with self.lock:
            while True:
                at = self.random.randrange(self.nodes)
                if self.free[at] >= gpus:
                    self.free[at] -= gpus
                    self.bound[name] = at, gpus
                    return at

    def told(self, name: str, *, allowed: bool) -> None:
        """Take the answer to a binding: store it, or give the room back."""
        with self.lock:
            at, gpus = self.bound[name]
            if allowed:
                self.cluster.send(("bind", name, gpus, f"node-{at:05}"))
            else:
                self._end(name)

    def follow(self) -> None:
        """Hear of the pods that have ended, until the connection ends."""
        while True:
            try:
                name = self.cluster.recv()
            except (EOFError, OSError):
                return
            with self.lock:
                self._end(name)

    def _end(self, name: str) -> None:
        at, gpus = self.bound.pop(name)
        self.free[at] += gpus


@dataclass
class Tally:
    """What came of one server's rounds."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    answered_a_second: list[float] = field(default_factory=list)

    def ms(self, part: float) -> float:
        """The quantile in milliseconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3


def review_of(name: str, node: str) -> bytes:
    """The bytes of a call of `/bind` for a pod of the cluster: a recorded review with its names."""
    review = TEMPLATE | {"request": TEMPLATE["request"] | {"name": name, "namespace": "team"}}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    review["request"]["object"] |= {"metadata": metadata, "target": {"kind": "Node", "name": node}}
    body = json.dumps(review, separators=(",", ":")).encode()
    return (
        f"POST /bind?timeout=1s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
    ).encode() + body


TEMPLATE = json.loads((RECORDED / "pod-binding.validating.json").read_text())


def round_of(port: int, ca_file: Path, scheduler: Scheduler, tally: Tally, *, rate: float, seconds: float) -> None:
    """Ask for bindings at the rate for so long, however long they take."""
    due: queue.Queue[tuple[float, str, int] | None] = queue.Queue()
    lock = threading.Lock()

    def ask() -> None:
        caller = Caller(port, ca_file)
        while (item := due.get()) is not None:
            moment, name, gpus = item
            request = review_of(name, f"node-{scheduler.pick(name, gpus):05}")
            answer = json.loads(caller.call(request))["response"]
            took = time.monotonic() - moment
            scheduler.told(name, allowed=answer["allowed"])
            with lock:
                tally.seconds.append(took)
                tally.refused += not answer["allowed"]
        caller.close()

    threads = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    for moment, name, gpus in _created(scheduler, began, rate, seconds):
        due.put((moment, name, gpus))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    tally.answered_a_second.append(rate * seconds / (time.monotonic() - began - SEEN_SECONDS))


def _created(scheduler: Scheduler, began: float, rate: float, seconds: float) -> Iterator[tuple[float, str, int]]:
    """Create pods at the rate, and yield each when its binding is due, with that moment."""
    waiting: list[tuple[float, str, int]] = []
    count, at = int(rate * seconds), 0
    while at < count or waiting:
        moment = began + at / rate if at < count else float("inf")
        if waiting and waiting[0][0] <= moment:
            item = waiting.pop(0)
            time.sleep(max(0.0, item[0] - time.monotonic()))
            yield item
        else:
            time.sleep(max(0.0, moment - time.monotonic()))
            waiting.append((moment + SEEN_SECONDS, *scheduler.create()))
            at += 1


def cpu_seconds(pid: int) -> float:
    """What a process and its children of now have taken of the processors."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def started(stack: ExitStack, command: list[str]) -> tuple[int, int]:
    """Start a server until the end of the stack; return its port, which its first line says, and its process."""
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    line = process.stdout.readline()
    return int(line.partition("https://127.0.0.1:")[2].split()[0].rstrip(",")), process.pid


def settings_file(folder: Path, url: str) -> Path:
    """Write the settings of a ledger that follows the cluster at `url`."""
    kubeconfig = folder / "kubeconfig"
    named = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", **named}))
    settings = folder / "settings.yaml"
    document = {
        "log": {"level": "error"},
        "capacity": {"machineClasses": [MACHINE]},
        "cluster": {"live": True, "kubeconfig": str(kubeconfig), "steers": False},
    }
    settings.write_text(yaml.safe_dump(document))
    return settings


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=300.0, help="bindings a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=4, help="of each server in turn")
    chosen = parser.parse_args()
    gpus = statistics.mean(SIZES)
    life_seconds = chosen.nodes * GPUS_PER_NODE * BUSY / gpus / chosen.rate
    ours, theirs = multiprocessing.Pipe()
    arguments = (theirs, chosen.nodes, life_seconds)
    process = multiprocessing.get_context("spawn").Process(target=cluster, args=arguments, daemon=True)
    process.start()
    url = ours.recv()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(process.kill)
        files = mint_development_pair(Path(folder))
        commands = server_commands(files)
        ledger = [word if word != "rules" else "ledger" for word in commands["ours"]]
        ledger += ["--settings", str(settings_file(Path(folder), url)), "--probe-bind", "127.0.0.1:0"]
        servers = {"empty": started(stack, commands["empty"]), "ours": started(stack, ledger)}
        scheduler = Scheduler(ours, chosen.nodes)
        threading.Thread(target=scheduler.follow, daemon=True).start()
        measure(servers, files.ca_file, scheduler, chosen, life_seconds)


def measure(
    servers: dict[str, tuple[int, int]],
    ca_file: Path,
    scheduler: Scheduler,
    chosen: argparse.Namespace,
    life_seconds: float,
) -> None:
    """Print a table of rounds that go to the servers in turn, after one that fills the nodes."""
    port, pid = servers["ours"]
    pace = {"rate": chosen.rate, "seconds": chosen.seconds}
    round_of(port, ca_file, scheduler, Tally(), rate=chosen.rate, seconds=life_seconds)
    tallies = {name: Tally() for name in servers}
    shares: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(chosen.rounds):
        for name, (to, _) in servers.items():
            before, began = cpu_seconds(pid), time.monotonic()
            round_of(to, ca_file, scheduler, tallies[name], **pace)
            shares[name].append((cpu_seconds(pid) - before) / (time.monotonic() - began))
    print(f"{chosen.nodes} nodes, {chosen.rate:.0f} bindings a second asked for, {len(scheduler.bound)} pods bound")
    print("| server | p50 ms | p99 ms | worst ms | answered a second | refused | ledger's processor |")
    print("|---|---|---|---|---|---|---|")
    for name, tally in tallies.items():
        print(
            f"| {name} | {tally.ms(0.5):.2f} | {tally.ms(0.99):.1f} | {tally.ms(1.0):.0f} "
            f"| {statistics.median(tally.answered_a_second):.0f} "
            f"| {tally.refused / len(tally.seconds):.1%} | {statistics.median(shares[name]):.0%} |"
        )
    mine, empty = tallies["ours"], tallies["empty"]
    print(f"ours / empty: p50 {mine.ms(0.5) / empty.ms(0.5):.2f}, p99 {mine.ms(0.99) / empty.ms(0.99):.2f}")


if __name__ == "__main__":
    main()
