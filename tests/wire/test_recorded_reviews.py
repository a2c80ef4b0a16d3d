"""Every review recorded from a real API server decodes to the right ``Ask``."""

from pathlib import Path

import pytest

from webhook.core.pod import Binding, Pod, Workload
from webhook.wire.reviews import decode_review

RECORDED = Path(__file__).parents[1] / "recorded"

NO = type(None)
CONTROLLER = "system:serviceaccount:kube-system:"
SCHEDULER = "system:kube-scheduler"
KUBELET = "system:node:gpu-1"
DEPLOYMENT_POD = "tgi-numa-deployment-basic-5f8464f4fc-"

# file, operation, resource, subresource, name, user, type of subject, type of old, dry run
ROWS = [
    ("pod-create-apply.mutating", "CREATE", "pods", "", "pod-apply", "alice", Pod, NO, False),
    ("pod-create-apply.validating", "CREATE", "pods", "", "pod-apply", "alice", Pod, NO, False),
    ("pod-create-dryrun.mutating", "CREATE", "pods", "", "pod-dry", "alice", Pod, NO, True),
    ("pod-create-dryrun.validating", "CREATE", "pods", "", "pod-dry", "alice", Pod, NO, True),
    ("pod-create-server-side-apply.mutating", "CREATE", "pods", "", "numa-seed", "alice", Pod, NO, False),
    ("pod-create-generatename.mutating", "CREATE", "pods", "", "", "alice", Pod, NO, False),
    ("pod-create-generatename.validating", "CREATE", "pods", "", "pod-gen-26pvp", "alice", Pod, NO, False),
    ("pod-create-replicaset.mutating", "CREATE", "pods", "", "", CONTROLLER + "replicaset-controller", Pod, NO, False),
    (
        "pod-create-replicaset.validating",
        "CREATE",
        "pods",
        "",
        DEPLOYMENT_POD + "74km8",
        CONTROLLER + "replicaset-controller",
        Pod,
        NO,
        False,
    ),
    (
        "pod-create-statefulset.mutating",
        "CREATE",
        "pods",
        "",
        "sts1-0",
        CONTROLLER + "statefulset-controller",
        Pod,
        NO,
        False,
    ),
    (
        "pod-create-daemonset.validating",
        "CREATE",
        "pods",
        "",
        "ds1-sm2n5",
        CONTROLLER + "daemon-set-controller",
        Pod,
        NO,
        False,
    ),
    ("pod-create-job.validating", "CREATE", "pods", "", "job1-xwtfj", CONTROLLER + "job-controller", Pod, NO, False),
    ("pod-create-gated.validating", "CREATE", "pods", "", "gated", "alice", Pod, NO, False),
    ("pod-create-nodename.validating", "CREATE", "pods", "", "nodename", "alice", Pod, NO, False),
    ("pod-create-limits-only.validating", "CREATE", "pods", "", "limitonly", "alice", Pod, NO, False),
    ("pod-create-podlevel-resources.validating", "CREATE", "pods", "", "podlevel", "alice", Pod, NO, False),
    ("pod-create-limitrange.mutating", "CREATE", "pods", "", "d-limitgpu", "kubernetes-admin", Pod, NO, False),
    ("pod-create-invalid-requests-over-limits.mutating", "CREATE", "pods", "", "bad", "alice", Pod, NO, False),
    ("pod-create-invalid-half-gpu.mutating", "CREATE", "pods", "", "halfgpu", "alice", Pod, NO, False),
    ("pod-update-label.validating", "UPDATE", "pods", "", "pod-apply", "alice", Pod, Pod, False),
    ("pod-update-remove-numa-annotation.validating", "UPDATE", "pods", "", "pod-apply", "alice", Pod, Pod, False),
    ("pod-update-change-numa-annotation.validating", "UPDATE", "pods", "", "pod-apply", "alice", Pod, Pod, False),
    ("pod-update-image.validating", "UPDATE", "pods", "", "pod-apply", "alice", Pod, Pod, False),
    ("pod-update-remove-scheduling-gate.validating", "UPDATE", "pods", "", "gated", "alice", Pod, Pod, False),
    ("pod-update-cpu-invalid.mutating", "UPDATE", "pods", "", "pod-apply", "alice", Pod, Pod, False),
    ("pod-status-update-kubelet.validating", "UPDATE", "pods", "status", "pod-apply", KUBELET, NO, NO, False),
    (
        "pod-ephemeralcontainers.validating",
        "UPDATE",
        "pods",
        "ephemeralcontainers",
        "pod-apply",
        "alice",
        Pod,
        Pod,
        False,
    ),
    ("pod-resize.validating", "UPDATE", "pods", "resize", "pod-apply", "alice", Pod, Pod, False),
    ("pod-resize-fractional.validating", "UPDATE", "pods", "resize", "pod-apply", "alice", Pod, Pod, False),
    ("pod-resize-requests-only.validating", "UPDATE", "pods", "resize", "pod-apply", "alice", Pod, Pod, False),
    ("pod-binding.mutating", "CREATE", "pods", "binding", "pod-apply", SCHEDULER, Binding, NO, False),
    ("pod-binding.validating", "CREATE", "pods", "binding", "pod-apply", SCHEDULER, Binding, NO, False),
    (
        "pod-eviction.validating",
        "CREATE",
        "pods",
        "eviction",
        DEPLOYMENT_POD + "j7vhl",
        "kubernetes-admin",
        NO,
        NO,
        False,
    ),
    ("pod-eviction-pending.validating", "CREATE", "pods", "eviction", "toobig", "alice", NO, NO, False),
    ("pod-delete-graceful-user.validating", "DELETE", "pods", "", "pod-apply", "alice", NO, Pod, False),
    ("pod-delete-final-kubelet.validating", "DELETE", "pods", "", "pod-apply", KUBELET, NO, Pod, False),
    ("pod-delete-final-kubelet-2.validating", "DELETE", "pods", "", "pod-apply", KUBELET, NO, Pod, False),
    ("pod-delete-force-user.validating", "DELETE", "pods", "", "numa-seed", "alice", NO, Pod, False),
    ("pod-delete-dryrun.validating", "DELETE", "pods", "", "gated", "alice", NO, Pod, True),
    ("pod-delete-preemption.validating", "DELETE", "pods", "", "low", SCHEDULER, NO, Pod, False),
    (
        "pod-delete-namespace-deletion.validating",
        "DELETE",
        "pods",
        "",
        "q1",
        CONTROLLER + "namespace-controller",
        NO,
        Pod,
        False,
    ),
    (
        "deployment-create.validating",
        "CREATE",
        "apps/deployments",
        "",
        "tgi-numa-deployment-basic",
        "alice",
        Workload,
        NO,
        False,
    ),
    (
        "deployment-scale.validating",
        "UPDATE",
        "apps/deployments",
        "scale",
        "tgi-numa-deployment-basic",
        "alice",
        NO,
        NO,
        False,
    ),
    (
        "replicaset-create.validating",
        "CREATE",
        "apps/replicasets",
        "",
        "tgi-numa-deployment-basic-5f8464f4fc",
        CONTROLLER + "deployment-controller",
        Workload,
        NO,
        False,
    ),
    ("statefulset-create.validating", "CREATE", "apps/statefulsets", "", "sts1", "alice", Workload, NO, False),
    ("daemonset-create.validating", "CREATE", "apps/daemonsets", "", "ds1", "alice", Workload, NO, False),
    ("job-create.validating", "CREATE", "batch/jobs", "", "job1", "alice", Workload, NO, False),
    ("cronjob-create.validating", "CREATE", "batch/cronjobs", "", "cron1", "alice", Workload, NO, False),
    (
        "job-create-by-cronjob.validating",
        "CREATE",
        "batch/jobs",
        "",
        "cron1-29932698",
        CONTROLLER + "cronjob-controller",
        Workload,
        NO,
        False,
    ),
]


def _decoded(name):
    return decode_review((RECORDED / f"{name}.json").read_bytes())


def _ask(name):
    return _decoded(name).ask


@pytest.mark.parametrize(
    "row",
    ROWS,
    ids=[row[0] for row in ROWS],
)
def test_a_recorded_review(row):
    name, operation, resource, subresource, object_name, user, subject, old, dry_run = row
    review = _decoded(name)
    ask = review.ask
    assert (ask.operation.value, ask.resource, ask.subresource) == (operation, resource, subresource)
    assert (ask.name, ask.username, ask.dry_run) == (object_name, user, dry_run)
    assert (type(ask.subject), type(ask.old)) == (subject, old)
    assert (review.raw_object is None) == (operation == "DELETE")
    assert ask.namespace
    assert len(ask.review_uid) == 36
    for parsed in (ask.subject, ask.old):
        assert getattr(parsed, "malformed", ()) == ()
        assert getattr(parsed, "namespace", ask.namespace) == ask.namespace


def test_every_file_has_a_row():
    assert {path.stem for path in RECORDED.glob("*.json")} == {row[0] for row in ROWS}


def test_every_file_stands_in_the_index():
    index = (RECORDED / "README.md").read_text()
    assert [path.name for path in RECORDED.glob("*.json") if f"| {path.name} |" not in index] == []


def test_a_uid_is_there_for_validating_hooks_only():
    assert _ask("pod-create-apply.mutating").subject.uid == ""
    assert len(_ask("pod-create-apply.validating").subject.uid) == 36


def test_a_name_is_absent_where_the_mutating_hook_sees_only_its_beginning():
    pod = _ask("pod-create-replicaset.mutating").subject
    assert (pod.name, pod.generate_name) == ("", DEPLOYMENT_POD)
    assert (pod.owner_kind, pod.owner_name) == ("ReplicaSet", DEPLOYMENT_POD[:-1])


def test_the_pod_of_a_daemonset_is_tied_by_a_field():
    pod = _ask("pod-create-daemonset.validating").subject
    [term] = pod.required_terms
    assert (term.expressions, [field.key for field in term.fields]) == ((), ["metadata.name"])
    assert not term.is_empty
    assert len(pod.tolerations) == 6


def test_a_gated_pod():
    assert _ask("pod-create-gated.validating").subject.scheduling_gates != ()
    ask = _ask("pod-update-remove-scheduling-gate.validating")
    assert (ask.old.scheduling_gates != (), ask.subject.scheduling_gates) == (True, ())


def test_preset_node_and_pod_level_resources():
    assert _ask("pod-create-nodename.validating").subject.node_name == "gpu-1"
    pod = _ask("pod-create-podlevel-resources.validating").subject
    assert {name: str(amount) for name, amount in pod.pod_limits.items()} == {"cpu": "4"}
    assert [container.limits for container in pod.containers] == [{}]


def test_a_half_card_and_a_fractional_resize():
    [container] = _ask("pod-create-invalid-half-gpu.mutating").subject.containers
    assert str(container.limits["aliyun.com/gpu"]) == "500m"
    ask = _ask("pod-resize-fractional.validating")
    assert str(ask.subject.containers[0].limits["cpu"]) == "25500m"
    assert str(ask.old.containers[0].limits["cpu"]) == "26"


def test_a_binding_names_pod_uid_and_node():
    binding = _ask("pod-binding.validating").subject
    assert (binding.namespace, binding.pod_name, binding.node_name) == ("gpu", "pod-apply", "gpu-1")
    assert binding.pod_uid == _ask("pod-create-apply.validating").subject.uid


def test_the_guides_deployment_holds_its_policy_in_the_older_home():
    [template] = _ask("deployment-create.validating").subject.templates
    [spec] = template.pod.numa_specs
    assert (spec.key, spec.policy, template.path) == (
        "scheduling.alibabacloud.com/resource-spec",
        "SingleNUMANode",
        "spec.template",
    )


def test_a_finished_deletion_shows_its_mark():
    assert not _ask("pod-delete-graceful-user.validating").old.is_deleting
    assert _ask("pod-delete-final-kubelet.validating").old.is_deleting


def test_a_debug_container_stands_last():
    kinds = [container.kind.name for container in _ask("pod-ephemeralcontainers.validating").subject.containers]
    assert kinds == ["APP", "EPHEMERAL"]
