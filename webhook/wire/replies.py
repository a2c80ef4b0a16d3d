"""A ``Decision`` as the body of an AdmissionReview reply: HTTP 200 whatever the verdict, a refusal carries code 403.

What the API server does with it is in kubernetes/apiserver: ``endpoints/filters/warning.go`` (warnings),
``admission/plugin/webhook/request/admissionreview.go`` (uid, patch), ``admission/attributes.go`` (audit annotations).
"""

import base64
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import orjson

from webhook.core.decisions import Decision
from webhook.core.findings import Finding
from webhook.core.plain_text import plain
from webhook.core.spelling import counted
from webhook.wire.patches import proven_patch
from webhook.wire.reviews import API_VERSION, KIND

DENIED: Final = 403
"""Never 409 or 429: clients act on those. Anything below 400 becomes 400."""

SERVER_WARNING_BUDGET_CHARACTERS: Final = 4096
"""Beyond it the API server cuts every warning of the call, those of other webhooks too, to 256 characters, and sends
on only until the sum is reached again."""
WARNING_BUDGET_CHARACTERS: Final = SERVER_WARNING_BUDGET_CHARACTERS // 3
"""Of one reply: mutate, validate and capacity may all speak about one object, and none must cut the others."""
MAX_WARNING_CHARACTERS: Final = 600
MAX_LINE_CHARACTERS: Final = 2000
MAX_MESSAGE_CHARACTERS: Final = 16_384
"""A refusal's message is kept in conditions and events of whatever made the pod, and etcd is small."""
MAX_AUDIT_VALUE_CHARACTERS: Final = 1024
_MORE_LINE_CHARACTERS: Final = 120
"""Room kept for the line that says how many were left out."""

_AUDIT_KEY_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)
_MAX_AUDIT_KEY_CHARACTERS: Final = 63


def encode_review(
    uid: str,
    decision: Decision,
    raw_object: Mapping[str, object] | None = None,
    *,
    warning_budget_characters: int = WARNING_BUDGET_CHARACTERS,
) -> bytes:
    """Return the reply to the call ``uid`` as JSON.

    A patch is in it only if ``raw_object`` is given (``Review.raw_object``: give it for mutate alone, for a validating
    webhook that returns a patch has failed), the decision allows, and its edits change something.

    Raises:
        webhook.wire.patches.PatchError: an edit cannot be made on ``raw_object``.
    """
    response: dict[str, object] = {"uid": uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = {"code": DENIED, "message": refusal_message(decision.errors)}
    warnings = fitted_warnings(decision.all_warnings, warning_budget_characters)
    if warnings:
        response["warnings"] = warnings
    if raw_object is not None and decision.allowed and decision.edits:
        patch = proven_patch(raw_object, decision.edits)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(patch)).decode("ascii")
    if decision.audit:
        response["auditAnnotations"] = audit_annotations(decision.audit)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def refusal_message(errors: Iterable[Finding]) -> str:
    """Return every finding on a line of its own; only these line breaks are in it.

    The first line is a finding, for it is all that a list of events shows. What is beyond the limit is counted.
    """
    lines = [plain(str(finding), MAX_LINE_CHARACTERS) for finding in errors]
    if not lines:
        return "refused, and the reason was lost: this is a fault of numa-admission, please report it."
    return "\n".join(_fitted(lines, MAX_MESSAGE_CHARACTERS, "finding"))


def fitted_warnings(warnings: Iterable[str], budget_characters: int) -> list[str]:
    """Return each warning once, on one line; what is beyond the budget is counted in a last warning."""
    lines = dict.fromkeys(plain(warning, MAX_WARNING_CHARACTERS) for warning in warnings)
    lines.pop("", None)
    return _fitted(list(lines), budget_characters, "warning")


def _fitted(lines: list[str], budget_characters: int, what: str) -> list[str]:
    """Return the first ``lines`` that fit the budget with a line break each, and a line that counts the others."""
    if sum(map(len, lines)) + len(lines) <= budget_characters:
        return lines
    room = budget_characters - _MORE_LINE_CHARACTERS
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left = counted(len(lines) - len(kept), f"more {what}")
    more = f"... and {left}: run numa-admission check on the manifest to see all of them."
    return [*kept, more]


def audit_annotations(audit: Mapping[str, str]) -> dict[str, str]:
    """Return ``audit`` with keys that the API server takes: it prefixes them with the webhook's name and a slash.

    A key is the name part of a qualified name; another one is dropped there without a trace for us.
    """
    return {_audit_name(key): plain(value, MAX_AUDIT_VALUE_CHARACTERS) for key, value in audit.items()}


@lru_cache(maxsize=64)
def _audit_name(key: str) -> str:
    """Return ``key``, one of ours, as the name part of a qualified name."""
    return _AUDIT_KEY_FOREIGN.sub("-", key)[:_MAX_AUDIT_KEY_CHARACTERS].strip("-_.") or "unnamed"
