"""How strictly each rule family is enforced, by namespace; and everything else that the rules are told at start."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from webhook.core.dialect import Dialect
from webhook.core.dialects import DIALECTS
from webhook.core.findings import Family, Finding
from webhook.core.marks import Vocabulary


class Mode(enum.Enum):
    """What becomes of a family's findings."""

    DENY = "deny"
    """Errors refuse, warnings are said."""
    WARN = "warn"
    """Errors are said as warnings."""
    OFF = "off"
    """Nothing is said, and mutate repairs nothing of the family."""


class Enforcement(enum.Enum):
    """One switch above all families."""

    DENY = "deny"
    WARN = "warn"
    """No error refuses anything, whatever the modes say."""


@dataclass(frozen=True, slots=True)
class RuleModes:
    """A mode for each family. Overrides go by namespace name: a label could be written by whoever is judged."""

    modes: Mapping[Family, Mode] = field(default_factory=lambda: MappingProxyType({}))
    """Families that are not named here are ``DENY``."""
    namespaces: Mapping[str, Mapping[Family, Mode]] = field(default_factory=lambda: MappingProxyType({}))
    enforcement: Enforcement = Enforcement.DENY

    def mode(self, family: Family, namespace: str) -> Mode:
        """Return the mode of ``family`` in ``namespace``: the namespace's own, else the general one."""
        own = self.namespaces.get(namespace)
        if own is not None and family in own:
            return own[family]
        return self.modes.get(family, Mode.DENY)

    def apply(self, findings: Iterable[Finding], namespace: str) -> tuple[Finding, ...]:
        """Return the findings as they weigh in ``namespace``, equal ones once, in their order."""
        weighed: list[Finding] = []
        for finding in findings:
            mode = self.mode(finding.family, namespace)
            if mode is not Mode.OFF:
                softened = mode is Mode.WARN or self.enforcement is Enforcement.WARN
                weighed.append(finding.as_warning() if softened else finding)
        return tuple(dict.fromkeys(weighed)) if len(weighed) > 1 else tuple(weighed)


@dataclass(frozen=True, slots=True)
class Rules:
    """The stateless rules as they are set up: read once at start, passed to every decision."""

    dialects: tuple[Dialect, ...] = DIALECTS
    """Whose pods are judged. A dialect can be adapted with ``dataclasses.replace`` (its ``schedulers``)."""
    modes: RuleModes = field(default_factory=RuleModes)
    result_writers: frozenset[str] = frozenset()
    """Exact user names that may write result annotations; empty: nobody is known, so a change is only warned of."""
    vocabulary: Vocabulary = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the vocabulary of the dialects."""
        object.__setattr__(self, "vocabulary", Vocabulary.of(self.dialects))
