"""The kinds of other projects on a real API server: what is right is stored, what is not is refused with its place."""

from collections.abc import Iterator
from typing import Any

import pytest
from controlplane.client import MERGE_PATCH
from controlplane.plane import ControlPlane
from support.workload_objects import MEMBER, definitions, object_with, put, schemas, spec_path
from support_kinds import EXAMPLES, WARNED, codes_in, defined_kinds, text_of
from support_server import registered, running_server

from webhook.wire.workload_kinds import EACH_ITEM, EACH_MEMBER, WorkloadKind, steps_of
from webhook.wire.workload_table import STANDARD_KINDS

RULES_ONLY = ("--without=capacity-pods", "--without=capacity-workloads", "--without=bind")
HALF = "500m"


class Kind:
    """A kind in one of its versions, and the object of it that was broken before our rules were in force."""

    def __init__(self, schema: dict[str, Any], version: str, row: WorkloadKind) -> None:
        self.row = row
        self.api_version = f"{schema['group']}/{version}"
        self.plural: str = schema["plural"]
        self.old_name = f"broken-{version}"

    def path(self, namespace: str) -> str:
        """Where the objects are."""
        where = "" if self.row.cluster_scoped else f"/namespaces/{namespace}"
        return f"/apis/{self.api_version}{where}/{self.plural}"

    def broken(self) -> dict[str, Any]:
        """An object with half a core in the first of the kind's templates."""
        return object_with(self.row, self.row.templates[0], self.api_version, name=self.old_name, cpu=HALF)


KINDS = [
    Kind(schema, version, STANDARD_KINDS[schema["group"], schema["kind"]])
    for schema in schemas()
    if (schema["group"], schema["kind"]) in STANDARD_KINDS
    for version, content in schema["versions"].items()
    if content["served"]
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[f"{kind.api_version} {kind.row.kind}" for kind in KINDS])


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, str]]:
    """Every kind defined, a broken object of each in the namespace, and then our rules in force."""
    with defined_kinds(control_plane, definitions()) as namespace:
        for kind in KINDS:
            control_plane.api("POST", kind.path(namespace), kind.broken()).wanted(201)
        with (
            running_server(tmp_path_factory.mktemp("webhook-server"), extra=("--role", "rules")) as server,
            registered(control_plane, server, RULES_ONLY),
        ):
            yield control_plane, namespace


@each_kind
def test_each_template_is_judged_where_it_stands(world, kind):
    """What keeps the rules would be stored; half a core is refused with the path of its container."""
    plane, namespace = world
    path = kind.path(namespace)
    for rule in kind.row.templates:
        right = plane.api("POST", f"{path}?dryRun=All", object_with(kind.row, rule, kind.api_version))
        assert right.status == 201, right.body
        answer = plane.api("POST", path, object_with(kind.row, rule, kind.api_version, cpu=HALF))
        assert answer.status == 403, answer.body
        message = answer.json()["message"]
        assert f"{spec_path(rule)}.containers[0].resources.requests.cpu: " in message
        assert "[CPU_NOT_WHOLE]" in message


@each_kind
def test_what_was_broken_before_can_be_changed_but_not_made_worse(world, kind):
    """Labels, suspension, status and an image pass; one more broken container does not."""
    plane, namespace = world
    rule = kind.row.templates[0]
    path = f"{kind.path(namespace)}/{kind.old_name}"
    for where, patch in (
        ("", {"metadata": {"labels": {"team": "a"}}}),
        ("", {"spec": {"suspend": True}}),
        ("/status", {"status": {"conditions": []}}),
    ):
        plane.api("PATCH", f"{path}{where}", patch, content_type=MERGE_PATCH).wanted(200)
    place = f"{rule.path}.containers" if rule.inline else f"{rule.path}.spec.containers"
    stored = plane.get(path)
    container = {**_at(stored, place)[0], "image": "busybox:2"}
    put(stored, place, [container])
    stored = plane.api("PUT", path, stored).wanted(200).json()
    put(stored, place, [container, {**container, "name": "second"}])
    answer = plane.api("PUT", path, stored)
    assert answer.status == 403, answer.body
    assert f"{spec_path(rule)}.containers[1].resources.requests.cpu: " in answer.json()["message"]


def _at(raw: Any, path: str) -> Any:
    for step in steps_of(path):
        raw = raw[{EACH_ITEM: 0, EACH_MEMBER: MEMBER}.get(step, step)]
    return raw


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "trainjob"])
def test_an_example_is_stored(world, name):
    """As a user applies it; with a policy that does not exist it is refused. TrainJobs: ``test_e2e_kinds_shipped``."""
    plane, namespace = world
    done = plane.kubectl("apply", "-n", namespace, "-f", "-", input=text_of(name))
    assert done.returncode == 0, done.stderr
    assert codes_in(done.stderr) == WARNED.get(name, [])
    done = plane.kubectl(
        "apply", "-n", namespace, "-f", "-", input=text_of(name).replace("SingleNUMANode", "SingleNode")
    )
    assert done.returncode == 1
    assert "[POLICY_UNKNOWN]" in done.stderr
