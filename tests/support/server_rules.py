"""What a Kubernetes API server does with a webhook's reply, written again from its sources.

Sources, k8s.io/apiserver v0.37.2: ``pkg/admission/plugin/webhook/request/admissionreview.go`` (form, uid, patch),
``.../mutating/dispatcher.go`` (decoding and applying the patch), ``.../errors/statuserror.go`` (the refusal),
``pkg/admission/attributes.go`` (audit keys), ``pkg/endpoints/filters/warning.go`` and
``k8s.io/apimachinery/pkg/util/net/http.go`` (warnings); patches: gopkg.in/evanphx/json-patch.v4 v4.13.0.

It imports nothing of the product, so it is a second opinion on each reply.
"""

import base64
import binascii
import copy
import json
import re
import unicodedata
from dataclasses import dataclass

WARNINGS_IN_ALL = 4096
CUT_WARNING = 256


class ReplyRefused(AssertionError):  # noqa: N818 - it reads as what happens
    """The server takes the call for failed, or drops a part of the reply without a trace; the message says which."""


@dataclass(frozen=True)
class ServerView:
    """What comes of a reply: the verdict as the client gets it, and the object that goes on."""

    allowed: bool
    code: int
    message: str
    warnings: tuple[str, ...]
    patch: tuple[dict, ...]
    object: dict | None
    """``request.object`` with the patch applied."""
    audit: dict[str, str]


def judge_reply(request_body, reply_body, *, mutating, webhook="numa-admission.example.com"):
    """Return what the server makes of ``reply_body``, the answer to ``request_body``.

    Raises:
        ReplyRefused: the server would call the reply broken, or would drop or cut a warning or an audit annotation.
    """
    request = json.loads(request_body)["request"]
    response = _verified(request["uid"], reply_body, mutating)
    audit = {
        _audit_key(f"{webhook}/{key}"): _text(value, "audit annotation")
        for key, value in (response.get("auditAnnotations") or {}).items()
    }
    warnings = recorded_warnings(response.get("warnings") or [])
    allowed = response.get("allowed", False)
    code, message = _refusal(response.get("status"), webhook) if not allowed else (200, "")
    patched, patch = request.get("object"), []
    if allowed and response.get("patch"):
        if response["patchType"] != "JSONPatch":
            raise ReplyRefused(f"unsupported patch type {response['patchType']!r}")
        patch = decode_patch(response["patch"])
        if patch and patched is None:
            raise ReplyRefused("attempted to modify the object, which is not supported for this operation")
        patched = apply_patch(patched, patch) if patch else patched
    return ServerView(allowed, code, message, tuple(warnings), tuple(patch), patched, audit)


def _verified(uid, reply_body, mutating):
    """``VerifyAdmissionResponse`` and the typed decoding before it."""
    if not reply_body:
        raise ReplyRefused("0-length response with status code: 200")
    try:
        review = json.loads(reply_body, parse_constant=_no_constant)
    except ValueError as error:
        raise ReplyRefused(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise ReplyRefused("couldn't get version/kind; json parse error: cannot unmarshal")
    if (review.get("apiVersion"), review.get("kind")) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise ReplyRefused(f"expected webhook response of admission.k8s.io/v1, got {review.get('apiVersion')}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ReplyRefused("webhook response was absent")
    if response.get("uid") != uid:
        raise ReplyRefused(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
    if not isinstance(response.get("allowed"), bool):
        raise ReplyRefused("response.allowed: cannot unmarshal into Go struct field of type bool")
    has_patch, has_type = bool(response.get("patch")), response.get("patchType") is not None
    if not mutating and has_patch:
        raise ReplyRefused("validating webhook may not return response.patch")
    if not mutating and has_type:
        raise ReplyRefused("validating webhook may not return response.patchType")
    if has_patch and not has_type:
        raise ReplyRefused("webhook returned response.patch but not response.patchType")
    if has_type and not has_patch:
        raise ReplyRefused("webhook returned response.patchType but not response.patch")
    return response


def _no_constant(name):
    raise ValueError(f"invalid character in {name}")


def _refusal(status, webhook):
    """``ToStatusErr``: the code and the message that kubectl prints."""
    status = status or {}
    code = status.get("code", 0)
    if not isinstance(code, int) or isinstance(code, bool):
        raise ReplyRefused("status.code: cannot unmarshal into Go struct field of type int32")
    message = _text(status.get("message", ""), "status.message")
    denied = f'admission webhook "{webhook}" denied the request'
    if message:
        text = f"{denied}: {message}"
    elif status.get("reason"):
        text = f"{denied}: {status['reason']}"
    else:
        text = f"{denied} without explanation"
    return max(code, 400), text


def _text(value, what):
    if not isinstance(value, str):
        raise ReplyRefused(f"{what}: cannot unmarshal into Go value of type string")
    return value


_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


def _audit_key(key):
    """``checkKeyFormat``: a prefix, one slash, a name of at most 63 characters; another key is logged and dropped."""
    parts = key.split("/")
    if len(parts) != 2 or len(parts[1]) > 63 or not _NAME_PART.fullmatch(parts[1]):
        raise ReplyRefused(f"the audit annotation {key!r} is dropped: annotation key has invalid format")
    return key


def recorded_warnings(warnings):
    """``recorder.AddWarning``: the warnings that reach the client.

    Raises:
        ReplyRefused: one is dropped, or the sum makes the server cut them.
    """
    if not isinstance(warnings, list):
        raise ReplyRefused("response.warnings: cannot unmarshal into Go struct field of type []string")
    seen, written = [], 0
    for text in warnings:
        _text(text, "warning")
        if text == "":
            raise ReplyRefused("an empty warning is dropped")
        if text in seen:
            raise ReplyRefused(f"the warning {text!r} is said twice and shown once")
        if any(unicodedata.category(character) == "Cc" for character in text):
            raise ReplyRefused(f"the warning {text!r} is dropped: must not contain control characters")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ReplyRefused(f"the warning {text!r} is dropped: must be valid UTF-8") from error
        seen.append(text)
        written += len(text)
    if written > WARNINGS_IN_ALL:
        raise ReplyRefused(f"{written} characters of warnings: each is cut to {CUT_WARNING}, the last ones are dropped")
    return seen


def decode_patch(encoded):
    """Base64 and ``jsonpatch.DecodePatch``: a list of maps."""
    try:
        patch = json.loads(
            base64.b64decode(_text(encoded, "response.patch"), validate=True), parse_constant=_no_constant
        )
    except (binascii.Error, ValueError) as error:
        raise ReplyRefused(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise ReplyRefused("received undecodable patch in webhook response: cannot unmarshal")
    return patch


def apply_patch(document, patch):
    """``Patch.Apply`` of json-patch v4, quirks included: a replace of an absent member is an add."""
    document = copy.deepcopy(document)
    for operation in patch:
        kind, path = operation.get("op"), operation.get("path")
        if kind not in ("add", "remove", "replace", "test"):
            raise ReplyRefused(f"Unexpected kind: {kind}")
        if not isinstance(path, str):
            raise ReplyRefused(f"{kind} operation failed to decode path")
        holder, key = _find(document, path)
        if holder is None:
            raise ReplyRefused(f'{kind} operation does not apply: doc is missing path: "{path}": missing value')
        _apply_one(holder, key, kind, operation)
    return document


def _find(document, path):
    """``findObject``: the container that holds the last step, and that step unescaped; None where there is none."""
    steps = path.split("/")
    if len(steps) < 2:
        return None, ""
    for step in steps[1:-1]:
        try:
            document = _member(document, _unescaped(step))
        except (KeyError, IndexError, ValueError):
            return None, ""
        if not isinstance(document, dict | list):
            return None, ""
    return document, _unescaped(steps[-1])


def _unescaped(step):
    return re.sub("~1|~0", lambda match: "/" if match.group() == "~1" else "~", step)


def _member(container, key):
    return container[int(key)] if isinstance(container, list) else container[key]


def _apply_one(holder, key, kind, operation):
    if kind == "test":
        if (holder.get(key) if isinstance(holder, dict) else holder[int(key)]) != operation.get("value"):
            raise ReplyRefused(f"testing value {operation['path']} failed: test failed")
        return
    if isinstance(holder, dict):
        if kind == "remove" and key not in holder:
            raise ReplyRefused(f"Unable to remove nonexistent key: {key}")
        if kind == "remove":
            del holder[key]
        else:
            holder[key] = operation.get("value")
        return
    if kind == "add" and key == "-":
        holder.append(operation.get("value"))
        return
    try:
        index = int(key)
    except ValueError as error:
        raise ReplyRefused(f"value was not a proper array index: '{key}'") from error
    if not 0 <= index < len(holder) + (kind == "add"):
        raise ReplyRefused(f"Unable to access invalid index: {index}")
    if kind == "add":
        holder.insert(index, operation.get("value"))
    elif kind == "remove":
        del holder[index]
    else:
        holder[index] = operation.get("value")
