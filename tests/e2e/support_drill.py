"""The outage drill: the table of the chart's README, read as promises, and what really starts while a role is down."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from controlplane.client import MERGE_PATCH
from support_creates import GPU, pod_of
from support_guarded import fresh_namespace
from support_stage import CALLS, ROLES, Stage, webhook_counts

HEADING = "## Who starts while it is down"
COLUMNS = ("plain", "marked", "workloads", "bindings")
HEADS = ("what is down", "pods without our annotations", "pods with them", "workloads", "bindings")
DRILL_LABEL = "drill.test/node"


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    down: str
    """`rules`, `ledger` or `both`."""
    promises: Mapping[str, str]
    """What is tried, and what must come of it: `passes` or `fails`."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that are down."""
        return ROLES if self.down == "both" else (self.down,)


def rows(readme: str) -> list[Row]:
    """Read the table. Raises ValueError where it is not of the form that the drill understands."""
    section = readme.partition(HEADING)[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    if tuple(lines[0]) != HEADS:
        raise ValueError(f"The table's head is {lines[0]}; wanted {HEADS}.")
    return [Row(down, _promises(dict(zip(COLUMNS, cells, strict=True)))) for down, *cells in lines[2:]]


def _promises(cells: Mapping[str, str]) -> dict[str, str]:
    """Every cell by what stands in it, and beside it what its qualifier says of pods that would be refused."""
    promises = {column: _verdict(cell) for column, cell in cells.items()}
    promises["never fits"] = "passes" if "unchecked for room" in cells["plain"] else "fails"
    promises["refused binding"] = "passes" if "unguarded" in cells["bindings"] else "fails"
    return promises


def _verdict(cell: str) -> str:
    if re.match("are refused", cell):
        return "fails"
    if re.match("start|are stored|pass", cell):
        return "passes"
    raise ValueError(f"The cell {cell!r} says neither that something passes nor that it is refused.")


def found_while_down(stage: Stage, row: Row) -> dict[str, str]:
    """Take the row's roles down, try everything, and bring them back; returns what came of each trial."""
    with fresh_namespace(stage.plane, f"drill-{row.down}") as namespace:
        trial = _Trial(stage, namespace, f"drill-{row.down}")
        trial.prepare()
        down = [life for role in row.roles for life in stage.kubelet.lives(role)]
        for life in down:
            life.halt()
        stage.until(lambda: not any(life.is_ready for life in down), "the end of what is down")
        try:
            return trial.found()
        finally:
            for life in down:
                stage.plane.kubectl(
                    "delete", "pod", life.name, "-n", stage.release.namespace, "--wait=false", check=True
                )
            stage.until(lambda: stage.ready() and not any(life.is_alive() for life in down), "the return of all pods")


class _Trial:
    """One node of its own, filled so that a pod which fits by plain counts fits no NUMA node."""

    def __init__(self, stage: Stage, namespace: str, node: str) -> None:
        self._stage = stage
        self._namespace = namespace
        self._node = node

    def prepare(self) -> None:
        """While everything is up: create the pods that are bound later, fill the node, and see the guard refuse."""
        plane = self._stage.plane
        labels = {"machine": "two-by-four", DRILL_LABEL: self._node}
        plane.add_gpu_node(self._node, cpu=32, memory="512Gi", gpus={GPU: 8}, labels=labels)
        taint = {"key": DRILL_LABEL, "effect": "NoSchedule"}
        path = f"/api/v1/nodes/{self._node}"
        plane.api("PATCH", path, {"spec": {"taints": [taint]}}, content_type=MERGE_PATCH).wanted()
        self._stage.until(lambda: self._create("plain", self._gpu_pod("known", 4)) == "passes", "a known node")
        for name, gpus in (("left", 3), ("right", 3), ("crosswise", 2), ("small", 1)):
            assert self._create("by hand", self._gpu_pod(name, gpus)) == "passes", name
        plane.kubectl("delete", "pod", "known", "-n", self._namespace, "--force", check=True)
        for name in ("left", "right"):
            self._stage.until(lambda name=name: self._bind(name) == "passes", f"{name} to be bound")
            self._run(name)
        # The watch brings what the two hold; a binding that was let through could not be tried again.
        crosswise = partial(self._bind, "crosswise", is_dry_run=True)
        self._stage.until(lambda: crosswise() == "fails", "the guard to refuse what no NUMA node can hold")
        assert self._bind("crosswise") == "fails", "the guard lets through what no NUMA node can hold"
        assert self._create("never", pod_of("never", "never")) == "fails"
        assert self._create("broken", pod_of("broken", "broken")) == "fails"

    def found(self) -> dict[str, str]:
        """Try everything once."""
        before = webhook_counts(self._stage.plane, CALLS)
        plain = self._create("plain", pod_of("plain", "plain"))
        assert webhook_counts(self._stage.plane, CALLS) == before, "we were called for a pod that is none of ours"
        return {
            "plain": plain,
            "marked": self._create("aligned", pod_of("aligned", "aligned")),
            "workloads": self._answer("/apis/apps/v1", "deployments", self._workload()),
            "bindings": self._bind("small"),
            "never fits": self._create("never", pod_of("never", "never")),
            "refused binding": self._bind("crosswise"),
        }

    def _gpu_pod(self, name: str, gpus: int) -> dict[str, Any]:
        pod = pod_of("plain", name)
        tolerations = [{"key": DRILL_LABEL, "operator": "Exists"}]
        pod["spec"] |= {
            "nodeSelector": {DRILL_LABEL: self._node},
            "schedulerName": "by-hand",
            "tolerations": tolerations,
        }
        for amounts in pod["spec"]["containers"][0]["resources"].values():
            amounts[GPU] = str(gpus)
        return pod

    def _workload(self) -> dict[str, Any]:
        pod = pod_of("aligned", "aligned")
        template = {"metadata": {**pod["metadata"], "labels": {"app": "a"}}, "spec": pod["spec"]}
        template["spec"] |= {"terminationGracePeriodSeconds": 30}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template}
        return {"metadata": {"name": "aligned"}, "spec": spec}

    def _create(self, _what: str, pod: Mapping[str, Any]) -> str:
        return self._answer("/api/v1", "pods", pod)

    def _run(self, name: str) -> None:
        """Say of a bound pod what its kubelet would: the guard lets few be bound that none has answered for."""
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}/status"
        self._stage.plane.api("PATCH", path, {"status": {"phase": "Running"}}, content_type=MERGE_PATCH).wanted()

    def _bind(self, name: str, *, is_dry_run: bool = False) -> str:
        target = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        resource = f"pods/{name}/binding{'?dryRun=All' if is_dry_run else ''}"
        return self._answer("/api/v1", resource, {"metadata": {"name": name}, "target": target})

    def _answer(self, group: str, resource: str, body: Mapping[str, Any]) -> str:
        path = f"{group}/namespaces/{self._namespace}/{resource}"
        answer = self._stage.plane.api("POST", path, body)
        if answer.status == 201:
            return "passes"
        assert answer.status in (403, 500), answer.body
        return "fails"
