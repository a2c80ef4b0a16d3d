"""What the ledger did not expect is counted, and told with the kubelet's view and ours."""

import io
import json

import pytest
from core.ledger.ledger_world import demand, ledger, machine, node, pod
from prometheus_client import CollectorRegistry

from webhook.core.ledger.accounts import Notice
from webhook.core.ledger.events import PodSeen
from webhook.core.ledger.records import Confirmed
from webhook.service.divergence import Divergence
from webhook.service.logs import open_log

KIND = "numa_admission_ledger_notices_total"


@pytest.fixture
def lines():
    return io.BytesIO()


@pytest.fixture
def registry():
    return CollectorRegistry()


def seen(uid, asks, **more):
    """A pod on the node, as its kubelet shows it."""
    return PodSeen(pod(uid, asks, node_name="n1", **more))


def notices(*events):
    """A ledger of one node after these events, and what it noticed."""
    made = ledger(node("n1", machine()))
    for event in events:
        made.apply(event, 0.0)
    return made, made.take_notices()


ELSEWHERE = Confirmed(0b11 << 9, is_by_kubelet=True)
REFUSED = {"phase": "Failed", "failure_reason": "TopologyAffinityError", "is_answered": True}


@pytest.mark.parametrize(
    "events, kind, kubelet",
    [
        pytest.param(
            (seen("one", demand((2, 2))), seen("one", demand((2, 2)), version=2, **REFUSED)),
            "refused-though-allowed",
            "TopologyAffinityError",
            id="the kubelet refuses what the model takes",
        ),
        pytest.param(
            (seen("one", demand((2, 6))), seen("one", demand((2, 6)), version=2, phase="Running", is_answered=True)),
            "runs-though-refused",
            "admitted the pod",
            id="the kubelet takes what the model refuses",
        ),
        pytest.param(
            (seen("one", demand((2, 6))), seen("one", demand((2, 6)), version=2, **REFUSED)),
            "refused-not-prevented",
            "TopologyAffinityError",
            id="the kubelet refuses as the model does, and nobody had turned the binding back",
        ),
        pytest.param(
            (seen("one", demand((2, 2))), seen("one", demand((2, 2)), version=2, confirmed=ELSEWHERE)),
            "placed-elsewhere",
            "it is told to hold CPUs 9-10, replayed was 1-2",
            id="koordlet tells of other CPUs than were replayed",
        ),
        pytest.param(
            (
                PodSeen(pod("one", demand((2, 2)))),
                seen("one", demand((2, 2)), version=2, **REFUSED),
            ),
            "refused-not-prevented",
            "TopologyAffinityError",
            id="the kubelet refuses what nobody had seen bound",
        ),
    ],
)
def test_a_divergence_is_counted_and_told_with_both_views(lines, registry, events, kind, kubelet):
    made, found = notices(*events)
    Divergence(open_log(lines), made.views.get, registry).take(found)
    (line,) = [json.loads(text) for text in lines.getvalue().splitlines()]
    assert (line["event"], line["kind"], line["kubelet"], line["node"]) == ("divergence", kind, kubelet, "n1")
    assert "NUMA 0" in line["ledger"]
    assert "single-numa-node" in line["ledger"]
    assert registry.get_sample_value(KIND, {"kind": kind}) == 1


def test_what_is_no_surprise_is_only_counted(lines, registry):
    expired = pod("one", demand((2, 2)))
    notice = Notice("claim-expired", expired.uid, "team", "one", "n1")
    Divergence(open_log(lines), {}.get, registry).take([notice, notice])
    assert lines.getvalue() == b""
    assert registry.get_sample_value(KIND, {"kind": "claim-expired"}) == 2


def test_a_node_that_is_gone_meanwhile_is_said_to_be(lines, registry):
    _, found = notices(seen("one", demand((2, 2))), seen("one", demand((2, 2)), version=2, **REFUSED))
    Divergence(open_log(lines), {}.get, registry).take(found)
    assert b"not known any more" in lines.getvalue()


def test_what_the_model_expected_is_no_surprise():
    running = {"phase": "Running", "is_answered": True}
    assert notices(seen("one", demand((2, 2))), seen("one", demand((2, 2)), version=2, **running))[1] == ()
