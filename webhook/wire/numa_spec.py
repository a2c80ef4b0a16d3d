"""The text of a NUMA spec annotation, read so strictly that two parsers cannot disagree on it.

The scheduler reads it with Go's ``encoding/json`` into two text fields
(koordinator-sh/koordinator:apis/extension/numa_aware.go): names match without regard to case, the last of two equal
names wins, unknown names and ``null`` are passed over, values are not checked. So a near miss may work there or may be
ignored without a word; here every such text is a problem with its own word (``webhook.core.pod.SpecProblem``).

``numa-topology-spec.schema.json`` beside this file says the same of the decoded document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from webhook.core.dialects import DIALECTS
from webhook.core.plain_text import plain, quoted
from webhook.core.pod import NumaSpec, SpecProblem
from webhook.wire.loose_json import LooseDocument, LooseJsonError, LooseValue, read_loose_json

POLICY_KEY: Final = "numaTopologyPolicy"
EXCLUSIVE_KEY: Final = "singleNUMANodeExclusive"
POLICIES: Final = ("SingleNUMANode", "Restricted", "BestEffort")
EXCLUSIVES: Final = ("Required", "Preferred")
_VALUES: Final = {POLICY_KEY: POLICIES, EXCLUSIVE_KEY: EXCLUSIVES}

MAX_SPEC_BYTES: Final = 4096
MAX_SPEC_DEPTH: Final = 4
_MAX_CACHED_CHARACTERS: Final = 512
_CACHE_ENTRIES: Final = 1024
"""A cluster repeats few texts, and reading one costs 35 us: the cache stays below a few megabytes whatever is sent."""


@dataclass(frozen=True, slots=True)
class SpecHome:
    """An annotation that may hold a NUMA spec; a shared one belongs to another feature and holds its keys as well."""

    key: str
    shared: bool = False


NUMA_SPEC_HOMES: Final = tuple(
    SpecHome(key, shared=key == dialect.older_home) for dialect in DIALECTS for key in dialect.homes
)
"""The homes of every dialect; an older home is another feature's annotation."""


def read_numa_specs(
    annotations: Mapping[str, str], homes: tuple[SpecHome, ...] = NUMA_SPEC_HOMES
) -> tuple[NumaSpec, ...]:
    """Return the specs that stand in ``annotations``, in the order of ``homes``."""
    specs = (read_numa_spec(annotations[home.key], home) for home in homes if home.key in annotations)
    return tuple(spec for spec in specs if spec is not None)


def read_numa_spec(text: str, home: SpecHome) -> NumaSpec | None:
    """Return the spec in ``text`` with all its problems; None where a shared home holds no NUMA spec.

    A shared home holds one if a member's name is one of the two or nearly so; if its text cannot be read, if the text
    mentions one of the two. Its ``compact`` text has the two members only: it is what is carried to the other home.
    """
    return _read_short(text, home) if len(text) <= _MAX_CACHED_CHARACTERS else _read(text, home)


def _read(text: str, home: SpecHome) -> NumaSpec | None:
    if len(text) > MAX_SPEC_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_SPEC_BYTES:
        size = len(text.encode("utf-8", "surrogatepass"))
        return _unreadable(
            text, home, SpecProblem("too_long", found=f"{size} bytes", wanted=f"at most {MAX_SPEC_BYTES} bytes")
        )
    try:
        document = read_loose_json(text, max_depth=MAX_SPEC_DEPTH)
    except LooseJsonError as error:
        kind = "too_deep" if error.too_deep else "not_json"
        return _unreadable(text, home, SpecProblem(kind, found=error.found, wanted=error.wanted))
    if document.kind != "object":
        return _unreadable(
            text, home, SpecProblem("not_object", found=_kind_in_words(document.kind), wanted="a JSON object")
        )
    return _read_members(text, home, document)


_read_short = lru_cache(maxsize=_CACHE_ENTRIES)(_read)


def _unreadable(text: str, home: SpecHome, problem: SpecProblem) -> NumaSpec | None:
    if home.shared:
        folded = go_fold(text)
        if not any(go_fold(name) in folded for name in _VALUES):
            return None
    return NumaSpec(home.key, text, None, None, (problem,))


def _read_members(text: str, home: SpecHome, document: LooseDocument) -> NumaSpec | None:
    problems: list[SpecProblem] = []
    values: dict[str, str] = {}
    seen: set[str] = set()
    spoken_of: set[str] = set()
    compact: list[str] = []
    for key, value, member in document.members:
        known = key if key in _VALUES else _near_key(key)
        folded = go_fold(key)
        if folded in seen and (known or not home.shared):
            problems.append(SpecProblem("duplicate_key", plain(key), found=quoted(key), wanted="each key once"))
        seen.add(folded)
        if known is None:
            if not home.shared:
                wanted = f"only {POLICY_KEY} and {EXCLUSIVE_KEY}"
                problems.append(SpecProblem("foreign_key", plain(key), found=quoted(key), wanted=wanted))
                compact.append(member)
            continue
        compact.append(member)
        spoken_of.add(known)
        if known != key:
            problems.append(SpecProblem("near_key", plain(key), found=quoted(key), wanted=known))
        elif (problem := _value_problem(key, value)) is not None:
            problems.append(problem)
        else:
            values[key] = value.text
    if home.shared and not spoken_of:
        return None
    if POLICY_KEY not in spoken_of:
        problems.append(SpecProblem("missing_policy", POLICY_KEY, found="no such key", wanted=_one_of(POLICIES)))
    faulty = any(problem.kind != "foreign_key" for problem in problems)
    if document.repairs:
        # A text with another fault is not repaired, so its commas and comments are faults like any other.
        found = " and ".join(document.repairs)
        problems.append(SpecProblem("not_json" if faulty else "repairable_json", found=found, wanted="JSON without it"))
    twice = any(problem.kind == "duplicate_key" for problem in problems)
    return NumaSpec(
        home.key,
        text,
        None if twice else values.get(POLICY_KEY),
        None if twice else values.get(EXCLUSIVE_KEY),
        tuple(problems),
        None if faulty else "{" + ",".join(compact) + "}",
    )


def _value_problem(key: str, value: LooseValue) -> SpecProblem | None:
    allowed = _VALUES[key]
    if value.kind == "null":
        return SpecProblem("null_value", key, found="null", wanted=_one_of(allowed))
    if value.kind != "string":
        return SpecProblem("wrong_type", key, found=_kind_in_words(value.kind), wanted=_one_of(allowed))
    if value.text in allowed:
        return None
    squeezed = _squeezed(value.text)
    meant = next((word for word in allowed if within_edits(squeezed, _squeezed(word), 2)), None)
    return SpecProblem("unknown_value", key, found=quoted(value.text), wanted=meant or _one_of(allowed))


def _near_key(key: str) -> str | None:
    """Return which of the two keys ``key`` was meant to be, or None."""
    squeezed = _squeezed(key[:64])
    return next((known for known in _VALUES if within_edits(squeezed, _squeezed(known), 3)), None)


def go_fold(text: str) -> str:
    """Return ``text`` as Go's JSON decoder compares names: without case, and with the long s and the Kelvin sign."""
    return text.lower().replace("\u017f", "s")  # the Kelvin sign is a k in lower case, the long s is its own


def _squeezed(text: str) -> str:
    """Return ``text`` without case and without what is easily put in or left out: spaces, dashes, underlines."""
    return "".join(character for character in go_fold(text) if character.isalnum())


def within_edits(left: str, right: str, limit: int) -> bool:
    """Return whether ``left`` becomes ``right`` by at most ``limit`` insertions, deletions and replacements.

    Only the band around the diagonal is walked, and the walk ends at the first row beyond the limit.
    """
    if abs(len(left) - len(right)) > limit:
        return False
    row = {column: column for column in range(min(limit, len(right)) + 1)}
    for line, character in enumerate(left, start=1):
        following: dict[int, int] = {}
        for column in range(max(0, line - limit), min(len(right), line + limit) + 1):
            if column == 0:
                following[0] = line
                continue
            following[column] = min(
                row.get(column, limit) + 1,
                following.get(column - 1, limit) + 1,
                row.get(column - 1, limit) + (character != right[column - 1]),
            )
        row = following
        if min(row.values()) > limit:
            return False
    return row.get(len(right), limit + 1) <= limit


def _one_of(values: tuple[str, ...]) -> str:
    return " or ".join((", ".join(values[:-1]), values[-1]))


_KINDS_IN_WORDS: Final = {"object": "an object", "array": "an array", "string": "a text", "number": "a number"}


def _kind_in_words(kind: str) -> str:
    return _KINDS_IN_WORDS.get(kind, kind)
