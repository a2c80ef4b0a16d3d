"""Preemption beside the bind guard: the scheduler counts what a victim frees, the kubelet asks where it is free."""

import pytest
from controlplane.client import MERGE_PATCH
from support_guarded import CLASS_LABEL, GPU, MACHINE_LABEL, fresh_namespace, pod, spec
from support_living import Living
from support_truth import until

CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
PRIORITIES = {"high": 1000, "third": 300, "second": 200}


@pytest.fixture(scope="module", autouse=True)
def high(living: Living):
    """The priority classes: ``high`` preempts all others."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    living.plane.apply({**kind, "metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items())


@pytest.fixture
def space(living: Living, request):
    """A fresh namespace; when all that is in it has gone, the ledger holds what a fresh list says."""
    with fresh_namespace(living.plane, request.node.name) as name:
        yield name
    living.converges()


def fill(living, space, *bodies):
    """Have these pods run, one after the other."""
    for body in bodies:
        living.create(space, body).wanted()
        living.runs(space, body["metadata"]["name"])


def names(living, space):
    """Who is stored."""
    return {item["metadata"]["name"] for item in living.pods(space)}


def preempts(living, space, name, pool, gpus, **more):
    """Create a pod that may preempt; a person is warned, or told by the condition, and not refused."""
    return living.create(space, pod(name, pool, gpus, priorityClassName="high", **more))


def nominated(living, space, name):
    """The node that a pod is nominated to, as stored."""
    return (living.get(space, name) or {"status": {}})["status"].get("nominatedNodeName", "")


def test_one_of_ours_preempts_another_of_ours(living, space):
    pool = living.pool()
    fill(living, space, pod("low-0", pool, 4), pod("low-1", pool, 4))
    preempts(living, space, "high", pool, 4).wanted()
    living.runs(space, "high")
    assert len(names(living, space)) == 2
    # No lasting double place: the node's eight GPUs are held once.
    until(lambda: living.view(f"{pool}-0").bound_totals[GPU] == 8, "the ledger to follow")
    living.no_admission_errors(space)
    living.converges()


def test_one_of_ours_preempts_pods_that_are_none_of_our_business(living, space):
    pool = living.pool()
    others = [_plain(f"plain-{at}", pool, "9") for at in range(3)]
    fill(living, space, *others)
    body = pod("high", pool, 4, priorityClassName="high")
    amounts = {"cpu": "8", "memory": "1Gi", GPU: "4"}
    body["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    living.create(space, body).wanted()
    living.runs(space, "high")
    assert len(names(living, space)) == 3
    living.no_admission_errors(space)
    living.converges()


def _plain(name, pool, cpu):
    """A Burstable pod that asks for no GPU."""
    body = pod(name, pool, 0)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return body


def test_what_the_victims_free_is_split_and_the_pod_waits_for_more(living, space):
    """By count there is room after two victims; the guard keeps the pod from a node whose kubelet would refuse it."""
    pool = living.pool()
    # NUMA node 0 has the first and the third, NUMA node 1 the others. The scheduler spares whom it can, the highest
    # first: the first and the last stay, so that one GPU is freed here and three are there.
    asked = (("a", 3, "third"), ("b", 3, "second"), ("c", 1, ""), ("d", 1, "second"))
    fill(living, space, *(pod(name, pool, gpus, priorityClassName=priority) for name, gpus, priority in asked))
    preempts(living, space, "high", pool, 4).wanted()
    until(lambda: living.is_turned_back(space, "high"), "the guard to turn it back")
    assert names(living, space) == {"a", "d", "high"}
    assert living.phase(space, "high") == "Pending"
    living.delete(space, "d")
    living.runs(space, "high")
    living.no_admission_errors(space)
    living.converges()


def test_a_preemptions_nomination_is_not_overwritten(living, space):
    """Turned back at one node, the pod preempts on another whose victim takes its time: that nomination stays."""
    pool = living.pool()
    fill(living, space, *(pod(f"three-{at}", pool, 3, priorityClassName="high") for at in range(2)))
    silent = f"silent-{space[-6:]}"
    labels = {CLASS_LABEL: silent, **MACHINE_LABEL}
    living.plane.add_gpu_node(silent, cpu="30", memory="64Gi", gpus={GPU: 8}, labels=labels)
    until(lambda: living.book.view(silent) is not None, "the ledger to know the node")
    for at in range(2):
        living.create(space, pod(f"low-{at}", silent, 4)).wanted()
        until(lambda at=at: living.get(space, f"low-{at}")["spec"].get("nodeName") == silent, "the binding")
        path = f"/api/v1/namespaces/{space}/pods/low-{at}/status"
        living.plane.api("PATCH", path, {"status": {"phase": "Running"}}, content_type=MERGE_PATCH).wanted()
    body = pod("high", "", 2, priorityClassName="high", nodeSelector={}, affinity=_in(pool, silent))
    # A person would be told at once that it fails where it is sent; a controller's pod waits for the guard.
    living.plane.api("POST", f"/api/v1/namespaces/{space}/pods", body, user=CONTROLLER).wanted()
    until(lambda: living.is_turned_back(space, "high"), "the guard to turn it back")
    # Now the first node is full by count, too, and of its own priority: what is left is to preempt on the second.
    fill(living, space, *(pod(f"one-{at}", pool, 1, priorityClassName="high") for at in range(2)))
    until(lambda: nominated(living, space, "high") == silent, "the scheduler to nominate it where its victim ends")
    (victim,) = (each for each in living.pods(space) if each["metadata"].get("deletionTimestamp"))
    living.delete(space, victim["metadata"]["name"], grace_seconds=0)
    until(lambda: living.get(space, "high")["spec"].get("nodeName") == silent, "the preempting pod to be bound")
    assert not [line for line in living.ours.said("nominated") if line["namespace"] == space]
    living.no_admission_errors(space)
    living.converges()
    living.plane.api("DELETE", f"/api/v1/nodes/{silent}").wanted()


def test_a_crowd_that_preempts_ends_running_without_a_double_place(living, space):
    """Four who preempt at once, in a pool whose low pods sit crosswise."""
    pool = living.pool()
    fill(living, space, *(pod(f"low-{at}", pool, gpus) for at, gpus in enumerate((3, 2, 1, 2))))
    for at in range(4):
        preempts(living, space, f"high-{at}", pool, 2).wanted(201)

    def all_run():
        return all(living.phase(space, f"high-{at}") == "Running" for at in range(4))

    until(all_run, "all who preempt", 120)
    living.no_admission_errors(space)
    assert living.view(f"{pool}-0").bound_totals[GPU] <= 8
    living.converges()


def test_pods_that_must_not_share_a_node_are_steered_apart(living, space):
    """The guard steers by NUMA room and knows nothing of affinity; where both agree the pod gets there in the end."""
    pools = [living.pool() for _ in range(3)]
    fill(living, space, *(pod(f"three-{at}", pools[0], 3) for at in range(2)))
    labels = {"app": "apart"}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    # The scheduler would rather have the node that is full by NUMA node.
    liked = {"matchExpressions": [{"key": CLASS_LABEL, "operator": "In", "values": pools[:1]}]}
    wanted = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": liked}]}
    affinity = {
        "nodeAffinity": {**_in(*pools)["nodeAffinity"], **wanted},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
    }
    for at in range(2):
        body = pod(f"apart-{at}", "", 2, nodeSelector={}, affinity=affinity)
        body["metadata"]["labels"] = labels
        living.create(space, body).wanted()
    for at in range(2):
        living.runs(space, f"apart-{at}")
    assert [line for line in living.ours.said("nominated") if line["namespace"] == space], "nobody was steered"
    nodes = {living.get(space, f"apart-{at}")["spec"]["nodeName"] for at in range(2)}
    assert nodes == {f"{pool}-0" for pool in pools[1:]}
    living.no_admission_errors(space)
    living.converges()


def _in(*pools):
    term = {"matchExpressions": [{"key": CLASS_LABEL, "operator": "In", "values": list(pools)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


class TestLateBoundVolumes:
    """A claim that is bound when its first pod is: the scheduler ties it to a node before it binds the pod."""

    @pytest.fixture
    def late(self, living, space):
        """A StorageClass whose volumes wait for their first consumer."""
        name = f"late-{space[-6:]}"
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        living.plane.apply(
            [{**kind, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}]
        )
        return name

    def volume(self, living, late, pool):
        """A volume on the node of a pool."""
        node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"{pool}-0"]}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{late}-{pool}"},
            "spec": {
                "storageClassName": late,
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
            },
        }
        living.plane.apply([volume])

    def claiming(self, living, space, late, name, *pools):
        """A pod of two GPUs with a claim of its own, for one of the pools."""
        claim = {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": late,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        living.plane.api("POST", f"/api/v1/namespaces/{space}/persistentvolumeclaims", claim).wanted()
        volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": name}}]
        body = {**spec("", 2), "nodeSelector": {}, "affinity": _in(*pools), "volumes": volumes}
        body["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/disk"}]
        return {"metadata": {"name": name}, "spec": body}

    def test_the_volume_is_where_there_is_room(self, living, space, late):
        """Nodes without a volume are none for the scheduler, and the guard lets the one with both be taken."""
        full, free = living.pool(), living.pool()
        fill(living, space, *(pod(f"three-{at}", full, 3) for at in range(2)))
        self.volume(living, late, free)
        living.create(space, self.claiming(living, space, late, "claims", full, free)).wanted()
        living.runs(space, "claims")
        assert living.get(space, "claims")["spec"]["nodeName"] == f"{free}-0"
        living.no_admission_errors(space)

    def test_the_volume_is_tied_to_a_node_that_refuses_and_the_pod_waits_there(self, living, space, late):
        """The guard steers to the free node, the scheduler passes it over, and nobody is ever sent there to fail."""
        full, free = living.pool(), living.pool()
        fill(living, space, *(pod(f"three-{at}", full, 3) for at in range(2)))
        self.volume(living, late, full)
        living.create(space, self.claiming(living, space, late, "claims", full, free)).wanted()
        until(lambda: living.is_turned_back(space, "claims"), "a refusal in the pod's condition")
        living.delete(space, "three-0")
        living.runs(space, "claims")
        assert living.get(space, "claims")["spec"]["nodeName"] == f"{full}-0"
        living.no_admission_errors(space)
