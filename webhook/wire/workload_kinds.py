"""What the table of kinds that hold pod templates is made of: where the templates stand, how many pods each makes.

A row is a value: a new kind is a new row of ``webhook.wire.workload_table`` or of the settings
(``webhook.wire.workload_rows``), and no other file changes. Versions are not in it: every API version of a kind is
read by its structure.

A path is words joined by dots. ``name[]`` goes through every item of a list, ``*`` through every member of a map:
``spec.workerGroupSpecs[].template``, ``spec.tfReplicaSpecs.*.template``. A path of a count has the same wildcards as
its template's, and they stand for the same items.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
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
class AddedContainer:
    """An init container that the kind's operator adds to each pod of a template, unless it is told otherwise."""

    name: str
    cpu: str
    """What it asks for."""
    cpu_limit: str
    member: str = ""
    """Only in the template that the path's last wildcard finds by this name; empty: in all."""
    only_where: str = ""
    """Path of a field without which it is not added."""


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
    partial: bool = False
    """Whether another object or a patch fills in what the template leaves out (``Pod.is_partial``)."""
    added: tuple[AddedContainer, ...] = ()


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
    cluster_scoped: bool = False
    plural: str = ""
    """The kind's name in URLs and webhook rules; empty: its lower case with an s, as of every standard row."""

    @property
    def resource(self) -> str:
        """The kind's name in URLs and webhook rules."""
        return self.plural or f"{self.kind.lower()}s"


KindTable = Mapping[tuple[str, str], WorkloadKind]
"""Rows by (group, kind)."""


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
