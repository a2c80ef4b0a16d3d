"""Templates that another object completes: what they leave out is no fault, what they say is judged as any."""

import pytest
import yaml

from webhook.core.dialect import Stage
from webhook.core.judge import judge_workload
from webhook.core.modes import Rules
from webhook.wire.workload_table import STANDARD_KINDS
from webhook.wire.workloads import read_workload

MARK = (
    "annotations: {cpuset-scheduler: required, "
    'scheduling.alibabacloud.com/numa-topology-spec: \'{"numaTopologyPolicy":"SingleNUMANode"}\'}'
)
KOORDINATOR = (
    "labels: {koordinator.sh/qosClass: LSR}, "
    'annotations: {scheduling.koordinator.sh/numa-topology-spec: \'{"numaTopologyPolicy":"SingleNUMANode"}\'}'
)
RUNTIME, SERVICE = ("trainer.kubeflow.org", "TrainingRuntime"), ("serving.kserve.io", "InferenceService")
GROUP = ("workloads.x-k8s.io", "RoleBasedGroup")


def _runtime(metadata, container):
    job = f"{{template: {{spec: {{template: {{metadata: {{{metadata}}}, spec: {{containers: [{container}]}}}}}}}}}}"
    return f"spec: {{template: {{spec: {{replicatedJobs: [{job}]}}}}}}"


def _codes(kind, text):
    workload = read_workload(yaml.safe_load(text), STANDARD_KINDS[kind])
    return {finding.code for finding in judge_workload(workload, Rules(), stage=Stage.FILE)}


@pytest.mark.parametrize(
    ("kind", "text", "codes"),
    [
        pytest.param(RUNTIME, _runtime(MARK, "{name: node}"), set(), id="resources come from a TrainJob"),
        pytest.param(
            RUNTIME,
            _runtime(MARK, "{name: node, resources: {requests: {cpu: 500m}}}"),
            {"CPU_NOT_WHOLE"},
            id="half a core is none the less wrong",
        ),
        pytest.param(
            RUNTIME,
            _runtime(MARK, "{name: node, resources: {requests: {cpu: 8}}}"),
            set(),
            id="a limit may come from a TrainJob",
        ),
        pytest.param(
            RUNTIME,
            _runtime(MARK, "{name: node, resources: {limits: {nvidia.com/gpu: 8}}}"),
            {"GPU_OTHER_RESOURCE"},
            id="GPUs of another mode",
        ),
        pytest.param(
            RUNTIME,
            _runtime(KOORDINATOR, "{name: node}"),
            {"SCHEDULER_UNKNOWN"},
            id="the sum of CPUs is not known",
        ),
        pytest.param(
            SERVICE,
            f"spec: {{predictor: {{{MARK}, model: {{modelFormat: {{name: vllm}}}}}}}}",
            set(),
            id="a model server's container comes from a ServingRuntime",
        ),
        pytest.param(
            SERVICE,
            f"spec: {{transformer: {{{MARK}, containers: [{{name: c}}]}}}}",
            {"GPU_MISSING", "CPU_REQUEST_MISSING"},
            id="a transformer is whole",
        ),
        pytest.param(
            GROUP,
            f"spec: {{roles: [{{leaderWorkerPattern: {{template: {{metadata: {{{MARK}}}, spec: {{}}}}}}}}]}}",
            set(),
            id="leaders and workers have patches",
        ),
        pytest.param(
            GROUP,
            f"spec: {{roles: [{{standalonePattern: {{template: {{metadata: {{{MARK}}}, spec: {{}}}}}}}}]}}",
            {"GPU_MISSING"},
            id="a role that stands alone is whole",
        ),
    ],
)
def test_only_what_is_said_is_judged(kind, text, codes):
    assert _codes(kind, text) == codes
