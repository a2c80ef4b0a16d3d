"""What is asked and what is decided, as values. ``decide`` (``webhook.core.decide``) goes from the one to the other."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.core.findings import Finding, Severity
from webhook.core.pod import Binding, NodeLabels, Pod, Workload

Subject = Pod | Workload | Binding | NodeLabels


class Endpoint(enum.Enum):
    """Which question is asked: one URL path each."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a call in Python for each look-up

    MUTATE = "mutate"
    VALIDATE = "validate"
    CAPACITY = "capacity"
    BIND = "bind"


class Operation(enum.Enum):
    """Operations of an admission request."""

    __hash__ = object.__hash__  # as above

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True, slots=True)
class Ask:
    """An admission request, parsed. ``subject`` is None where the kind is none of ours; ``old`` is the oldObject."""

    operation: Operation
    namespace: str
    name: str
    subject: Subject | None
    old: Subject | None = None
    subresource: str = ""
    username: str = ""
    groups: tuple[str, ...] = ()
    dry_run: bool = False
    review_uid: str = ""
    """The uid of this call; it joins nothing (every call has another), only the reply and the log line carry it."""
    resource: str = ""
    """group/resource, such as ``pods`` or ``apps/deployments``."""


# Edits: what mutate changes, as typed values; ``webhook.wire.patches`` turns them into JSON Patch on the raw object.


@dataclass(frozen=True, slots=True)
class SetAnnotation:
    """Set one annotation of the pod to ``value``."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RequireNodeLabel:
    """AND ``key In values`` into every non-empty required node selector term; without affinity make one term."""

    key: str
    values: tuple[str, ...]


Edit = SetAnnotation | RequireNodeLabel


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict: allowed or not, every finding, warnings in one line each, edits, audit annotations."""

    allowed: bool
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    """Extra warnings that are no findings (a repair was made). Findings of severity WARNING are said as well."""
    edits: tuple[Edit, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    event: object | None = None
    """At most one ledger event, committed by the service (``webhook.core.ledger``)."""

    @staticmethod
    def allow(
        *, findings: tuple[Finding, ...] = (), warnings: tuple[str, ...] = (), event: object | None = None
    ) -> "Decision":
        """Return an allowing decision that says ``findings`` (all of them warnings) and ``warnings``."""
        return Decision(allowed=True, findings=findings, warnings=warnings, event=event)

    @staticmethod
    def change(
        edits: tuple[Edit, ...], *, warnings: tuple[str, ...] = (), audit: Mapping[str, str] | None = None
    ) -> "Decision":
        """Return an allowing decision that edits the object."""
        return Decision(allowed=True, edits=edits, warnings=warnings, audit=audit or {})

    @staticmethod
    def of(findings: tuple[Finding, ...], *, event: object | None = None) -> "Decision":
        """Return a refusal where a finding is an ERROR, else an allowing decision that warns."""
        allowed = all(finding.severity is not Severity.ERROR for finding in findings)
        return Decision(allowed=allowed, findings=findings, event=event if allowed else None)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that refuse."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """One line each: the warnings, then the findings that only warn."""
        said = tuple(str(finding) for finding in self.findings if finding.severity is Severity.WARNING)
        return self.warnings + said
