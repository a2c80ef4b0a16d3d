"""What several feeds tell of a node, put together; reports are told again for a while and then no more."""

from support.feed_world import raw_node, raw_topology

from webhook.cluster.node_board import REPORT_TRIES, NodeBoard
from webhook.core.ledger.events import NodeGone, NodeSeen, Reported
from webhook.wire.node_sources import NodeAssembler
from webhook.wire.node_topologies import read_node_topology
from webhook.wire.nodes import read_node


class Heard:
    """A board and what it has handed on since it was last asked."""

    def __init__(self):
        self.events = []
        self.board = NodeBoard(NodeAssembler(), self.events.extend)

    def since(self):
        """The kinds of the events, in order."""
        kinds = [type(event) for event in self.events]
        self.events.clear()
        return kinds

    def topology(self, **more):
        self.board.topology_seen("n1", read_node_topology(raw_topology("n1", **more)))

    def node(self, **more):
        self.board.node_seen(read_node(raw_node("n1", **more)))


def test_a_report_is_told_again_a_few_times_and_anew_when_it_changes():
    heard = Heard()
    heard.node()
    heard.topology()
    assert heard.since() == [NodeSeen, NodeSeen, Reported]
    heard.topology()
    assert heard.since() == [], "the same is no news"
    for free in ((2, 4), (4, 4)):
        heard.topology(free_gpus=free)
        assert heard.since() == [Reported]
        for _ in range(REPORT_TRIES + 2):
            heard.board.repeat_reports()
        assert heard.since() == [Reported] * REPORT_TRIES


def test_what_was_told_of_a_node_before_it_came_or_while_it_was_away_counts_when_it_is_there():
    heard = Heard()
    heard.topology()
    assert heard.since() == []
    heard.node()
    assert heard.since() == [NodeSeen, Reported]
    heard.board.node_gone("n1")
    heard.topology(free_gpus=(2, 4))
    assert heard.since() == [NodeGone]
    heard.node()
    assert heard.since() == [NodeSeen, Reported]


def test_a_change_of_the_node_tells_its_report_as_well():
    heard = Heard()
    heard.node()
    heard.topology()
    heard.since()
    heard.node()
    assert heard.since() == [], "the same is no news"
    heard.node(labels={"pool": "a"})
    assert heard.since() == [NodeSeen, Reported]
