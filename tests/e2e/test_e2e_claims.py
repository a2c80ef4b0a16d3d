"""Claims end to end: whatever becomes of a pod that was admitted, the ledger comes back to the API server's truth.

Here a pod for which no room is left is refused (``would_wait: deny``), so that a dry run tells who holds what.
"""

import time

import pytest
from controlplane.client import MERGE_PATCH
from support_guarded import (
    CLAIM_SECONDS,
    GPU,
    MACHINE_LABEL,
    fresh_namespace,
    guarded_cluster,
    pod,
    until,
)
from support_other_team import denied_by_another

KNOWN_AND_ABSENT = "koord-scheduler"
"""A scheduler that our settings know and that does not run here: its pods stay as they are."""


@pytest.fixture(scope="module")
def cluster(control_plane_binaries, oracle, tmp_path_factory):
    """A guarded cluster that refuses what has no room."""
    folder = tmp_path_factory.mktemp("claims")
    with guarded_cluster(control_plane_binaries, folder, pools=12, outcomes={"would_wait": "deny"}) as guarded:
        yield guarded


@pytest.fixture
def space(cluster, request):
    """A fresh namespace."""
    with fresh_namespace(cluster.plane, request.node.name) as name:
        yield name


@pytest.fixture
def other(cluster):
    """Another namespace, from which the room is asked for."""
    with fresh_namespace(cluster.plane, "other") as name:
        yield name


def fill(cluster, space, pool, *names):
    """Have pods of four GPUs run there."""
    for name in names:
        cluster.create(space, pod(name, pool, 4)).wanted()
        cluster.runs(space, name)


def refused_after_us(cluster, other, pool, create):
    """Create a pod for the last room of the pool that is refused by somebody else; then the room must come back."""
    before = time.monotonic()
    answer = create()
    assert answer.status >= 400
    assert "CAPACITY_" not in answer.body.decode()
    fits = cluster.fits(other, pod("next", pool, 4))
    # The claim was made after `before`, and nothing ends it earlier: on a slow machine there is nothing to see.
    assert not fits or time.monotonic() - before >= CLAIM_SECONDS
    until(lambda: cluster.fits(other, pod("next", pool, 4)), "the claim to end")
    cluster.create(other, pod("next", pool, 4)).wanted()
    cluster.runs(other, "next")


def test_a_create_that_the_quota_refuses_gives_its_room_back(cluster, space, other):
    pool = cluster.pool()
    fill(cluster, other, pool, "first")
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    cluster.plane.api("POST", path, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}).wanted()
    until(lambda: cluster.plane.get(f"{path}/none").get("status", {}).get("hard"), "the quota to be in force")

    def create():
        answer = cluster.create(space, pod("a", pool, 4))
        assert "exceeded quota" in answer.body.decode()
        return answer

    refused_after_us(cluster, other, pool, create)


def test_a_create_that_another_webhook_refuses_gives_its_room_back(cluster, space, other, tmp_path):
    pool = cluster.pool()
    fill(cluster, other, pool, "first")
    with denied_by_another(cluster.plane, tmp_path, space):

        def create():
            answer = cluster.create(space, pod("a", pool, 4))
            assert "denies.another.team" in answer.body.decode()
            return answer

        refused_after_us(cluster, other, pool, create)


def test_a_create_of_a_name_that_exists_gives_its_room_back(cluster, space, other):
    pool = cluster.pool()
    fill(cluster, space, pool, "a")

    def create():
        answer = cluster.create(space, pod("a", pool, 4))
        assert answer.json()["reason"] == "AlreadyExists"
        return answer

    refused_after_us(cluster, other, pool, create)


def test_server_dry_runs_leave_the_ledger_as_it_was(cluster, space):
    """More dry runs than there is room for, in less time than a claim lives or in more, and all of it is still free."""
    pool = cluster.pool()
    for at in range(5):
        assert cluster.create(space, pod(f"dry-{at}", pool, 4), dry_run=True).status == 201
    assert cluster.create(space, pod("a", pool, 4)).status == 201
    assert cluster.create(space, pod("b", pool, 4)).status == 201
    answer = cluster.create(space, pod("c", pool, 4))
    assert answer.status == 403
    assert "[CAPACITY_WOULD_WAIT]" in answer.body.decode()
    for name in ("a", "b"):
        cluster.runs(space, name)


def test_a_pending_pod_that_is_evicted_gives_its_room_back(cluster, space, other):
    """An eviction of a pending pod sends no review of a delete; the watch alone tells of it."""
    pool = cluster.pool()
    fill(cluster, space, pool, "first")
    cluster.create(space, pod("waits", pool, 4, schedulerName=KNOWN_AND_ABSENT)).wanted()
    assert not cluster.fits(other, pod("next", pool, 4))
    time_over = time.monotonic() + CLAIM_SECONDS + 1
    # The place is no claim that ends by itself: the stored pod keeps it.
    until(lambda: time.monotonic() > time_over, "a claim to end")
    assert not cluster.fits(other, pod("next", pool, 4))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "waits", "namespace": space}}
    cluster.plane.api("POST", f"/api/v1/namespaces/{space}/pods/waits/eviction", eviction).wanted()
    until(lambda: cluster.fits(other, pod("next", pool, 4)), "its room")


def test_a_namespace_that_is_deleted_gives_its_room_back(cluster, space, other):
    pool = cluster.pool()
    fill(cluster, space, pool, "a", "b")
    assert not cluster.fits(other, pod("next", pool, 4))
    cluster.plane.api("DELETE", f"/api/v1/namespaces/{space}").wanted()
    until(lambda: cluster.fits(other, pod("next", pool, 4)), "its room")
    until(lambda: cluster.pods(space) == [], "the pods to be gone")
    fill(cluster, other, pool, "c", "d")


def bound_and_running(cluster, space, name):
    """Wait for the scheduler, then write what a kubelet would, for there is none on that node."""
    until(lambda: cluster.get(space, name)["spec"].get("nodeName"), f"{name} to be bound")
    path = f"/api/v1/namespaces/{space}/pods/{name}/status"
    cluster.plane.api("PATCH", path, {"status": {"phase": "Running"}}, content_type=MERGE_PATCH).wanted()


def test_a_terminating_pod_holds_its_room_until_it_is_deleted_by_force(cluster, space):
    """On a node whose kubelet never answers, a deleted pod stays terminating for as long as nobody forces it."""
    label = {"pool": "silent", **MACHINE_LABEL}
    cluster.plane.add_gpu_node("silent", cpu="30", memory="64Gi", gpus={GPU: 8}, labels=label)

    def asked(name):
        return pod(name, "", 4, nodeSelector={"pool": "silent"})

    until(lambda: cluster.fits(space, asked("probe")), "the ledger to know the node")
    for name in ("a", "b"):
        cluster.create(space, asked(name)).wanted()
        bound_and_running(cluster, space, name)
    assert not cluster.fits(space, asked("next"))
    cluster.plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/a?gracePeriodSeconds=3600").wanted()
    done = cluster.plane.kubectl(
        "wait", "-n", space, "pod/a", "--for=jsonpath={.metadata.deletionTimestamp}", "--timeout=60s", check=True
    )
    assert "condition met" in done.stdout
    assert not cluster.fits(space, asked("next"))
    assert cluster.get(space, "a")["metadata"]["deletionTimestamp"]
    cluster.delete(space, "a", grace_seconds=0)
    until(lambda: cluster.fits(space, asked("next")), "its room")
    cluster.create(space, asked("next")).wanted()
    until(lambda: cluster.get(space, "next")["spec"].get("nodeName") == "silent", "the next one to be bound")
    assert not cluster.fits(space, asked("one-more"))


def test_a_node_that_is_removed_and_comes_back_is_counted_anew(cluster, space):
    label = {"pool": "returns", **MACHINE_LABEL}

    def asked(name):
        return pod(name, "", 4, nodeSelector={"pool": "returns"})

    def add():
        cluster.plane.add_gpu_node("returns", cpu="30", memory="64Gi", gpus={GPU: 8}, labels=label)

    add()
    until(lambda: cluster.fits(space, asked("probe")), "the ledger to know the node")
    for name in ("a", "b"):
        cluster.create(space, asked(name)).wanted()
        bound_and_running(cluster, space, name)
    cluster.plane.api("DELETE", "/api/v1/nodes/returns").wanted()
    add()
    # Its pods are still stored and bound to that name, and hold what they held.
    until(lambda: cluster.fits(space, asked("next")) is False, "the node to be back with its pods")
    cluster.delete(space, "a", grace_seconds=0)
    until(lambda: cluster.fits(space, asked("next")), "the room of the one that has gone")
