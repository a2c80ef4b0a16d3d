"""The feeds on a real API server with nodes that answer as kubelets do: in the end the ledger is what a list says."""

import uuid
from contextlib import ExitStack

import pytest
from controlplane.starting import start
from hollow_nodes import hollow_nodes
from support_crds import TOPOLOGIES
from support_guarded import hollow_class
from support_truth import converges, fed, until

from webhook.core.ledger.records import Certainty

GPU = "aliyun.com/gpu"
MERGE = "application/merge-patch+json"

CLASSES = {"classes": [hollow_class("gpu") | {"count": 4, "labels": {"ack.node.gpu.schedule": "topology"}}]}


@pytest.fixture(scope="module")
def cluster(control_plane_binaries, oracle, tmp_path_factory):
    """A control plane of this module's own (its API server is killed), four hollow nodes, and the feeds on it."""
    folder = tmp_path_factory.mktemp("feeds")
    with ExitStack() as stack:
        plane = stack.enter_context(start(control_plane_binaries, folder))
        TOPOLOGIES.install(plane)
        flags = ["--topologies", "--topology-delay", "500ms"]
        stack.enter_context(hollow_nodes(plane.kubeconfig(), CLASSES, folder, flags))
        world = stack.enter_context(fed(plane))
        until(lambda: _machines(world) == 4, "the nodes' topologies")
        yield plane, world


@pytest.fixture
def space(cluster):
    """A fresh namespace; when the next test begins its pods have left their kubelets, and these have said so.

    All tests share the nodes, nothing of ours stands before the scheduler, and it knows no NUMA nodes: what the pods
    before have left of two of them would end a pod of the next test as AdmissionError. And a report that says what the
    one before said is not written: it would be older than the pods that it counts.
    """
    plane, _ = cluster
    name = f"feeds-{uuid.uuid4().hex[:6]}"
    plane.create_namespace(name)
    yield name
    path = f"/api/v1/namespaces/{name}"
    plane.api("DELETE", path)
    until(lambda: not plane.get(f"{path}/pods")["items"], "the last of its pods to end")
    until(lambda: all(resource["available"] == resource["allocatable"] for resource in _reported(plane)), "reports")


def _reported(plane):
    topologies = plane.get("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies")["items"]
    return [resource for topology in topologies for zone in topology["zones"] for resource in zone["resources"]]


def _machines(world):
    return sum(view.record.machine is not None for view in world.book.snapshot().views.values())


def converged(cluster):
    """Wait until the ledger that lived through it all holds what one holds that has just been started."""
    plane, world = cluster
    converges(plane, world.book)


def create(plane, space, name, *, gpus=2, node="", **spec):
    amounts = {"cpu": "2", "memory": "1Gi", GPU: str(gpus)}
    body = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}],
            "terminationGracePeriodSeconds": 1,
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }
    return plane.api("POST", f"/api/v1/namespaces/{space}/pods", body).wanted().json()["metadata"]["uid"]


def entry(cluster, uid):
    return cluster[1].book.entry(uid)


def is_running(cluster, uid):
    found = entry(cluster, uid)
    return found is not None and found.pod.phase == "Running"


def test_a_pod_is_followed_from_its_create_to_its_delete(cluster, space):
    plane, _ = cluster
    uid = create(plane, space, "a")
    until(lambda: is_running(cluster, uid), "the pod to run")
    held = entry(cluster, uid)
    assert held.certainty is Certainty.REPLAYED
    assert held.holding.devices[0].bit_count() == 2
    assert held.holding.cpus.bit_count() == 2
    plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/a").wanted()
    until(lambda: entry(cluster, uid) is None, "the pod to be gone")
    converged(cluster)


def test_the_nodes_own_report_agrees_with_the_replay(cluster, space):
    """The model says where the kubelet's code put the pods: the report, made by that code, moves nothing."""
    plane, world = cluster
    uids = [create(plane, space, f"p{at}", gpus=at % 3 + 1) for at in range(6)]
    until(lambda: all(is_running(cluster, uid) for uid in uids), "all to run")
    until(lambda: not any(view.is_guessed for view in world.book.snapshot().views.values()), "reports")
    before = {uid: entry(cluster, uid).holding for uid in uids}
    with fed(plane) as fresh:
        nodes = {entry(cluster, uid).node for uid in uids}
        until(
            lambda: not any(fresh.book.snapshot().views[node].is_guessed for node in nodes),
            "the reports to end the guessing after a restart",
        )
        for node in nodes:
            assert _room(fresh, node) == _room(world, node)
    assert {uid: entry(cluster, uid).holding for uid in uids} == before
    converged(cluster)


def _room(world, node):
    view = world.book.snapshot().views[node]
    machine, state = view.record.machine, view.bound_state
    cpus = [(state.free_cpus & numa).bit_count() for numa in machine.cpus.numa_cpus]
    free = state.free_devices(machine, 0)
    gpus = [(free & machine.devices[0].touching(1 << at)).bit_count() for at in range(len(machine.numa_ids))]
    return cpus, gpus


def test_eviction_of_a_pending_pod_and_forced_deletion(cluster, space):
    plane, _ = cluster
    waiting = create(plane, space, "waiting", nodeSelector={"no": "where"})
    running = create(plane, space, "running")
    until(lambda: entry(cluster, waiting) is not None and is_running(cluster, running), "both")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "waiting", "namespace": space}}
    plane.api("POST", f"/api/v1/namespaces/{space}/pods/waiting/eviction", eviction).wanted()
    plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/running?gracePeriodSeconds=0").wanted()
    until(lambda: entry(cluster, waiting) is None and entry(cluster, running) is None, "both to be gone")
    converged(cluster)


def test_a_namespace_that_is_deleted_takes_its_pods_along(cluster, space):
    plane, _ = cluster
    uids = [create(plane, space, f"p{at}") for at in range(4)]
    until(lambda: all(is_running(cluster, uid) for uid in uids), "all to run")
    plane.api("DELETE", f"/api/v1/namespaces/{space}").wanted()
    until(lambda: not any(entry(cluster, uid) for uid in uids), "the ledger to be empty of them")
    converged(cluster)


def test_a_node_that_goes_comes_back_and_is_relabelled(cluster, space):
    plane, world = cluster
    name = f"lone-{uuid.uuid4().hex[:6]}"
    plane.add_gpu_node(name, cpu="32", memory="64Gi", gpus={GPU: 8})
    uid = create(plane, space, "a", node=name, tolerations=[{"operator": "Exists"}])
    until(lambda: entry(cluster, uid) and name in world.book.snapshot().views, "pod and node")
    plane.api("DELETE", f"/api/v1/nodes/{name}").wanted()
    until(lambda: name not in world.book.snapshot().views, "the node to be gone")
    plane.add_gpu_node(name, cpu="16", memory="64Gi", gpus={GPU: 8})
    label = {"metadata": {"labels": {"pool": "other"}}}
    plane.api("PATCH", f"/api/v1/nodes/{name}", label, content_type=MERGE).wanted()

    def is_back():
        view = world.book.snapshot().views.get(name)
        return view is not None and view.record.facts.labels.get("pool") == "other"

    until(is_back, "the node and its label")
    converged(cluster)
    plane.api("DELETE", f"/api/v1/nodes/{name}").wanted()
    plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/a?gracePeriodSeconds=0")
    converged(cluster)


def test_an_api_server_that_is_killed_under_load_and_started_again(cluster, space):
    plane, world = cluster
    uids = [create(plane, space, f"before-{at}", gpus=1) for at in range(5)]
    lists = world.feeding.states()["pods"].lists
    plane.kill_apiserver()
    until(lambda: world.feeding.states()["pods"].lost_since_seconds is not None, "the feed to notice")
    plane.start_apiserver()
    for at in range(5):
        plane.api("DELETE", f"/api/v1/namespaces/{space}/pods/before-{at}").wanted()
        uids.append(create(plane, space, f"after-{at}", gpus=1))
    until(lambda: world.feeding.freshness.trust() == "", "the feeds to be back")
    until(lambda: all(is_running(cluster, uid) for uid in uids[5:]), "the new pods to run")
    until(lambda: not any(entry(cluster, uid) for uid in uids[:5]), "the old pods to be gone")
    assert world.feeding.states()["pods"].lists >= lists
    converged(cluster)
