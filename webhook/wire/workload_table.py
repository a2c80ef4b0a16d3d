"""The standard rows of the table of workload kinds, compared with the projects' own schemas by ``tests/wire/crds``.

Not in it, each for a reason: what another row's object is turned into by its controller (Kueue's Workload, Knative's
Configuration and Revision) is judged where people write it; a TrainJob and a SparkApplication hold no pod spec, and
what is made of them (a JobSet, pods) is judged; a ServingRuntime gets its annotations from the InferenceService; the
pods of an AnalysisRun measure something and train nothing.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from webhook.wire.workload_kinds import AddedContainer, Count, KindTable, SurgeRule, TemplateRule, WorkloadKind


def _one(group: str, kind: str, counts: tuple[Count, ...], surge: SurgeRule | None = None) -> WorkloadKind:
    return WorkloadKind(group, kind, (TemplateRule("spec.template", counts),), surge)


def _counted(path: str, *counts: Count, partial: bool = False) -> TemplateRule:
    return TemplateRule(path, counts, partial=partial)


def _job(prefix: str) -> Count:
    return Count(f"{prefix}.parallelism", at_most=f"{prefix}.completions")


def _replica_specs(kind: str, field: str, *added: AddedContainer) -> WorkloadKind:
    here = f"spec.{field}.*"
    rule = TemplateRule(f"{here}.template", (Count(f"{here}.replicas"),), added=added)
    return WorkloadKind("kubeflow.org", kind, (rule,))


def _mpi_replicas(name: str, default: int) -> TemplateRule:
    # kubeflow/mpi-operator:pkg/apis/kubeflow/v2beta1/default.go, and the same in training-operator's v1: of workers
    # there is none by default. Only the two names are read.
    here = f"spec.mpiReplicaSpecs.{name}"
    return _counted(f"{here}.template", Count(f"{here}.replicas", default))


def _replicated_jobs(prefix: str) -> tuple[str, tuple[Count, ...]]:
    here = f"{prefix}.replicatedJobs[]"
    return f"{here}.template.spec.template", (Count(f"{here}.replicas"), _job(f"{here}.template.spec"))


def _training_runtime(kind: str, *, cluster_scoped: bool = False) -> WorkloadKind:
    # kubeflow/trainer:pkg/runtime/framework/plugins/jobset/builder.go: a TrainJob says how many, and may put its own
    # resources in the place of the runtime's.
    path, _counts = _replicated_jobs("spec.template.spec")
    rule = TemplateRule(path, partial=True)
    return WorkloadKind("trainer.kubeflow.org", kind, (rule,), cluster_scoped=cluster_scoped)


def _ray(prefix: str) -> tuple[TemplateRule, ...]:
    group = f"{prefix}.workerGroupSpecs[]"
    return (
        _counted(f"{prefix}.headGroupSpec.template", Count()),
        # A group without replicas starts with minReplicas, which is 0 by default
        # (ray-project/kuberay:ray-operator/apis/ray/v1/raycluster_types.go).
        TemplateRule(
            f"{group}.template",
            (Count(f"{group}.replicas", default=0), Count(f"{group}.numOfHosts")),
            added=(_WAITS_FOR_THE_HEAD,),
        ),
    )


def _ray_job(prefix: str) -> tuple[TemplateRule, ...]:
    return (*_ray(f"{prefix}.rayClusterSpec"), _counted(f"{prefix}.submitterPodTemplate", Count()))


def _volcano_tasks(prefix: str) -> tuple[TemplateRule, ...]:
    # volcano-sh/apis:pkg/apis/batch/v1alpha1/job.go: the number is no pointer and nothing fills it in, so without one
    # a task makes no pod.
    here = f"{prefix}.tasks[]"
    return (_counted(f"{here}.template", Count(f"{here}.replicas", default=0)),)


def _role_based_group() -> tuple[TemplateRule, ...]:
    # sgl-project/rbg:api/workloads, v1alpha1 and v1alpha2. Leaders and workers may have patches of their own.
    role = "spec.roles[]"
    pods, leader_worker = Count(f"{role}.replicas"), f"{role}.leaderWorkerPattern"
    return (
        _counted(f"{role}.template", pods, Count(f"{role}.leaderWorkerSet.size"), partial=True),
        _counted(f"{role}.standalonePattern.template", pods),
        _counted(f"{leader_worker}.template", pods, Count(f"{leader_worker}.size"), partial=True),
        *(
            _counted(f"{components}.template", pods, Count(f"{components}.size"))
            for components in (f"{role}.components[]", f"{role}.customComponentsPattern.components[]")
        ),
        _counted("spec.roleTemplates[].template", partial=True),
    )


_KSERVE_SERVERS: Final = (
    *("model", "sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm"),
    "paddle",
)
"""Members of an InferenceService's predictor that are the model server's container
(kserve/kserve:pkg/apis/serving/v1beta1/predictor.go)."""


def _kserve(component: str, containers: tuple[str, ...] = ()) -> TemplateRule:
    # kserve/kserve:pkg/apis/serving/v1beta1: a component's extension fields and its pod spec stand in one map; the
    # object's own annotations go to the pods as well. What the model leaves out, a ServingRuntime's container fills in.
    here = f"spec.{component}"
    counts = (Count(f"{here}.minReplicas"),)
    return TemplateRule(
        here, counts, inline=True, metadata=("metadata", here), containers=containers, partial=bool(containers)
    )


def _united(member: str) -> TemplateRule:
    return _counted(f"spec.template.{member}.spec.template", *_REPLICAS)


# kubeflow/training-operator:pkg/controller.v1/pytorch/initcontainer.go (v1.8.1).
_WAITS_FOR_THE_MASTER: Final = AddedContainer(
    "init-pytorch", "50m", "100m", member="Worker", only_where="spec.pytorchReplicaSpecs.Master"
)
# ray-project/kuberay:ray-operator/controllers/ray/common/pod.go (v1.5.0).
_WAITS_FOR_THE_HEAD: Final = AddedContainer("wait-gcs-ready", "200m", "200m")

_REPLICAS: Final = (Count("spec.replicas"),)
_CRON: Final = "spec.jobTemplate.spec"
_KRUISE_CRON: Final = "spec.template.jobTemplate.spec"
_LWS: Final = "spec.leaderWorkerTemplate"
_EXPERIMENT: Final = "spec.templates[]"

_DEPLOYMENT_SURGE: Final = SurgeRule(
    "spec.strategy.rollingUpdate.maxSurge", "25%", strategy="spec.strategy.type", off="Recreate"
)

STANDARD_ROWS: Final = (
    _one("apps", "Deployment", _REPLICAS, _DEPLOYMENT_SURGE),
    _one("apps", "ReplicaSet", _REPLICAS),
    _one("apps", "StatefulSet", _REPLICAS),
    _one("apps", "DaemonSet", ()),
    _one("batch", "Job", (_job("spec"),)),
    WorkloadKind("batch", "CronJob", (TemplateRule(f"{_CRON}.template", (_job(_CRON),)),)),
    _one("", "ReplicationController", _REPLICAS),
    WorkloadKind("", "PodTemplate", (TemplateRule("template"),)),
    _replica_specs("PyTorchJob", "pytorchReplicaSpecs", _WAITS_FOR_THE_MASTER),
    _replica_specs("TFJob", "tfReplicaSpecs"),
    _replica_specs("JAXJob", "jaxReplicaSpecs"),
    _replica_specs("XGBoostJob", "xgbReplicaSpecs"),
    _replica_specs("PaddleJob", "paddleReplicaSpecs"),
    _replica_specs("MXJob", "mxReplicaSpecs"),
    WorkloadKind("kubeflow.org", "MPIJob", (_mpi_replicas("Launcher", 1), _mpi_replicas("Worker", 0))),
    _training_runtime("TrainingRuntime"),
    _training_runtime("ClusterTrainingRuntime", cluster_scoped=True),
    WorkloadKind("ray.io", "RayCluster", _ray("spec")),
    WorkloadKind("ray.io", "RayJob", _ray_job("spec")),
    WorkloadKind("ray.io", "RayCronJob", _ray_job("spec.jobTemplate")),
    WorkloadKind("ray.io", "RayService", _ray("spec.rayClusterConfig")),
    WorkloadKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        (
            TemplateRule(f"{_LWS}.leaderTemplate", _REPLICAS),
            TemplateRule(
                f"{_LWS}.workerTemplate", (*_REPLICAS, Count(f"{_LWS}.size", less_one_where=f"{_LWS}.leaderTemplate"))
            ),
        ),
    ),
    WorkloadKind("jobset.x-k8s.io", "JobSet", (TemplateRule(*_replicated_jobs("spec")),)),
    WorkloadKind("workloads.x-k8s.io", "RoleBasedGroup", _role_based_group()),
    WorkloadKind("batch.volcano.sh", "Job", _volcano_tasks("spec")),
    WorkloadKind("batch.volcano.sh", "CronJob", _volcano_tasks(_CRON)),
    WorkloadKind("flow.volcano.sh", "JobTemplate", _volcano_tasks("spec")),
    _one("apps.kruise.io", "CloneSet", _REPLICAS, SurgeRule("spec.updateStrategy.maxSurge", "0")),
    _one("apps.kruise.io", "StatefulSet", _REPLICAS),
    _one("apps.kruise.io", "DaemonSet", ()),
    _one("apps.kruise.io", "BroadcastJob", ()),
    WorkloadKind(
        "apps.kruise.io",
        "AdvancedCronJob",
        (
            TemplateRule(f"{_KRUISE_CRON}.template", (_job(_KRUISE_CRON),)),
            TemplateRule("spec.template.broadcastJobTemplate.spec.template"),
        ),
    ),
    WorkloadKind(
        "apps.kruise.io",
        "UnitedDeployment",
        (
            _united("statefulSetTemplate"),
            _united("advancedStatefulSetTemplate"),
            _united("cloneSetTemplate"),
            _united("deploymentTemplate"),
        ),
    ),
    # Scaled by its own autoscaler: the object does not say how many.
    _one("serving.knative.dev", "Service", ()),
    _one("argoproj.io", "Rollout", _REPLICAS, SurgeRule("spec.strategy.canary.maxSurge", "25%")),
    WorkloadKind("argoproj.io", "Experiment", (_counted(f"{_EXPERIMENT}.template", Count(f"{_EXPERIMENT}.replicas")),)),
    WorkloadKind(
        "serving.kserve.io",
        "InferenceService",
        (
            _kserve("predictor", _KSERVE_SERVERS),
            # The pods beside a predictor's first, where one model is spread over several; how many, a runtime decides.
            TemplateRule(
                "spec.predictor.workerSpec", inline=True, metadata=("metadata", "spec.predictor"), partial=True
            ),
            _kserve("transformer"),
            _kserve("explainer"),
        ),
    ),
    # kubeflow/kubeflow:components/notebook-controller copies the Notebook's own labels and annotations to its pod.
    WorkloadKind("kubeflow.org", "Notebook", (TemplateRule("spec.template", (Count(),), metadata=("metadata",)),)),
)


def kind_table(extra: Iterable[WorkloadKind] = ()) -> KindTable:
    """Return the standard rows and ``extra`` by (group, kind); an extra row stands above a standard one."""
    return MappingProxyType({(row.group, row.kind): row for row in (*STANDARD_ROWS, *extra)})


STANDARD_KINDS: Final = kind_table()
