"""A pod's JSON into ``webhook.core.pod.Pod``: every field that a rule reads, and a note of each that cannot be read.

Nothing is raised for any value that JSON or YAML can hold. ``null`` is absent; what has a wrong type is absent too and
stands in ``Pod.malformed``, so that a rule can refuse it. Paths are relative to the pod.
"""

from collections.abc import Mapping
from typing import Final

from webhook.core.pod import (
    Container,
    ContainerKind,
    Malformed,
    NodeSelectorTerm,
    Operator,
    Pod,
    Requirement,
    ResourceList,
    Toleration,
)
from webhook.wire.bind_policies import read_bind_policies
from webhook.wire.numa_spec import NUMA_SPEC_HOMES, SpecHome, read_numa_specs
from webhook.wire.shapes import (
    JsonMap,
    child,
    describe,
    list_in,
    map_in,
    quantities_in,
    read_list,
    read_map,
    read_quantities,
    read_text,
    read_text_map,
    text_in,
)

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
REQUIRED_TERMS_PATH: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

_OPERATORS: Final = {operator.value: operator for operator in Operator}


def read_pod(raw: object, *, namespace: str = "", homes: tuple[SpecHome, ...] = NUMA_SPEC_HOMES) -> Pod:
    """Return the pod, or the pod of a template, that ``raw`` describes.

    ``namespace`` is the request's; it stands above the object's own, which is empty where the client left it out.
    """
    faults: list[Malformed] = []
    pod = read_map(raw, "", faults)
    return read_pod_parts(
        map_in(pod, "metadata", "", faults),
        map_in(pod, "spec", "", faults),
        status=map_in(pod, "status", "", faults),
        namespace=namespace,
        homes=homes,
        faults=faults,
    )


def read_pod_parts(
    metadata: JsonMap,
    spec: JsonMap,
    *,
    status: JsonMap,
    namespace: str,
    faults: list[Malformed],
    homes: tuple[SpecHome, ...] = NUMA_SPEC_HOMES,
) -> Pod:
    """Return the pod whose metadata, spec and status stand apart; ``faults`` holds what was malformed on the way."""
    annotations = read_text_map(metadata.get("annotations"), "metadata.annotations", faults)
    owner_kind, owner_name = _controller(metadata.get("ownerReferences"), faults)
    pod_resources = map_in(spec, "resources", "spec", faults)
    priority = spec.get("priority")
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
        faults.append(Malformed("spec.priority", describe(priority), "a whole number"))
        priority = None
    return Pod(
        namespace=namespace or text_in(metadata, "namespace", "metadata", faults),
        name=text_in(metadata, "name", "metadata", faults),
        generate_name=text_in(metadata, "generateName", "metadata", faults),
        uid=text_in(metadata, "uid", "metadata", faults),
        labels=read_text_map(metadata.get("labels"), "metadata.labels", faults),
        annotations=annotations,
        cpu_bind_policies=read_bind_policies(annotations),
        numa_specs=read_numa_specs(annotations, homes),
        containers=_containers(spec, faults),
        pod_requests=_pod_level(pod_resources, "requests", faults),
        pod_limits=_pod_level(pod_resources, "limits", faults),
        overhead=quantities_in(spec, "overhead", "spec", faults),
        node_name=text_in(spec, "nodeName", "spec", faults),
        node_selector=read_text_map(spec.get("nodeSelector"), "spec.nodeSelector", faults),
        required_terms=read_required_terms(spec, faults),
        tolerations=_tolerations(spec.get("tolerations"), faults),
        scheduler_name=text_in(spec, "schedulerName", "spec", faults),
        priority=priority or 0,
        priority_class_name=text_in(spec, "priorityClassName", "spec", faults),
        scheduling_gates=_gates(spec.get("schedulingGates"), faults),
        volume_claims=_volume_claims(spec, metadata.get("name")),
        has_resource_claims=bool(list_in(spec, "resourceClaims", "spec", faults)),
        owner_kind=owner_kind,
        owner_name=owner_name,
        is_mirror=MIRROR_ANNOTATION in annotations,
        is_deleting=metadata.get("deletionTimestamp") is not None,
        phase=text_in(status, "phase", "status", faults),
        malformed=tuple(faults),
    )


def read_required_terms(spec: JsonMap, faults: list[Malformed]) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the required node selector terms of a pod spec, one for each of the list, or None without any."""
    affinity = map_in(spec, "affinity", "spec", faults)
    node_affinity = map_in(affinity, "nodeAffinity", "spec.affinity", faults)
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    path = f"{REQUIRED_TERMS_PATH}.nodeSelectorTerms"
    terms = read_list(read_map(required, REQUIRED_TERMS_PATH, faults).get("nodeSelectorTerms"), path, faults)
    return tuple(_term(raw, f"{path}[{index}]", faults) for index, raw in enumerate(terms))


def _term(raw: object, path: str, faults: list[Malformed]) -> NodeSelectorTerm:
    term = read_map(raw, path, faults)
    return NodeSelectorTerm(
        _requirements(term.get("matchExpressions"), f"{path}.matchExpressions", faults),
        _requirements(term.get("matchFields"), f"{path}.matchFields", faults),
        path,
    )


def _requirements(raw: object, path: str, faults: list[Malformed]) -> tuple[Requirement, ...]:
    requirements: list[Requirement] = []
    for index, item in enumerate(read_list(raw, path, faults)):
        here = f"{path}[{index}]"
        requirement = read_map(item, here, faults)
        operator = text_in(requirement, "operator", here, faults)
        values = list_in(requirement, "values", here, faults)
        requirements.append(
            Requirement(
                key=text_in(requirement, "key", here, faults),
                operator=_OPERATORS.get(operator, operator),
                values=tuple(
                    read_text(value, f"{here}.values[{position}]", faults) for position, value in enumerate(values)
                ),
                path=here,
            )
        )
    return tuple(requirements)


_CONTAINER_LISTS: Final = (
    ("initContainers", ContainerKind.INIT),
    ("containers", ContainerKind.APP),
    ("ephemeralContainers", ContainerKind.EPHEMERAL),
)


def _containers(spec: JsonMap, faults: list[Malformed]) -> tuple[Container, ...]:
    containers: list[Container] = []
    for field, kind in _CONTAINER_LISTS:
        raw_list = spec.get(field)
        if raw_list is None:
            continue
        for index, raw in enumerate(read_list(raw_list, f"spec.{field}", faults)):
            containers.append(read_container(raw, kind, f"spec.{field}[{index}]", faults))
    return tuple(containers)


def read_container(raw: object, kind: ContainerKind, path: str, faults: list[Malformed]) -> Container:
    """Return one container; an init container that always restarts is a sidecar."""
    container = read_map(raw, path, faults)
    resources_path = f"{path}.resources"
    resources = read_map(container.get("resources"), resources_path, faults)
    if kind is ContainerKind.INIT and container.get("restartPolicy") == "Always":
        kind = ContainerKind.SIDECAR
    return Container(
        name=text_in(container, "name", path, faults),
        kind=kind,
        path=path,
        requests=quantities_in(resources, "requests", resources_path, faults),
        limits=quantities_in(resources, "limits", resources_path, faults),
        claims=bool(list_in(resources, "claims", resources_path, faults)),
    )


def _pod_level(resources: JsonMap, field: str, faults: list[Malformed]) -> ResourceList | None:
    if resources.get(field) is None:
        return None
    return read_quantities(resources[field], child("spec.resources", field), faults)


_DEFAULT_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
]
"""What the API server gives nearly every pod (kubernetes/kubernetes:plugin/pkg/admission/defaulttolerationseconds)."""
_DEFAULT_TOLERATIONS_READ: Final = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", "", "NoExecute") for state in ("not-ready", "unreachable")
)


def _tolerations(raw: object, faults: list[Malformed]) -> tuple[Toleration, ...]:
    if raw == _DEFAULT_TOLERATIONS:  # a look, where reading them costs a sixth of the pod
        return _DEFAULT_TOLERATIONS_READ
    tolerations: list[Toleration] = []
    for index, item in enumerate(read_list(raw, "spec.tolerations", faults)):
        path = f"spec.tolerations[{index}]"
        toleration = read_map(item, path, faults)
        tolerations.append(
            Toleration(
                text_in(toleration, "key", path, faults),
                text_in(toleration, "operator", path, faults),
                text_in(toleration, "value", path, faults),
                text_in(toleration, "effect", path, faults),
            )
        )
    return tuple(tolerations)


def _volume_claims(spec: JsonMap, pod_name: object) -> tuple[str, ...]:
    """Return the names of the claims that the pod's volumes mount; what cannot be read mounts none, and no rule asks.

    The claim of a generic ephemeral volume has the pod's name before its own.
    """
    volumes = spec.get("volumes")
    if not volumes or not isinstance(volumes, list):
        return ()
    names: list[str] = []
    for volume in volumes:
        if not isinstance(volume, dict):
            continue
        claim, name = volume.get("persistentVolumeClaim"), volume.get("name")
        if isinstance(claim, dict) and isinstance(claim.get("claimName"), str):
            names.append(claim["claimName"])
        elif isinstance(volume.get("ephemeral"), dict) and isinstance(name, str):
            names.append(f"{pod_name}-{name}" if isinstance(pod_name, str) else name)
    return tuple(names)


def _gates(raw: object, faults: list[Malformed]) -> tuple[str, ...]:
    gates: list[str] = []
    for index, item in enumerate(read_list(raw, "spec.schedulingGates", faults)):
        path = f"spec.schedulingGates[{index}]"
        gates.append(text_in(read_map(item, path, faults), "name", path, faults))
    return tuple(gates)


def _controller(raw: object, faults: list[Malformed]) -> tuple[str, str]:
    """Return kind and name of the owner that controls the pod, else two empty texts."""
    for index, item in enumerate(read_list(raw, "metadata.ownerReferences", faults)):
        path = f"metadata.ownerReferences[{index}]"
        owner = read_map(item, path, faults)
        if owner.get("controller") is True:
            return text_in(owner, "kind", path, faults), text_in(owner, "name", path, faults)
    return "", ""


def raw_annotations(metadata: object) -> Mapping[str, object]:
    """Return the annotations as they stand in ``metadata``, unread, for a look at their keys; empty where none."""
    if not isinstance(metadata, dict):
        return {}
    annotations = metadata.get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def has_same_pod(new: JsonMap, old: JsonMap) -> bool:
    """Return whether nothing that a rule reads differs between two pods as they came: status and finalizers may."""
    metadata, before = new.get("metadata"), old.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(before, dict):
        return False
    return all(metadata.get(name) == before.get(name) for name in ("annotations", "labels")) and (
        new.get("spec") == old.get("spec")
    )
