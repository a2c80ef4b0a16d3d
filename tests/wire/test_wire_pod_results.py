"""Result annotations into confirmed places; what is left out is not told, which is not the same as none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import any_value

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.ledger.records import Confirmed
from webhook.core.pod import ContainerKind
from webhook.wire.pod_results import RESULT_KEYS, read_result

STATUS, ALLOCATED, CPUSET, GROUP = RESULT_KEYS


def asks(resource="nvidia.com/gpu", count=2):
    devices = ((resource, count),) if resource else ()
    container = ContainerDemand("c", ContainerKind.APP, 4000, devices)
    return PodDemand(QosClass.GUARANTEED, (container,), totals={"cpu": 4000, **dict(devices)})


def allocated(*minors, core="100", kind="gpu"):
    return json.dumps({kind: [{"minor": m, "resources": {"koordinator.sh/gpu-core": core}} for m in minors]})


GPU = "nvidia.com/gpu"
ACK = "aliyun.com/gpu"
ELEMS = '{"c":{"0":{"elems":{"0":{},"1":{}}},"1":{"elems":{"4":{}}}},"d":{"0":{"elems":{"2":{}}}}}'


@pytest.mark.parametrize(
    ("annotations", "demand", "wanted"),
    [
        ({}, asks(), None),
        ({STATUS: '{"cpuset":"0-3"}', ALLOCATED: allocated(0, 3)}, asks(), Confirmed(0b1111, ((GPU, 0b1001),))),
        ({ALLOCATED: allocated(0, 3)}, asks(), Confirmed(None, ((GPU, 0b1001),))),
        ({STATUS: '{"cpuset":"0-3"}'}, asks(None), Confirmed(0b1111, ())),
        ({STATUS: '{"cpuset":"0-3"}'}, asks(), Confirmed(0b1111)),
        ({STATUS: '{"cpuset":"0-3"}', ALLOCATED: allocated(0)}, asks(), Confirmed(0b1111)),
        ({ALLOCATED: allocated(0)}, asks(), None),
        ({ALLOCATED: allocated(0, 1, core="50")}, asks(), None),
        ({ALLOCATED: allocated(0, 600)}, asks(), None),
        ({ALLOCATED: allocated(0, 1, kind="rdma")}, asks(), None),
        ({STATUS: '{"numaNodeResources":[]}'}, asks(None), None),
        ({STATUS: '{"cpuset":"x"}'}, asks(None), None),
        ({CPUSET: ELEMS, GROUP: "4,5"}, asks(ACK), Confirmed(0b10111, ((ACK, 0b110000),))),
        ({CPUSET: ELEMS}, asks(None), Confirmed(0b10111, ())),
        ({CPUSET: '{"c":{"0":{"elems":{"x":{}}}}}'}, asks(None), None),
        ({CPUSET: "required"}, asks(None), None),
        ({GROUP: "4, 5"}, asks(ACK), Confirmed(None, ((ACK, 0b110000),))),
        ({GROUP: "4,4"}, asks(ACK), None),
        ({GROUP: "4,x"}, asks(ACK), None),
        ({GROUP: "4,5"}, asks("example.com/other"), None),
    ],
    ids=[
        "nothing",
        "both of Koordinator",
        "devices alone",
        "CPUs of a pod without devices",
        "CPUs alone of a pod with devices",
        "a device too few beside CPUs",
        "a device too few",
        "shares of devices",
        "a minor that cannot be",
        "devices of another kind",
        "no cpuset",
        "a cpuset that is none",
        "both of ACK",
        "ACK's CPUs",
        "ACK's CPUs that are none",
        "ACK's CPUs that are no JSON",
        "ACK's GPUs",
        "a GPU twice",
        "GPUs that are no numbers",
        "another resource",
    ],
)
def test_what_a_result_confirms(annotations, demand, wanted):
    assert read_result(annotations, demand) == wanted


@given(st.dictionaries(st.sampled_from(RESULT_KEYS), st.one_of(st.text(), any_value.map(json.dumps))))
def test_nothing_is_raised_for_any_annotation(annotations):
    for demand in (asks(), asks(ACK), asks(None)):
        read_result(annotations, demand)
