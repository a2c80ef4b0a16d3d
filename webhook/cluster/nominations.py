"""Nominating a pod to a node: a patch of ``pods/status`` that is stored only if the pod is still the one we saw."""

import enum
from dataclasses import dataclass, replace

from webhook.cluster.client import MERGE_PATCH, Client, Json
from webhook.cluster.errors import ClusterError, Conflict, Forbidden, NotFound, Rejected

PATCH_SECONDS = 5.0


class Outcome(enum.Enum):
    """What became of a nomination."""

    STORED = "stored"
    CHANGED = "changed"
    """The pod is another, or has changed since: nothing was stored."""
    GONE = "gone"
    FORBIDDEN = "forbidden"
    """We may not patch ``pods/status``."""
    REJECTED = "rejected"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Nominated:
    """The outcome, and the pod's version after it (0: unknown)."""

    outcome: Outcome
    resource_version: int = 0


@dataclass(frozen=True, slots=True)
class Nomination:
    """A pod, in the version in which we saw it, and the node that it should try next."""

    uid: str
    namespace: str
    name: str
    resource_version: int
    node: str


def nominate(client: Client, wanted: Nomination) -> Nominated:
    """Return what became of nominating a pod to ``node``; nothing is raised.

    UID and resource version in a patch are preconditions: the API server answers 409 where either differs. Then the
    pod is read, for what we saw of it may be older than the last change of no interest: if it still waits, turned
    back at binding and nominated to no node, it is tried once more in that version.
    """
    answer = _patch(client, wanted)
    if answer.outcome is not Outcome.CHANGED:
        return answer
    try:
        raw = client.get(_path(wanted), timeout_seconds=PATCH_SECONDS)
    except ClusterError as error:
        return Nominated(_outcome_of(error))
    version = _version(raw)
    if not _still_waits(raw, wanted.uid) or version == wanted.resource_version:
        return Nominated(Outcome.CHANGED)
    return _patch(client, replace(wanted, resource_version=version))


def _patch(client: Client, wanted: Nomination) -> Nominated:
    metadata: dict[str, str] = {"uid": wanted.uid}
    if wanted.resource_version:
        metadata["resourceVersion"] = str(wanted.resource_version)
    body = {"metadata": metadata, "status": {"nominatedNodeName": wanted.node}}
    try:
        answer = client.patch(f"{_path(wanted)}/status", body, MERGE_PATCH, timeout_seconds=PATCH_SECONDS)
    except ClusterError as error:
        return Nominated(_outcome_of(error))
    return Nominated(Outcome.STORED, _version(answer))


def _outcome_of(error: ClusterError) -> Outcome:
    match error:
        case Conflict():
            return Outcome.CHANGED
        case NotFound():
            return Outcome.GONE
        case Forbidden():
            return Outcome.FORBIDDEN
        case Rejected():
            return Outcome.REJECTED
        case _:
            return Outcome.UNANSWERED


def _path(wanted: Nomination) -> str:
    return f"/api/v1/namespaces/{wanted.namespace}/pods/{wanted.name}"


def _version(raw: Json) -> int:
    version = (raw.get("metadata") or {}).get("resourceVersion")
    return int(version) if isinstance(version, str) and version.isdigit() else 0


def _still_waits(raw: Json, uid: str) -> bool:
    metadata, spec, status = raw.get("metadata") or {}, raw.get("spec") or {}, raw.get("status") or {}
    if metadata.get("uid") != uid or metadata.get("deletionTimestamp") or spec.get("nodeName"):
        return False
    if status.get("nominatedNodeName"):
        return False
    return any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulerError"
        for condition in status.get("conditions") or ()
    )
