"""A pod's demand: by table, and against what the API server's own defaulting made of 300 pods."""

import json
from pathlib import Path
from typing import Any

import pytest
from core.kubernetes_cases import pod_of

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.effective import demand_of, is_device
from webhook.core.pod import Container, ContainerKind, NumaSpec, Pod
from webhook.core.quantity import parse_quantity

INIT, SIDECAR, APP, EPHEMERAL = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP, ContainerKind.EPHEMERAL
GPU = "aliyun.com/gpu"
KIND_OF = {"init": INIT, "sidecar": SIDECAR, "app": APP}


def container(
    kind: ContainerKind = APP, *, name: str = "c", limits: Any = (), requests: Any = (), claims: bool = False
) -> Container:
    """Return a container of written resources."""
    return Container(
        name=name,
        kind=kind,
        path="spec.containers[0]",
        requests={key: parse_quantity(value) for key, value in dict(requests).items()},
        limits={key: parse_quantity(value) for key, value in dict(limits).items()},
        claims=claims,
    )


def demand(*containers: Container, **fields: Any) -> PodDemand:
    """Return the demand of a pod of ``containers``."""
    return demand_of(Pod(containers=containers, **fields))


def test_the_guides_pod_is_guaranteed_with_whole_cores_and_cards() -> None:
    pod = demand(container(limits={"cpu": "24", "memory": "64Gi", GPU: "4"}))
    assert pod == PodDemand(
        qos=QosClass.GUARANTEED,
        containers=(
            ContainerDemand("c", APP, cpu_millicores=24000, devices=((GPU, 4),), memory_bytes=(("memory", 64 << 30),)),
        ),
        totals={"cpu": 24000, "memory": 64 << 30, GPU: 4},
    )
    assert pod.exclusive_cpus(pod.containers[0]) == 24


RECORDED = json.loads((Path(__file__).parent / "pod_defaults.json").read_text())


@pytest.mark.parametrize("row", RECORDED, ids=range(len(RECORDED)))
def test_defaults_are_filled_in_as_the_api_server_does(row: dict[str, Any]) -> None:
    """QoS class, pod level and totals of pods that lack requests, limits or pod-level ones.

    Recorded from Kubernetes 1.37.2: ``SetObjectDefaults_Pod``, ``DefaultPodLevelResources``, ``ComputePodQOS``,
    ``PodRequests``.
    """
    written = [{"requests": {}, "limits": {}, **resources} for _, resources in row["containers"]]
    kinds = [KIND_OF[kind] for kind, _ in row["containers"]]
    ours = demand_of(pod_of(kinds, written, row.get("level"), row.get("overhead", {})))
    assert {"qos": ours.qos.value, "podLevel": ours.has_pod_level_resources, "totals": ours.totals} == row["want"]


QOS = [
    ("nothing asked", [container()], QosClass.BEST_EFFORT),
    ("no container at all", [], QosClass.BEST_EFFORT),
    ("a GPU alone", [container(limits={GPU: "8"})], QosClass.BEST_EFFORT),
    ("cpu without memory", [container(limits={"cpu": "8"})], QosClass.BURSTABLE),
    (
        "request below limit",
        [container(limits={"cpu": "8", "memory": "1Gi"}, requests={"cpu": "4"})],
        QosClass.BURSTABLE,
    ),
    (
        "equal in another spelling",
        [container(limits={"cpu": "8", "memory": "1Gi"}, requests={"cpu": "8000m", "memory": "1024Mi"})],
        QosClass.GUARANTEED,
    ),
    ("a bare init container", [container(INIT), container(limits={"cpu": "8", "memory": "1Gi"})], QosClass.BURSTABLE),
    ("a bare sidecar", [container(SIDECAR), container(limits={"cpu": "8", "memory": "1Gi"})], QosClass.BURSTABLE),
    (
        "a bare ephemeral container",
        [container(limits={"cpu": "8", "memory": "1Gi"}), container(EPHEMERAL)],
        QosClass.GUARANTEED,
    ),
    ("zero limits", [container(limits={"cpu": "0", "memory": "0"})], QosClass.BEST_EFFORT),
]


@pytest.mark.parametrize("containers, expected", [row[1:] for row in QOS], ids=[row[0] for row in QOS])
def test_the_qos_class(containers: list[Container], expected: QosClass) -> None:
    assert demand(*containers).qos is expected


TOTALS = [
    ("apps add up", [container(limits={"cpu": "2"}), container(limits={"cpu": "3"})], 5000),
    ("the larger of init and apps", [container(INIT, limits={"cpu": "7"}), container(limits={"cpu": "3"})], 7000),
    ("sidecars run beside the apps", [container(SIDECAR, limits={"cpu": "2"}), container(limits={"cpu": "3"})], 5000),
    (
        "an init container after a sidecar",
        [container(SIDECAR, limits={"cpu": "2"}), container(INIT, limits={"cpu": "4"}), container(limits={"cpu": "3"})],
        6000,
    ),
    (
        "an init container before a sidecar",
        [container(INIT, limits={"cpu": "4"}), container(SIDECAR, limits={"cpu": "2"}), container(limits={"cpu": "3"})],
        5000,
    ),
    (
        "ephemeral containers do not count",
        [container(limits={"cpu": "3"}), container(EPHEMERAL, limits={"cpu": "9"})],
        3000,
    ),
    (
        "less than a thousandth is a thousandth",
        [container(limits={"cpu": "0.0001"}), container(limits={"cpu": "0.0001"})],
        2,
    ),
]


@pytest.mark.parametrize("containers, cpu", [row[1:] for row in TOTALS], ids=[row[0] for row in TOTALS])
def test_the_schedulers_total(containers: list[Container], cpu: int) -> None:
    assert demand(*containers).totals == {"cpu": cpu}
    assert demand(*containers, overhead={"cpu": parse_quantity("250m")}).totals == {"cpu": cpu + 250}


def test_devices_come_from_the_limits_in_name_order_and_zero_stays() -> None:
    limits = {
        "z.com/a": "1",
        GPU: "0",
        "kubernetes.io/batch-cpu": "1",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
    }
    (member,) = demand(container(limits=limits)).containers
    assert member.devices == ((GPU, 0), ("z.com/a", 1))
    assert member.memory_bytes == (("hugepages-2Mi", 4 << 20),)


def test_a_template_without_the_limit_still_asks_for_its_device() -> None:
    (member,) = demand(container(requests={GPU: "2"})).containers
    assert member.devices == ((GPU, 2),)


@pytest.mark.parametrize(
    "resource, expected",
    [
        (GPU, True),
        ("nvidia.com/gpu", True),
        ("cpu", False),
        ("hugepages-1Gi", False),
        ("example.kubernetes.io/x", False),
        ("requests.a.com/b", False),
    ],
)
def test_extended_resources_are_devices(resource: str, expected: bool) -> None:
    assert is_device(resource) is expected


def test_pod_level_resources_end_exclusive_cpus() -> None:
    """The class comes from the pod level, and no container is pinned."""
    level = {"cpu": parse_quantity("8"), "memory": parse_quantity("1Gi")}
    pod = demand(container(limits={"cpu": "4", "memory": "1Gi"}), pod_requests=level, pod_limits=level)
    assert pod.qos is QosClass.GUARANTEED
    assert pod.totals == {"cpu": 8000, "memory": 1 << 30}
    assert pod.exclusive_cpus(pod.containers[0]) == 0


def test_a_claim_of_any_container_is_seen() -> None:
    assert demand(container(claims=True)).has_resource_claims
    assert demand(container(), has_resource_claims=True).has_resource_claims
    assert not demand(container()).has_resource_claims


def test_the_order_of_init_containers_is_kept() -> None:
    names = [
        member.name
        for member in demand(container(INIT, name="b"), container(SIDECAR, name="a"), container(name="c")).containers
    ]
    assert names == ["b", "a", "c"]


def test_the_numa_policy_is_that_of_the_first_exact_annotation() -> None:
    specs = (
        NumaSpec("k/one", "{}", None, None),
        NumaSpec("k/two", "{}", "SingleNUMANode", "Required"),
        NumaSpec("k/three", "{}", "Restricted", None),
    )
    pod = demand(container(), numa_specs=specs)
    assert (pod.numa_policy, pod.numa_exclusive) == ("SingleNUMANode", "Required")
    assert demand(container()).numa_policy == ""


def test_filling_in_defaults_twice_changes_nothing() -> None:
    """A pod with its defaults written out asks for the same as without."""
    bare = container(limits={"cpu": "4", "memory": "1Gi", GPU: "1"})
    full = container(limits={"cpu": "4", "memory": "1Gi", GPU: "1"}, requests={"cpu": "4", "memory": "1Gi", GPU: "1"})
    assert demand(bare) == demand(full)
