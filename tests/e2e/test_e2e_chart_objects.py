"""What the chart's smaller objects are for, on the real API server: pod security, disruption budgets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane.binaries import APISERVER
from controlplane.client import MERGE_PATCH
from controlplane.plane import ControlPlane
from controlplane.processes import wait_until
from support_release import CHART, Release

RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
WITHIN_SECONDS = 60.0
SETS = [pytest.param(path, id=path.stem) for path in sorted((CHART / "ci").glob("*.yaml"))]


def rendered_pods(release: Release, values: Path) -> Iterator[dict[str, Any]]:
    """The pods of a value set: those of its Deployments and the one of `helm test`, under the default account."""
    for each in yaml.safe_load_all(release.helm("template", release.name, str(CHART), "--values", str(values))):
        if not each or each["kind"] not in {"Deployment", "Pod"}:
            continue
        template = each if each["kind"] == "Pod" else each["spec"]["template"]
        metadata = {"name": each["metadata"]["name"], "labels": template["metadata"]["labels"]}
        spec = {**template["spec"], "serviceAccountName": "default", "priorityClassName": ""}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("values", SETS)
def test_namespace_for_restricted_pods_takes_ours(release: Release, values: Path) -> None:
    """All but those with the node's network, which Pod Security keeps out whatever else they do."""
    plane = release.plane
    plane.api("PATCH", f"/api/v1/namespaces/{release.namespace}", RESTRICTED, content_type=MERGE_PATCH).wanted()
    pods = list(rendered_pods(release, values))
    assert len(pods) >= 2
    for pod in pods:
        answer = plane.api("POST", f"/api/v1/namespaces/{release.namespace}/pods?dryRun=All", pod)
        if pod["spec"].get("hostNetwork"):
            assert answer.status == 403
            assert "restricted" in answer.json()["message"]
            assert "host" in answer.json()["message"]
        else:
            assert answer.status == 201, answer.body


@pytest.fixture
def broken_pods(release: Release) -> Iterator[list[str]]:
    """Both pods of the rules, bound and running, and not ready: their names."""
    plane = release.plane
    node = f"{release.name}-node"
    plane.add_gpu_node(node, cpu=8, memory="16Gi", gpus={}, labels={"only": release.name})
    release.install("--set", f"rules.nodeSelector.only={release.name},ledger.enabled=false")
    try:
        until(plane, lambda: len(bound(release, node)) == 2, "both pods on the node")
        names = bound(release, node)
        for name in names:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
            path = f"/api/v1/namespaces/{release.namespace}/pods/{name}/status"
            plane.api("PATCH", path, {"status": status}, content_type=STRATEGIC_PATCH).wanted()
        until(plane, lambda: budget(release)["status"].get("expectedPods") == 2, "the budget's own count")
        yield names
    finally:
        plane.api("DELETE", f"/api/v1/nodes/{node}")


def bound(release: Release, node: str) -> list[str]:
    """Names of the release's pods on the node."""
    found = release.plane.get(f"/api/v1/namespaces/{release.namespace}/pods")["items"]
    return [each["metadata"]["name"] for each in found if each["spec"].get("nodeName") == node]


def budget_path(release: Release) -> str:
    """Where the disruption budget of the rules is."""
    return f"/apis/policy/v1/namespaces/{release.namespace}/poddisruptionbudgets/{release.fullname}-rules"


def budget(release: Release) -> Any:
    """The disruption budget of the rules."""
    return release.plane.get(budget_path(release))


def until(plane: ControlPlane, holds: Any, what: str) -> None:
    """Wait for a controller."""
    wait_until(holds, what=what, within_seconds=WITHIN_SECONDS, running=plane.fleet.get(APISERVER))


def evicted(release: Release, name: str) -> int:
    """Status of a trial to evict the pod as `kubectl drain` does."""
    metadata = {"name": name, "namespace": release.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": {"dryRun": ["All"]}}
    return release.plane.api("POST", f"/api/v1/namespaces/{release.namespace}/pods/{name}/eviction", body).status


def test_node_with_broken_pods_of_ours_can_be_drained(release: Release, broken_pods: list[str]) -> None:
    """Pods that do not serve protect nobody; by the API server's default rule they would hold the node for ever."""
    assert [evicted(release, name) for name in broken_pods] == [201, 201]
    usual = {"spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}}
    release.plane.api("PATCH", budget_path(release), usual, content_type=MERGE_PATCH).wanted()
    until(
        release.plane,
        lambda: budget(release)["status"]["observedGeneration"] == budget(release)["metadata"]["generation"],
        "the budget's status",
    )
    assert [evicted(release, name) for name in broken_pods] == [429, 429]
