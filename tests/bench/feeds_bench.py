"""How long until 50,000 pods on 5,000 nodes are in the ledger, and how much memory it takes; over HTTP on loopback.

    python tests/bench/feeds_bench.py [PODS] [NODES]

The server is a process of its own. Printed: seconds to the whole list in the ledger, the feeding process's CPU seconds
and RSS, then the rate at which changes of the watch are taken, and the longest wait for the book's lock meanwhile.
"""

import io
import multiprocessing
import resource
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

AIM_SECONDS, AIM_MEGABYTES = 60, 800
CHANGES = 5000


def _fat(pod, node_count, number):
    """Make a pod as large as real ones are: managed fields, volumes, environment, statuses."""
    pod["metadata"]["labels"] = {f"label-{at}": f"value-{at}" for at in range(8)}
    pod["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": f"rs-{number % 500}", "controller": True, "uid": "u", "apiVersion": "apps/v1"}
    ]
    fields = {f"f:field-{at}": {f"f:inner-{inner}": {} for inner in range(8)} for at in range(12)}
    pod["metadata"]["managedFields"] = [{"manager": "m", "operation": "Update", "fieldsV1": fields}] * 2
    container = pod["spec"]["containers"][0]
    container["env"] = [{"name": f"VARIABLE_{at}", "value": "some value of a usual length"} for at in range(20)]
    container["volumeMounts"] = [{"name": f"v{at}", "mountPath": f"/some/path/{at}"} for at in range(6)]
    pod["spec"]["volumes"] = [{"name": f"v{at}", "configMap": {"name": f"config-{at}"}} for at in range(6)]
    pod["spec"]["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    pod["status"]["conditions"] = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    pod["status"]["containerStatuses"] = [{"name": "main", "ready": True, "image": "registry/image:tag", "state": {}}]
    return pod


def serve(connection, pods, nodes):
    """Serve the cluster until told to end; then send changes when asked."""
    from support.api_server import fake_api  # noqa: PLC0415 - as above
    from support.feed_world import raw_node, raw_pod, raw_topology  # noqa: PLC0415 - the other process needs none of it

    topologies = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    with fake_api() as (api, url):
        api.other_answers["/apis/topology.node.k8s.io"] = {"versions": [{"version": "v1alpha2"}]}
        for at in range(nodes):
            name = f"node-{at:05}"
            api.put("/api/v1/nodes", raw_node(name, labels={"pool": f"pool-{at % 4}"}))
            api.put(topologies, raw_topology(name))
        shapes = [("1", "1"), ("2", "2"), ("1", "0"), ("500m", "0"), ("250m", "0")]
        for number in range(pods):
            cpu, gpu = shapes[number // nodes % len(shapes)]
            pod = raw_pod(f"pod-{number:06}", node=f"node-{number % nodes:05}", cpu=cpu, gpu=gpu, phase="Running")
            api.put("/api/v1/pods", _fat(pod, nodes, number))
        api.history.clear()
        connection.send(url)
        while connection.recv() == "change":
            for number in range(CHANGES):
                pod = raw_pod(f"late-{number:06}", node=f"node-{number % nodes:05}", cpu="100m", gpu="0")
                api.put("/api/v1/pods", _fat(pod, nodes, number))
            connection.send("done")


def main() -> int:
    """Run and print; return 1 where an aim is missed."""
    pods = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, pods, nodes), daemon=True)
    server.start()
    url = ours.recv()
    seconds, megabytes = _feed(url, pods, nodes, ours)
    ours.send("end")
    server.join(10)
    return 0 if seconds <= AIM_SECONDS and megabytes <= AIM_MEGABYTES else 1


def _feed(url, pods, nodes, server):
    from webhook.cluster.client import Client  # noqa: PLC0415 - after the fork's time
    from webhook.core.capacity import CapacityRules  # noqa: PLC0415 - as above
    from webhook.core.kubelet import KubeletAllocator  # noqa: PLC0415 - as above
    from webhook.core.ledger.ledger import Ledger  # noqa: PLC0415 - as above
    from webhook.core.ledger.records import AllocatorKind  # noqa: PLC0415 - as above
    from webhook.service.book import Book  # noqa: PLC0415 - as above
    from webhook.service.feeding import Feeding  # noqa: PLC0415 - as above
    from webhook.service.logs import open_log  # noqa: PLC0415 - as above

    sys.setswitchinterval(0.001)
    book = Book(Ledger({AllocatorKind.KUBELET: KubeletAllocator()}), CapacityRules(), time.time, str)
    feeding = Feeding(Client.of_server(url), book, open_log(io.BytesIO(), "error"))
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.monotonic()
    feeding.start()
    while feeding.freshness.trust():
        time.sleep(0.05)
    seconds = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    entries, views = len(book.snapshot().entries), len(book.snapshot().views)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    say(f"{entries} pods on {views} nodes in the ledger after {seconds:.1f} s, {cpu:.1f} s of CPU")
    say(f"RSS {_rss_megabytes():.0f} MB now, {after.ru_maxrss / 1024:.0f} MB at most")
    guessed = sum(view.is_guessed for view in book.snapshot().views.values())
    machines = len({id(view.record.machine) for view in book.snapshot().views.values()})
    say(f"{guessed} nodes rest on guesses; {machines} machine values")
    assert (entries, views) == (pods, nodes)
    stop = threading.Event()
    waits = []
    prober = threading.Thread(target=_probe, args=(book, stop, waits), daemon=True)
    prober.start()
    started = time.monotonic()
    server.send("change")
    while len(book.snapshot().entries) < pods + CHANGES:
        time.sleep(0.02)
    took = time.monotonic() - started
    server.recv()
    stop.set()
    prober.join()
    waits.sort()
    p99, worst = waits[int(len(waits) * 0.99)] * 1000, waits[-1] * 1000
    say(f"{CHANGES} new pods by watch in {took:.1f} s; a look-up meanwhile: p99 {p99:.2f} ms, worst {worst:.1f} ms")
    feeding.stop()
    return seconds, after.ru_maxrss / 1024


def _probe(book, stop, waits):
    while not stop.wait(0.002):
        started = time.perf_counter()
        book.entry("uid-pod-000001")
        waits.append(time.perf_counter() - started)


def say(line):
    sys.stdout.write(f"{line}\n")


def _rss_megabytes():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
