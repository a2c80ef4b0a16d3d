"""Knowing when the API server has taken in a change of webhook configurations.

It learns of them by a watch, a moment after the change was stored. A watch keeps the order, so once a later
configuration of the same kind is seen to work, everything before it is in force, deletions included.
"""

import uuid
from typing import Any

from controlplane.binaries import APISERVER
from controlplane.plane import ControlPlane
from controlplane.processes import wait_until

SETTLE_SECONDS = 30.0
LABEL = "controlplane.test/canary"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def wait_for_webhooks(plane: ControlPlane) -> None:
    """Return once all changes of webhook configurations that were stored before are in force, at one API server."""
    for kind in KINDS:
        _wait_for_kind(plane, kind)


def _wait_for_kind(plane: ControlPlane, kind: str) -> None:
    token = f"canary-{uuid.uuid4().hex[:12]}"
    collection = f"{REGISTRATION}/{kind.lower()}s"
    plane.api("POST", collection, _canary(kind, token)).wanted()
    try:
        wait_until(
            lambda: _refuses(plane, token),
            what=f"the canary {kind}",
            within_seconds=SETTLE_SECONDS,
            running=plane.fleet.get(APISERVER),
        )
    finally:
        plane.api("DELETE", f"{collection}/{token}").wanted()


def _refuses(plane: ControlPlane, token: str) -> bool:
    """Whether the API server tries to call the canary, which nobody serves, for an object that only it selects."""
    bait = {"metadata": {"name": token, "labels": {LABEL: token}}}
    answer = plane.api("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", bait)
    return answer.status >= 500 and token.encode() in answer.body


def _canary(kind: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": token},
        "webhooks": [
            {
                "name": f"{token}.controlplane.test",
                # Nobody listens on port 1: the call fails at once, and so does the request.
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ],
                "objectSelector": {"matchLabels": {LABEL: token}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
