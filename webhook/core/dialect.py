"""The shape of a dialect (one vendor's way to ask for NUMA placement) and of a rule that belongs to it."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from webhook.core.findings import Finding
from webhook.core.pod import NumaSpec, Pod


class Stage(enum.Enum):
    """Where in its life a pod is judged; it decides how a repairable fault and an absent request weigh."""

    CREATE = "create"
    """A pod that is being stored: mutating webhooks and LimitRange have run, so what is missing stays missing."""
    UPDATE = "update"
    """A pod that is stored; nothing is repaired any more."""
    TEMPLATE = "template"
    """The pod of a workload's template: defaults and repairs are still to come."""
    FILE = "file"
    """A pod or template in a file: as a template, but nobody knows whether the webhook is installed."""

    @property
    def is_lenient(self) -> bool:
        """Whether defaulting (limits, LimitRange) and repair are still ahead."""
        return self in (Stage.TEMPLATE, Stage.FILE)


@dataclass(frozen=True, slots=True)
class Case:
    """One pod before one dialect's rules."""

    pod: Pod
    dialect: "Dialect"
    stage: Stage
    near_homes: tuple[str, ...] = ()
    """Annotation keys that look like the home of a NUMA spec and are none; said to belong to this dialect."""
    home: NumaSpec | None = None
    older: NumaSpec | None = None
    """The spec in the older home, where that mentions a NUMA policy at all."""
    beside: tuple["Dialect", ...] = ()
    """The other dialects whose marks the pod carries."""

    @property
    def spec(self) -> NumaSpec | None:
        """The spec that counts: the home's, else the older home's."""
        return self.home or self.older

    @property
    def is_exactly_marked(self) -> bool:
        """Whether the pod carries a mark of the dialect without any near miss."""
        companion = self.dialect.cpuset
        return self.spec is not None or (
            companion is not None and self.pod.annotations.get(companion[0]) == companion[1]
        )


Rule = Callable[[Case], Iterable[Finding]]
"""Looks at one pod and yields what is wrong; it never stops at the first problem and never raises."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Keys, resource names and rules of one vendor. A new vendor is a new row in ``webhook.core.dialects``."""

    name: str
    title: str
    """As a sentence names it: ``ACK``, ``Koordinator``."""
    home: str = ""
    """Annotation key of the NUMA spec; empty where pods carry none (``kubelet``)."""
    older_home: str = ""
    """Annotation key that once held the same JSON and belongs to another feature today."""
    cpuset: tuple[str, str] | None = None
    """Annotation and its only value that go together with the spec."""
    gpus: tuple[str, ...] = ()
    """Resources that count whole cards; the first is the one to recommend."""
    foreign_gpus: tuple[str, ...] = ()
    """Resources of other GPU modes, which no node offers together with ``gpus``."""
    requires_gpu: bool = False
    node_label: tuple[str, str] | None = None
    """Label that a node must carry, and its value; mutate demands it."""
    policy_labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Labels of nodes that choose a NUMA or GPU mode, each with the values that are known."""
    result_keys: tuple[str, ...] = ()
    """Annotations that only a scheduler may write."""
    read_annotations: tuple[str, ...] = ()
    """Further annotations that its rules read, beside the homes, ``cpuset`` and the results."""
    read_labels: tuple[str, ...] = ()
    """Labels of pods that its rules read."""
    read_label_prefixes: tuple[str, ...] = ()
    """The same for every label that starts so."""
    schedulers: tuple[str, ...] = ()
    """Values of ``spec.schedulerName`` that are known to read the spec; empty where every scheduler does."""
    rules: tuple[Rule, ...] = ()
    requires_policy: bool = False
    """Whether a spec without a policy is an error; else it only has no effect."""

    @property
    def homes(self) -> tuple[str, ...]:
        """The home and the older home, where there are any."""
        return tuple(key for key in (self.home, self.older_home) if key)

    @property
    def gpu(self) -> str:
        """The GPU resource to recommend; empty where the dialect names none."""
        return self.gpus[0] if self.gpus else ""
