"""A stored pod's JSON, spec and status, into the ledger's ``PodRecord``."""

from datetime import datetime

from webhook.core.demand import shared
from webhook.core.effective import demand_of
from webhook.core.ledger.records import Confirmed, Eligibility, PodRecord
from webhook.core.pod import Malformed, Pod
from webhook.wire.pods import read_pod
from webhook.wire.shapes import JsonMap, read_list, read_map, read_text


def read_pod_record(raw: object, *, pod: Pod | None = None, confirmed: Confirmed | None = None) -> PodRecord:
    """Return the record of a pod as a list, a watch or a dump shows it; nothing is raised for any JSON value.

    Args:
        raw: the pod's JSON.
        pod: the same pod, where it has been read already.
        confirmed: the place that another source tells.
    """
    pod = read_pod(raw) if pod is None else pod
    faults: list[Malformed] = []  # whatever is malformed stands in ``pod.malformed`` or is nobody's grief
    whole = read_map(raw, "", faults)
    metadata = read_map(whole.get("metadata"), "metadata", faults)
    status = read_map(whole.get("status"), "status", faults)
    reason = _unscheduled_reason(status, faults)
    phase = pod.phase or "Pending"
    return PodRecord(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        demand=shared(demand_of(pod)),
        eligibility=Eligibility.of(pod),
        node_name=pod.node_name,
        phase=phase,
        is_deleting=pod.is_deleting,
        is_gated=bool(pod.scheduling_gates),
        is_unschedulable=reason == "Unschedulable",
        is_refused_at_binding=reason == "SchedulerError",
        nominated_node=read_text(status.get("nominatedNodeName"), "status.nominatedNodeName", faults),
        is_answered=phase != "Pending" or bool(status.get("containerStatuses") or status.get("initContainerStatuses")),
        created_seconds=seconds_of(metadata.get("creationTimestamp")),
        bound_seconds=_bound_seconds(status, faults) if pod.node_name else 0.0,
        scheduler_name=pod.scheduler_name or "default-scheduler",
        priority=pod.priority,
        confirmed=confirmed,
        resource_version=_version(metadata.get("resourceVersion")),
        failure_reason=read_text(status.get("reason"), "status.reason", faults),
        owner=f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else "",
        volume_claims=pod.volume_claims,
    )


def seconds_of(timestamp: object) -> float:
    """Return the seconds since 1970 of an API timestamp such as ``2025-01-31T12:00:00Z``; 0 where it is none."""
    if not isinstance(timestamp, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo is not None else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _unscheduled_reason(status: JsonMap, faults: list[Malformed]) -> str:
    for condition in read_list(status.get("conditions"), "status.conditions", faults):
        if isinstance(condition, dict) and condition.get("type") == "PodScheduled":
            reason = condition.get("reason")
            return reason if condition.get("status") == "False" and isinstance(reason, str) else ""
    return ""


def _bound_seconds(status: JsonMap, faults: list[Malformed]) -> float:
    for condition in read_list(status.get("conditions"), "status.conditions", faults):
        if isinstance(condition, dict) and condition.get("type") == "PodScheduled":
            return seconds_of(condition.get("lastTransitionTime")) if condition.get("status") == "True" else 0.0
    return 0.0


def _version(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20 else 0
