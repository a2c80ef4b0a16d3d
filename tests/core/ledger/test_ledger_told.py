"""Places that sources tell in part: the rest is unknown, which is not the same as nothing."""

from dataclasses import replace

import pytest
from ledger_world import GPU, demand, ledger, machine, node, pod, recalled

from webhook.core.ledger import events
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, Certainty, Confirmed
from webhook.core.machine import NodeState
from webhook.core.placement import Holding
from webhook.core.scheduler.allocator import SchedulerAllocator

TWO_BY_FOUR = machine(2, 8, 4)
FOUR_GPUS = demand((2, 4))
CPUS_ON_ONE = Confirmed(0b11 << 9, is_by_kubelet=True)


def seen(made, record, now=0.0, **more):
    """Tell of a pod."""
    made.apply(events.PodSeen(record, **more), now)


def test_a_source_of_cpus_alone_does_not_say_that_the_pod_has_no_devices():
    """CPUs on NUMA 1 are told; the GPUs are guessed there, too, and the place as a whole stays a guess."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", confirmed=CPUS_ON_ONE), is_history=True)
    entry = made.entries["p1"]
    assert (entry.holding, entry.certainty) == (Holding(0b11 << 9, (0xF0,)), Certainty.GUESSED)
    assert made.views["n1"].bound_state.busy_devices == (0xF0,)


def test_the_unknown_half_of_a_place_goes_before_what_is_guessed_as_a_whole():
    """Both pods were guessed the wrong way round; one's CPUs are told, so its GPUs push the other's away."""
    made = ledger(node("n1", TWO_BY_FOUR))
    for uid in ("p1", "p2"):
        seen(made, pod(uid, FOUR_GPUS, node_name="n1"), is_history=True)
    seen(made, pod("p1", FOUR_GPUS, version=2, node_name="n1", confirmed=CPUS_ON_ONE), 1.0)
    assert [entry.holding.devices for entry in made.views["n1"].bound] == [(0xF0,), (0x0F,)]


@pytest.mark.parametrize(
    ("cpus", "certainty", "devices"),
    [
        pytest.param(0b11 << 1, Certainty.REPLAYED, 0x0F, id="as replayed: the whole place is as sure as before"),
        pytest.param(0b11 << 9, Certainty.GUESSED, 0xF0, id="otherwise: the devices are a guess beside them"),
    ],
)
def test_a_source_of_cpus_alone_beside_a_replayed_place(cpus, certainty, devices):
    """What agrees with the replay takes nothing from it; what does not ends it."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    assert made.entries["p1"].certainty is Certainty.REPLAYED
    seen(made, pod("p1", FOUR_GPUS, version=2, node_name="n1", confirmed=Confirmed(cpus, is_by_kubelet=True)), 1.0)
    entry = made.entries["p1"]
    assert (entry.certainty, entry.holding) == (certainty, Holding(cpus, (devices,)))


@pytest.mark.parametrize(
    ("confirmed", "detail"),
    [
        pytest.param(
            CPUS_ON_ONE, "it is told to hold CPUs 9-10, replayed was 1-2", id="the kubelet's CPUs, on another NUMA node"
        ),
        pytest.param(
            Confirmed(0b110, ((GPU, 0xF0),)), f"it is told to hold {GPU} 4-7, replayed was 0-3", id="other devices"
        ),
        pytest.param(Confirmed(0b110, ((GPU, 0x0F),)), "", id="the same"),
        pytest.param(Confirmed(0b100, is_by_kubelet=True), "", id="fewer CPUs: read while they are handed out"),
        pytest.param(Confirmed(0b110 << 20, is_by_kubelet=True), "", id="CPUs that the machine does not have"),
        pytest.param(Confirmed(0b11110 << 8, is_by_kubelet=True), "", id="more CPUs than the pod asks for"),
    ],
)
def test_what_is_told_against_the_replay_is_a_divergence(confirmed, detail):
    """The model was wrong there once: the other places on the node, which it gave as well, become guesses."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"))
    seen(made, pod("p2", demand((2, 1)), node_name="n1"))
    seen(made, pod("p1", FOUR_GPUS, version=2, node_name="n1", confirmed=confirmed), 1.0)
    told = [(notice.kind, notice.uid, notice.node, notice.detail) for notice in made.take_notices()]
    assert told == ([("placed-elsewhere", "p1", "n1", detail)] if detail else [])
    assert made.entries["p2"].certainty is (Certainty.GUESSED if detail else Certainty.REPLAYED)
    assert made.views["n1"].is_doubted is bool(detail)


def test_what_is_told_against_a_guess_is_no_divergence():
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1"), is_history=True)
    seen(made, pod("p1", FOUR_GPUS, version=2, node_name="n1", confirmed=CPUS_ON_ONE), 1.0)
    assert made.take_notices() == ()


@pytest.mark.parametrize(
    ("event", "certainty"),
    [
        pytest.param(recalled("n1", ("p1", 0b11 << 9, ((GPU, 0xF0),))), Certainty.REPLAYED, id="as told"),
        pytest.param(recalled("n1", ("p1", 0b11 << 1, ((GPU, 0x0F),))), Certainty.GUESSED, id="otherwise"),
    ],
)
def test_a_checkpoint_completes_what_is_told_in_part(event, certainty):
    """After a restart the node tells the CPUs and the checkpoint the devices; where they disagree the node is right."""
    made = ledger(node("n1", TWO_BY_FOUR))
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", confirmed=CPUS_ON_ONE), is_history=True)
    made.apply(event, 1.0)
    entry = made.entries["p1"]
    assert (entry.certainty, entry.holding) == (certainty, Holding(0b11 << 9, (0xF0,)))


@pytest.mark.parametrize(
    ("is_by_kubelet", "cpusets"), [(True, ()), (False, (0b11 << 9,))], ids=["kubelet", "scheduler"]
)
def test_only_a_schedulers_own_set_makes_a_numa_node_single_or_shared(is_by_kubelet, cpusets):
    """The CPUs are taken either way (``domain/koordinator-ack.md`` 2.5)."""
    kind = AllocatorKind.SCHEDULER
    made = Ledger({kind: SchedulerAllocator()})
    made.apply(events.NodeSeen(node("n1", TWO_BY_FOUR, kind=kind)), 0.0)
    told = replace(CPUS_ON_ONE, is_by_kubelet=is_by_kubelet)
    seen(made, pod("p1", FOUR_GPUS, node_name="n1", confirmed=told), is_history=True)
    state = made.views["n1"].bound_state
    assert (state.free_cpus & 0b11 << 9, state.cpusets) == (0, cpusets)
    made.apply(events.PodGone("p1"), 1.0)
    assert made.views["n1"].bound_state == NodeState.empty(TWO_BY_FOUR)
