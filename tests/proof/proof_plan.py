"""What the users of the proof do, and when: drawn from a seed before anything runs, so that both runs get the same."""

import random
from dataclasses import dataclass
from typing import Any

from proof_machines import GPU

NAMESPACE = "proof"
RUN_SECONDS = "hollow.numa-admission/run-seconds"
SIZES = ((1, 35), (2, 25), (4, 25), (8, 15))
"""(GPUs of a pod, weight)."""
CPUS_PER_GPU = (4, 7, 10, 14)
CPUS_PER_GPU_OF_8 = (10, 14)
"""With fewer, the CPUs would fit into fewer NUMA nodes than the GPUs, and no kubelet would ever take the pod; whatever
the proof asks for can run on an empty node."""


@dataclass(frozen=True)
class Wish:
    """One thing that a user wants to have run."""

    name: str
    kind: str
    """``pod``, ``job`` or ``deployment``."""
    at_seconds: float
    gpus: int
    cpus: int
    pods: int
    run_seconds: float
    """How long each pod runs; of a deployment, until the user deletes it."""
    scale_to: int | None = None
    """Of a deployment: the replicas that the user asks for halfway."""

    def body(self, attempt: int = 0) -> tuple[str, dict[str, Any]]:
        """The path to POST to, and the object."""
        amounts = {"cpu": str(self.cpus), "memory": "1Gi", GPU: str(self.gpus)}
        spec: dict[str, Any] = {
            "containers": [{"name": "main", "image": "none", "resources": {"limits": amounts, "requests": amounts}}],
            "terminationGracePeriodSeconds": 1,
        }
        labels = {"proof": self.name, "proof-kind": self.kind}
        annotations = {} if self.kind == "deployment" else {RUN_SECONDS: f"{self.run_seconds:.2f}"}
        metadata = {"labels": labels, "annotations": annotations}
        if self.kind == "pod":
            spec["restartPolicy"] = "Never"
            name = self.name if not attempt else f"{self.name}-{attempt}"
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
            return f"/api/v1/namespaces/{NAMESPACE}/pods", pod
        if self.kind == "job":
            spec["restartPolicy"] = "Never"
            template = {"metadata": metadata, "spec": spec}
            # Enough retries that a run without us gets every chance; the default of 6 would give up.
            job = {"completions": self.pods, "parallelism": self.pods, "backoffLimit": 1000, "template": template}
            whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name}, "spec": job}
            return f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", whole
        deployment = {
            "replicas": self.pods,
            "selector": {"matchLabels": {"proof": self.name}},
            "template": {"metadata": metadata, "spec": spec},
        }
        whole = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name}, "spec": deployment}
        return f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", whole


def draw(seed: int, seconds: float, gpus_total: int, load: float) -> tuple[Wish, ...]:
    """What users want in ``seconds``: on average ``load`` times the GPUs that there are, pods that come and go.

    A first wave asks for 80 % of the GPUs at once; then wishes arrive as a Poisson process.
    """
    chance = random.Random(seed)
    wishes: list[Wish] = []
    wanted, moment = 0.0, 0.0
    mean_gpu_seconds = sum(_gpu_seconds(_wish(random.Random(number), 0, 0.0)) for number in range(400)) / 400
    rate = load * gpus_total / mean_gpu_seconds
    while moment < seconds:
        wish = _wish(chance, len(wishes), moment)
        wishes.append(wish)
        wanted += wish.gpus * wish.pods
        if wanted > 0.8 * gpus_total:
            moment += chance.expovariate(rate)
        else:
            moment += 0.02
    return tuple(wishes)


def _gpu_seconds(wish: Wish) -> float:
    return wish.gpus * wish.pods * wish.run_seconds


def _wish(chance: random.Random, number: int, moment: float) -> Wish:
    kind = chance.choices(("pod", "job", "deployment"), (50, 30, 20))[0]
    gpus = chance.choices([size for size, _ in SIZES], [weight for _, weight in SIZES])[0]
    cpus = gpus * chance.choice(CPUS_PER_GPU_OF_8 if gpus == 8 else CPUS_PER_GPU)
    pods = {"pod": 1, "job": chance.randint(1, 3), "deployment": chance.randint(1, 4)}[kind]
    if gpus == 8:
        pods = 1
    run = chance.uniform(4, 20) if kind != "deployment" else chance.uniform(10, 30)
    scale_to = chance.randint(1, 4) if kind == "deployment" and gpus < 8 and chance.random() < 0.5 else None
    return Wish(f"{kind}-{number}", kind, moment, gpus, cpus, pods, run, scale_to)
