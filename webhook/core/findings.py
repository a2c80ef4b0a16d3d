"""The finding: the one currency between core, HTTP, command line, metrics, dashboard and documentation."""

import enum
from dataclasses import dataclass, replace


class Severity(enum.Enum):
    """How much a finding weighs. ERROR refuses; WARNING is said and allowed."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a call in Python for each look-up

    ERROR = "error"
    WARNING = "warning"


class Family(enum.Enum):
    """Rule families that the settings switch to deny, warn or off, each by itself (issue 3)."""

    __hash__ = object.__hash__  # as above

    SPEC = "spec"
    """The NUMA spec annotation and ``cpuset-scheduler``: form, keys, homes, near misses."""
    CPU = "cpu"
    """Whole cores, request equals limit, in every container."""
    GPU = "gpu"
    """Whole cards of the dialect's GPU resource, and nothing beside them."""
    CONFLICT = "conflict"
    """Marks of features that exclude NUMA-aware scheduling."""
    NODE = "node"
    """Node selector, affinity, nodeName against the label of NUMA nodes."""
    RESULT = "result"
    """Annotations that only a scheduler may write."""
    UPDATE = "update"
    """What may not change on a pod that is scheduled."""
    EFFECT = "effect"
    """What is written but has no effect."""
    CAPACITY = "capacity"
    """Room on the cluster's NUMA nodes, judged by the ledger."""
    FORM = "form"
    """Fields that cannot be read at all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, with where, what was found, what is wanted and what to do.

    ``code`` is one of ``webhook.core.reasons``; ``path`` is from the object's root, an annotation's key in brackets
    and double quotes: ``metadata.annotations["cpuset-scheduler"]``; ``problem`` is one sentence that names found and
    wanted and ends with a period; ``next_step`` is one or two sentences, imperative.
    """

    code: str
    family: Family
    severity: Severity
    path: str
    problem: str
    found: str = ""
    wanted: str = ""
    next_step: str = ""
    proof: str = ""
    """A paragraph of numbers (capacity findings), else empty."""

    @property
    def sentence(self) -> str:
        """The finding as every reader sees it: path, problem, next step; without the code."""
        parts = [f"{self.path}: {self.problem}" if self.path else self.problem]
        if self.proof:
            parts.append(self.proof)
        if self.next_step:
            parts.append(self.next_step)
        return " ".join(parts)

    def __str__(self) -> str:
        """Return the sentence and the code: ``<path>: <problem>. <next step>. [<code>]``."""
        return f"{self.sentence} [{self.code}]"

    def under(self, prefix: str) -> "Finding":
        """Return the finding with its path below ``prefix`` (a template's path)."""
        if not prefix:
            return self
        return replace(self, path=f"{prefix}.{self.path}" if self.path else prefix)

    def moved_to(self, path: str) -> "Finding":
        """Return the finding with another path (a pod's, as seen from the object that holds its template)."""
        return replace(self, path=path)

    def as_warning(self) -> "Finding":
        """Return the finding with severity WARNING."""
        return replace(self, severity=Severity.WARNING)
