"""The table of kinds that hold pod templates: a row says where the templates stand and how many pods each makes.

A row is a value: a new kind is a new row here or in the settings (``webhook.wire.workload_rows``), and no other file
changes. Versions are not in it: every API version of a kind is read by its structure.

A path is words joined by dots. ``name[]`` goes through every item of a list, ``*`` through every member of a map:
``spec.workerGroupSpecs[].template``, ``spec.tfReplicaSpecs.*.template``. A path of a count has the same wildcards as
its template's, and they stand for the same items.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from webhook.wire.shapes import describe


@dataclass(frozen=True, slots=True)
class Count:
    """One factor of a template's number of pods: the whole number at ``path``, or ``default`` where there is none."""

    path: str = ""
    """Empty: always ``default``."""
    default: int = 1
    at_most: str = ""
    """Path of a number that caps it (a Job runs no more pods at once than completions are wanted)."""
    less_one_where: str = ""
    """Path of a field whose presence takes one off (a LeaderWorkerSet's leader has a template of its own)."""


@dataclass(frozen=True, slots=True)
class TemplateRule:
    """Where a kind's pod templates stand."""

    path: str
    counts: tuple[Count, ...] = ()
    """Their product is the number of pods; empty: the object does not say (a DaemonSet)."""
    inline: bool = False
    """Whether the pod spec's fields stand at ``path`` itself, not at ``path``.spec."""
    metadata: tuple[str, ...] = ()
    """Paths, without wildcards, of maps whose ``labels`` and ``annotations`` reach the pod, a later one above an
    earlier one. Empty: ``path``.metadata."""
    containers: tuple[str, ...] = ()
    """Members of an inline pod spec that are a container each, besides those of ``containers``."""


@dataclass(frozen=True, slots=True)
class SurgeRule:
    """How many pods a rolling update may run beyond the replicas."""

    path: str
    """Of a whole number, or a text such as ``25%``, which is rounded up."""
    default: str
    strategy: str = ""
    """Path that is looked at first: ``off`` there means no surge."""
    off: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind: group and name, its templates, its surge."""

    group: str
    kind: str
    templates: tuple[TemplateRule, ...]
    surge: SurgeRule | None = None


KindTable = Mapping[tuple[str, str], WorkloadKind]
"""Rows by (group, kind)."""


def _one(group: str, kind: str, counts: tuple[Count, ...], surge: SurgeRule | None = None) -> WorkloadKind:
    return WorkloadKind(group, kind, (TemplateRule("spec.template", counts),), surge)


def _replica_specs(kind: str, field: str) -> WorkloadKind:
    rule = TemplateRule(f"spec.{field}.*.template", (Count(f"spec.{field}.*.replicas"),))
    return WorkloadKind("kubeflow.org", kind, (rule,))


def _job(prefix: str) -> Count:
    return Count(f"{prefix}.parallelism", at_most=f"{prefix}.completions")


def _ray(prefix: str) -> tuple[TemplateRule, ...]:
    group = f"{prefix}.workerGroupSpecs[]"
    return (
        TemplateRule(f"{prefix}.headGroupSpec.template", (Count(),)),
        # A group without replicas starts with minReplicas, which is 0 by default
        # (ray-project/kuberay:ray-operator/apis/ray/v1/raycluster_types.go).
        TemplateRule(f"{group}.template", (Count(f"{group}.replicas", default=0), Count(f"{group}.numOfHosts"))),
    )


_KSERVE_SERVERS: Final = (
    *("model", "sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm"),
    "paddle",
)
"""Members of an InferenceService's predictor that are the model server's container
(kserve/kserve:pkg/apis/serving/v1beta1/predictor.go)."""


def _kserve(component: str, containers: tuple[str, ...] = ()) -> TemplateRule:
    # kserve/kserve:pkg/apis/serving/v1beta1: a component's extension fields and its pod spec stand in one map; the
    # object's own annotations go to the pods as well.
    here = f"spec.{component}"
    counts = (Count(f"{here}.minReplicas"),)
    return TemplateRule(here, counts, inline=True, metadata=("metadata", here), containers=containers)


_REPLICAS: Final = (Count("spec.replicas"),)
_CRON: Final = "spec.jobTemplate.spec"
_VOLCANO: Final = "spec.tasks[]"
_LWS: Final = "spec.leaderWorkerTemplate"
_JOBSET: Final = "spec.replicatedJobs[]"

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
    _replica_specs("PyTorchJob", "pytorchReplicaSpecs"),
    _replica_specs("TFJob", "tfReplicaSpecs"),
    _replica_specs("MPIJob", "mpiReplicaSpecs"),
    _replica_specs("JAXJob", "jaxReplicaSpecs"),
    _replica_specs("XGBoostJob", "xgbReplicaSpecs"),
    _replica_specs("PaddleJob", "paddleReplicaSpecs"),
    WorkloadKind("ray.io", "RayCluster", _ray("spec")),
    WorkloadKind(
        "ray.io", "RayJob", (*_ray("spec.rayClusterSpec"), TemplateRule("spec.submitterPodTemplate", (Count(),)))
    ),
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
    WorkloadKind(
        "jobset.x-k8s.io",
        "JobSet",
        (
            TemplateRule(
                f"{_JOBSET}.template.spec.template", (Count(f"{_JOBSET}.replicas"), _job(f"{_JOBSET}.template.spec"))
            ),
        ),
    ),
    WorkloadKind("batch.volcano.sh", "Job", (TemplateRule(f"{_VOLCANO}.template", (Count(f"{_VOLCANO}.replicas"),)),)),
    _one("apps.kruise.io", "CloneSet", _REPLICAS, SurgeRule("spec.updateStrategy.maxSurge", "0")),
    _one("apps.kruise.io", "StatefulSet", _REPLICAS),
    _one("apps.kruise.io", "DaemonSet", ()),
    # Scaled by its own autoscaler: the object does not say how many.
    _one("serving.knative.dev", "Service", ()),
    _one("argoproj.io", "Rollout", _REPLICAS, SurgeRule("spec.strategy.canary.maxSurge", "25%")),
    WorkloadKind(
        "serving.kserve.io",
        "InferenceService",
        (
            _kserve("predictor", _KSERVE_SERVERS),
            # The pods beside a predictor's first, where one model is spread over several; how many, a runtime decides.
            TemplateRule("spec.predictor.workerSpec", inline=True, metadata=("metadata", "spec.predictor")),
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

EACH_ITEM: Final = "[]"
EACH_MEMBER: Final = "*"
PATH_FORM: Final = re.compile(r"(?:[A-Za-z0-9_-]+(?:\[\])?|\*)(?:\.(?:[A-Za-z0-9_-]+(?:\[\])?|\*))*", re.ASCII)


PATH_WANTED: Final = "a path such as spec.template or spec.tasks[].template"


class WorkloadKindError(ValueError):
    """A row of the settings cannot be used; the message has one sentence for each fault, joined by line breaks."""


@lru_cache(maxsize=256)
def steps_of(path: str) -> tuple[str, ...]:
    """Return the steps of ``path``: names, ``[]`` for each item of a list, ``*`` for each member of a map.

    Raises:
        WorkloadKindError: ``path`` is not words joined by dots.
    """
    if not PATH_FORM.fullmatch(path):
        raise WorkloadKindError(
            f"{describe(path)} is no path; wanted one such as spec.template or spec.tasks[].template."
        )
    steps: list[str] = []
    for word in path.split("."):
        steps.extend((word[:-2], EACH_ITEM) if word.endswith(EACH_ITEM) else (word,))
    return tuple(steps)


def has_wildcards(path: str) -> bool:
    """Return whether ``path`` leads to more than one place; else it is written as a reader finds it."""
    return EACH_ITEM in path or EACH_MEMBER in path
