"""The feeds and the book together, over HTTP: what the API server holds is what the ledger holds."""

import io
from contextlib import contextmanager

import pytest
from support.api_server import fake_api
from support.feed_world import QUICK, raw_koordlet_topology, raw_node, raw_pod, raw_rte_topology, raw_topology

from webhook.cluster import node_board
from webhook.cluster.client import Client
from webhook.cluster.feeds import NODES_PATH, PODS_PATH
from webhook.core.capacity import CapacityRules
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, Certainty
from webhook.core.placement import Holding
from webhook.service import feeding as feeding_module
from webhook.service.book import Book
from webhook.service.feeding import Feeding, Hooks
from webhook.service.logs import open_log
from webhook.wire.machine_classes import read_machine_classes

TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
GROUP = "/apis/topology.node.k8s.io"
NOW = 1_800_000_000.0


@pytest.fixture
def cluster():
    """An API server with two nodes and their topologies."""
    with fake_api() as (api, url):
        api.other_answers[GROUP] = {"versions": [{"version": "v1alpha2"}]}
        for name in ("n1", "n2"):
            api.put(NODES_PATH, raw_node(name))
            api.put(TOPOLOGIES, raw_topology(name))
        api.serve(PODS_PATH)
        yield api, url


class Waking(Book):
    """A book that wakes those who wait for the API when something was applied."""

    api = None

    def apply(self, events):
        events = tuple(events)
        notices = super().apply(events)
        with self.api.changed:
            self.noticed = [*getattr(self, "noticed", ()), *(notice.kind for notice in notices)]
            self.applied = getattr(self, "applied", 0) + len(events)
            self.api.changed.notify_all()
        return notices


@contextmanager
def fed(cluster, **more):
    api, url = cluster
    book = Waking(Ledger({AllocatorKind.KUBELET: KubeletAllocator()}), CapacityRules(), lambda: NOW, lambda: "")
    book.api = api
    feeding = Feeding(Client.of_server(url), book, open_log(io.BytesIO(), "error"), limits=QUICK, **more)
    before = api.watches.get(PODS_PATH, 0)
    feeding.start()
    try:
        api.wait_until(lambda: feeding.freshness.trust() == "" and api.watches.get(PODS_PATH, 0) > before)
        yield api, book, feeding
    finally:
        feeding.stop()
        assert not [thread for thread in feeding._threads if thread.is_alive()]


def gpus_free(book, node="n1"):
    view = book.snapshot().views.get(node)
    if view is None or view.bound_state is None:
        return (0, 0)
    free = view.bound_state.free_devices(view.record.machine, 0)
    return tuple((free & half).bit_count() for half in (0b1111, 0b11110000))


def test_what_runs_already_is_guessed_and_what_comes_is_replayed(cluster):
    api, _ = cluster
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running"))
    with fed(cluster) as (api, book, _):
        assert book.entry("uid-old").certainty is Certainty.GUESSED
        api.put(PODS_PATH, raw_pod("new", node="n2"))
        api.wait_until(lambda: book.entry("uid-new") is not None)
        assert book.entry("uid-new").certainty is Certainty.REPLAYED
        assert gpus_free(book, "n2") == (2, 4)


def test_an_end_and_a_delete_free_the_place(cluster):
    with fed(cluster) as (api, book, _):
        for name in ("a", "b"):
            api.put(PODS_PATH, raw_pod(name, node="n1"))
        api.wait_until(lambda: book.entry("uid-b") is not None)
        assert sum(gpus_free(book)) == 4
        api.put(PODS_PATH, raw_pod("a", node="n1", phase="Succeeded"))
        api.delete(PODS_PATH, "b", "team")
        api.wait_until(lambda: not book.snapshot().entries)
        assert sum(gpus_free(book)) == 8


def test_a_change_that_says_nothing_new_does_not_reach_the_book(cluster):
    with fed(cluster) as (api, book, _):
        api.put(PODS_PATH, raw_pod("a", node="n1"))
        api.wait_until(lambda: book.entry("uid-a") is not None)
        before = book.applied
        api.put(PODS_PATH, raw_pod("a", node="n1", podIP="10.0.0.1"))
        api.put(NODES_PATH, raw_node("n1"))
        api.put(PODS_PATH, raw_pod("b", node="n1"))
        api.wait_until(lambda: book.entry("uid-b") is not None)
        assert book.applied == before + 1


def test_a_report_moves_a_guess_and_a_younger_pod_is_debited_once(cluster):
    api, _ = cluster
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running", conditions=scheduled))
    with fed(cluster) as (api, book, _):
        assert gpus_free(book) == (2, 4)
        api.put(TOPOLOGIES, raw_topology("n1", free_gpus=(4, 2), free_cpus=(7, 5), time="2026-01-03T00:00:00Z"))
        api.wait_until(lambda: gpus_free(book) == (4, 2))
        assert not book.snapshot().views["n1"].is_guessed
        later = [{**scheduled[0], "lastTransitionTime": "2026-01-04T00:00:00Z"}]
        api.put(PODS_PATH, raw_pod("new", node="n1", conditions=later))
        api.wait_until(lambda: book.entry("uid-new") is not None)
        assert sum(gpus_free(book)) == 4
        assert book.entry("uid-new").certainty is Certainty.REPLAYED


OLD, REPORT, YOUNG = "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"


def scheduled_at(moment):
    return [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}]


@pytest.mark.parametrize("write", [raw_topology, raw_rte_topology], ids=["NFD", "RTE"])
@pytest.mark.parametrize(
    ("free", "is_old_on_one"),
    [
        pytest.param({"free_gpus": (4, 2), "free_cpus": (7, 5)}, True, id="counts the old pod"),
        pytest.param({"free_gpus": (2, 2), "free_cpus": (5, 5)}, None, id="counts the young one, too"),
        pytest.param({"free_gpus": (4, 4), "free_cpus": (7, 7)}, False, id="counts neither"),
    ],
)
def test_a_live_report_takes_off_the_pods_that_are_younger_and_those_alone(cluster, write, free, is_old_on_one):
    """Whoever wrote it, and whichever pods it counts: four GPUs are taken, none twice and none forgotten."""
    api, _ = cluster
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running", conditions=scheduled_at(OLD)))
    api.put(PODS_PATH, raw_pod("young", node="n1", conditions=scheduled_at(YOUNG)))
    api.put(TOPOLOGIES, write("n1", time=REPORT, **free))
    with fed(cluster) as (_, book, _):
        assert sum(gpus_free(book)) == 4
        if is_old_on_one is not None:
            assert (book.entry("uid-old").holding.devices[0] == 0b110000) is is_old_on_one


def test_koordlets_report_never_shows_what_is_free_so_all_pods_are_taken_off(cluster):
    """Its ``available`` is ``allocatable`` whatever runs, however young it is."""
    api, _ = cluster
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running", conditions=scheduled_at(OLD)))
    api.put(PODS_PATH, raw_pod("young", node="n1", conditions=scheduled_at(YOUNG)))
    api.put(TOPOLOGIES, raw_koordlet_topology("n1", time=REPORT))
    with fed(cluster) as (api, book, _):
        assert sum(gpus_free(book)) == 4
        api.put(TOPOLOGIES, raw_koordlet_topology("n1", time="2026-01-05T00:00:00Z"))
        api.put(PODS_PATH, raw_pod("last", node="n1", conditions=scheduled_at(YOUNG)))
        api.wait_until(lambda: book.entry("uid-last") is not None)
        assert sum(gpus_free(book)) == 2


@pytest.mark.parametrize("is_heard", [True, False], ids=["watched", "while nobody watched"])
def test_koordlets_report_tells_which_cpus_the_kubelet_gave_to_a_pod(cluster, is_heard):
    """Found running after a restart: its CPUs are those of the report, and its GPUs are guessed beside them."""
    api, _ = cluster
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running"))
    api.put(TOPOLOGIES, raw_koordlet_topology("n1", allocs={"uid-old": "9-10"}))
    with fed(cluster) as (api, book, feeding):
        assert book.entry("uid-old").holding == Holding(0b11 << 9, (0b110000,))
        api.put(TOPOLOGIES, raw_koordlet_topology("n1", allocs={"uid-old": "1-2"}))
        api.wait_until(lambda: book.entry("uid-old").holding == Holding(0b11 << 1, (0b11,)))
        happening(api, feeding, "nodeResourceTopologies", lambda: api.delete(TOPOLOGIES, "n1"), is_heard=is_heard)
        api.wait_until(lambda: book.entry("uid-old").pod.confirmed is None)


def test_a_result_annotation_counts_for_a_bound_pod_only(cluster):
    """Before, anyone may have written it; a binding that is let through is charged by the model."""
    preset = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"9-10"}'}
    with fed(cluster) as (api, book, _):
        api.put(PODS_PATH, raw_pod("a", annotations=preset))
        api.wait_until(lambda: book.entry("uid-a") is not None)
        assert book.entry("uid-a").pod.confirmed is None
        api.put(PODS_PATH, raw_pod("a", node="n1", annotations=preset))
        api.wait_until(lambda: book.entry("uid-a").node == "n1" and book.entry("uid-a").pod.confirmed is not None)


def test_a_report_that_is_ahead_of_the_pods_is_told_again(cluster, monkeypatch):
    """It counts a pod that is heard of only later; another report would come only with another change of the node."""
    monkeypatch.setattr(feeding_module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(node_board, "REPORT_TRIES", 1 << 30)
    api, _ = cluster
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running", conditions=scheduled_at(OLD)))
    with fed(cluster) as (api, book, _):
        api.put(TOPOLOGIES, raw_topology("n1", free_gpus=(2, 2), free_cpus=(5, 5), time=REPORT))
        api.put(TOPOLOGIES, raw_topology("n2", free_gpus=(2, 4), free_cpus=(5, 7), time=REPORT))
        api.wait_until(lambda: book.applied > 0)
        assert book.view("n1").is_guessed
        api.put(PODS_PATH, raw_pod("late", node="n1", phase="Running", conditions=scheduled_at(OLD)))
        api.wait_until(lambda: not book.view("n1").is_guessed)
        assert gpus_free(book) == (2, 2)


@pytest.mark.parametrize(
    ("before", "after", "is_guessed"),
    [
        pytest.param(
            raw_koordlet_topology("n1"), raw_koordlet_topology("n1", allocs={"uid-a": "9-10"}), True, id="koordlet"
        ),
        # A live report tells of all that is on the node, so it ends the guess that it makes.
        pytest.param(
            raw_topology("n1"),
            raw_topology("n1", free_gpus=(4, 2), free_cpus=(7, 5), time=REPORT),
            False,
            id="a live report",
        ),
    ],
)
def test_what_a_node_tells_against_the_replay_is_noticed(cluster, before, after, is_guessed):
    api, _ = cluster
    api.put(TOPOLOGIES, before)
    with fed(cluster) as (api, book, _):
        api.put(PODS_PATH, raw_pod("a", node="n1", conditions=scheduled_at(OLD)))
        api.wait_until(lambda: book.entry("uid-a") is not None)
        assert (book.entry("uid-a").certainty, gpus_free(book)) == (Certainty.REPLAYED, (2, 4))
        api.put(TOPOLOGIES, after)
        api.wait_until(lambda: book.noticed == ["placed-elsewhere"])
        assert gpus_free(book) == (4, 2)
        assert book.view("n1").is_guessed is is_guessed


def test_a_report_that_was_there_first_counts_when_the_pods_are_listed(cluster):
    api, _ = cluster
    api.put(TOPOLOGIES, raw_topology("n1", free_gpus=(4, 2), free_cpus=(7, 5), time="2026-01-03T00:00:00Z"))
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    api.put(PODS_PATH, raw_pod("old", node="n1", phase="Running", conditions=scheduled))
    with fed(cluster) as (api, book, _):
        assert gpus_free(book) == (4, 2)


def test_the_ledger_of_a_feed_that_lived_through_everything_is_that_of_a_fresh_list(cluster):
    """Cuts, old versions, removed nodes, deletes that nobody watched: then as if it had just been started."""
    with fed(cluster) as (api, book, feeding):
        for at in range(8):
            api.put(PODS_PATH, raw_pod(f"p{at}", node="" if at % 4 == 3 else f"n{at % 2 + 1}", gpu="1", cpu="1"))
        api.wait_until(lambda: len(book.snapshot().entries) == 8)
        api.status = 503
        api.cut()
        api.wait_until(lambda: feeding.states()["pods"].lost_since_seconds is not None)
        for name in ("p0", "p3"):
            api.delete(PODS_PATH, name, "team")
        api.put(PODS_PATH, raw_pod("late", node="n1", gpu="1", cpu="1"))
        api.delete(NODES_PATH, "n2")
        api.put(NODES_PATH, raw_node("n3"))
        api.put(NODES_PATH, raw_node("n1", labels={"pool": "new"}))
        api.forget_history()
        api.status = 0
        api.wait_until(lambda: "late" in {entry.pod.name for entry in book.snapshot().entries.values()})
        api.wait_until(lambda: set(book.snapshot().views) == {"n1", "n3"})
        api.wait_until(lambda: len(book.snapshot().entries) == 7)
        with fed(cluster) as (_, fresh, _):
            assert facts(book) == facts(fresh)


def facts(book):
    """What depends on no history: nodes, pods, where they are bound, plain counts, CPUs and devices in use."""
    snapshot = book.snapshot()
    nodes = {
        name: (view.record, {k: v for k, v in view.bound_totals.items() if v}, sorted(e.uid for e in view.bound))
        for name, view in snapshot.views.items()
    }
    return nodes, {uid: entry.pod for uid, entry in snapshot.entries.items()}


def test_a_pod_of_a_node_that_is_not_known_waits_for_it(cluster):
    with fed(cluster) as (api, book, _):
        api.put(PODS_PATH, raw_pod("a", node="n9"))
        api.wait_until(lambda: book.entry("uid-a") is not None)
        api.put(TOPOLOGIES, raw_topology("n9"))
        api.put(NODES_PATH, raw_node("n9"))
        api.wait_until(lambda: sum(gpus_free(book, "n9")) == 6)


def test_a_crd_that_appears_later_gives_the_nodes_their_machines(cluster):
    api, _ = cluster
    group = api.other_answers.pop(GROUP)
    with fed(cluster) as (api, book, feeding):
        assert feeding.states()["nodeResourceTopologies"].is_absent
        assert book.snapshot().views["n1"].record.machine is None
        api.other_answers[GROUP] = group
        api.wait_until(lambda: book.snapshot().views["n1"].record.machine is not None)


@pytest.mark.parametrize("is_heard", [True, False], ids=["watched", "while nobody watched"])
def test_a_topology_that_goes_takes_the_machine_with_it(cluster, is_heard):
    with fed(cluster) as (api, book, feeding):
        happening(api, feeding, "nodeResourceTopologies", lambda: api.delete(TOPOLOGIES, "n1"), is_heard=is_heard)
        api.wait_until(lambda: book.snapshot().views["n1"].record.machine is None)
        assert book.snapshot().views["n2"].record.machine is not None


@pytest.mark.parametrize("is_heard", [True, False], ids=["watched", "while nobody watched"])
def test_a_node_that_goes_leaves_its_pods_waiting_for_it(cluster, is_heard):
    with fed(cluster) as (api, book, feeding):
        api.put(PODS_PATH, raw_pod("a", node="n2"))
        api.wait_until(lambda: book.entry("uid-a") is not None)
        happening(api, feeding, "nodes", lambda: api.delete(NODES_PATH, "n2"), is_heard=is_heard)
        api.wait_until(lambda: set(book.snapshot().views) == {"n1"})
        assert (book.entry("uid-a").node, book.entry("uid-a").holding) == ("n2", None)
        api.put(NODES_PATH, raw_node("n2"))
        api.wait_until(lambda: sum(gpus_free(book, "n2")) == 6)


def test_a_crd_that_goes_with_all_its_topologies_takes_all_machines(cluster):
    with fed(cluster) as (api, book, feeding):
        group = api.other_answers.pop(GROUP)
        api.remove_kind(TOPOLOGIES)
        api.wait_until(lambda: all(view.record.machine is None for view in book.snapshot().views.values()))
        api.wait_until(lambda: feeding.states()["nodeResourceTopologies"].is_absent)
        assert feeding.freshness.trust() == ""
        api.other_answers[GROUP] = group
        api.put(TOPOLOGIES, raw_topology("n1"))
        api.wait_until(lambda: book.snapshot().views["n1"].record.machine is not None)


def happening(api, feeding, feed, what, *, is_heard):
    """Have something happen, while the feed watches or while it has lost the API server and its version is too old."""
    if is_heard:
        what()
        return
    api.status = 503
    api.cut()
    api.wait_until(lambda: feeding.states()[feed].lost_since_seconds is not None)
    what()
    api.forget_history()
    api.status = 0


def test_machine_classes_that_change_change_their_nodes_only_and_none_goes_away(cluster):
    """A class comes, is changed and goes; the pod that runs on its node is never lost."""
    api, url = cluster
    api.put(NODES_PATH, raw_node("n3", labels={"class": "big"}))
    with fed((api, url)) as (api, book, feeding):
        api.put(PODS_PATH, raw_pod("a", node="n3", phase="Running"))
        api.wait_until(lambda: book.entry("uid-a") is not None)
        assert book.view("n3").record.machine is None
        seen = []
        apply = book.apply
        book.apply = lambda events: [seen.append(type(event).__name__) for event in events] and apply(events)

        for gpus in (4, 2):
            feeding.change_classes(classes_of(gpus))
            machine = book.view("n3").record.machine
            assert [layout.count for layout in machine.devices] == [2 * gpus]
            assert (len(book.views()), book.entry("uid-a").node) == (3, "n3")
        feeding.change_classes(classes_of(2))
        feeding.change_classes(())
        assert book.view("n3").record.machine is None
        assert book.entry("uid-a").node == "n3"
        assert set(seen) == {"NodeSeen", "Reported"}
        assert seen.count("NodeSeen") == 3, "the two nodes with topologies and the change that is none tell nothing"


def classes_of(gpus):
    faults = []
    layout = {"numaNodes": 2, "coresPerNUMANode": 8, "memoryPerNUMANode": "64Gi", "devices": {"aliyun.com/gpu": gpus}}
    raw = [{"name": "big", "matchLabels": {"class": "big"}, "layout": layout}]
    classes = read_machine_classes(raw, "classes", faults)
    assert not faults
    return classes


def test_a_checkpoint_is_asked_after_each_list_of_pods(cluster):
    calls = []
    with fed(cluster, hooks=Hooks(after_list=lambda: calls.append(1) or ())) as (api, _, feeding):
        assert len(calls) == 1
        api.status = 503
        api.cut()
        api.wait_until(lambda: feeding.states()["pods"].lost_since_seconds is not None)
        api.forget_history()
        api.status = 0
        api.wait_until(lambda: len(calls) == 2)
