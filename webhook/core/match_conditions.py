"""The table of who is judged, as CEL for ``matchConditions``: the API server then never calls us about other pods.

Made from the same vocabulary as ``webhook.core.marks``, so that the two cannot drift. An expression that fails on an
object refuses it where the failure policy is Fail, so each asks with ``has`` before it goes a level down, and the
object is asked for null. Needs nothing that Kubernetes 1.28 does not have.

An expression that costs too much refuses, too, and the time of a loop grows with the square of its rounds (measured on
1.37: 16,000 annotations take 2 s, 39,000 take 30). So exact keys are looked up, and only maps of a size that somebody
could have written are searched for what looks like ours. All annotations have 256 KiB together, a key at most 317
characters, and one expression may cost 1,000,000 units
(kubernetes/kubernetes:staging/src/k8s.io/apiserver/pkg/apis/cel/config.go); ``tests/e2e/test_e2e_outage.py`` sends the
dearest pods of others, and of ours. (Who sets out to can still make a pod of his own that cannot be updated: marked by
a near miss alone, among 150 others of the longest.)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.core.dialect import Dialect
from webhook.core.dialects import DIALECTS
from webhook.core.judged import TABLE, Change, Judged, Look
from webhook.core.marks import IN_EVERY_NEAR_MISS, SPEAKS_OF_A_POLICY, Vocabulary

MOST_ENTRIES: Final = 200
"""A map with more entries is not searched for near misses of a mark; where one changes, the change may be of ours."""
MOST_CHARACTERS: Final = 16_384
"""A longer text of an older home is not searched for a policy: a spec has at most 4,096 bytes."""
MOST_CONTAINERS: Final = 30
"""In a longer list, every change is taken for one of amounts."""
TEMPLATE_PATHS: Final = ("spec.template", "spec.jobTemplate.spec.template", "template")
"""Where Kubernetes' own workloads keep their pod templates; ``template`` is PodTemplate's."""


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """One entry of ``matchConditions``: all of a webhook's must be true for a call."""

    name: str
    expression: str


def match_conditions(
    dialects: tuple[Dialect, ...] = DIALECTS, template_paths: Iterable[str] = TEMPLATE_PATHS
) -> Mapping[str, tuple[MatchCondition, ...]]:
    """Return for each webhook of the table (by name) its conditions; empty where every request is judged.

    ``template_paths`` lead from the object to each pod template that ``validate-workloads`` looks at. Kinds that keep
    templates in lists or maps (JobSet, RayCluster, PyTorchJob) cannot be told so: match them by a webhook entry of
    their own without conditions.
    """
    vocabulary = Vocabulary.of(dialects)
    paths = tuple(template_paths)
    return {row.webhook: _conditions(row, vocabulary, paths) for row in TABLE}


def mark_expression(annotations: str, vocabulary: Vocabulary) -> str:
    """Return CEL that is true where the map at path ``annotations`` carries a mark, as ``Vocabulary.carries_mark``.

    But in a map with more than ``MOST_ENTRIES`` it finds exact keys only, and it reads no text of an older home that is
    longer than ``MOST_CHARACTERS``: a near miss there, or such a text, does no harm but to itself.
    """
    any_of = [f"{_text(key)} in {annotations}" for key in sorted(vocabulary.homes)]
    any_of += [
        f"({_text(key)} in {annotations} && {annotations}[{_text(key)}] == {_text(wanted)})"
        for key, wanted in vocabulary.companions.items()
    ]
    return " || ".join((*any_of, _older_or_near(annotations, vocabulary)))


def change_expression(vocabulary: Vocabulary) -> str:
    """Return CEL that is true where an UPDATE changes what a rule reads, as ``webhook.core.changes.concerns_rules``.

    But it is true of any change in a large map or list, and reads no longer text than ``mark_expression``.
    """
    exact = _list(sorted(vocabulary.read_annotations))
    label = " || ".join(
        [
            f"k in {_list(sorted(vocabulary.read_labels))}",
            *(f"k.startsWith({_text(prefix)})" for prefix in vocabulary.read_label_prefixes),
        ]
    )

    def annotation(annotations: str) -> str:
        return (
            f"k in {exact} || (k.matches({_text(vocabulary.near_read_annotation.pattern)}) && "
            f"(!(k.matches({_text(vocabulary.near_older_home.pattern)})) || {_speaks(annotations, 'k')}))"
        )

    any_of = (
        _moved("metadata.annotations", annotation),
        _moved("metadata.labels", lambda _labels: label),
        *(_differs(path) for path in _READ_WHOLE),
        *(_amounts_differ(path) for path in _WITH_AMOUNTS),
    )
    return " || ".join(any_of)


_READ_WHOLE: Final = ("spec.nodeSelector", "spec.affinity", "spec.resources")
_WITH_AMOUNTS: Final = ("spec.containers", "spec.initContainers")


def _moved(path: str, is_read: Callable[[str], str]) -> str:
    """Return CEL: below ``path`` an entry came, went or has another text, and is read as it is or as it was.

    ``is_read`` returns CEL about the entry ``k`` of the map that it is given.
    """
    new, old = f"object.{path}", f"oldObject.{path}"
    return f"{_has_other(new, old, is_read)} || {_has_other(old, new, is_read)}"


def _has_other(here: str, there: str, is_read: Callable[[str], str]) -> str:
    same = f"has({there}) && k in {there} && {there}[k] == {here}[k]"
    return (
        f"(has({here}) && (!has({there}) || {here} != {there}) && "
        f"(size({here}) > {MOST_ENTRIES} || {here}.exists(k, !({same}) && ({is_read(here)}))))"
    )


def _differs(path: str) -> str:
    new, old = f"object.{path}", f"oldObject.{path}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


def _amounts_differ(path: str) -> str:
    """Return CEL: a container of the list at ``path`` has other amounts; the API server lets none come or go."""
    new, old = f"object.{path}", f"oldObject.{path}"
    same = (
        "o.name == c.name && has(o.resources) == has(c.resources) && (!has(c.resources) || o.resources == c.resources)"
    )
    return (
        f"(has({new}) && has({old}) && {new} != {old} && "
        f"(size({new}) > {MOST_CONTAINERS} || {new}.exists(c, !({old}.exists(o, {same})))))"
    )


def _conditions(row: Judged, vocabulary: Vocabulary, template_paths: tuple[str, ...]) -> tuple[MatchCondition, ...]:
    # One expression, for the API server evaluates each condition whatever the others say; the cheap part comes first.
    all_of = []
    if Look.EVERYTHING not in row.looks:
        all_of.append(" || ".join(_look(look, vocabulary, template_paths) for look in row.looks))
    match row.on_update:
        case Change.READ:
            all_of.append(f"oldObject == null || {change_expression(vocabulary)}")
        case Change.RESULTS_ALONE:
            results = _moved("metadata.annotations", lambda _annotations: f"k in {_list(sorted(vocabulary.results))}")
            all_of += ["oldObject != null", results, f"!({change_expression(vocabulary)})"]
        case Change.TEMPLATE:
            around = sorted({path.partition(".")[0] for path in template_paths})
            all_of.insert(0, " || ".join(["oldObject == null", *map(_differs, around)]))
    return (MatchCondition("numa-mark", " && ".join(f"({part})" for part in all_of)),) if all_of else ()


def _look(look: Look, vocabulary: Vocabulary, template_paths: tuple[str, ...]) -> str:
    match look:
        case Look.OBJECT_MARK:
            return _guarded_mark("object", "metadata.annotations", vocabulary)
        case Look.OLD_OBJECT_MARK:
            return _guarded_mark("oldObject", "metadata.annotations", vocabulary)
        case Look.TEMPLATE_MARK:
            return " || ".join(
                _guarded_mark("object", f"{path}.metadata.annotations", vocabulary) for path in template_paths
            )
        case Look.BINDING_KEYS:
            return _binding_keys(vocabulary)
        case Look.POLICY_LABELS:
            keys = sorted(key for dialect in vocabulary.dialects for key, _ in dialect.policy_labels)
            present = " || ".join(f"{_text(key)} in object.metadata.labels" for key in keys)
            return f"({_guard('object', 'metadata.labels')} && ({present}))"
        case Look.DEVICES_OR_WHOLE_CORES:
            return _devices_or_whole_cores(vocabulary)
        case Look.EVERYTHING:
            return "true"


def _guarded_mark(root: str, path: str, vocabulary: Vocabulary) -> str:
    return f"({_guard(root, path)} && ({mark_expression(f'{root}.{path}', vocabulary)}))"


def _guard(root: str, path: str) -> str:
    """Return CEL that is true where every level of ``path`` below ``root`` is there."""
    steps, at = [f"{root} != null"], root
    for field in path.split("."):
        at = f"{at}.{field}"
        steps.append(f"has({at})")
    return " && ".join(steps)


def _binding_keys(vocabulary: Vocabulary) -> str:
    """Return CEL for a Binding whose annotations have a key of ours: a home, its companion, a near miss, a result."""
    annotations = "object.metadata.annotations"
    keys = sorted({*vocabulary.homes, *vocabulary.companions, *vocabulary.results})
    any_of = [f"{_text(key)} in {annotations}" for key in keys]
    any_of.append(_older_or_near(annotations, vocabulary))
    return f"({_guard('object', 'metadata.annotations')} && ({' || '.join(any_of)}))"


def _older_or_near(annotations: str, vocabulary: Vocabulary) -> str:
    """Return CEL for an older home, or nearly one, whose text speaks of a policy, or a key that is nearly a home."""
    any_of = [
        f"({_text(key)} in {annotations} && {_speaks(annotations, _text(key))})"
        for key in sorted(vocabulary.older_homes)
    ]
    near = (
        f"k.matches({_text(vocabulary.near_home.pattern)}) || "
        f"(k.matches({_text(vocabulary.near_older_home.pattern)}) && {_speaks(annotations, 'k')})"
    )
    if vocabulary.others:
        near = f"!(k in {_list(sorted(vocabulary.others))}) && ({near})"
    quick = f"k.matches({_text(f'(?i){IN_EVERY_NEAR_MISS}')})"
    any_of.append(f"(size({annotations}) <= {MOST_ENTRIES} && {annotations}.exists(k, {quick} && ({near})))")
    return " || ".join(any_of)


def _speaks(annotations: str, key: str) -> str:
    """Return CEL: the text of an older home speaks of a policy. It costs by the text's length each time."""
    text = f"{annotations}[{key}]"
    return f"(size({text}) <= {MOST_CHARACTERS} && {text}.matches({_text(SPEAKS_OF_A_POLICY)}))"


def _devices_or_whole_cores(vocabulary: Vocabulary) -> str:
    """Return CEL for a pod that a kubelet may align: a GPU of any dialect, or a CPU limit in whole cores with memory.

    Amounts of a stored pod are canonical texts, so whole cores have digits only (or k, for thousands).
    """
    gpus = sorted({gpu for dialect in vocabulary.dialects for gpu in dialect.gpus})
    asks = " || ".join(f"{_text(gpu)} in c.resources.limits" for gpu in gpus) or "false"
    whole = "('cpu' in c.resources.limits && 'memory' in c.resources.limits && "
    whole += "string(c.resources.limits['cpu']).matches('^[0-9]+k?$'))"
    one = f"has(c.resources) && has(c.resources.limits) && ({asks} || {whole})"
    lists = (
        f"({_guard('object', f'spec.{field}')} && object.spec.{field}.exists(c, {one}))"
        for field in ("containers", "initContainers")
    )
    return " || ".join(lists)


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _list(texts: Iterable[str]) -> str:
    return "[" + ", ".join(map(_text, texts)) + "]"
