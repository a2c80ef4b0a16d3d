"""Which source of a pod's place wins, and what becomes of it when a source comes, changes or goes."""

from dataclasses import replace

import pytest
from support.feed_world import raw_pod

from webhook.cluster.pod_board import PodBoard
from webhook.core.ledger.events import PodGone, PodSeen, PodsListed
from webhook.core.ledger.records import Confirmed
from webhook.wire.pod_records import read_pod_record
from webhook.wire.pod_results import read_result
from webhook.wire.pods import read_pod

GPU = "aliyun.com/gpu"
KOORDINATOR_CPUS = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"2-3"}'}
ACK_CPUS = {"cpuset": '{"main":{"0":{"elems":{"4":{},"5":{}}}}}'}
KOORDINATOR_GPUS = {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0},{"minor":1}]}'}
ACK_GPUS = {"topology.kubernetes.io/gpu-group": "2,3"}
NODE_CPUS = 0b11 << 6


def record(annotations=None, *, node="n1", version=1, **more):
    raw = raw_pod("a", node=node, annotations=annotations, **more)
    pod = read_pod(raw)
    made = replace(read_pod_record(raw, pod=pod), resource_version=version)
    return replace(made, confirmed=read_result(pod.annotations, made.demand) if node else None)


class Heard:
    """A board and the events that it has handed on."""

    def __init__(self):
        self.events = []
        self.board = PodBoard(self.events.extend)

    def last(self):
        """The place that was told last of the pod; fails where the last event is none of a pod that is there."""
        event = self.events[-1]
        assert isinstance(event, PodSeen)
        return event.pod.confirmed


@pytest.mark.parametrize("is_node_first", [True, False], ids=["the node's report first", "the pod first"])
@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        pytest.param({}, Confirmed(NODE_CPUS, is_by_kubelet=True), id="the report alone"),
        pytest.param(KOORDINATOR_CPUS, Confirmed(0b1100), id="resource-status before the report"),
        pytest.param(ACK_CPUS, Confirmed(0b110000), id="ACK's cpuset before the report"),
        pytest.param(ACK_CPUS | KOORDINATOR_CPUS, Confirmed(0b1100), id="resource-status before ACK's cpuset"),
        pytest.param(
            KOORDINATOR_GPUS,
            Confirmed(NODE_CPUS, ((GPU, 0b0011),), is_by_kubelet=True),
            id="the report's CPUs beside device-allocated",
        ),
        pytest.param(
            ACK_GPUS,
            Confirmed(NODE_CPUS, ((GPU, 0b1100),), is_by_kubelet=True),
            id="the report's CPUs beside gpu-group",
        ),
        pytest.param(
            ACK_GPUS | KOORDINATOR_GPUS,
            Confirmed(NODE_CPUS, ((GPU, 0b0011),), is_by_kubelet=True),
            id="device-allocated before gpu-group",
        ),
    ],
)
def test_which_source_wins(annotations, wanted, is_node_first):
    """The table of ``webhook.cluster.pod_board``, in whatever order the sources are heard."""
    heard = Heard()
    tell = [
        lambda: heard.board.cpus_told("n1", {"uid-a": NODE_CPUS}),
        lambda: heard.board.seen([record(annotations)]),
    ]
    for told in tell if is_node_first else reversed(tell):
        told()
    assert heard.last() == wanted


@pytest.mark.parametrize(
    ("seen", "cpus"),
    [
        pytest.param(record(), {"uid-b": NODE_CPUS}, id="another pod"),
        pytest.param(record(node="n2"), {"uid-a": NODE_CPUS}, id="a pod of another node"),
        pytest.param(record(node=""), {"uid-a": NODE_CPUS}, id="a pod that is not bound"),
    ],
)
def test_a_report_counts_for_the_pods_of_its_node_alone(seen, cpus):
    heard = Heard()
    heard.board.cpus_told("n1", cpus)
    heard.board.seen([seen])
    heard.board.cpus_told("n1", {**cpus, "uid-c": 1})
    assert heard.events == [PodSeen(seen)]


def test_news_of_a_pod_keep_what_its_node_told():
    heard = Heard()
    heard.board.cpus_told("n1", {"uid-a": NODE_CPUS})
    for version, phase in ((1, "Pending"), (2, "Running"), (3, "Running")):
        heard.board.seen([record(version=version, phase=phase)])
    assert [(event.pod.phase, event.pod.confirmed.cpus) for event in heard.events] == [
        ("Pending", NODE_CPUS),
        ("Running", NODE_CPUS),
    ], "the third says nothing new"


def test_a_report_that_changes_or_goes_changes_or_takes_back_the_place():
    heard = Heard()
    heard.board.seen([record(ACK_GPUS)])
    heard.board.cpus_told("n1", {"uid-a": NODE_CPUS})
    heard.board.cpus_told("n1", {"uid-a": 0b11})
    assert heard.last() == Confirmed(0b11, ((GPU, 0b1100),), is_by_kubelet=True)
    heard.board.cpus_told("n1", {"uid-a": 0b11})
    assert len(heard.events) == 3, "the same again is no news"
    heard.board.cpus_listed(frozenset({"n2"}))
    assert heard.last() == Confirmed(None, ((GPU, 0b1100),))
    heard.board.cpus_told("n1", {"uid-a": 0b11})
    heard.board.cpus_told("n1", {})
    assert heard.last() == Confirmed(None, ((GPU, 0b1100),))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_a_list_tells_of_pods_that_have_ended_reaches_nobody_who_did_not_know_them(phase):
    """In a cluster of Jobs these are most of the list, and whoever remembers each has room for no other."""
    heard = Heard()
    heard.board.seen([record(phase=phase)], is_list=True)
    assert heard.events == []
    heard.board.seen([record()])
    heard.board.seen([record(version=2, phase=phase)], is_list=True)
    assert [event.pod.phase for event in heard.events] == ["Pending", phase]


@pytest.mark.parametrize("end", ["gone", "ended", "not listed"])
def test_a_report_does_not_bring_a_pod_back(end):
    heard = Heard()
    heard.board.seen([record()], is_list=True)
    if end == "gone":
        heard.board.gone("uid-a", 2)
    elif end == "ended":
        heard.board.seen([record(version=2, phase="Succeeded")])
    else:
        heard.board.listed(PodsListed(frozenset(), 0.0))
    before = list(heard.events)
    heard.board.cpus_told("n1", {"uid-a": NODE_CPUS})
    assert heard.events == before
    assert isinstance(before[-1], {"gone": PodGone, "ended": PodSeen, "not listed": PodsListed}[end])
