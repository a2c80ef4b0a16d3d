"""Three ledger processes, one leader: killed, frozen or cut off, it is replaced within 15 s, and two never lead."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "proof"), str(TESTS / "oracle")]

from controlplane.authority import create_authority  # noqa: E402 - the path is set above
from proof_server import LedgerProcess, registered, start_ledger  # noqa: E402 - as above
from proof_world import gpu_pod, only_on, small_world  # noqa: E402 - as above
from tcp_relay import Relay  # noqa: E402 - as above

REPLACED_SECONDS = 15
CLUSTER = {"namespace": "system", "lease": "ledger", "service": "ledger", "checkpoint": "places"}
SLICE = "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices/ledger-leader"
ADDRESS = "10.77.0.1"
"""What the processes say that they are reached by: a slice must not name loopback. Ours is where their ports are."""


@dataclass(frozen=True)
class Member:
    """One of the three, with its own way to the API server."""

    ledger: LedgerProcess
    way: Relay

    @property
    def process_groups(self):
        """The processes of this member: gunicorn's master and its worker."""
        return os.getpgid(self.ledger.running.process.pid)

    def signal(self, number):
        """Send a signal to master and worker."""
        os.killpg(self.process_groups, number)


class Trio:
    """The three processes behind one address, as a Service would have it."""

    def __init__(self, world, folder):
        self.world = world
        self.folder = folder
        self.authority = create_authority(folder / "keys", "trio")
        self.front = Relay(self.leader_address)
        self.members = [self.member(number) for number in range(3)]

    def member(self, number):
        """Start one."""
        api_port = int(self.world.plane.server_url.rpartition(":")[2])
        way = Relay(lambda: ("127.0.0.1", api_port))
        config = yaml.safe_load(self.world.plane.kubeconfig().read_text())
        for cluster in config["clusters"]:
            cluster["cluster"]["server"] = f"https://127.0.0.1:{way.port}"
        kubeconfig = self.folder / f"{number}.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        from controlplane.processes import free_ports  # noqa: PLC0415 - the path is set above

        (port,) = free_ports(1)
        ledger = start_ledger(
            self.folder / f"member-{number}",
            self.authority,
            kubeconfig,
            port=port,
            advertise=f"{ADDRESS}:{port}",
            **CLUSTER,
        )
        return Member(ledger, way)

    def leader_port(self):
        """The port that the slice names; None without a slice."""
        answer = self.world.plane.api("GET", SLICE)
        return answer.json()["ports"][0]["port"] if answer.status == 200 else None

    def leader_address(self):
        """Where kube-proxy would send a new connection."""
        port = self.leader_port()
        return ("127.0.0.1", port) if port is not None else None

    def leader(self):
        """The member that the slice names, once it also says that it leads; None before."""
        port = self.leader_port()
        return next((each for each in self.members if each.ledger.port == port and each.ledger.leads()), None)

    def replaced(self, old):
        """Wait for another leader; returns it and how long that took."""
        seconds = self.world.until(
            lambda: self.leader() not in (None, old), "another leader", within_seconds=REPLACED_SECONDS
        )
        return self.leader(), seconds

    def stop(self):
        """End everything that still runs."""
        for each in self.members:
            each.ledger.running.kill()
            each.way.close()
        self.front.close()


@pytest.fixture(scope="module")
def world(control_plane_binaries, oracle, tmp_path_factory):
    with small_world(control_plane_binaries, tmp_path_factory.mktemp("leader"), nodes=10) as world:
        service = {"ports": [{"name": "https", "port": 443}]}
        world.plane.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "ledger", "namespace": "system"},
                    "spec": service,
                }
            ]
        )
        yield world


@pytest.fixture
def trio(world, tmp_path):
    trio = Trio(world, tmp_path)
    try:
        world.until(lambda: trio.leader() is not None, "a leader", 30)
        with registered(world.plane, trio.front.port, trio.authority):
            yield trio
    finally:
        trio.stop()
        world.clear()
        for path in (SLICE, "/apis/coordination.k8s.io/v1/namespaces/system/leases/ledger"):
            world.plane.api("DELETE", path).wanted(200, 404)


def crowd(world, stem, count):
    """Pods that fill much of the nodes, and the end of what becomes of them."""
    world.create(*(gpu_pod(f"{stem}-{number}", (1, 2, 4)[number % 3], 8) for number in range(count)))
    world.until(lambda: all(pod["status"]["phase"] == "Running" for pod in world.pods()), f"the pods of {stem}", 60)
    assert world.errors() == []


def leaders(trio):
    """How many say that they lead."""
    return sum(each.ledger.leads() for each in trio.members if each.ledger.running.alive)


def test_killed(world, trio):
    crowd(world, "before", 8)
    old = trio.leader()
    old.signal(signal.SIGKILL)
    new, seconds = trio.replaced(old)
    assert seconds < REPLACED_SECONDS
    crowd(world, "after", 8)
    assert leaders(trio) == 1
    assert new.ledger.metric("numa_admission_reviews_total") > 0


def test_frozen_and_woken(world, trio):
    crowd(world, "before", 8)
    old = trio.leader()
    old.signal(signal.SIGSTOP)
    new, _ = trio.replaced(old)
    old.signal(signal.SIGCONT)
    world.until(lambda: old.ledger.probe("/livez") != "", "the woken process", 10)
    world.until(lambda: not old.ledger.leads(), "the end of its term", 5)
    crowd(world, "after", 8)
    # It tries to write for some rounds; the slice stays where it is.
    settled = time.monotonic()
    world.until(lambda: time.monotonic() - settled > 3, "some rounds of the election", 10)
    assert trio.leader() == new
    assert leaders(trio) == 1


def test_cut_off_from_the_api_server(world, trio):
    crowd(world, "before", 8)
    old = trio.leader()
    old.way.cut()
    new, _ = trio.replaced(old)
    assert new is not old
    assert not old.ledger.leads()
    crowd(world, "after", 8)
    assert leaders(trio) == 1


def test_stopped_in_order(world, trio):
    old = trio.leader()
    crowd(world, "before", 8)
    old.signal(signal.SIGTERM)
    _, seconds = trio.replaced(old)
    assert seconds < 5
    crowd(world, "after", 8)


def noticed(ledger, kind):
    """How often a process has noticed something of this kind."""
    name = f'numa_admission_ledger_notices_total{{kind="{kind}"}}'
    return sum(float(line.split()[-1]) for line in ledger.probe("/metrics").splitlines() if line.startswith(name))


@pytest.mark.parametrize("number", (signal.SIGKILL, signal.SIGSTOP), ids=("killed", "frozen"))
def test_what_passes_unjudged_while_no_leader_answers_is_charged_and_counted(world, trio, number):
    """Nobody turns a binding back then: the next leader knows of the pod that fits and of the one that failed."""
    world.create(*(gpu_pod(f"half-{at}", 3, 12, **only_on("single-0")) for at in range(2)))
    world.until(lambda: world.running("half-0", "half-1"), "the first two", 60)
    old = trio.leader()
    others = [each for each in trio.members if each is not old]
    before = {each.ledger.port: noticed(each.ledger, "refused-not-prevented") for each in others}
    old.signal(number)
    # One GPU is left on each NUMA node: by count there is room for both, and the kubelet takes the second only.
    world.create(gpu_pod("split", 2, 8, **only_on("single-0")))
    world.until(lambda: world.errors() == ["split"], "the kubelet to refuse what nobody judged", REPLACED_SECONDS)
    assert trio.leader() in (None, old), "another led before: nothing passed unjudged"
    world.create(gpu_pod("fits", 1, 4, **only_on("single-0")))
    new, _ = trio.replaced(old)
    world.until(lambda: world.running("fits"), "the one that fits", 60)
    # Warm standbys have seen it all: each counts the AdmissionError, the new leader as well.
    for each in others:
        world.until(
            lambda each=each: noticed(each.ledger, "refused-not-prevented") == before[each.ledger.port] + 1,
            "the AdmissionError to be counted",
            10,
        )
    told = [json.loads(line) for line in new.ledger.running.log.read_text().splitlines() if line.startswith("{")]
    assert [line["name"] for line in told if line["event"] == "divergence"] == ["split"]
    # Where the last GPU is, is known: the next that would be split is turned back, and one that fits runs.
    world.plane.kubectl("delete", "pod", "split", "-n", "default", "--wait=true", check=True)
    world.create(gpu_pod("last", 1, 4, **only_on("single-0")))
    world.until(lambda: world.running("last"), "the last one", 60)
    world.plane.kubectl("delete", "pod", "fits", "last", "-n", "default", "--wait=true", check=True)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "waits"},
        "spec": {
            "selector": {"matchLabels": {"app": "waits"}},
            "template": {
                "metadata": {"labels": {"app": "waits"}},
                "spec": gpu_pod("", 2, 8, **only_on("single-0"))["spec"],
            },
        },
    }
    world.plane.apply([deployment], "-n", "default")

    def is_turned_back():
        conditions = [each for pod in world.pods() for each in pod["status"].get("conditions", ())]
        return any("BINDING_WOULD_FAIL" in each.get("message", "") for each in conditions)

    world.until(is_turned_back, "the new leader to turn it back", 30)
    assert world.errors() == []
