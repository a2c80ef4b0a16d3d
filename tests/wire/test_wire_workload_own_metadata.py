"""Kinds that hand their own labels and annotations on to their pods, and get new ones while they run."""

import copy

import pytest
from support.builders import SINGLE, SPEC_KEY, ask

from webhook.core.decide import decide_validate
from webhook.core.modes import Rules
from webhook.wire.workload_table import STANDARD_KINDS
from webhook.wire.workloads import read_workload

MARK = {"cpuset-scheduler": "required", SPEC_KEY: SINGLE}
HALF = {"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m", "aliyun.com/gpu": "1"}}}
NOTEBOOK = {
    "kind": "Notebook",
    "metadata": {"name": "n", "annotations": MARK},
    "spec": {"template": {"spec": {"containers": [HALF]}}},
}
SERVICE = {
    "kind": "InferenceService",
    "metadata": {"name": "s", "annotations": MARK},
    "spec": {"predictor": {"containers": [HALF]}},
}
GROUPS = {"Notebook": "kubeflow.org", "InferenceService": "serving.kserve.io"}


def _refused(old, new):
    row = STANDARD_KINDS[GROUPS[old["kind"]], old["kind"]]
    decision = decide_validate(ask(read_workload(new, row), read_workload(old, row)), Rules())
    return {finding.code for finding in decision.findings}


def _annotated(raw, **annotations):
    new = copy.deepcopy(raw)
    new["metadata"]["annotations"] = {**raw["metadata"]["annotations"], **annotations}
    return new


@pytest.mark.parametrize("raw", [NOTEBOOK, SERVICE], ids=lambda raw: raw["kind"])
def test_what_others_write_on_an_old_object_passes(raw):
    """The controller that stops idle Notebooks writes an annotation; labels come and go."""
    assert _refused(raw, _annotated(raw, **{"kubeflow-resource-stopped": "2026-01-01T00:00:00Z"})) == set()
    labelled = copy.deepcopy(raw)
    labelled["metadata"]["labels"] = {"team": "a"}
    assert _refused(raw, labelled) == set()


@pytest.mark.parametrize("raw", [NOTEBOOK, SERVICE], ids=lambda raw: raw["kind"])
def test_a_new_fault_of_an_annotation_is_refused_alone(raw):
    assert _refused(raw, _annotated(raw, **{"cpuset-scheduler": "true"})) == {"CPUSET_OTHER_FEATURE"}


@pytest.mark.parametrize("raw", [NOTEBOOK, SERVICE], ids=lambda raw: raw["kind"])
def test_a_mark_that_is_added_brings_the_whole_judgement(raw):
    plain = copy.deepcopy(raw)
    plain["metadata"]["annotations"] = {}
    assert "CPU_NOT_WHOLE" in _refused(plain, raw)


def test_a_changed_template_is_judged_whole():
    changed = _annotated(NOTEBOOK, owner="a")
    changed["spec"]["template"]["spec"]["containers"] = [HALF, {**HALF, "name": "d"}]
    assert "CPU_NOT_WHOLE" in _refused(NOTEBOOK, changed)
