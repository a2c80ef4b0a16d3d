"""Requests as an API server sends them, through the whole corridor of the rules: bytes in, decision out."""

import json

from support.builders import raw_pod

from webhook.core.decide import decide_mutate, decide_validate
from webhook.core.decisions import Decision
from webhook.core.modes import Rules
from webhook.wire.reviews import decode_review

RULES = Rules()
NODE = "gpu-1"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"


def review(new, old=None, *, resource="pods", group="", kind="Pod", version="v1", subresource="", **request) -> bytes:
    """The body of a call about `new`: an UPDATE where there is an `old`, else a CREATE; `request` adds fields."""
    fields = {
        "uid": "705ab4f5-9393-11e8-b7cc-42010a800002",
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "team",
        "name": "example",
        "resource": {"group": group, "version": version, "resource": resource},
        "kind": {"group": group, "version": version, "kind": kind},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": old,
        **({"subResource": subresource} if subresource else {}),
        **request,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}, ensure_ascii=True
    ).encode()


def validated(body: bytes, rules: Rules = RULES) -> Decision:
    """What validate says of the call, as the server asks it: pods without a mark are not even parsed."""
    return decide_validate(decode_review(body, wants=rules.vocabulary.carries_mark).ask, rules)


def mutated(body: bytes, rules: Rules = RULES) -> Decision:
    """What mutate does, likewise."""
    return decide_mutate(decode_review(body, wants=rules.vocabulary.carries_mark).ask, rules)


def errors(decision: Decision) -> set[str]:
    """The codes that refuse."""
    return {finding.code for finding in decision.errors}


def running(**changes):
    """A pod of ours that has its node, as JSON."""
    raw = raw_pod(**changes)
    raw["spec"]["nodeName"] = NODE
    return raw
