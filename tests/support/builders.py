"""Pods, workloads and questions for tests: written as JSON, read through the door (``webhook.wire``) like real ones."""

import copy

from webhook.core.decisions import Ask, Operation
from webhook.core.pod import Binding, NodeLabels, Pod, PodTemplate, Workload
from webhook.wire.pods import read_pod

SPEC_KEY = "scheduling.alibabacloud.com/numa-topology-spec"
OLDER_KEY = "scheduling.alibabacloud.com/resource-spec"
KOORD_KEY = "scheduling.koordinator.sh/numa-topology-spec"
KOORD_OLDER_KEY = "scheduling.koordinator.sh/resource-spec"
BIND_POLICY = '{"preferredCPUBindPolicy":"FullPCPUs"}'
"""What Koordinator's scheduler writes into the older home of a pod that states no bind policy, before it binds."""
SINGLE = '{"numaTopologyPolicy":"SingleNUMANode"}'
GUIDE_SPEC = '{\n  "numaTopologyPolicy": "SingleNUMANode",\n  "singleNUMANodeExclusive": "Preferred",\n}\n'
"""The vendor guide's own text, trailing comma included."""
GUIDE_COMPACT = '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}'

ABSENT = object()
"""As a value: the key is taken out."""


def resources(cpu="24", gpu="4", *, gpu_name="aliyun.com/gpu", memory=None, requests=None, limits=None):
    """Return container resources: equal requests and limits, then what ``requests`` and ``limits`` change."""
    amounts = {"cpu": cpu, gpu_name: gpu, "memory": memory}
    amounts = {name: amount for name, amount in amounts.items() if amount is not None}
    return {"requests": changed(amounts, requests), "limits": changed(amounts, limits)}


def container(name="example", **amounts):
    """Return a container with ``resources(**amounts)``; ``raw`` adds other fields."""
    raw = amounts.pop("raw", {})
    return {"name": name, "resources": resources(**amounts), **raw}


def raw_pod(*, annotations=None, labels=None, containers=None, spec=None, metadata=None):
    """Return a pod that keeps every ACK rule, as JSON, with the changes asked for (``ABSENT`` takes out)."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "example",
            "namespace": "team",
            "annotations": changed({"cpuset-scheduler": "required", SPEC_KEY: SINGLE}, annotations),
            "labels": labels or {},
            **(metadata or {}),
        },
        "spec": {
            "containers": [container()] if containers is None else containers,
            "nodeSelector": {"ack.node.gpu.schedule": "topology"},
            "schedulerName": "default-scheduler",
            **(spec or {}),
        },
    }


def pod(**changes) -> Pod:
    """Return ``raw_pod(**changes)``, read."""
    return read_pod(raw_pod(**changes))


def raw_koordinator_pod(*, annotations=None, labels=None, containers=None, spec=None):
    """Return a pod that keeps every Koordinator rule, as JSON, with the changes asked for."""
    return raw_pod(
        annotations={"cpuset-scheduler": ABSENT, SPEC_KEY: ABSENT, KOORD_KEY: SINGLE, **(annotations or {})},
        labels=changed({"koordinator.sh/qosClass": "LSR"}, labels),
        containers=[container(gpu_name="nvidia.com/gpu")] if containers is None else containers,
        spec={"nodeSelector": {}, "schedulerName": "koord-scheduler", "priority": 9500, **(spec or {})},
    )


def koordinator_pod(**changes) -> Pod:
    """Return ``raw_koordinator_pod(**changes)``, read."""
    return read_pod(raw_koordinator_pod(**changes))


def stranger() -> Pod:
    """Return a pod that is none of ours: another feature's annotation, a fraction of a core, another GPU resource."""
    return pod(
        annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": "true"},
        containers=[container(cpu="1500m", gpu_name="nvidia.com/gpu", limits={"cpu": ABSENT})],
    )


def bound(pod_json, node="gpu-1"):
    """Return the pod's JSON with its node."""
    raw = copy.deepcopy(pod_json)
    raw["spec"]["nodeName"] = node
    return raw


def workload(template: Pod, *, path="spec.template", replicas=1) -> Workload:
    """Return a Deployment with one template."""
    return Workload("apps", "Deployment", "team", "example", (PodTemplate(path, template, replicas),))


def ask(subject, old=None, *, subresource="", username="alice", namespace="team") -> Ask:
    """Return a question: CREATE without ``old``, else UPDATE."""
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return Ask(operation, namespace, "example", subject, old, subresource=subresource, username=username)


def binding(**annotations) -> Binding:
    """Return a Binding of the pod ``example`` to node ``gpu-1`` with ``annotations``."""
    return Binding("team", "example", "uid-1", "gpu-1", annotations)


def node(**labels) -> NodeLabels:
    """Return the labels of node ``gpu-1``; underscores in names stand for themselves, pass odd keys by ``**{}``."""
    return NodeLabels("gpu-1", labels)


def changed(base, changes):
    """Return ``base`` with ``changes``; ``ABSENT`` takes a key out."""
    merged = {**base, **(changes or {})}
    return {key: value for key, value in merged.items() if value is not ABSENT}
