"""Who is judged: the marks that a pod's annotations carry (``DESIGN.md`` 2). Most pods carry none and must be cheap.

A mark is one of four, each of which says plainly that its author wants NUMA placement:

1. a home of a NUMA spec, exactly spelt;
2. a near miss of one: other case, prefix, separators, plural. Another dialect's exact key is never a near miss;
3. an older home, or a near miss of it, whose text speaks of a NUMA policy (the key itself belongs to another feature);
4. ``cpuset-scheduler: required``.

``cpuset-scheduler`` with another value, or a near miss of that key, is no mark: alone, ``"true"`` is another feature's
pod, and ``Required`` asks for something that the scheduler does not know. Beside a mark both are judged.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from webhook.core.dialect import Dialect
from webhook.core.dialects import NUMA_SPEC_KEYS
from webhook.core.spelling import nearest

SPEAKS_OF_A_POLICY = "(?i)numa[^a-z0-9]*topo|single[^a-z0-9]*numa"
"""What the text of an older home matches where it holds a NUMA spec: RE2 and Python read it alike."""
IN_EVERY_NEAR_MISS = "spec"
"""Every near miss of a home holds this word, in any case: the search costs less than a pattern."""
_SPEAKS_OF_A_POLICY = re.compile(SPEAKS_OF_A_POLICY)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What to look for, prepared once for a set of dialects."""

    dialects: tuple[Dialect, ...]
    homes: frozenset[str]
    older_homes: frozenset[str]
    companions: Mapping[str, str]
    """Annotations that are a mark by themselves where they have this value."""
    near_home: re.Pattern[str]
    """Keys that are a home or look like one. RE2 reads the pattern alike."""
    near_older_home: re.Pattern[str]
    others: frozenset[str]
    """Exact homes of dialects that are not looked for: no near misses of ours."""
    results: frozenset[str]
    """Annotations that only a scheduler may write."""
    read_annotations: frozenset[str]
    """Further keys that a rule reads, beside the homes and companions and what looks like one."""
    near_read_annotation: re.Pattern[str]
    """Keys that are a home, an older home or a companion, or look like one. RE2 reads the pattern alike."""
    read_labels: frozenset[str]
    read_label_prefixes: tuple[str, ...]

    @staticmethod
    def of(dialects: tuple[Dialect, ...]) -> "Vocabulary":
        """Return the vocabulary of ``dialects``."""
        homes = frozenset(dialect.home for dialect in dialects if dialect.home)
        older = frozenset(dialect.older_home for dialect in dialects if dialect.older_home)
        companions = dict(dialect.cpuset for dialect in dialects if dialect.cpuset is not None)
        return Vocabulary(
            dialects=dialects,
            homes=homes,
            older_homes=older,
            companions=MappingProxyType(companions),
            near_home=re.compile(near_pattern(homes)),
            near_older_home=re.compile(near_pattern(older)),
            others=frozenset(NUMA_SPEC_KEYS) - homes - older,
            results=frozenset(key for dialect in dialects for key in dialect.result_keys),
            read_annotations=frozenset(key for dialect in dialects for key in dialect.read_annotations),
            near_read_annotation=re.compile(near_pattern({*homes, *older, *companions})),
            read_labels=frozenset(key for dialect in dialects for key in dialect.read_labels),
            read_label_prefixes=tuple(sorted({key for dialect in dialects for key in dialect.read_label_prefixes})),
        )

    def carries_mark(self, annotations: Mapping[str, object]) -> bool:
        """Return whether ``annotations`` carry a mark of any dialect; values that are no texts mark by the key only.

        So it can be asked of raw JSON, before anything is parsed (``Wants`` of ``webhook.wire.reviews``).
        """
        for key in annotations:
            if key in self.homes:
                return True
            if key in self.companions:
                if annotations[key] == self.companions[key]:
                    return True
            elif self._is_near(key, annotations[key]):
                return True
        return False

    def reads_annotation(self, key: str, text: str) -> bool:
        """Return whether what a rule says can depend on the annotation ``key`` with ``text``, which is no result.

        Of an older home only what speaks of a policy: Koordinator's scheduler writes the bind policy that it chose
        there before it binds (koordinator-sh/koordinator:pkg/scheduler/plugins/nodenumaresource/plugin.go,
        ``appendResourceSpecIfMissed``).
        """
        if self.near_read_annotation.search(key) is None:
            return key in self.read_annotations
        return self.near_older_home.search(key) is None or speaks_of_a_policy(text)

    def reads_label(self, key: str) -> bool:
        """Return whether what a rule says of a pod can depend on its label ``key``."""
        return key in self.read_labels or key.startswith(self.read_label_prefixes)

    def near_homes(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys of marks of kind 2, and of near misses of kind 3, in sorted order."""
        near = [
            key
            for key, text in annotations.items()
            if key not in self.homes and key not in self.older_homes and self._is_near(key, text)
        ]
        return tuple(sorted(near)) if near else ()

    def meant_by(self, key: str) -> Dialect:
        """Return the dialect whose home looks most like the near miss ``key``."""
        home = nearest(key, [dialect.home for dialect in self.dialects if dialect.home])
        return next(dialect for dialect in self.dialects if dialect.home == home)

    def _is_near(self, key: str, text: object) -> bool:
        if IN_EVERY_NEAR_MISS not in key.lower() or key in self.others:
            return False
        if self.near_home.search(key) is not None:
            return True
        return isinstance(text, str) and self.near_older_home.search(key) is not None and speaks_of_a_policy(text)


@dataclass(frozen=True, slots=True)
class Marked:
    """A dialect whose marks a pod carries, and the near misses that are taken for it."""

    dialect: Dialect
    near_homes: tuple[str, ...]


def marked(annotations: Mapping[str, str], vocabulary: Vocabulary) -> tuple[Marked, ...]:
    """Return the dialects by whose rules a pod with ``annotations`` is judged, in the order of the vocabulary."""
    near: dict[str, list[str]] = {}
    for key in vocabulary.near_homes(annotations):
        near.setdefault(vocabulary.meant_by(key).name, []).append(key)
    return tuple(
        Marked(dialect, tuple(near.get(dialect.name, ())))
        for dialect in vocabulary.dialects
        if dialect.name in near or is_exactly_marked(annotations, dialect)
    )


def is_exactly_marked(annotations: Mapping[str, str], dialect: Dialect) -> bool:
    """Return whether ``annotations`` carry a mark of ``dialect`` without any near miss."""
    if dialect.home and dialect.home in annotations:
        return True
    if dialect.cpuset is not None and annotations.get(dialect.cpuset[0]) == dialect.cpuset[1]:
        return True
    older = annotations.get(dialect.older_home) if dialect.older_home else None
    return older is not None and speaks_of_a_policy(older)


def speaks_of_a_policy(text: str) -> bool:
    """Return whether the text of an older home holds a NUMA spec, well or badly written."""
    return _SPEAKS_OF_A_POLICY.search(text) is not None


def near_pattern(keys: Iterable[str]) -> str:
    """Return a pattern for keys that end like one of ``keys``, whatever the prefix, case, separators and plural."""
    names = sorted({key.rpartition("/")[2] for key in keys})
    if not names:
        return "^$a"
    any_of = "|".join("[^a-z0-9]*".join(re.findall("[a-z0-9]+", name.lower())) for name in names)
    return f"(?i)(?:{any_of})s?[^a-z0-9]*$"
