"""The table of who is judged, as CEL for ``matchConditions``: the API server then never calls us about other pods.

Made from the same vocabulary as ``webhook.core.marks``, so that the two cannot drift. An expression that fails on an
object refuses it where the failure policy is Fail, so each asks with ``has`` before it goes a level down, and the
object is asked for null. Needs nothing that Kubernetes 1.28 does not have. Limits of CEL at run time are far away: an
annotation key has at most 316 characters, all annotations together 256 KiB.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from webhook.core.dialect import Dialect
from webhook.core.dialects import DIALECTS
from webhook.core.judged import TABLE, Judged, Look
from webhook.core.marks import SPEAKS_OF_A_POLICY, Vocabulary

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
    """Return for each webhook of the table (by name) its conditions; empty where everything is judged.

    ``template_paths`` lead from the object to each pod template that ``validate-workloads`` looks at. Kinds that keep
    templates in lists or maps (JobSet, RayCluster, PyTorchJob) cannot be told so: match them by a webhook entry of
    their own without conditions.
    """
    vocabulary = Vocabulary.of(dialects)
    paths = tuple(template_paths)
    return {row.webhook: _conditions(row, vocabulary, paths) for row in TABLE}


def mark_expression(annotations: str, vocabulary: Vocabulary) -> str:
    """Return CEL that is true where the map at path ``annotations`` carries a mark, as ``Vocabulary.carries_mark``."""
    any_of = [f"k in {_list(sorted(vocabulary.homes))}"]
    any_of += [
        f"(k == {_text(key)} && {annotations}[k] == {_text(wanted)})" for key, wanted in vocabulary.companions.items()
    ]
    any_of.append(_near(annotations, vocabulary))
    return f"{annotations}.exists(k, {' || '.join(any_of)})"


def _conditions(row: Judged, vocabulary: Vocabulary, template_paths: tuple[str, ...]) -> tuple[MatchCondition, ...]:
    if Look.EVERYTHING in row.looks:
        return ()
    parts = [_look(look, vocabulary, template_paths) for look in row.looks]
    return (MatchCondition("numa-mark", " || ".join(parts)),)


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
    return f"({_guard(root, path)} && {mark_expression(f'{root}.{path}', vocabulary)})"


def _guard(root: str, path: str) -> str:
    """Return CEL that is true where every level of ``path`` below ``root`` is there."""
    steps, at = [f"{root} != null"], root
    for field in path.split("."):
        at = f"{at}.{field}"
        steps.append(f"has({at})")
    return " && ".join(steps)


def _binding_keys(vocabulary: Vocabulary) -> str:
    """Return CEL for a Binding whose annotations have a key of ours: a home, its companion, a near miss, a result."""
    keys = {key for dialect in vocabulary.dialects for key in dialect.result_keys}
    keys.update(vocabulary.homes, vocabulary.companions)
    near = _near("object.metadata.annotations", vocabulary)
    return (
        f"({_guard('object', 'metadata.annotations')} && "
        f"object.metadata.annotations.exists(k, k in {_list(sorted(keys))} || {near}))"
    )


def _near(annotations: str, vocabulary: Vocabulary) -> str:
    """Return CEL for a key ``k`` that is nearly a home, or an older home (nearly) whose text speaks of a policy."""
    near = (
        f"k.matches({_text(vocabulary.near_home.pattern)}) || (k.matches({_text(vocabulary.near_older_home.pattern)}) "
        f"&& {annotations}[k].matches({_text(SPEAKS_OF_A_POLICY)}))"
    )
    return f"(!(k in {_list(sorted(vocabulary.others))}) && ({near}))" if vocabulary.others else f"({near})"


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
