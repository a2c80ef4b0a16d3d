"""Nodes that are rebooted, drained, relabelled, removed and added again: the ledger follows, and nobody fails of it."""

import pytest
from support_guarded import CLASS_LABEL, GPU, MACHINE_LABEL, fresh_namespace, pod, workload
from support_living import Living
from support_truth import until

from webhook.core.ledger.records import AllocatorKind, Certainty


@pytest.fixture
def space(living: Living, request):
    """A fresh namespace; when all that is in it has gone, the ledger holds what a fresh list says."""
    with fresh_namespace(living.plane, request.node.name) as name:
        yield name
    living.converges()


def fill(living, space, pool, *gpus):
    """Have pods of so many GPUs run on the node of a pool; their names are returned."""
    names = [f"{pool}-{at}" for at in range(len(gpus))]
    for name, count in zip(names, gpus, strict=True):
        living.create(space, pod(name, pool, count)).wanted()
        living.runs(space, name)
    return names


def places(living, node):
    """Who holds what there."""
    return {entry.uid: (entry.holding, entry.certainty) for entry in living.view(node.name).bound}


def is_ready(living, node):
    """Whether the ledger takes the node for ready."""
    return living.view(node.name).record.facts.ready


def eligible(living, node):
    """Whether the ledger lets anybody go there."""
    facts = living.view(node.name).record.facts
    return facts.ready and not facts.unschedulable


class TestReboot:
    """The machine boots; its kubelet judges the pods that ran once more."""

    def test_pods_that_are_started_anew_keep_their_places(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        first, second = fill(living, space, pool, 3, 3)
        before = places(living, node)
        assert {certainty for _, certainty in before.values()} == {Certainty.REPLAYED}
        node.say_ready(is_ready=False).wanted()
        until(lambda: not is_ready(living, node), "the ledger to hear that the node is away")
        node.reboot().wanted()
        for name in (first, second):
            until(lambda name=name: _restarts(living, space, name) == 1, f"{name} to be started anew")
        node.say_ready(is_ready=True).wanted()
        until(lambda: is_ready(living, node), "the ledger to hear that it is back")
        assert places(living, node) == before
        assert not living.view(node.name).is_guessed
        # One GPU is left on each NUMA node; the guard knows it still.
        assert living.create(space, pod("two", pool, 2)).status == 403
        living.takes(space, pod("one", pool, 1))

    def test_a_plugin_that_comes_late_costs_the_pods_that_ran_and_keeps_nobody_out_afterwards(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        body = workload("Deployment", "late", pool, 4, replicas=2)
        living.plane.api("POST", f"/apis/apps/v1/namespaces/{space}/deployments", body).wanted()
        until(lambda: _phases(living, space) == ["Running", "Running"], "both replicas")
        node.say_ready(is_ready=False).wanted()
        until(lambda: not is_ready(living, node), "the ledger to hear that the node is away")
        node.reboot(unplugged=(GPU,)).wanted()
        until(lambda: _phases(living, space).count("Failed") == 2, "the kubelet to refuse both")
        assert {item["reason"] for item in _lost(living, space)} == {"UnexpectedAdmissionError"}
        node.say_ready(is_ready=True).wanted()
        until(lambda: living.view(node.name).record.allocatable[GPU] == 0, "the ledger to hear of the missing GPUs")
        # Their successors wait, for the node has no GPU to give.
        until(lambda: _phases(living, space).count("Pending") == 2, "the successors")
        assert living.view(node.name).bound == ()
        assert not living.fits(space, pod("probe", pool, 1))
        node.plug().wanted()
        until(lambda: _phases(living, space).count("Running") == 2, "the successors to run")
        living.no_admission_errors(space)
        living.converges()

    def test_an_equal_pod_is_not_turned_back_for_what_a_reboot_did(self, living, space):
        """The refusal of a pod that had run tells of the boot, and nothing of who fits there."""
        pool = living.pool()
        node = living.node(pool)
        fill(living, space, pool, 3, 4)
        node.reboot(unplugged=(GPU,)).wanted()
        until(lambda: len(_lost(living, space)) == 2, "the kubelet to refuse both")
        node.plug().wanted()
        until(lambda: living.view(node.name).record.allocatable[GPU] == 8, "the ledger to hear of the GPUs")
        living.create(space, pod("equal", pool, 4)).wanted()
        living.runs(space, "equal")
        assert not living.is_turned_back(space, "equal")
        assert not [line for line in living.plane.get(f"/api/v1/namespaces/{space}/events")["items"] if _tells(line)]
        living.converges()

    def test_a_device_that_did_not_come_back_costs_the_pod_that_had_it(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        fill(living, space, pool, 4, 4)
        # GPUs 0 to 3 are those of NUMA node 0.
        node.fall_ill({GPU: ("0",)}).wanted()
        until(lambda: living.view(node.name).record.allocatable[GPU] == 7, "the ledger to hear of the ill GPU")
        node.reboot().wanted()
        until(lambda: sorted(_phases(living, space)) == ["Failed", "Running"], "the kubelet's verdicts")
        until(lambda: len(living.view(node.name).bound) == 1, "the ledger to let the lost pod go")
        living.takes(space, pod("rest", pool, 3))


def _restarts(living, space, name):
    return sum(each["restartCount"] for each in living.get(space, name)["status"].get("containerStatuses", ()))


def _phases(living, space):
    return [item["status"]["phase"] for item in living.pods(space)]


def _lost(living, space):
    return [line for line in living.hollow.lines("lost") if line["pod"].startswith(f"{space}/")]


def _tells(event):
    return "BINDING_WOULD_FAIL" in event.get("message", "")


class TestDrain:
    """Cordoned, and its pods evicted."""

    def test_its_pods_go_elsewhere_and_come_back_when_it_is_open_again(self, living, space):
        one, other = living.pool(), living.pool()
        node = living.node(one)
        living.node(other).cordon(is_closed=True).wanted()
        until(lambda: not eligible(living, living.node(other)), "the ledger to hear of the closed node")
        body = workload("Deployment", "moves", one, 4, replicas=2)
        body["spec"]["template"]["spec"] |= _between(one, other)
        living.plane.api("POST", f"/apis/apps/v1/namespaces/{space}/deployments", body).wanted()
        until(lambda: _nodes(living, space) == [node.name] * 2, "both replicas")
        living.node(other).cordon(is_closed=False).wanted()
        living.plane.kubectl("drain", node.name, "--force", "--ignore-daemonsets", "--timeout=60s", check=True)
        until(lambda: _nodes(living, space) == [f"{other}-0"] * 2, "both on the other node")
        until(lambda: living.view(node.name).bound == (), "the ledger to see the node empty")
        assert not eligible(living, node)
        assert not living.fits(space, pod("probe", one, 1))
        living.plane.kubectl("uncordon", node.name, check=True)
        until(lambda: living.fits(space, pod("probe", one, 4)), "the ledger to see it open")
        fill(living, space, one, 4, 4)
        living.no_admission_errors(space)
        living.converges()


def _between(*pools):
    term = {"matchExpressions": [{"key": CLASS_LABEL, "operator": "In", "values": list(pools)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}


def _nodes(living, space):
    return [item["spec"].get("nodeName") for item in living.pods(space) if item["status"]["phase"] == "Running"]


class TestLabels:
    """Labels decide who hands out a node's NUMA nodes, and which machine it is."""

    def test_the_schedule_label_taken_off_and_put_back(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        uids = [living.entry(space, name).uid for name in fill(living, space, pool, 3, 2)]
        for value, kind in (("topology", AllocatorKind.SCHEDULER), (None, AllocatorKind.KUBELET)) * 2:
            node.label({"ack.node.gpu.schedule": value}).wanted()
            until(lambda kind=kind: living.view(node.name).record.allocator is kind, f"the label {value}")
            assert [entry.uid for entry in living.view(node.name).bound] == uids
            assert living.view(node.name).bound_totals[GPU] == 5
            living.converges()
        living.takes(space, pod("one", pool, 1))

    def test_the_topology_policy_label_changed_and_taken_off(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        fill(living, space, pool, 3, 3)
        for policy in ("BestEffort", "SingleNUMANode", None):
            node.label({"node.koordinator.sh/numa-topology-policy": policy}).wanted()
            until(lambda policy=policy: living.view(node.name).record.machine.node_policy == (policy or ""), policy)
            assert living.view(node.name).bound_totals[GPU] == 6
            living.converges()
        living.takes(space, pod("one", pool, 1))

    def test_the_label_of_the_machine_class_taken_off_and_put_back(self, living, space):
        """Meanwhile nobody knows the machine: what runs there is counted all the same."""
        pool = living.pool()
        node = living.node(pool)
        fill(living, space, pool, 3)
        (key,) = MACHINE_LABEL
        node.label({key: None}).wanted()
        until(lambda: living.view(node.name).record.machine is None, "the ledger to lose the machine")
        assert living.view(node.name).bound_totals[GPU] == 3
        living.create(space, pod("blind", pool, 4)).wanted()
        living.runs(space, "blind")
        living.converges()
        node.label(MACHINE_LABEL).wanted()
        until(lambda: living.view(node.name).record.machine is not None, "the ledger to know the machine again")
        assert living.view(node.name).bound_totals[GPU] == 7
        living.takes(space, pod("one", pool, 1))


class TestRemoved:
    """A node object that goes and comes back under its name, while its kubelet runs on."""

    def test_its_pods_are_charged_again_when_it_is_back(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        names = fill(living, space, pool, 4, 3)
        stored = node.remove()
        until(lambda: living.book.view(node.name) is None, "the ledger to let the node go")
        # Its pods wait for it: nothing of them is charged anywhere.
        assert all(living.entry(space, name).holding is None for name in names)
        node.add_again(stored)
        until(lambda: living.book.view(node.name) is not None, "the ledger to have the node again")
        assert living.view(node.name).bound_totals[GPU] == 7
        living.takes(space, pod("last", pool, 1))

    def test_pods_that_end_while_it_is_away_do_not_come_back_with_it(self, living, space):
        pool = living.pool()
        node = living.node(pool)
        names = fill(living, space, pool, 4, 4)
        stored = node.remove()
        until(lambda: living.book.view(node.name) is None, "the ledger to let the node go")
        uid = living.get(space, names[0])["metadata"]["uid"]
        living.delete(space, names[0], grace_seconds=0)
        until(lambda: living.book.entry(uid) is None, "the ledger to let the pod go")
        node.add_again(stored)
        until(lambda: living.book.view(node.name) is not None, "the ledger to have the node again")
        assert living.view(node.name).bound_totals[GPU] == 4
        living.takes(space, pod("next", pool, 4))
