"""The audit: pods as they run are judged as they would be created again, and told by who makes them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from support.sarif import assert_is_sarif

from webhook.cli.audit import audit
from webhook.cli.audit_report import as_created_again, as_json, as_sarif, as_table, audit_objects
from webhook.core.modes import Rules

KEY = "scheduling.alibabacloud.com/numa-topology-spec"
GOOD = {KEY: '{"numaTopologyPolicy":"SingleNUMANode"}', "cpuset-scheduler": "required"}


def pod(name: str, cpu: str = "4", *, annotations: Any = None, owner: Any = None, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi", "aliyun.com/gpu": "1"}
    metadata: dict[str, Any] = {"name": name, "namespace": "team", "annotations": {**GOOD, **(annotations or {})}}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    container = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
    spec = {"containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def workload(kind: str, name: str, cpu: str = "4", owner: Any = None) -> dict[str, Any]:
    made = pod("", cpu)
    metadata: dict[str, Any] = {"name": name, "namespace": "team"}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    template = {"metadata": {"annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}


def errors(*objects: dict[str, Any]) -> set[tuple[str, str, int]]:
    """Owner, rule and number of pods of what would be refused."""
    rows = audit_objects(objects, Rules()).without_warnings().rows
    return {(f"{row.owner_kind}/{row.owner_name}", row.finding.code, len(row.pods)) for row in rows}


def ended_job(condition: str) -> dict[str, Any]:
    status = {"conditions": [{"type": condition, "status": "True"}]}
    return {**workload("Job", "done", "1500m"), "apiVersion": "batch/v1", "status": status}


def in_namespace(namespace: str, one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "metadata": {**one["metadata"], "namespace": namespace}}


CHAIN = (
    workload("Deployment", "train", "1500m"),
    workload("ReplicaSet", "train-1", "1500m", owner=("Deployment", "train")),
    pod("train-1-a", "1500m", owner=("ReplicaSet", "train-1")),
    pod("train-1-b", "1500m", owner=("ReplicaSet", "train-1")),
)


@pytest.mark.parametrize(("objects", "wanted"), [
    pytest.param((pod("a"),), set(), id="a-good-pod"),
    pytest.param((pod("a", "1500m"),), {("Pod/a", "CPU_NOT_WHOLE", 1)}, id="a-pod-of-nobody"),
    pytest.param(CHAIN, {("Deployment/train", "CPU_NOT_WHOLE", 2)}, id="pods-of-a-deployment"),
    pytest.param(CHAIN[::-1], {("Deployment/train", "CPU_NOT_WHOLE", 2)}, id="in-any-order"),
    pytest.param(CHAIN[2:], {("ReplicaSet/train-1", "CPU_NOT_WHOLE", 2)}, id="owner-not-in-the-dump"),
    pytest.param(CHAIN[:1], {("Deployment/train", "CPU_NOT_WHOLE", 0)}, id="workload-without-pods"),
    pytest.param(({**pod("a", "1500m"), "status": {"phase": "Succeeded"}},), set(), id="a-pod-that-ended"),
    pytest.param((pod("a", "1500m", annotations={"kubernetes.io/config.mirror": "x"}),), set(), id="a-mirror-pod"),
    pytest.param((ended_job("Complete"),), set(), id="a-job-that-is-done"),
    pytest.param((ended_job("Failed"),), set(), id="a-job-that-has-failed"),
    pytest.param((ended_job("Suspended"),), {("Job/done", "CPU_NOT_WHOLE", 0)}, id="a-job-that-may-go-on"),
    pytest.param((in_namespace("kube-system", pod("a", "1500m")),), set(), id="where-nobody-is-judged"),
    pytest.param((pod("a", annotations={"cpuset": "{}"}, nodeName="gpu-1"),), set(), id="what-the-scheduler-wrote"),
    pytest.param(({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}},), set(), id="other-kinds"),
])  # fmt: skip
def test_who_would_be_refused(objects: Any, wanted: Any) -> None:
    assert errors(*objects) == wanted


def test_pod_is_taken_back_to_what_would_be_created_again() -> None:
    """And the object that was given stays as it is."""
    given = pod("a", annotations={"cpuset": "{}"}, nodeName="gpu-1")
    before = json.dumps(given)
    fresh = as_created_again(given, Rules())
    assert "nodeName" not in fresh["spec"]
    assert set(fresh["metadata"]["annotations"]) == set(GOOD)
    assert json.dumps(given) == before


def test_three_forms_say_the_same() -> None:
    found = audit_objects(CHAIN, Rules())
    table = as_table(found)
    assert "CPU_NOT_WHOLE" in table
    assert "Deployment/train" in table
    assert table.splitlines()[-1] == ("2 pods and 1 workload looked at: 1 owner would be refused at the next restart.")
    rows = json.loads(as_json(found))["findings"]
    sarif = json.loads(as_sarif(found))
    results = sarif["runs"][0]["results"]
    assert [row["code"] for row in rows] == [result["ruleId"] for result in results]
    assert [row["message"] for row in rows] == [result["message"]["text"] for result in results]
    assert_is_sarif(sarif)
    assert {rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]} == {row["code"] for row in rows}


@pytest.mark.parametrize(("text", "code", "told"), [
    pytest.param(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(CHAIN)}), 1, "CPU_NOT_WHOLE",
                 id="kubectl-get-o-yaml"),
    pytest.param(json.dumps({"apiVersion": "v1", "kind": "PodList",
                             "items": [{k: v for k, v in pod("a", "1500m").items() if k != "kind"}]}),
                 1, "CPU_NOT_WHOLE", id="list-of-the-api-server"),
    pytest.param(yaml.safe_dump(pod("a")), 0, "1 pod and 0 workloads looked at: 0 owners", id="clean"),
    pytest.param("a: [", 3, "no YAML", id="unreadable"),
    pytest.param("", 3, "holds no Kubernetes object", id="empty"),
    pytest.param("# nothing\n---\n", 3, "holds no Kubernetes object", id="comments-only"),
    pytest.param("a: 1\n", 3, "dump.yaml:1: This is no Kubernetes object: it has no kind.", id="something-else"),
    pytest.param("{apiVersion: v1, kind: List, items: []}", 0, "There is no pod and no workload to look at.",
                 id="an-empty-list-of-kubectl"),
    pytest.param("{apiVersion: v1, kind: PodList, items: []}", 0, "There is no pod", id="an-empty-typed-list"),
])  # fmt: skip
def test_command_on_a_dump(tmp_path: Path, text: str, code: int, told: str) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(text)
    result = CliRunner().invoke(audit, [str(dump)])
    assert result.exit_code == code, result.output
    assert told in result.output


def test_settings_of_the_server_count(tmp_path: Path) -> None:
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump(pod("a", "1500m")))
    (tmp_path / "settings.yaml").write_text("rules: {families: {cpu: warn}}\n")
    arguments = [str(tmp_path / "dump.yaml"), "--settings", str(tmp_path / "settings.yaml")]
    result = CliRunner().invoke(audit, arguments)
    assert result.exit_code == 0, result.output
    assert "warning" in result.output


def test_no_cluster_is_one_sentence_after_another(tmp_path: Path) -> None:
    """The client's library ends its own with a period."""
    result = CliRunner().invoke(audit, ["--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 3
    assert ".." not in result.output.replace(str(tmp_path), "")
    assert result.output.endswith(". Give --kubeconfig, or the path of a dump.\n")
