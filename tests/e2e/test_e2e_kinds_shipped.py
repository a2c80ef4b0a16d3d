"""Kinds whose definitions a Go module carries, defined as their projects ship them: defaults, pruning, validation."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from controlplane.client import MERGE_PATCH
from controlplane.plane import ControlPlane
from support_kinds import WARNED, codes_in, defined_kinds, text_of
from support_server import registered, running_server
from wire.crds.extract import SOURCES, definitions, module_directory

RULES_ONLY = ("--without=capacity-pods", "--without=capacity-workloads", "--without=bind")
WANTED = {"pytorchjobs", "mpijobs", "rayclusters", "rayjobs", "trainingruntimes", "trainjobs"}
MPI_V1 = text_of("mpijob").replace("kubeflow.org/v2beta1", "kubeflow.org/v1")

OBJECTS = {
    "PyTorchJob": (text_of("pytorchjob"), "spec.pytorchReplicaSpecs.Worker.template", "kubeflow.org/v1", "pytorchjobs"),
    "MPIJob v1": (MPI_V1, "spec.mpiReplicaSpecs.Worker.template", "kubeflow.org/v1", "mpijobs"),
    "RayJob": (text_of("rayjob"), "spec.rayClusterSpec.workerGroupSpecs[0].template", "ray.io/v1", "rayjobs"),
    "RayJob v1alpha1": (
        text_of("rayjob").replace("ray.io/v1", "ray.io/v1alpha1"),
        "spec.rayClusterSpec.workerGroupSpecs[0].template",
        "ray.io/v1alpha1",
        "rayjobs",
    ),
    "TrainJob": (
        text_of("trainjob"),
        "spec.template.spec.replicatedJobs[0].template.spec.template",
        "trainer.kubeflow.org/v1alpha1",
        "trainingruntimes",
    ),
}
"""An example's text, where its last template with a mark stands, and the objects of its kind."""

each_object = pytest.mark.parametrize(("text", "template", "api_version", "plural"), OBJECTS.values(), ids=OBJECTS)


@pytest.fixture(scope="module")
def shipped() -> list[dict[str, Any]]:
    """The definitions; the tests are skipped where a module can be neither found nor downloaded."""
    try:
        found = [
            dict(definition)
            for module, version, pattern in SOURCES
            for definition in definitions(module_directory(module, version), pattern)
        ]
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a Go module with definitions cannot be had: {error}")
    return [each for each in found if each["spec"]["names"]["plural"] in WANTED]


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlane, shipped: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ControlPlane, str]]:
    """The definitions in the API server, a namespace, and our rules in force."""
    with (
        defined_kinds(control_plane, shipped) as namespace,
        running_server(tmp_path_factory.mktemp("webhook-server"), extra=("--role", "rules")) as server,
        registered(control_plane, server, RULES_ONLY),
    ):
        yield control_plane, namespace


@each_object
def test_an_example_is_stored_and_a_broken_one_refused(world, text, template, api_version, plural):
    """The definition's own validation passes, the marks survive its pruning, and the path is that of the kind."""
    plane, namespace = world
    done = plane.kubectl("apply", "-n", namespace, "-f", "-", input=text)
    assert done.returncode == 0, done.stderr
    assert codes_in(done.stderr) == (WARNED["rayjob"] if plural == "rayjobs" else [])
    (stored,) = plane.get(f"/apis/{api_version}/namespaces/{namespace}/{plural}")["items"]
    path = f"/apis/{api_version}/namespaces/{namespace}/{plural}/{stored['metadata']['name']}"
    labelled = plane.api("PATCH", path, {"metadata": {"labels": {"team": "a"}}}, content_type=MERGE_PATCH)
    assert labelled.status == 200, labelled.body
    # An apply of the same object as another one: the first may hold fields that its kind does not let change.
    plane.api("DELETE", path).wanted(200)
    broken = text.replace("SingleNUMANode", "SingleNode")
    done = plane.kubectl("apply", "-n", namespace, "-f", "-", input=broken)
    assert done.returncode == 1
    assert f"{template}.metadata.annotations[" in done.stderr
    assert "[POLICY_UNKNOWN]" in done.stderr
