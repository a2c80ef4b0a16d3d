"""Where findings say that a template's fields stand: as the object holds them, not as the pod will."""

import copy

import pytest
import yaml

from webhook.core.dialect import Stage
from webhook.core.judge import judge_workload
from webhook.core.modes import Rules
from webhook.wire.shapes import child
from webhook.wire.workload_table import STANDARD_KINDS
from webhook.wire.workloads import read_workload

HALF = "resources: {requests: {cpu: 500m}, limits: {cpu: 500m, aliyun.com/gpu: 1}}"
MARK = 'annotations: {scheduling.alibabacloud.com/numa-topology-spec: \'{"numaTopologyPolicy":"Single"}\'}'
KEY = "scheduling.alibabacloud.com/numa-topology-spec"
KSERVE, NOTEBOOK = ("serving.kserve.io", "InferenceService"), ("kubeflow.org", "Notebook")


def _paths(kind, text):
    """The paths of all findings, and the JSON of the object."""
    raw = yaml.safe_load(text)
    workload = read_workload(raw, STANDARD_KINDS[kind])
    return {finding.path for finding in judge_workload(workload, Rules(), stage=Stage.FILE)}, raw


CASES = [
    pytest.param(
        ("apps", "Deployment"),
        f"spec: {{template: {{metadata: {{{MARK}}}, spec: {{containers: [{{name: c, {HALF}}}]}}}}}}",
        {
            f'spec.template.metadata.annotations["{KEY}"]',
            'spec.template.metadata.annotations["cpuset-scheduler"]',
            "spec.template.spec.containers[0].resources.requests.cpu",
        },
        id="a template of its own",
    ),
    pytest.param(
        ("", "PodTemplate"),
        f"template: {{metadata: {{{MARK}}}, spec: {{containers: [{{name: c, {HALF}}}]}}}}",
        {
            f'template.metadata.annotations["{KEY}"]',
            'template.metadata.annotations["cpuset-scheduler"]',
            "template.spec.containers[0].resources.requests.cpu",
        },
        id="a template at the top",
    ),
    pytest.param(
        KSERVE,
        f"spec: {{predictor: {{{MARK}, containers: [{{name: c, {HALF}}}]}}}}",
        {
            f'spec.predictor.annotations["{KEY}"]',
            'spec.predictor.annotations["cpuset-scheduler"]',
            "spec.predictor.containers[0].resources.requests.cpu",
        },
        id="a pod spec inline",
    ),
    pytest.param(
        KSERVE,
        f"{{metadata: {{{MARK}}}, spec: {{predictor: {{annotations: {{cpuset-scheduler: Required}}, "
        f"containers: [{{name: c, {HALF}}}]}}}}}}",
        {
            f'metadata.annotations["{KEY}"]',
            'spec.predictor.annotations["cpuset-scheduler"]',
            "spec.predictor.containers[0].resources.requests.cpu",
        },
        id="an annotation each in the two maps that reach the pod",
    ),
    pytest.param(
        KSERVE,
        f"{{metadata: {{{MARK}}}, spec: {{predictor: {{{MARK}, containers: [{{name: c, {HALF}}}]}}}}}}",
        {
            f'spec.predictor.annotations["{KEY}"]',
            'spec.predictor.annotations["cpuset-scheduler"]',
            "spec.predictor.containers[0].resources.requests.cpu",
        },
        id="the same annotation in both maps: the one that counts",
    ),
    pytest.param(
        KSERVE,
        f"spec: {{predictor: {{{MARK}, model: {{modelFormat: {{name: vllm}}, {HALF}}}}}}}",
        {
            f'spec.predictor.annotations["{KEY}"]',
            'spec.predictor.annotations["cpuset-scheduler"]',
            "spec.predictor.model.resources.requests.cpu",
        },
        id="a model server's container",
    ),
    pytest.param(
        KSERVE,
        f"spec: {{predictor: {{{MARK}, model: {{resources: {{requests: {{cpu: 1}}, "
        f"limits: {{cpu: 1, aliyun.com/gpu: 1}}}}}}, workerSpec: {{containers: [{{name: c, {HALF}}}]}}}}}}",
        {
            f'spec.predictor.annotations["{KEY}"]',
            'spec.predictor.annotations["cpuset-scheduler"]',
            "spec.predictor.workerSpec.containers[0].resources.requests.cpu",
        },
        id="the workers of a model that is spread",
    ),
    pytest.param(
        NOTEBOOK,
        f"{{metadata: {{{MARK}}}, spec: {{template: {{spec: {{containers: [{{name: c, {HALF}}}]}}}}}}}}",
        {
            f'metadata.annotations["{KEY}"]',
            'metadata.annotations["cpuset-scheduler"]',
            "spec.template.spec.containers[0].resources.requests.cpu",
        },
        id="annotations of the object itself",
    ),
]


@pytest.mark.parametrize(("kind", "text", "paths"), CASES)
def test_findings_name_the_place_in_the_object(kind, text, paths):
    found, _raw = _paths(kind, text)
    assert {path for path in found if not path.endswith("limits.cpu")} == paths


@pytest.mark.parametrize(("kind", "text", "paths"), CASES)
def test_what_is_there_can_be_found_at_its_path(kind, text, paths):
    """Each path but that of the missing annotation leads to a value of the object, written as `check` writes it."""
    raw = yaml.safe_load(text)
    written = set(_written(raw, ""))
    companion = 'annotations["cpuset-scheduler"]'
    assert {path for path in paths if path not in written} <= {path for path in paths if path.endswith(companion)}


def _written(value, path):
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _written(member, child(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _written(item, f"{path}[{index}]")


def test_a_container_member_that_is_no_map_is_noted():
    """An extra container of a wrong type is a fault of the pod, at its place, and no error of ours."""
    raw = yaml.safe_load(f"spec: {{predictor: {{{MARK}, model: [1]}}}}")
    found, _raw = _paths(KSERVE, yaml.safe_dump(copy.deepcopy(raw)))
    assert "spec.predictor.model" in found
