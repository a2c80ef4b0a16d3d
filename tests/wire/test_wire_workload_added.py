"""Containers that operators add: whose template's author is warned, and who is not."""

import pytest
from support.builders import KOORD_KEY, SINGLE, SPEC_KEY, container

from webhook.core.dialect import Stage
from webhook.core.findings import Family, Severity
from webhook.core.judge import judge_workload
from webhook.core.modes import Mode, RuleModes, Rules
from webhook.wire.workload_rows import workload_kind_from
from webhook.wire.workload_table import STANDARD_KINDS, kind_table
from webhook.wire.workloads import read_workload

ACK = {"cpuset-scheduler": "required", SPEC_KEY: SINGLE}
KOORDINATOR = {KOORD_KEY: SINGLE}


def _template(annotations=ACK, **spec):
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container()], **spec}}


def _pytorch(*members, **template):
    return "kubeflow.org", {
        "kind": "PyTorchJob",
        "spec": {"pytorchReplicaSpecs": {name: {"template": _template(**template)} for name in members}},
    }


def _ray(**template):
    group = {"groupName": "g", "template": _template(**template)}
    return "ray.io", {"kind": "RayCluster", "spec": {"headGroupSpec": {}, "workerGroupSpecs": [group]}}


def _added(case):
    group, raw = case
    workload = read_workload(raw, STANDARD_KINDS[group, raw["kind"]])
    found = judge_workload(workload, Rules(), stage=Stage.FILE)
    return [(finding.path, finding.severity) for finding in found if finding.code == "CPU_ADDED_CONTAINER"]


WORKER = ("spec.pytorchReplicaSpecs.Worker.template.spec.initContainers", Severity.WARNING)
RAY = ("spec.workerGroupSpecs[0].template.spec.initContainers", Severity.WARNING)


@pytest.mark.parametrize(
    ("case", "warned"),
    [
        pytest.param(_pytorch("Master", "Worker"), [WORKER], id="a worker beside a master"),
        pytest.param(_pytorch("Worker"), [], id="workers alone wait for nobody"),
        pytest.param(_pytorch("Master"), [], id="a master waits for nobody"),
        pytest.param(_pytorch("Master", "Worker", annotations={}), [], id="a job of others"),
        pytest.param(_ray(), [RAY], id="a worker of Ray"),
        pytest.param(
            _ray(initContainers=[{**container(), "name": "wait-gcs-ready"}]), [], id="one that its author wrote"
        ),
        pytest.param(_ray(annotations=KOORDINATOR), [], id="a dialect that looks at the sum only"),
    ],
)
def test_who_is_warned(case, warned):
    assert _added(case) == warned


def test_a_row_of_the_settings_ends_the_warning():
    """Where the operator was told otherwise, an own row for the kind says so."""
    group, raw = _ray()
    own = workload_kind_from(
        {"group": group, "kind": raw["kind"], "templates": [{"path": "spec.workerGroupSpecs[].template"}]}
    )
    workload = read_workload(raw, kind_table([own])[group, raw["kind"]])
    assert len(workload.templates) == 1
    assert judge_workload(workload, Rules(), stage=Stage.FILE) == ()


def test_the_mode_of_its_family_switches_it_off():
    group, raw = _ray()
    workload = read_workload(raw, STANDARD_KINDS[group, raw["kind"]])
    off = Rules(modes=RuleModes({Family.CPU: Mode.OFF}))
    assert judge_workload(workload, off, stage=Stage.FILE) == ()
