"""Which pods would be refused if they were created again now: judged as the webhooks would, told by owner and rule.

A running pod is not what its author wrote: the scheduler and the API server have added to it. So a pod is first taken
back to what a controller would create again, then repaired as mutate would, then judged as validate would.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.cli.sarif import sarif_log
from webhook.core.decide import decide_mutate
from webhook.core.decisions import Ask, Operation
from webhook.core.dialect import Stage
from webhook.core.findings import Finding, Severity
from webhook.core.judge import judge_pod, judge_workload
from webhook.core.modes import Rules
from webhook.core.plain_text import plain
from webhook.core.pod import Pod, Workload
from webhook.core.spelling import counted
from webhook.wire.objects import read_objects
from webhook.wire.patches import PatchError, apply_patch, build_patch
from webhook.wire.pods import read_pod

RawObject = Mapping[str, Any]
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_ENDED_JOB: Final = frozenset({"Complete", "Failed"})
NEVER_JUDGED: Final = frozenset({"kube-system"})
"""Namespaces that no configuration of ours ever matches."""
_WRITTEN_LATER: Final = ("nodeName", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class Row:
    """One rule that speaks against one owner."""

    namespace: str
    owner_kind: str
    owner_name: str
    """Of the workload that makes the pods; of the pod itself where nothing makes it again."""
    finding: Finding
    pods: tuple[str, ...]
    """Running pods to which it applies; empty where only the workload's template was judged."""

    @property
    def owner(self) -> str:
        """The owner as ``namespace/kind/name``."""
        return f"{self.namespace}/{self.owner_kind}/{self.owner_name}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What was looked at and what was found, in the order of owners and rules."""

    rows: tuple[Row, ...]
    pods: int
    workloads: int

    @property
    def refused(self) -> int:
        """How many owners would be refused."""
        return len({row.owner for row in self.rows if row.finding.severity is Severity.ERROR})

    def without_warnings(self) -> "Audit":
        """Return the audit without the rows that refuse nothing."""
        return replace(self, rows=tuple(row for row in self.rows if row.finding.severity is Severity.ERROR))


def audit_objects(objects: Iterable[RawObject], rules: Rules, left_out: Collection[str] = NEVER_JUDGED) -> Audit:
    """Return the audit of ``objects``: pods and workloads in any order, other kinds are passed over.

    So are namespaces that are ``left_out``, and what has ended: nothing makes its pods again.
    """
    given = [raw for raw in objects if _text(_map(raw.get("metadata")).get("namespace")) not in left_out]
    owners = _Owners(given)
    pods = workloads = 0
    found: dict[tuple[str, str, str, str, str], tuple[Finding, list[str]]] = {}
    for raw in given:
        for each in read_objects(raw):
            owner = owners.of(raw, each.kind, each.namespace, each.name)
            match each.subject:
                case Pod() as pod:
                    if pod.is_mirror or _has_ended(raw):
                        continue
                    pods += 1
                    findings, name = findings_when_created_again(raw, rules, each.namespace), each.name
                case Workload() as workload:
                    if owner != (each.kind, each.name) or _has_ended(raw):
                        continue  # its owner's template is judged
                    workloads += 1
                    found_in = judge_workload(workload, rules, stage=Stage.TEMPLATE, namespace=each.namespace)
                    findings, name = tuple(_of_the_pod(finding, workload) for finding in found_in), ""
                case _:
                    continue
            for finding in findings:
                _, names = found.setdefault((each.namespace, *owner, finding.code, finding.path), (finding, []))
                names.extend([name] if name else [])
    rows = tuple(
        Row(namespace, kind, owner_name, finding, tuple(sorted(names)))
        for (namespace, kind, owner_name, _, _), (finding, names) in sorted(found.items(), key=lambda item: item[0])
    )
    return Audit(rows, pods, workloads)


def findings_when_created_again(raw: RawObject, rules: Rules, namespace: str) -> tuple[Finding, ...]:
    """Return what validate would say of the pod if it were created now, after mutate has repaired it."""
    fresh = as_created_again(raw, rules)
    pod = read_pod(fresh)
    ask = Ask(Operation.CREATE, namespace, "", pod, resource="pods")
    edits = decide_mutate(ask, rules).edits
    if edits:
        with suppress(PatchError):  # the server lets such a pod through unrepaired, too
            pod = read_pod(apply_patch(fresh, build_patch(fresh, edits)))
    return judge_pod(pod, rules, stage=Stage.CREATE, namespace=namespace)


def as_created_again(raw: RawObject, rules: Rules) -> dict[str, Any]:
    """Return the pod without what was written after its creation: the node, results, status."""
    metadata, spec = dict(_map(raw.get("metadata"))), dict(_map(raw.get("spec")))
    results = rules.vocabulary.results
    annotations = {key: value for key, value in _map(metadata.get("annotations")).items() if key not in results}
    metadata["annotations"] = annotations
    for field in _WRITTEN_LATER:
        spec.pop(field, None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class _Owners:
    """Who makes an object again: its topmost owner that is among the objects."""

    def __init__(self, objects: Sequence[RawObject]) -> None:
        self._owner_of = {self._key(raw): owner for raw in objects if (owner := _controller(raw)) is not None}

    def of(self, raw: RawObject, kind: str, namespace: str, name: str) -> tuple[str, str]:
        """Return kind and name of the topmost owner; of the object itself where it has none."""
        at = _controller(raw) or (kind, name)
        for _ in range(8):  # a chain of owners is two long; a forged circle ends
            above = self._owner_of.get((namespace, *at))
            if above is None:
                break
            at = above
        return at

    @staticmethod
    def _key(raw: RawObject) -> tuple[str, str, str]:
        metadata = _map(raw.get("metadata"))
        return _text(metadata.get("namespace")), _text(raw.get("kind")), _text(metadata.get("name"))


def _controller(raw: RawObject) -> tuple[str, str] | None:
    owners = _map(raw.get("metadata")).get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if _map(owner).get("controller") is True:
            return _text(owner.get("kind")), _text(owner.get("name"))
    return None


def _has_ended(raw: RawObject) -> bool:
    """Return whether a pod or a Job is over, by what its kubelet or controller has written."""
    status = _map(raw.get("status"))
    conditions = status.get("conditions")
    done = {
        _text(_map(each).get("type"))
        for each in (conditions if isinstance(conditions, list) else ())
        if _map(each).get("status") == "True"
    }
    return _text(status.get("phase")) in _ENDED or (raw.get("kind") == "Job" and bool(done & _ENDED_JOB))


def _of_the_pod(finding: Finding, workload: Workload) -> Finding:
    """Return the finding with its path from the pod's root, so that template and pods give one row."""
    for template in workload.templates:
        if finding.path.startswith(f"{template.path}."):
            return replace(finding, path=finding.path.removeprefix(f"{template.path}."))
    return finding


def as_table(audit: Audit) -> str:
    """Return the rows as columns, and the totals in the last line."""
    header = ("SEVERITY", "RULE", "NAMESPACE", "OWNER", "PODS", "FINDING")
    lines = [header, *(_cells(row) for row in audit.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    text = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    ]
    return "\n".join([*(text if audit.rows else ()), totals(audit)])


def totals(audit: Audit) -> str:
    """Return what was looked at and how many would be refused, in one sentence."""
    if not audit.pods + audit.workloads:
        return "There is no pod and no workload to look at."
    looked = f"{counted(audit.pods, 'pod')} and {counted(audit.workloads, 'workload')} looked at"
    return f"{looked}: {counted(audit.refused, 'owner')} would be refused at the next restart."


def _cells(row: Row) -> tuple[str, ...]:
    finding = row.finding
    owner = f"{row.owner_kind}/{row.owner_name}"
    cells = (finding.severity.value, finding.code, row.namespace, owner, str(len(row.pods)), finding.sentence)
    return tuple(plain(cell, 4000) for cell in cells)


def as_json(audit: Audit) -> str:
    """Return everything as one JSON object."""
    rows = [
        {
            "namespace": row.namespace,
            "owner": {"kind": row.owner_kind, "name": row.owner_name},
            "code": row.finding.code,
            "family": row.finding.family.value,
            "severity": row.finding.severity.value,
            "path": row.finding.path,
            "message": row.finding.sentence,
            "pods": list(row.pods),
        }
        for row in audit.rows
    ]
    totals_ = {"pods": audit.pods, "workloads": audit.workloads, "refused": audit.refused}
    return json.dumps({"totals": totals_, "findings": rows}, indent=2, ensure_ascii=False)


def as_sarif(audit: Audit) -> str:
    """Return the findings as SARIF 2.1.0; the place is the owner, for a cluster has no files."""
    return sarif_log([row.finding for row in audit.rows], [_result(row) for row in audit.rows])


def _result(row: Row) -> dict[str, object]:
    place = {"fullyQualifiedName": f"{row.owner}#{row.finding.path}", "kind": "resource"}
    return {
        "ruleId": row.finding.code,
        "level": row.finding.severity.value,
        "message": {"text": row.finding.sentence},
        "locations": [{"logicalLocations": [place]}],
        "partialFingerprints": {"owner/v1": f"{row.owner}#{row.finding.code}#{row.finding.path}"},
    }


def objects_in(value: object) -> Iterator[RawObject]:
    """Yield the object that ``value`` is, or each item of the List that it is, each with its kind."""
    if not isinstance(value, Mapping):
        return
    items, kind = value.get("items"), _text(value.get("kind"))
    if not kind.endswith("List") or not isinstance(items, list):
        yield value
        return
    for item in items:
        if isinstance(item, Mapping):
            # A list of the API server says the kind once, above.
            own = {"kind": kind.removesuffix("List"), "apiVersion": value.get("apiVersion")} if kind != "List" else {}
            yield from objects_in({**own, **item})


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
