"""A pod as the rules see it: parsed once at the door (``webhook.wire``), frozen, with the paths that findings name."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.core.quantity import Quantity

ResourceList = Mapping[str, Quantity]


class ContainerKind(enum.Enum):
    """Which list a container stands in, and whether it runs beside the app containers."""

    INIT = "init container"
    SIDECAR = "sidecar"
    """An init container with ``restartPolicy: Always`` (native sidecar)."""
    APP = "container"
    EPHEMERAL = "ephemeral container"


@dataclass(frozen=True, slots=True)
class Container:
    """One container; ``path`` is relative to the pod, such as ``spec.initContainers[0]``."""

    name: str
    kind: ContainerKind
    path: str
    requests: ResourceList
    """As written; not yet defaulted from the limits (``effective_requests`` does that)."""
    limits: ResourceList
    claims: bool = False
    """Whether ``resources.claims`` (dynamic resource allocation) is used."""

    @property
    def effective_requests(self) -> ResourceList:
        """The requests after the API server's own defaulting: a limit stands in for an absent request."""
        return {**self.limits, **self.requests}


class Operator(enum.Enum):
    """Operators of a node selector requirement (kubernetes/api:core/v1/types.go)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector term. An unknown operator is kept as its text and matches nothing."""

    key: str
    operator: Operator | str
    values: tuple[str, ...]
    path: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Expressions and fields are ANDed; a term with neither matches no node."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()
    path: str = field(default="", compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether the term has no requirement at all, and so matches nothing."""
        return not self.expressions and not self.fields


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; empty ``key`` with ``Exists`` tolerates everything, empty ``effect`` every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """What is wrong with the text of a NUMA spec annotation; a rule turns the stable word ``kind`` into a finding."""

    kind: str
    """One of: not_json, repairable_json, not_object, too_long, too_deep, near_key, foreign_key, duplicate_key,
    null_value, wrong_type, unknown_value, missing_policy."""
    key: str = ""
    found: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class NumaSpec:
    """A NUMA spec annotation read as strictly as we demand (issue 3, validate rule 1).

    ``policy`` and ``exclusive`` hold the exact values where they are valid, else None. ``compact`` is the compact
    JSON text where the annotation is valid or repairable (trailing commas, comments), else None.
    """

    key: str
    text: str
    policy: str | None
    exclusive: str | None
    problems: tuple[SpecProblem, ...] = ()
    compact: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the text is valid JSON with exact keys and values (a foreign key does not count against it)."""
        return not self.problems or all(problem.kind == "foreign_key" for problem in self.problems)

    @property
    def is_repairable(self) -> bool:
        """Whether the only fault is the JSON's commas and comments."""
        if not self.problems:
            return False
        return {problem.kind for problem in self.problems} - {"foreign_key"} == {"repairable_json"}


@dataclass(frozen=True, slots=True)
class Malformed:
    """A field whose JSON type or text cannot be read (a number where a map is wanted, a quantity that is none)."""

    path: str
    found: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, or the pod of a template (then ``uid``, ``name`` and ``node_name`` are usually empty)."""

    namespace: str = ""
    name: str = ""
    generate_name: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpu_bind_policies: tuple[str, str] = ("", "")
    """The required and the preferred bind policy of Koordinator's ``resource-spec``; empty where it states none."""
    numa_specs: tuple[NumaSpec, ...] = ()
    """Every annotation that is the exact home of a NUMA spec in some dialect (``webhook.core.dialects``), parsed."""
    containers: tuple[Container, ...] = ()
    """Init containers and sidecars in their order, then app containers, then ephemeral ones."""
    pod_requests: ResourceList | None = None
    """Pod-level ``spec.resources.requests``; None where ``spec.resources`` has none."""
    pod_limits: ResourceList | None = None
    overhead: ResourceList = field(default_factory=dict)
    node_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_terms: tuple[NodeSelectorTerm, ...] | None = None
    """``requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms``; None where the pod has none."""
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = ""
    priority: int = 0
    priority_class_name: str = ""
    scheduling_gates: tuple[str, ...] = ()
    volume_claims: tuple[str, ...] = field(default=(), compare=False)
    """Names of the PersistentVolumeClaims that it mounts, those of generic ephemeral volumes included."""
    has_resource_claims: bool = False
    """``spec.resourceClaims`` is not empty: devices come by dynamic resource allocation."""
    owner_kind: str = ""
    """Kind of the controlling owner reference, else empty. Anyone can write it: never grounds for an exemption."""
    owner_name: str = ""
    is_mirror: bool = False
    """Carries ``kubernetes.io/config.mirror``: the API's image of a static pod, which the kubelet runs anyway."""
    is_deleting: bool = False
    """``metadata.deletionTimestamp`` is set."""
    phase: str = ""
    is_partial: bool = False
    """What is left out may be filled in from elsewhere, before there is a pod: then its absence is no fault."""
    malformed: tuple[Malformed, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One pod template of a workload; ``path`` leads from the object's root to it, such as ``spec.template``."""

    path: str
    pod: Pod
    replicas: int | None
    """Pods that this template makes; None where the kind does not say (DaemonSet) or the field cannot be read."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Where parts of the pod stand that are not below ``path``, by their path in the pod: ``metadata``, ``spec``, and
    single annotations and labels. Some kinds hold the pod spec inline, or hand their own annotations on to the pods."""
    added: tuple[Container, ...] = ()
    """What the kind's operator adds to each pod of the template, unless it is told otherwise."""

    def makes_the_pods_of(self, other: "PodTemplate") -> bool:
        """Return whether the pods are ``other``'s but for labels and annotations of the object itself.

        A kind that hands its own metadata on to its pods is written on all its life: by whoever stops an idle
        Notebook, for one.
        """
        if self.pod == other.pod:
            return True
        own = self.pod
        return "metadata" in self.elsewhere and own == replace(
            other.pod, labels=own.labels, annotations=own.annotations
        )

    def locate(self, path: str) -> str:
        """Return the path from the object's root of what stands at ``path`` in the pod."""
        if self.elsewhere:
            if path in self.elsewhere:
                return self.elsewhere[path]
            part, dot, rest = path.partition(".")
            if part in self.elsewhere:
                holder = self.elsewhere[part]
                return f"{holder}{dot}{rest}" if holder else rest
        return ".".join(part for part in (self.path, path) if part)


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that holds pod templates, read by a row of the table of kinds (``webhook.wire.workloads``)."""

    group: str
    kind: str
    namespace: str
    name: str
    templates: tuple[PodTemplate, ...]
    surge: int = 0
    """Pods that a rolling update may run beyond the replicas (Deployments)."""
    malformed: tuple[Malformed, ...] = ()

    def paired_with(self, old: "Workload | None") -> Iterator[tuple[PodTemplate, PodTemplate | None]]:
        """Yield each template with the one of ``old`` that it was; None for a new one.

        That is the one at its path; but where an item of a list came or went, the others have moved, and a template
        is what it makes: one of the same pods that stays at its place nowhere.
        """
        at = {template.path: template for template in old.templates} if old is not None else {}
        stay = {each.path for each in self.templates if each.path in at and each.makes_the_pods_of(at[each.path])}
        moved = [each for each in at.values() if each.path not in stay]
        for template in self.templates:
            was = at.get(template.path)
            if moved and template.path not in stay:
                same = next((each for each in moved if each.pod == template.pod), None)
                if same is not None:
                    moved.remove(same)
                    was = same
            yield template, was


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod bound to a node: ``pods/binding``. Its annotations are merged into the pod's by the API server."""

    namespace: str
    pod_name: str
    pod_uid: str
    node_name: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """What is judged of a Node object: its labels."""

    name: str
    labels: Mapping[str, str]
