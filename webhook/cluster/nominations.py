"""Nominating a pod to a node: a patch of ``pods/status`` that is stored only if the pod is still the one we saw."""

import enum
from dataclasses import dataclass

from webhook.cluster.client import MERGE_PATCH, Client
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

    UID and resource version in a patch are preconditions: the API server answers 409 where either differs.
    """
    metadata: dict[str, str] = {"uid": wanted.uid}
    if wanted.resource_version:
        metadata["resourceVersion"] = str(wanted.resource_version)
    body = {"metadata": metadata, "status": {"nominatedNodeName": wanted.node}}
    path = f"/api/v1/namespaces/{wanted.namespace}/pods/{wanted.name}/status"
    try:
        answer = client.patch(path, body, MERGE_PATCH, timeout_seconds=PATCH_SECONDS)
    except Conflict:
        return Nominated(Outcome.CHANGED)
    except NotFound:
        return Nominated(Outcome.GONE)
    except Forbidden:
        return Nominated(Outcome.FORBIDDEN)
    except Rejected:
        return Nominated(Outcome.REJECTED)
    except ClusterError:
        return Nominated(Outcome.UNANSWERED)
    version = (answer.get("metadata") or {}).get("resourceVersion")
    return Nominated(Outcome.STORED, int(version) if isinstance(version, str) and version.isdigit() else 0)
