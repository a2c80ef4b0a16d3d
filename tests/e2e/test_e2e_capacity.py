"""Capacity end to end: what a person sees at apply, what waits, and that a burst never makes a kubelet refuse."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from support_guarded import GPU, fresh_namespace, guarded_cluster, pod, until, workload

KEY = "scheduling.alibabacloud.com/numa-topology-spec"


@pytest.fixture(scope="module")
def cluster(control_plane_binaries, oracle, tmp_path_factory):
    """A guarded cluster with the settings' defaults."""
    with guarded_cluster(control_plane_binaries, tmp_path_factory.mktemp("capacity"), pools=12) as guarded:
        yield guarded


@pytest.fixture
def space(cluster, request):
    """A fresh namespace."""
    with fresh_namespace(cluster.plane, request.node.name) as name:
        yield name


def fragment(cluster, space):
    """Leave two GPUs free on either NUMA node of a pool; its name, and the pod whose end makes four on one."""
    pool = cluster.pool()
    # The kubelet takes the lower NUMA node where both would do: a and b fill it, c goes to the other.
    for name in ("a", "b", "c"):
        cluster.create(space, pod(name, pool, 2)).wanted()
        cluster.runs(space, name)
    cluster.delete(space, "a")
    # While a pod ends, and the watch has not told of it, those that do not fit are let through to wait.
    until(lambda: not cluster.fits(space, pod("probe", pool, 4)), "the ledger to know that a is gone")
    return pool, "b"


def apply(cluster, space, body, *args):
    return cluster.plane.apply([body], "-n", space, *args, check=False)


def test_a_pod_for_a_fragmented_node_is_refused_at_apply_with_its_proof(cluster, space):
    pool, _ = fragment(cluster, space)
    done = apply(cluster, space, pod("big", pool, 4))
    assert done.returncode == 1
    assert 'admission webhook "capacity-pods.numa-admission.io" denied the request' in done.stderr
    assert "[CAPACITY_WOULD_FAIL]" in done.stderr
    assert f"{pool}-0" in done.stderr
    assert "2 of 4" in done.stderr
    assert cluster.get(space, "big") is None
    cluster.create(space, pod("small", pool, 2)).wanted()
    cluster.runs(space, "small")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_the_same_pod_of_a_controller_waits_and_runs_when_room_appears(cluster, space, kind):
    pool, last = fragment(cluster, space)
    done = apply(cluster, space, workload(kind, "big", pool, 4))
    assert done.returncode == 0, done.stderr

    def made():
        return [each for each in cluster.pods(space) if each["metadata"].get("labels", {}).get("app") == "big"]

    until(lambda: any(map(reason, made())), "the pod to be turned back at its binding")
    (waiting,) = made()
    assert waiting["status"]["phase"] == "Pending"
    assert "[BINDING_WOULD_FAIL]" in message(waiting)
    cluster.delete(space, last)
    name = waiting["metadata"]["name"]
    cluster.runs(space, name)
    assert cluster.get(space, name)["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert cluster.admission_errors() == []


def condition(stored):
    """The scheduler's word on a pod that it could not place."""
    found = [each for each in stored["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
    return found[0] if found and found[0]["status"] == "False" else {}


def reason(stored):
    return condition(stored).get("reason", "")


def message(stored):
    return condition(stored).get("message", "")


@pytest.mark.parametrize(
    "gpus",
    [pytest.param(5, id="more-than-a-numa-node"), pytest.param(9, id="more-than-a-machine")],
)
def test_what_never_fits_is_refused_at_apply_of_the_deployment(cluster, space, gpus):
    done = apply(cluster, space, workload("Deployment", "never", cluster.pool(), gpus))
    assert done.returncode == 1
    assert 'admission webhook "capacity-workloads.numa-admission.io" denied the request' in done.stderr
    assert "spec.template.spec" in done.stderr
    assert "[CAPACITY_NEVER]" in done.stderr


def test_replicas_that_do_not_fit_are_told_and_wait(cluster, space):
    pool = cluster.pool()
    done = apply(cluster, space, workload("Deployment", "many", pool, 4, replicas=4))
    assert done.returncode == 0, done.stderr
    assert "2 of 4 replicas fit now" in done.stderr
    assert "[REPLICAS_EXCEED_ROOM]" in done.stderr
    until(lambda: settled(cluster.pods(space), 4), "the four pods")
    assert phases(cluster.pods(space)) == {"Running": 2, "Pending": 2}


def settled(pods, count):
    """Whether all are there, and each runs or was looked at by the scheduler in vain."""
    return len(pods) == count and all(each["status"]["phase"] != "Pending" or reason(each) for each in pods)


def phases(pods):
    return Counter(each["status"]["phase"] for each in pods)


def test_what_the_rules_refuse_is_not_told_by_capacity_too(cluster, space):
    """The API server shows one refusal of several, so our log is asked what each endpoint has said."""
    body = pod("broken", cluster.pool(), 5)
    body["metadata"]["annotations"] = {KEY: "{"}
    done = apply(cluster, space, body)
    assert done.returncode == 1
    assert "validate-pods.numa-admission.io" in done.stderr
    assert "CAPACITY_" not in done.stderr
    body["metadata"]["annotations"] = {}
    assert apply(cluster, space, body).returncode == 1
    # The second pod's line proves that the log would have shown the first one's.
    until(lambda: any(line.get("endpoint") == "capacity" for line in cluster.log_lines(space)), "the log")
    said = [line["endpoint"] for line in cluster.log_lines(space) if "endpoint" in line]
    assert "validate" in said
    assert said.count("capacity") == 1


@pytest.mark.parametrize(
    ("sizes", "running"),
    [
        pytest.param([1] * 200, {1: 8}, id="one-gpu"),
        pytest.param([4] * 200, {4: 2}, id="four-gpus"),
        pytest.param([3] * 200, {3: 2}, id="three-gpus"),
    ],
)
def test_200_parallel_creates_for_the_last_8_gpus(cluster, space, sizes, running):
    """Exactly what fits runs; the others wait or are refused at create, and no kubelet refuses one."""
    pool = cluster.pool()

    def create(at):
        return cluster.create(space, pod(f"p{at}", pool, sizes[at])).status

    with ThreadPoolExecutor(50) as many:
        answers = Counter(many.map(create, range(len(sizes))))
    assert set(answers) <= {201, 403}
    stored = answers[201]
    until(lambda: settled(cluster.pods(space), stored), "each pod to run or to be looked at")
    until(lambda: running_by_size(cluster.pods(space)) == running, f"{running} to run")
    # Those that wait are tried again when others are bound: let that come to rest, then count once more.
    until(lambda: settled(cluster.pods(space), stored), "each pod to run or to be looked at")
    pods = cluster.pods(space)
    assert running_by_size(pods) == running
    assert set(phases(pods)) <= {"Running", "Pending"}
    assert cluster.admission_errors() == []


def running_by_size(pods):
    return Counter(
        int(each["spec"]["containers"][0]["resources"]["limits"][GPU])
        for each in pods
        if each["status"]["phase"] == "Running"
    )
