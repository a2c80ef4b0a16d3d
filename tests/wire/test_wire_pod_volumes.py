"""Which claims a pod's volumes mount: for the words of a refusal, and for no rule."""

import pytest

from webhook.wire.pod_records import read_pod_record
from webhook.wire.pods import read_pod


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param(None, (), id="none"),
        pytest.param([{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}], ("data",), id="a claim"),
        pytest.param([{"name": "a", "ephemeral": {"volumeClaimTemplate": {}}}], ("pod-a",), id="made for the pod"),
        pytest.param([{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}], (), id="other kinds"),
        pytest.param("all", (), id="no list"),
        pytest.param(["a", {"persistentVolumeClaim": "data"}, {"ephemeral": {}}, {"name": 1}], (), id="no volumes"),
        pytest.param([{"persistentVolumeClaim": {"claimName": 7}}], (), id="no name"),
    ],
)
def test_the_claims_of_a_pod(volumes, expected):
    """Names of the claims; what cannot be read is none, and no fault of the pod."""
    raw = {"metadata": {"name": "pod"}, "spec": {"volumes": volumes}}
    pod = read_pod(raw)
    assert pod.volume_claims == expected
    assert pod.malformed == ()
    assert read_pod_record(raw).volume_claims == expected


def test_a_volume_makes_no_other_pod():
    """What no rule reads does not make a template another one, whose old faults would be judged anew."""
    claim = {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}
    assert read_pod({"spec": {"volumes": [claim]}}) == read_pod({"spec": {}})
