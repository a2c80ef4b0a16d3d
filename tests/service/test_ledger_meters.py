"""What Prometheus is told of a live ledger, and that the page says the same as the code."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from core.ledger.ledger_world import demand, ledger, machine, node, pod
from prometheus_client import CollectorRegistry
from support.api_server import fake_api
from support.feed_world import Kept, raw_node, raw_pod, watching

from webhook.cluster.errors import TimedOut
from webhook.cluster.feeds import NODES_PATH, PODS_PATH, NodeReceiver
from webhook.cluster.node_board import NodeBoard
from webhook.cluster.nominations import Nominated, Outcome
from webhook.cluster.pulse import Pulse
from webhook.core.capacity import CapacityRules
from webhook.core.decisions import Endpoint
from webhook.core.findings import Family, Finding, Severity
from webhook.core.ledger.events import Claimed, PodGone, PodSeen
from webhook.core.ledger.records import AllocatorKind, Confirmed
from webhook.service.book import Book
from webhook.service.checkpointing import CheckpointCounts, Checkpointing
from webhook.service.clock import Clock
from webhook.service.divergence import Divergence
from webhook.service.ledger_meters import LedgerCollector, nomination_counter
from webhook.service.logs import open_log
from webhook.service.meters import Meters
from webhook.service.settings_watch import SettingsMeters
from webhook.service.steering_work import Steering
from webhook.wire.node_sources import NodeAssembler

CHART = Path(__file__).parents[2] / "helm" / "numa-admission"
PAGE = CHART / "METRICS.md"
NOW = 1000.0


def collector(made=None, *pulses, trust="", **parts):
    book = Book(made or ledger(), CapacityRules(), lambda: NOW, lambda: trust)
    return LedgerCollector(pulses, lambda: trust, book.snapshot, lambda: True, Clock(lambda: NOW, lambda: NOW), **parts)


def values(of):
    """Every sample by its name and labels, as they are in the text format."""
    return {
        f"{sample.name}{{{','.join(f'{key}={value}' for key, value in sample.labels.items())}}}": sample.value
        for family in of.collect()
        for sample in family.samples
    }


def nonzero(of, start):
    return {name: value for name, value in values(of).items() if name.startswith(start) and value}


# --- the page ---


def all_families():
    """Every metric that a process with a live ledger shows, with at least one sample each."""
    meters = Meters()
    finding = Finding("CODE", next(iter(Family)), next(iter(Severity)), "spec", "A problem.")
    meters.review(Endpoint.VALIDATE, "allowed", 0.1, (finding,))
    meters.bad_call("validate", "bad_review")
    meters.connection_closed("client")
    meters.set_connections({"idle": 0})
    Divergence(open_log(io.BytesIO()), lambda _: None, meters.registry)
    SettingsMeters(meters)
    nomination_counter(meters.registry)
    steering = Steering(lambda _: None, open_log(io.BytesIO()), lambda: NOW)
    meters.registry.register(
        collector(None, Pulse("pods", lambda: NOW), checkpoint=CheckpointCounts(), steering=steering)
    )
    return list(meters.registry.collect())


def row(family):
    """The family's row of the page."""
    name = family.name + ("_total" if family.type == "counter" else "")
    labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
    return f"| `{name}` | {family.type} | {', '.join(f'`{label}`' for label in labels)} | {family.documentation} |"


def test_the_page_lists_every_metric_as_the_code_has_it():
    """Where this fails, the rows that are missing are in the message."""
    rows = [row(family) for family in all_families()]
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| `numa_admission_")]
    assert sorted(rows) == sorted(written)


def test_the_alerts_ask_for_metrics_that_there_are():
    names = {sample.name for family in all_families() for sample in family.samples}
    asked = set(re.findall(r"numa_admission_\w+", (CHART / "templates" / "monitoring.yaml").read_text()))
    assert asked <= names
    assert len(asked) >= 5


# --- feeds ---


def test_a_feed_counts_what_it_lives_through():
    """Three nodes listed, one added and one removed by the watch, a cut, and an old version after it."""
    with fake_api() as (api, url):
        for name in ("n1", "n2", "n3"):
            api.put(NODES_PATH, raw_node(name))
        with watching(api, url, NODES_PATH) as (kept, pulse):
            api.wait_until(lambda: api.watching.get(NODES_PATH) == 1)
            api.put(NODES_PATH, raw_node("n4"))
            api.delete(NODES_PATH, "n1")
            api.bookmark()
            api.wait_until(lambda: kept.names() == ["n2", "n3", "n4"])
            api.wait_until(lambda: pulse.counts.events["BOOKMARK"] >= 1)
            seen = values(collector(None, pulse))
            assert seen["numa_admission_feed_objects{feed=things}"] == 3
            assert seen["numa_admission_feed_events_total{feed=things,kind=added}"] == 1
            assert seen["numa_admission_feed_events_total{feed=things,kind=deleted}"] == 1
            assert seen["numa_admission_feed_synced{feed=things}"] == 1
            assert seen["numa_admission_feed_lists_total{feed=things}"] == 1
            assert seen["numa_admission_feed_watches_total{feed=things}"] == 1
            assert seen["numa_admission_feed_silence_seconds{feed=things}"] == NOW
            api.status = 503
            api.cut()
            api.wait_until(lambda: pulse.state.lost_since_seconds is not None)
            api.forget_history()
            api.status = 0
            api.wait_until(lambda: kept.lists == 2 and api.watching.get(NODES_PATH) == 1)
            seen = values(collector(None, pulse))
            assert seen["numa_admission_feed_losses_total{feed=things,reason=gone}"] >= 1
            assert seen["numa_admission_feed_losses_total{feed=things,reason=unavailable}"] >= 1
            assert seen["numa_admission_feed_lists_total{feed=things}"] == 2
            assert seen["numa_admission_feed_watches_total{feed=things}"] >= 2
            assert seen["numa_admission_feed_objects{feed=things}"] == 3


def test_a_missing_kind_is_absent_and_a_fault_of_ours_is_counted():
    with fake_api() as (api, url):
        with watching(api, url, "/apis/nobody/v1/things", may_be_absent=True) as (_, pulse):
            api.wait_until(lambda: pulse.state.is_absent)
            assert values(collector(None, pulse))["numa_admission_feed_absent{feed=things}"] == 1
        kept = Kept(api)
        kept.fail_next = True
        api.serve(PODS_PATH)
        with watching(api, url, PODS_PATH, receiver=kept) as (_, pulse):
            api.wait_until(lambda: api.watching.get(PODS_PATH) == 1)
            api.put(PODS_PATH, raw_pod("a"))
            api.wait_until(lambda: kept.lists == 2)
            assert values(collector(None, pulse))["numa_admission_feed_losses_total{feed=things,reason=fault}"] == 1


def test_an_object_that_cannot_be_read_whole_is_counted_and_named():
    seen = []
    board = NodeBoard(NodeAssembler(), lambda _: None)
    receiver = NodeReceiver(board, lambda name, faults: seen.append((name, faults[0].path)))
    broken = raw_node("n1")
    broken["status"]["capacity"] = {"cpu": "many"}
    receiver.listed([broken, raw_node("n2")])
    assert seen == [("n1", "status.capacity.cpu")]


# --- the ledger ---


def test_pods_are_counted_by_state_and_by_what_their_place_rests_on():
    made = ledger(node("n1", machine()), node("n2", machine()))
    for event in (
        PodSeen(pod("guessed", demand((1, 1)), node_name="n1"), is_history=True),
        PodSeen(pod("replayed", demand((1, 1)), node_name="n2")),
        PodSeen(pod("told", demand((1, 1)), node_name="n2", confirmed=Confirmed(1 << 7, (("aliyun.com/gpu", 8),)))),
        PodSeen(pod("stray", demand((1, 1)), node_name="n9")),
        PodSeen(pod("pending", demand((1, 1)))),
        PodSeen(pod("waiting", demand((1, 1)), is_unschedulable=True)),
    ):
        made.apply(event, NOW)
    asked = pod("claimed", demand((1, 1)), version=0)
    found = made.find(asked)
    made.apply(Claimed(asked, found.node, found.placement, NOW + 5), NOW)
    assert nonzero(collector(made), "numa_admission_ledger_pods") == {
        "numa_admission_ledger_pods{state=bound,place=guessed}": 1,
        "numa_admission_ledger_pods{state=bound,place=replayed}": 1,
        "numa_admission_ledger_pods{state=bound,place=confirmed}": 1,
        "numa_admission_ledger_pods{state=bound,place=none}": 1,
        "numa_admission_ledger_pods{state=pending,place=virtual}": 1,
        "numa_admission_ledger_pods{state=pending,place=none}": 1,
        "numa_admission_ledger_pods{state=claimed,place=virtual}": 1,
    }
    assert nonzero(collector(made), "numa_admission_ledger_guessed_nodes") == {
        "numa_admission_ledger_guessed_nodes{}": 1
    }


def test_nodes_are_counted_by_allocator_and_source():
    made = ledger(
        replace(node("n1", machine()), numa_source="nfd"),
        replace(node("n2", machine(), kind=AllocatorKind.SCHEDULER), numa_source="koordlet"),
        node("n3"),
    )
    assert nonzero(collector(made), "numa_admission_ledger_nodes") == {
        "numa_admission_ledger_nodes{allocator=kubelet,source=nfd}": 1,
        "numa_admission_ledger_nodes{allocator=scheduler,source=koordlet}": 1,
        "numa_admission_ledger_nodes{allocator=unknown,source=none}": 1,
    }


@pytest.mark.parametrize(("trust", "state"), [("", "fresh"), ("stale", "stale"), ("not-synced", "not-synced")])
def test_trust(trust, state):
    assert nonzero(collector(trust=trust), "numa_admission_ledger_trust") == {
        f"numa_admission_ledger_trust{{state={state}}}": 1
    }


# --- checkpoint and steering ---


class Maps:
    """Keeps blobs; fails or refuses where a test asks for it."""

    def __init__(self):
        self.answers = []

    def read(self, shard):
        return None

    def write(self, shard, blob):
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_checkpoint_counts_its_writes_and_how_long_it_lags():
    made = ledger(node("n1", machine()))
    made.apply(PodSeen(pod("a", demand((1, 1)), node_name="n1")), NOW)
    book = Book(made, CapacityRules(), lambda: NOW, str)
    maps = Maps()
    moment = [NOW - 30]
    keeper = Checkpointing(maps, book, lambda: True, open_log(io.BytesIO()), shards=2, now_seconds=lambda: moment[0])
    of = collector(made, checkpoint=keeper.counts)
    maps.answers = [True, TimedOut("slow")]
    written = keeper.round()
    assert nonzero(of, "numa_admission_checkpoint") == {
        "numa_admission_checkpoint_writes_total{outcome=stored}": 1,
        "numa_admission_checkpoint_writes_total{outcome=failed}": 1,
        "numa_admission_checkpoint_written_bytes_total{}": written,
        "numa_admission_checkpoint_size_bytes{}": written,
        "numa_admission_checkpoint_last_write_timestamp_seconds{}": NOW - 30,
        "numa_admission_checkpoint_lag_seconds{}": 30,
    }
    moment[0] = NOW - 10
    maps.answers = [False, True]
    keeper.round()
    seen = values(of)
    assert seen["numa_admission_checkpoint_writes_total{outcome=conflict}"] == 1
    assert seen["numa_admission_checkpoint_lag_seconds{}"] == 0
    assert seen["numa_admission_checkpoint_last_write_timestamp_seconds{}"] == NOW - 10


def test_steering_counts_where_its_pods_are_and_how_they_ended():
    registry = CollectorRegistry()
    count = nomination_counter(registry)
    steering = Steering(lambda _: None, open_log(io.BytesIO()), lambda: NOW, count)
    of = collector(steering=steering)
    pods = [pod(uid, version=10) for uid in ("a", "b", "c")]
    for each, target in zip(pods, ("n2", "n2", ""), strict=True):
        steering.refused(each, "n1", target, NOW)
    steering.heard(PodSeen(pod("a", version=11, is_refused_at_binding=True)), NOW)
    nomination = steering.take(waits=False)
    steering.answered(nomination, Nominated(Outcome.STORED, 12))
    assert nonzero(of, "numa_admission_steered_pods") == {
        "numa_admission_steered_pods{state=nominated}": 1,
        "numa_admission_steered_pods{state=due}": 1,
        "numa_admission_steered_pods{state=waiting}": 1,
    }
    assert registry.get_sample_value("numa_admission_nominations_total", {"outcome": "stored"}) == 1
    steering.heard(PodSeen(pod("a", version=13, node_name="n2")), NOW)
    steering.heard(PodSeen(pod("c", version=13, node_name="n1")), NOW)
    steering.heard(PodGone("b", 13), NOW)
    assert nonzero(of, "numa_admission_steered_pods") == {
        "numa_admission_steered_pods_ended_total{outcome=bound_as_steered}": 1,
        "numa_admission_steered_pods_ended_total{outcome=bound_elsewhere}": 1,
        "numa_admission_steered_pods_ended_total{outcome=gone}": 1,
    }
