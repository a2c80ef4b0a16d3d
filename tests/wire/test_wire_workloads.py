"""Every kind of the table: where its templates stand, and how many pods each makes."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.json_values import values_with

from webhook.core.pod import Malformed
from webhook.wire.workload_kinds import EACH_ITEM, EACH_MEMBER, Count, TemplateRule, WorkloadKind, steps_of
from webhook.wire.workload_table import STANDARD_KINDS, STANDARD_ROWS, kind_table
from webhook.wire.workloads import read_workload, workload_annotations

T = "{metadata: {annotations: {mark: here}}, spec: {containers: [{name: c}]}}"
INLINE = "annotations: {mark: here}, containers: [{name: c}]"

RAY_WORKERS = f"[{{replicas: 3, numOfHosts: 2, template: {T}}}, {{template: {T}}}]"
RAY_GROUPS = f"headGroupSpec: {{template: {T}}}, workerGroupSpecs: {RAY_WORKERS}"

KINDS = [
    ("apps", "Deployment", f"spec: {{replicas: 3, template: {T}}}", [("spec.template", 3)]),
    ("apps", "ReplicaSet", f"spec: {{template: {T}}}", [("spec.template", 1)]),
    ("apps", "StatefulSet", f"spec: {{replicas: 0, template: {T}}}", [("spec.template", 0)]),
    ("apps", "DaemonSet", f"spec: {{template: {T}}}", [("spec.template", None)]),
    ("batch", "Job", f"spec: {{parallelism: 8, completions: 3, template: {T}}}", [("spec.template", 3)]),
    (
        "batch",
        "CronJob",
        f"spec: {{jobTemplate: {{spec: {{parallelism: 2, template: {T}}}}}}}",
        [("spec.jobTemplate.spec.template", 2)],
    ),
    ("", "ReplicationController", f"spec: {{replicas: 2, template: {T}}}", [("spec.template", 2)]),
    ("", "PodTemplate", f"template: {T}", [("template", None)]),
    *(
        (
            "kubeflow.org",
            kind,
            f"spec: {{{field}: {{Master: {{template: {T}}}, Worker: {{replicas: 4, template: {T}}}}}}}",
            [(f"spec.{field}.Master.template", 1), (f"spec.{field}.Worker.template", 4)],
        )
        for kind, field in [
            ("PyTorchJob", "pytorchReplicaSpecs"),
            ("TFJob", "tfReplicaSpecs"),
            ("JAXJob", "jaxReplicaSpecs"),
            ("XGBoostJob", "xgbReplicaSpecs"),
            ("PaddleJob", "paddleReplicaSpecs"),
            ("MXJob", "mxReplicaSpecs"),
        ]
    ),
    (
        "kubeflow.org",
        "MPIJob",
        f"spec: {{mpiReplicaSpecs: {{Launcher: {{template: {T}}}, Worker: {{replicas: 4, template: {T}}}}}}}",
        [("spec.mpiReplicaSpecs.Launcher.template", 1), ("spec.mpiReplicaSpecs.Worker.template", 4)],
    ),
    *(
        (
            "trainer.kubeflow.org",
            kind,
            f"spec: {{template: {{spec: {{replicatedJobs: [{{template: {{spec: {{template: {T}}}}}}}]}}}}}}",
            [("spec.template.spec.replicatedJobs[0].template.spec.template", None)],
        )
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
    *(
        (
            "ray.io",
            kind,
            opened + RAY_GROUPS + closed,
            [
                (f"{prefix}.headGroupSpec.template", 1),
                (f"{prefix}.workerGroupSpecs[0].template", 6),
                (f"{prefix}.workerGroupSpecs[1].template", 0),
            ],
        )
        for kind, prefix, opened, closed in [
            ("RayCluster", "spec", "spec: {", "}"),
            ("RayJob", "spec.rayClusterSpec", "spec: {rayClusterSpec: {", "}}"),
            ("RayCronJob", "spec.jobTemplate.rayClusterSpec", "spec: {jobTemplate: {rayClusterSpec: {", "}}}"),
            ("RayService", "spec.rayClusterConfig", "spec: {rayClusterConfig: {", "}}"),
        ]
    ),
    (
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        f"spec: {{replicas: 2, leaderWorkerTemplate: {{size: 4, leaderTemplate: {T}, workerTemplate: {T}}}}}",
        [("spec.leaderWorkerTemplate.leaderTemplate", 2), ("spec.leaderWorkerTemplate.workerTemplate", 6)],
    ),
    (
        "jobset.x-k8s.io",
        "JobSet",
        f"spec: {{replicatedJobs: [{{replicas: 2, template: {{spec: {{parallelism: 4, template: {T}}}}}}}]}}",
        [("spec.replicatedJobs[0].template.spec.template", 8)],
    ),
    (
        "workloads.x-k8s.io",
        "RoleBasedGroup",
        (
            f"spec: {{roles: [{{replicas: 2, standalonePattern: {{template: {T}}}}}, "
            f"{{replicas: 3, leaderWorkerPattern: {{size: 4, template: {T}}}}}, {{template: {T}}}, "
            f"{{replicas: 2, customComponentsPattern: {{components: [{{size: 3, template: {T}}}]}}}}], "
            f"roleTemplates: [{{template: {T}}}]}}"
        ),
        [
            ("spec.roles[2].template", 1),
            ("spec.roles[0].standalonePattern.template", 2),
            ("spec.roles[1].leaderWorkerPattern.template", 12),
            ("spec.roles[3].customComponentsPattern.components[0].template", 6),
            ("spec.roleTemplates[0].template", None),
        ],
    ),
    *(
        (
            group,
            kind,
            f"{opened}{{tasks: [{{replicas: 2, template: {T}}}, {{template: {T}}}]}}{closed}",
            [(f"{prefix}.tasks[0].template", 2), (f"{prefix}.tasks[1].template", 0)],
        )
        for group, kind, prefix, opened, closed in [
            ("batch.volcano.sh", "Job", "spec", "spec: ", ""),
            ("flow.volcano.sh", "JobTemplate", "spec", "spec: ", ""),
            ("batch.volcano.sh", "CronJob", "spec.jobTemplate.spec", "spec: {jobTemplate: {spec: ", "}}"),
        ]
    ),
    ("apps.kruise.io", "CloneSet", f"spec: {{replicas: 5, template: {T}}}", [("spec.template", 5)]),
    ("apps.kruise.io", "StatefulSet", f"spec: {{template: {T}}}", [("spec.template", 1)]),
    ("apps.kruise.io", "DaemonSet", f"spec: {{template: {T}}}", [("spec.template", None)]),
    ("apps.kruise.io", "BroadcastJob", f"spec: {{template: {T}}}", [("spec.template", None)]),
    (
        "apps.kruise.io",
        "AdvancedCronJob",
        (
            f"spec: {{template: {{jobTemplate: {{spec: {{parallelism: 2, template: {T}}}}}, "
            f"broadcastJobTemplate: {{spec: {{template: {T}}}}}}}}}"
        ),
        [
            ("spec.template.jobTemplate.spec.template", 2),
            ("spec.template.broadcastJobTemplate.spec.template", None),
        ],
    ),
    (
        "apps.kruise.io",
        "UnitedDeployment",
        f"spec: {{replicas: 6, template: {{cloneSetTemplate: {{spec: {{template: {T}}}}}}}}}",
        [("spec.template.cloneSetTemplate.spec.template", 6)],
    ),
    ("serving.knative.dev", "Service", f"spec: {{template: {T}}}", [("spec.template", None)]),
    ("argoproj.io", "Rollout", f"spec: {{replicas: 2, template: {T}}}", [("spec.template", 2)]),
    (
        "argoproj.io",
        "Experiment",
        f"spec: {{templates: [{{replicas: 2, template: {T}}}]}}",
        [("spec.templates[0].template", 2)],
    ),
    (
        "serving.kserve.io",
        "InferenceService",
        f"spec: {{predictor: {{minReplicas: 2, {INLINE}}}, transformer: {{{INLINE}}}, explainer: {{{INLINE}}}}}",
        [("spec.predictor", 2), ("spec.transformer", 1), ("spec.explainer", 1)],
    ),
    (
        "kubeflow.org",
        "Notebook",
        "{metadata: {annotations: {mark: here}}, spec: {template: {spec: {containers: [{name: c}]}}}}",
        [("spec.template", 1)],
    ),
]


@pytest.mark.parametrize(
    ("group", "kind", "text", "templates"), KINDS, ids=[f"{group}/{kind}" for group, kind, *_ in KINDS]
)
def test_a_kind(group, kind, text, templates):
    raw, row = yaml.safe_load(text), STANDARD_KINDS[group, kind]
    workload = read_workload(raw, row, namespace="ns")
    assert [(template.path, template.replicas) for template in workload.templates] == templates
    assert [[c.name for c in template.pod.containers] for template in workload.templates] == [["c"]] * len(templates)
    assert [template.pod.annotations for template in workload.templates] == [{"mark": "here"}] * len(templates)
    assert {template.pod.namespace for template in workload.templates} == {"ns"}
    assert workload.malformed == ()
    assert list(workload_annotations(raw, row)) == [{"mark": "here"}] * len(templates)


def test_every_row_of_the_table_has_a_case():
    assert {(group, kind) for group, kind, *_ in KINDS} == set(STANDARD_KINDS)


def _read(group, kind, text):
    return read_workload(yaml.safe_load(text), STANDARD_KINDS[group, kind])


@pytest.mark.parametrize(
    ("group", "kind", "text", "replicas"),
    [
        pytest.param(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            f"spec: {{replicas: 2, leaderWorkerTemplate: {{size: 4, workerTemplate: {T}}}}}",
            [8],
            id="without a leader template the leader is a worker",
        ),
        pytest.param(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            f"spec: {{leaderWorkerTemplate: {{size: 0, leaderTemplate: {T}, workerTemplate: {T}}}}}",
            [1, 0],
            id="never less than none",
        ),
        pytest.param(
            "kubeflow.org",
            "MPIJob",
            f"spec: {{mpiReplicaSpecs: {{Launcher: {{template: {T}}}, Worker: {{template: {T}}}}}}}",
            [1, 0],
            id="an MPIJob has no worker by default",
        ),
        pytest.param("batch", "Job", f"spec: {{completions: 5, template: {T}}}", [1], id="parallelism is 1 by default"),
        pytest.param(
            "batch", "Job", f"spec: {{parallelism: 5, completions: null, template: {T}}}", [5], id="no completions"
        ),
        pytest.param(
            "jobset.x-k8s.io",
            "JobSet",
            f"spec: {{replicatedJobs: [{{template: {{spec: {{parallelism: 9, completions: 2, template: {T}}}}}}}]}}",
            [2],
            id="completions cap a replicated job",
        ),
        pytest.param(
            "apps", "Deployment", f"spec: {{replicas: null, template: {T}}}", [1], id="null replicas are the default"
        ),
    ],
)
def test_counts(group, kind, text, replicas):
    assert [template.replicas for template in _read(group, kind, text).templates] == replicas


@pytest.mark.parametrize(
    ("group", "kind", "text", "malformed"),
    [
        pytest.param(
            "apps",
            "Deployment",
            f"spec: {{replicas: many, template: {T}}}",
            Malformed("spec.replicas", 'the text "many"', "a whole number of 0 or more"),
            id="a text as replicas",
        ),
        pytest.param(
            "apps",
            "Deployment",
            f"spec: {{replicas: -1, template: {T}}}",
            Malformed("spec.replicas", "the number -1", "a whole number of 0 or more"),
            id="negative replicas",
        ),
        pytest.param(
            "kubeflow.org",
            "TFJob",
            f"spec: {{tfReplicaSpecs: {{Worker: {{replicas: true, template: {T}}}}}}}",
            Malformed("spec.tfReplicaSpecs.Worker.replicas", "true", "a whole number of 0 or more"),
            id="the path of a count names the member",
        ),
        pytest.param(
            "kubeflow.org",
            "TFJob",
            "spec: {tfReplicaSpecs: [1]}",
            Malformed("spec.tfReplicaSpecs", "a list", "a map"),
            id="a list where a map is wanted",
        ),
        pytest.param(
            "ray.io",
            "RayCluster",
            "spec: {workerGroupSpecs: {a: 1}}",
            Malformed("spec.workerGroupSpecs", "a map", "a list"),
            id="a map where a list is wanted",
        ),
        pytest.param(
            "apps",
            "Deployment",
            "spec: {template: [1]}",
            Malformed("spec.template", "a list", "a map"),
            id="a template that is a list",
        ),
        pytest.param("apps", "Deployment", "[]", Malformed("", "a list", "a map"), id="an object that is a list"),
    ],
)
def test_what_cannot_be_read_is_noted_and_counts_as_unknown(group, kind, text, malformed):
    workload = _read(group, kind, text)
    assert malformed in workload.malformed
    assert all(template.replicas is None for template in workload.templates)


@pytest.mark.parametrize(
    ("group", "kind", "text"),
    [
        ("kubeflow.org", "PyTorchJob", "spec: {pytorchReplicaSpecs: null}"),
        ("kubeflow.org", "PyTorchJob", "spec: {pytorchReplicaSpecs: {Worker: null, Master: {template: null}}}"),
        ("ray.io", "RayCluster", "spec: {workerGroupSpecs: [null, {}]}"),
        ("argoproj.io", "Rollout", "spec: {workloadRef: {kind: Deployment, name: d}}"),
        ("serving.kserve.io", "InferenceService", "spec: null"),
    ],
)
def test_null_and_missing_are_no_template(group, kind, text):
    workload = _read(group, kind, text)
    assert (workload.templates, workload.malformed) == ((), ())


@pytest.mark.parametrize(
    ("spec", "surge"),
    [
        ("replicas: 10", 3),
        ("replicas: 10, strategy: {rollingUpdate: {maxSurge: 2}}", 2),
        ("replicas: 10, strategy: {rollingUpdate: {maxSurge: 11%}}", 2),
        ("replicas: 10, strategy: {rollingUpdate: {maxSurge: '0'}}", 0),
        ("replicas: 10, strategy: {type: Recreate}", 0),
        ("replicas: 0", 0),
        ("replicas: 10, strategy: {rollingUpdate: {maxSurge: lots%}}", 0),
    ],
)
def test_surge_of_a_deployment(spec, surge):
    assert _read("apps", "Deployment", f"spec: {{{spec}, template: {T}}}").surge == surge


def test_annotations_of_an_inference_service_reach_its_components():
    text = "{metadata: {annotations: {a: '1', b: '1'}}, spec: {predictor: {annotations: {b: '2'}, containers: []}}}"
    [template] = _read("serving.kserve.io", "InferenceService", text).templates
    assert template.pod.annotations == {"a": "1", "b": "2"}


def _names(row):
    paths = [
        path for rule in row.templates for path in (rule.path, *(count.path for count in rule.counts if count.path))
    ]
    return {step for path in paths for step in steps_of(path)} - {EACH_ITEM, EACH_MEMBER}


@given(st.data())
def test_any_json_is_read(data):
    row = data.draw(st.sampled_from(STANDARD_ROWS))
    raw = data.draw(values_with({*_names(row), "metadata", "annotations", "labels", "name"}))
    workload = read_workload(raw, row)
    assert all(template.path for template in workload.templates)
    list(workload_annotations(raw, row))


def test_an_extra_row_stands_above_a_standard_one():
    row = WorkloadKind("apps", "Deployment", (TemplateRule("spec.pods", (Count(default=7),)),))
    table = kind_table([row])
    workload = read_workload({"spec": {"pods": {"spec": {}}}}, table["apps", "Deployment"])
    assert [(template.path, template.replicas) for template in workload.templates] == [("spec.pods", 7)]
    assert len(table) == len(STANDARD_KINDS)
