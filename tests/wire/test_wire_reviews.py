"""Bytes become an ``Ask``, or a plain sentence that says what is wrong with the call."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import any_value, fuzzed_pods, values_with

from webhook.core.decisions import Operation
from webhook.core.pod import Binding, NodeLabels, Pod, Workload
from webhook.wire.reviews import BadReview, NotAReview, NotJson, decode_review

REQUEST = {
    "uid": "call-1",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "namespace": "ns",
    "operation": "CREATE",
    "userInfo": {"username": "alice", "groups": ["dev"]},
    "object": {"metadata": {"name": "p", "annotations": {"mark": "x"}}, "spec": {}},
    "oldObject": None,
    "dryRun": False,
}


def _body(review=None, **changes):
    """Return a review as bytes; ``changes`` go into the request, ``...`` takes a member out."""
    request = {name: value for name, value in {**REQUEST, **changes}.items() if value is not ...}
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request, **(review or {})}
    )


@pytest.mark.parametrize(
    ("body", "error", "sentence"),
    [
        pytest.param(b"", NotJson, "the request body: found 0 bytes that are no JSON", id="empty"),
        pytest.param(b"x", NotJson, "the request body: found 1 byte that is no JSON", id="one letter"),
        pytest.param(b'{"kind": null}', NotAReview, "kind: found null, wanted AdmissionReview.", id="kind null"),
        pytest.param(
            b'{"kind": "AdmissionReview"}', NotAReview, "apiVersion: found nothing, wanted admission", id="no version"
        ),
        pytest.param(
            _body(uid=None), NotAReview, "request.uid: found null, wanted the uid of the call.", id="uid null"
        ),
        pytest.param(_body(operation=None), NotAReview, "request.operation: found null", id="operation null"),
        pytest.param(b"hello", NotJson, "the request body: found 5 bytes that are no JSON", id="text"),
        pytest.param(b'{"a": NaN}', NotJson, "the request body: found", id="NaN"),
        pytest.param(b'\xff\xfe{"', NotJson, "the request body: found", id="no UTF-8"),
        pytest.param(b"\xef\xbb\xbf{}", NotJson, "the request body: found", id="byte order mark"),
        pytest.param(b"[" * 100_000, NotJson, "the request body: found 100000 bytes", id="a tower of brackets"),
        pytest.param(b'{"a":' * 2000 + b"1" + b"}" * 2000, NotJson, "the request body: found", id="2,000 maps deep"),
        pytest.param(b"9" * 5000, NotJson, "the request body: found", id="a number of 5,000 digits"),
        pytest.param(b"[]", NotAReview, "the request body: found a list, wanted a map with kind", id="array on top"),
        pytest.param(b"null", NotAReview, "the request body: found null", id="null"),
        pytest.param(b"{}", NotAReview, "kind: found nothing, wanted AdmissionReview.", id="empty map"),
        pytest.param(
            _body({"kind": "Pod"}), NotAReview, 'kind: found the text "Pod", wanted AdmissionReview.', id="a pod"
        ),
        pytest.param(
            _body({"apiVersion": "admission.k8s.io/v1beta1"}),
            NotAReview,
            'apiVersion: found the text "admission.k8s.io/v1beta1", wanted admission.k8s.io/v1.',
            id="v1beta1",
        ),
        pytest.param(_body({"request": None}), NotAReview, "request: found null, wanted a map.", id="request null"),
        pytest.param(_body({"request": []}), NotAReview, "request: found a list, wanted a map.", id="request a list"),
        pytest.param(
            _body(uid=...), NotAReview, "request.uid: found nothing, wanted the uid of the call.", id="no uid"
        ),
        pytest.param(_body(uid=""), NotAReview, 'request.uid: found the text ""', id="empty uid"),
        pytest.param(_body(uid=7), NotAReview, "request.uid: found the number 7, wanted a text.", id="uid a number"),
        pytest.param(
            _body(uid="u" * 129), NotAReview, "request.uid: found 129 characters, wanted at most", id="long uid"
        ),
        pytest.param(
            _body(operation="PATCH"), NotAReview, 'request.operation: found the text "PATCH", wanted one of', id="op"
        ),
        pytest.param(_body(operation=...), NotAReview, "request.operation: found nothing", id="no operation"),
        pytest.param(_body(operation={}), NotAReview, "request.operation: found a map", id="operation a map"),
        pytest.param(_body(resource=...), NotAReview, "request.resource.resource: found nothing", id="no resource"),
        pytest.param(
            _body(resource="pods"), NotAReview, 'request.resource: found the text "pods"', id="resource a text"
        ),
        pytest.param(_body(kind=[]), NotAReview, "request.kind: found a list, wanted a map.", id="kind a list"),
        pytest.param(_body(object=[]), NotAReview, "request.object: found a list, wanted a map.", id="object a list"),
        pytest.param(_body(oldObject="x"), NotAReview, "request.oldObject: found the text", id="oldObject a text"),
        pytest.param(_body(namespace=1), NotAReview, "request.namespace: found the number 1", id="namespace a number"),
        pytest.param(_body(dryRun="yes"), NotAReview, "request.dryRun: found the text", id="dryRun a text"),
        pytest.param(_body(userInfo="root"), NotAReview, "request.userInfo: found the text", id="userInfo a text"),
        pytest.param(_body(userInfo={"groups": "a"}), NotAReview, "request.userInfo.groups: found", id="groups a text"),
        pytest.param(
            _body(userInfo={"groups": ["a", 1]}),
            NotAReview,
            "request.userInfo.groups[1]: found the number 1, wanted a text.",
            id="group 1",
        ),
        pytest.param(
            _body({"kind": "a\nb\x1b[31m\u202e"}),
            NotAReview,
            r'kind: found the text "a\nb\x1b[31m\u202e"',
            id="hostile text",
        ),
    ],
)
def test_a_bad_call_gets_a_plain_sentence(body, error, sentence):
    with pytest.raises(error) as refused:
        decode_review(body)
    assert str(refused.value).startswith(sentence)
    assert str(refused.value).endswith(".")
    assert str(refused.value).isprintable()
    assert refused.value.found
    assert refused.value.wanted


def test_the_facts_of_a_call():
    ask = decode_review(_body(dryRun=True)).ask
    assert (ask.operation, ask.namespace, ask.name, ask.resource) == (Operation.CREATE, "ns", "p", "pods")
    assert (ask.username, ask.groups, ask.dry_run, ask.review_uid) == ("alice", ("dev",), True, "call-1")
    assert (ask.subject.name, ask.subject.namespace, ask.old) == ("p", "ns", None)


@pytest.mark.parametrize("missing", ["userInfo", "dryRun", "namespace", "name", "object", "oldObject", "kind"])
@pytest.mark.parametrize("value", [..., None], ids=["missing", "null"])
def test_what_may_be_left_out(missing, value):
    assert decode_review(_body(**{missing: value})).ask.review_uid == "call-1"


DEPLOYMENT = {"spec": {"template": {"metadata": {"annotations": {"mark": "x"}}, "spec": {}}}}


@pytest.mark.parametrize(
    ("group", "resource", "subresource", "kind", "raw", "subject"),
    [
        pytest.param("", "pods", "", "Pod", {}, Pod, id="pods"),
        pytest.param("", "pods", "ephemeralcontainers", "Pod", {}, Pod, id="pods/ephemeralcontainers"),
        pytest.param("", "pods", "resize", "Pod", {}, Pod, id="pods/resize"),
        pytest.param("", "pods", "binding", "Binding", {}, Binding, id="pods/binding"),
        pytest.param("", "bindings", "", "Binding", {}, Binding, id="bindings, the older way to bind"),
        pytest.param("", "nodes", "", "Node", {}, NodeLabels, id="nodes"),
        pytest.param("apps", "deployments", "", "Deployment", DEPLOYMENT, Workload, id="deployments"),
        pytest.param("ray.io", "rayclusters", "", "RayCluster", {}, Workload, id="a custom kind"),
        pytest.param("", "podtemplates", "", "PodTemplate", {}, Workload, id="podtemplates"),
        pytest.param("", "pods", "status", "Pod", {}, None, id="pods/status"),
        pytest.param("", "pods", "eviction", "Eviction", {}, None, id="pods/eviction"),
        pytest.param("", "pods", "exec", "PodExecOptions", {}, None, id="pods/exec"),
        pytest.param("", "nodes", "status", "Node", {}, None, id="nodes/status"),
        pytest.param("apps", "deployments", "status", "Deployment", DEPLOYMENT, None, id="deployments/status"),
        pytest.param("apps", "deployments", "scale", "Scale", {}, None, id="deployments/scale"),
        pytest.param("metrics.k8s.io", "pods", "", "PodMetrics", {}, None, id="pods of another group"),
        pytest.param("batch", "deployments", "", "Deployment", DEPLOYMENT, None, id="a kind of another group"),
    ],
)
def test_the_subject_by_resource(group, resource, subresource, kind, raw, subject):  # noqa: PLR0917 - a row
    body = _body(
        resource={"group": group, "resource": resource},
        subResource=subresource,
        kind={"group": group, "kind": kind},
        object=raw,
        oldObject=raw,
    )
    ask = decode_review(body).ask
    assert (type(ask.subject), type(ask.old)) == (subject or type(None),) * 2
    assert ask.resource == (f"{group}/{resource}" if group else resource)
    assert ask.subresource == subresource


def test_a_binding():
    raw = {"metadata": {"name": "p", "uid": "u", "annotations": {"k": "v"}}, "target": {"kind": "Node", "name": "n"}}
    body = _body(resource={"resource": "pods"}, subResource="binding", object=raw)
    assert decode_review(body).ask.subject == Binding("ns", "p", "u", "n", {"k": "v"})


def test_the_labels_of_a_node():
    raw = {"metadata": {"name": "n", "labels": {"k": "v"}}}
    assert decode_review(_body(resource={"resource": "nodes"}, object=raw)).ask.subject == NodeLabels("n", {"k": "v"})


MARKED = {"metadata": {"annotations": {"mark": "x"}}}
PLAIN = {"metadata": {"annotations": {"other": "x"}}}


@pytest.mark.parametrize(
    ("new", "old", "judged"),
    [
        pytest.param(MARKED, None, True, id="marked"),
        pytest.param(PLAIN, None, False, id="not marked"),
        pytest.param(PLAIN, MARKED, True, id="the mark is taken off"),
        pytest.param(MARKED, PLAIN, True, id="the mark is put on"),
        pytest.param(None, MARKED, True, id="deleted"),
        pytest.param(None, PLAIN, False, id="deleted and not marked"),
        pytest.param({"metadata": {"annotations": ["mark"]}}, {}, False, id="annotations that are a list"),
        pytest.param({"metadata": []}, {"metadata": None}, False, id="metadata that is none"),
    ],
)
def test_pods_that_are_not_wanted_are_not_parsed(new, old, judged):
    ask = decode_review(_body(object=new, oldObject=old), wants=lambda annotations: "mark" in annotations).ask
    assert (ask.subject is not None) == (judged and new is not None)
    assert (ask.old is not None) == (judged and old is not None)


@pytest.mark.parametrize(("resource", "subresource"), [("nodes", ""), ("pods", "binding"), ("bindings", "")], ids=str)
def test_nodes_and_bindings_are_parsed_without_asking(resource, subresource):
    body = _body(resource={"group": "", "resource": resource}, subResource=subresource, object=PLAIN)
    assert decode_review(body, wants=lambda _: False).ask.subject is not None


POD = {
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"mark": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
}
DEPLOYMENT = {"metadata": {"name": "d"}, "spec": {"replicas": 3, "template": POD}}
NOTEBOOK = {"metadata": {"annotations": {"mark": "x"}}, "spec": {"template": {"spec": POD["spec"]}}}
POD_CALL = {"resource": {"resource": "pods"}}
DEPLOYMENT_CALL = {
    "resource": {"group": "apps", "resource": "deployments"},
    "kind": {"group": "apps", "kind": "Deployment"},
}
NOTEBOOK_CALL = {
    "resource": {"group": "kubeflow.org", "resource": "notebooks"},
    "kind": {"group": "kubeflow.org", "kind": "Notebook"},
}


def _at(raw, path, value):
    """Return a copy of ``raw`` with another value at ``path``."""
    head, _, rest = path.partition(".")
    return {**raw, head: _at(raw.get(head, {}), rest, value) if rest else value}


@pytest.mark.parametrize(
    ("call", "old", "path", "value", "judged"),
    [
        pytest.param(POD_CALL, POD, "status.phase", "Running", False, id="a status"),
        pytest.param(POD_CALL, POD, "metadata.finalizers", ["a/b"], False, id="finalizers"),
        pytest.param(POD_CALL, POD, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z", False, id="a deletion"),
        pytest.param(POD_CALL, POD, "metadata.annotations", {"mark": "y"}, True, id="an annotation"),
        pytest.param(POD_CALL, POD, "metadata.annotations", None, True, id="all annotations gone"),
        pytest.param(POD_CALL, POD, "metadata.labels", {"a": "c"}, True, id="a label"),
        pytest.param(POD_CALL, POD, "spec.nodeName", "m", True, id="a node"),
        pytest.param(POD_CALL, POD, "metadata", None, True, id="no metadata any more"),
        pytest.param(DEPLOYMENT_CALL, DEPLOYMENT, "spec.replicas", 0, False, id="a workload is scaled"),
        pytest.param(DEPLOYMENT_CALL, DEPLOYMENT, "metadata.labels", {"a": "b"}, False, id="a workload's own label"),
        pytest.param(DEPLOYMENT_CALL, DEPLOYMENT, "spec.template.spec.nodeName", "m", True, id="a template"),
        pytest.param(NOTEBOOK_CALL, NOTEBOOK, "metadata.name", "n", False, id="a notebook's name"),
        pytest.param(NOTEBOOK_CALL, NOTEBOOK, "metadata.annotations", {"mark": "y"}, True, id="what reaches its pod"),
    ],
)
def test_an_update_of_nothing_that_a_rule_reads_is_not_parsed(call, old, path, value, judged):
    """Only where the caller asks for marks: the ledger wants to see replicas."""
    body = _body(**call, operation="UPDATE", object=_at(old, path, value), oldObject=old)
    ask = decode_review(body, wants=lambda annotations: "mark" in annotations).ask
    assert (ask.subject is not None, ask.old is not None) == (judged, judged)
    assert decode_review(body).ask.subject is not None


def test_every_template_is_asked_about():
    template = {"metadata": {"annotations": {"mark": "x"}}}
    raw = {"spec": {"workerGroupSpecs": [{"template": {}}, {"template": template}]}}
    body = _body(
        resource={"group": "ray.io", "resource": "r"}, kind={"group": "ray.io", "kind": "RayCluster"}, object=raw
    )
    assert decode_review(body, wants=lambda annotations: "mark" in annotations).ask.subject is not None
    assert decode_review(body, wants=lambda annotations: "absent" in annotations).ask.subject is None


def test_the_raw_object_is_the_objects_own_json():
    review = decode_review(_body(object={"spec": {"unknown": [1]}}))
    assert review.raw_object == {"spec": {"unknown": [1]}}
    assert decode_review(_body(object=None)).raw_object is None


@given(
    st.binary(max_size=30)
    | any_value.map(lambda value: orjson.dumps(_without_surrogates(value)))
    | values_with(REQUEST).map(lambda value: _body({"request": _without_surrogates(value)}))
    | st.fixed_dictionaries(
        {}, optional=dict.fromkeys(REQUEST, values_with(["resource", "kind", "pods", "username"]))
    ).map(lambda changes: _body(**_without_surrogates(changes)))
    | fuzzed_pods.map(lambda pod: _body(object=_without_surrogates(pod)))
)
def test_any_bytes_are_a_review_or_a_bad_one(body):
    try:
        review = decode_review(body)
    except BadReview as refused:
        assert str(refused).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert review.ask.review_uid


def _without_surrogates(value):
    """Return ``value`` as orjson can write it: lone surrogates and integers beyond 64 bits replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return 0
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(member) for key, member in value.items()}
    return value
