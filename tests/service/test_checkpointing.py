"""The checkpoint: only what changed is written, never too much, and after a restart the places are back."""

import io
from dataclasses import replace
from random import Random

import pytest
from core.ledger.ledger_world import demand, ledger, machine, node, pod

from webhook.cluster.errors import TimedOut
from webhook.core.capacity_rules import CapacityRules
from webhook.core.ledger.events import PodGone, PodSeen
from webhook.core.ledger.records import Certainty
from webhook.service import checkpointing
from webhook.service.book import Book
from webhook.service.checkpointing import Checkpoint, Checkpointing, recalled, saved_places, shard_of
from webhook.service.logs import open_log
from webhook.wire.checkpoint import digest_of, unseal

MACHINE = machine()


def cluster(nodes=4):
    """A ledger with a running pod on each node but the last."""
    made = ledger(*(node(f"n{number}", MACHINE) for number in range(nodes)))
    for number in range(nodes - 1):
        made.apply(PodSeen(pod(f"p{number}", demand((2, 2)), node_name=f"n{number}")), 0.0)
    return made


class Shelf:
    """Keeps blobs in memory, and fails or refuses where a test asks for it."""

    def __init__(self):
        self.blobs = {}
        self.writes = []
        self.error = None
        self.refusals = 0

    def read(self, shard):
        if self.error:
            raise self.error
        return self.blobs.get(shard)

    def write(self, shard, blob):
        if self.error:
            raise self.error
        if self.refusals:
            self.refusals -= 1
            return False
        self.writes.append(shard)
        self.blobs[shard] = blob
        return True


class Views:
    """A book of which only the accounts are asked."""

    def __init__(self, made):
        self.made = made

    def views(self):
        return dict(self.made.views)


def keeper(made, shelf, leads=lambda: True):
    """The writer without its thread."""
    return Checkpointing(shelf, Views(made), leads, open_log(io.BytesIO()))


def restarted(made):
    """A new ledger that has listed the same cluster."""
    fresh = ledger(*(view.record for view in made.views.values()))
    for entry in made.entries.values():
        fresh.apply(PodSeen(entry.pod, is_history=True), 0.0)
    return fresh


class TestRestart:
    """What a restart gets back."""

    def test_without_a_checkpoint_all_is_guessed_with_it_all_is_replayed(self):
        made, shelf = cluster(), Shelf()
        # p9 holds the first NUMA node's GPUs since before p0 came and went: nobody could list that.
        made.apply(PodSeen(pod("p9", demand((2, 4)), node_name="n0", version=2)), 0.0)
        made.apply(PodGone("p0", 9), 0.0)
        keeper(made, shelf).round()
        fresh = restarted(made)
        assert {entry.certainty for entry in fresh.entries.values()} == {Certainty.GUESSED}
        assert fresh.views["n0"].bound_state != made.views["n0"].bound_state
        events, problems = recalled(shelf.blobs.values(), fresh.entries.values())
        for event in events:
            fresh.apply(event, 0.0)
        assert problems == ()
        assert {entry.certainty for entry in fresh.entries.values()} == {Certainty.REPLAYED}
        for name, view in made.views.items():
            assert fresh.views[name].bound_state == view.bound_state

    def test_a_pod_that_the_checkpoint_does_not_know_stays_guessed(self):
        made, shelf = cluster(), Shelf()
        keeper(made, shelf).round()
        made.apply(PodSeen(pod("young", demand((2, 1)), node_name="n3")), 0.0)
        fresh = restarted(made)
        for event in recalled(shelf.blobs.values(), fresh.entries.values())[0]:
            fresh.apply(event, 0.0)
        assert {uid for uid, entry in fresh.entries.items() if entry.certainty is Certainty.GUESSED} == {"young"}

    def test_a_pod_on_another_node_than_remembered_gets_nothing(self):
        made, shelf = cluster(), Shelf()
        keeper(made, shelf).round()
        entries = [replace(entry, node="n3", certainty=Certainty.GUESSED) for entry in made.entries.values()]
        assert recalled(shelf.blobs.values(), entries) == ((), ())

    def test_a_part_cut_off_anywhere_costs_its_own_places_only(self):
        made, shelf = cluster(), Shelf()
        keeper(made, shelf).round()
        cut = shard_of("n0")
        fresh, whole = restarted(made), shelf.blobs.pop(cut)
        kept = [event.node for event in recalled(shelf.blobs.values(), fresh.entries.values())[0]]
        for end in range(len(whole)):
            events, problems = recalled([*shelf.blobs.values(), whole[:end]], fresh.entries.values())
            assert ([event.node for event in events], len(problems)) == (kept, 1), f"cut off at {end}"

    def test_a_damaged_part_is_told_and_the_others_are_used(self):
        made, shelf = cluster(), Shelf()
        keeper(made, shelf).round()
        shelf.blobs[shard_of("n0")] = b"rubbish" * 9
        fresh = restarted(made)
        events, problems = recalled(shelf.blobs.values(), fresh.entries.values())
        kept = {f"n{number}" for number in range(3)} - {
            f"n{n}" for n in range(3) if shard_of(f"n{n}") == shard_of("n0")
        }
        assert {event.node for event in events} == kept
        assert problems == ("its format is not known",)


class TestWriting:
    """What is written, and when."""

    def test_at_first_everything_then_only_what_changed(self):
        made, shelf = cluster(), Shelf()
        writer = keeper(made, shelf)
        writer.round()
        assert sorted(shelf.writes) == list(range(checkpointing.SHARDS))
        shelf.writes.clear()
        assert writer.round() == 0
        made.apply(PodSeen(pod("more", demand((2, 1)), node_name="n1", version=2)), 0.0)
        writer.round()
        assert shelf.writes == [shard_of("n1")]

    def test_news_that_moves_no_place_writes_nothing(self):
        made, shelf = cluster(), Shelf()
        writer = keeper(made, shelf)
        writer.round()
        shelf.writes.clear()
        running = pod("p1", demand((2, 2)), node_name="n1", version=2, phase="Running", is_answered=True)
        made.apply(PodSeen(running), 0.0)
        assert writer.round() == 0

    @pytest.mark.parametrize(
        "changed",
        [
            pytest.param({"certainty": Certainty.GUESSED}, id="a guess"),
            pytest.param({"certainty": Certainty.CONFIRMED}, id="what a source tells anyway"),
            pytest.param({"holding": None}, id="a pod that the kubelet will refuse"),
        ],
    )
    def test_what_is_not_kept(self, changed):
        view = cluster().views["n0"]
        assert len(list(saved_places(view))) == 1
        assert list(saved_places(replace(view, bound=tuple(replace(each, **changed) for each in view.bound)))) == []

    def test_a_node_with_several_accounts_is_not_kept(self):
        made = ledger(node("n0", MACHINE))
        made.apply(PodSeen(pod("old", demand((2, 4)), node_name="n0", phase="Running", is_answered=True)), 0.0)
        made.apply(PodSeen(pod("young", demand((2, 3)), node_name="n0")), 0.0)
        book = Book(made, CapacityRules(), lambda: 0.0, lambda: "")
        saved = Checkpoint()
        saved.look(book.views())
        assert len(unseal(saved.blob(shard_of("n0")))[1]["n0"]) == 2
        book.apply([PodGone("old", 9)])
        saved.look(book.views())
        assert unseal(saved.blob(shard_of("n0")))[1] == {}

    def test_a_node_that_went_is_forgotten(self):
        made = cluster()
        saved = Checkpoint()
        saved.look(dict(made.views))
        saved.look({})
        assert unseal(saved.blob(shard_of("n0")))[1] == {}

    def test_who_does_not_lead_writes_nothing_and_begins_anew_when_it_does(self):
        made, shelf, leads = cluster(), Shelf(), [True]
        writer = keeper(made, shelf, lambda: leads[0])
        writer.round()
        leads[0] = False
        shelf.writes.clear()
        assert writer.round() == 0
        leads[0] = True
        writer.round()
        assert len(shelf.writes) == checkpointing.SHARDS

    def test_a_term_that_ends_while_it_writes_ends_the_writing(self):
        shelf = Shelf()
        writer = keeper(cluster(), shelf, lambda: len(shelf.writes) < 3)
        writer.round()
        assert len(shelf.writes) == 3

    def test_a_round_writes_about_its_budget_and_the_next_goes_on(self):
        made, shelf = cluster(), Shelf()
        writer = keeper(made, shelf)
        writer.round(most_bytes=1)
        assert len(shelf.writes) == 1
        for _ in range(checkpointing.SHARDS):
            writer.round(most_bytes=1)
        assert sorted(shelf.writes) == list(range(checkpointing.SHARDS))

    def test_an_api_server_in_trouble_leaves_it_for_the_next_round(self):
        shelf = Shelf()
        writer = keeper(cluster(), shelf)
        shelf.error = TimedOut("silence")
        assert writer.round() == 0
        shelf.error = None
        writer.round()
        assert len(shelf.writes) == checkpointing.SHARDS

    def test_another_s_write_is_written_over_once_it_was_seen(self):
        shelf = Shelf()
        shelf.refusals = 1
        writer = keeper(cluster(), shelf)
        writer.round()
        assert len(shelf.writes) == checkpointing.SHARDS

    def test_a_shard_never_outgrows_a_config_map(self, monkeypatch):
        random = Random(1)
        view = cluster().views["n0"]
        (entry,) = view.bound
        saved = Checkpoint(shards=1)
        many = {}
        for number in range(300):
            uids = [str(random.random()) for _ in range(8)]
            held = tuple(replace(entry, pod=replace(entry.pod, uid=uid)) for uid in uids)
            many[f"node-{number}"] = replace(view, bound=held)
        saved.look(many)
        monkeypatch.setattr(checkpointing, "MOST_BLOB_BYTES", 10_000)
        blob = saved.blob(0)
        assert len(blob) <= 10_000
        assert saved.dropped_nodes == 300 - len(unseal(blob)[1])
        assert len(unseal(blob)[1]) > 50


def test_a_digest_stands_for_one_pod():
    assert len({digest_of(str(number)) for number in range(10_000)}) == 10_000
