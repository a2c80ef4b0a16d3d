"""Which nodes a pod may be bound to: node selector, required affinity, taints, readiness; as Kubernetes judges it.

Sources: kubernetes/component-helpers:scheduling/corev1/nodeaffinity/nodeaffinity.go,
kubernetes/apimachinery:pkg/labels/selector.go, kubernetes/api:core/v1/toleration.go, and the scheduler's plugins
NodeName, NodeUnschedulable, NodeAffinity and TaintToleration. ``tests/core/test_against_kubernetes.py`` compares.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from webhook.core.pod import NodeSelectorTerm, Operator, Pod, Toleration
from webhook.core.selectors import (
    is_expression,
    is_field,
    is_parsable,
    parse_integer,
    requirement_matches,
    term_matches,
    text_of,
)

__all__ = [
    "KUBELET_EFFECTS",
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PREFER_NO_SCHEDULE",
    "SCHEDULER_EFFECTS",
    "UNSCHEDULABLE_TAINT",
    "Contradiction",
    "Ineligible",
    "NodeFacts",
    "Obstacle",
    "Taint",
    "contradicts_label",
    "demands_label",
    "ineligibility",
    "is_parsable",
    "matches_node_selector",
    "matches_terms",
    "requirement_matches",
    "text_of",
    "tolerates",
    "tolerates_cordon",
    "untolerated",
]

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
SCHEDULER_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
"""Taints that keep a scheduler from binding. ``PreferNoSchedule`` only lowers a score."""
KUBELET_EFFECTS: Final = (NO_EXECUTE,)
"""The only taints that a kubelet looks at: all that is left for a pod whose ``spec.nodeName`` is preset."""

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
_DECIMAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node; ``effect`` is ``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return the taint as kubectl writes it: ``key=value:effect``."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What node selection knows of a node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    unschedulable: bool = False
    """``spec.unschedulable``: cordoned."""


Obstacle = Literal["node_name", "not_ready", "unschedulable", "node_selector", "affinity", "taint"]


@dataclass(frozen=True, slots=True)
class Ineligible:
    """Why a pod cannot be bound to a node: a stable word, and the sentence for people (made only when it is read)."""

    word: Obstacle
    node_name: str
    detail: str = ""
    """The taint, the node selector's entry, or the preset node's name."""

    @property
    def sentence(self) -> str:
        """One sentence that ends with a period."""
        match self.word:
            case "node_name":
                return f"Node {self.node_name} is not the node {self.detail} that spec.nodeName names."
            case "not_ready":
                return f"Node {self.node_name} is not ready."
            case "unschedulable":
                return f"Node {self.node_name} is cordoned."
            case "node_selector":
                return f"Node {self.node_name} lacks the label {self.detail} that spec.nodeSelector wants."
            case "affinity":
                return f"Node {self.node_name} matches no term of the required node affinity."
            case "taint":
                return f"Node {self.node_name} has the taint {self.detail}, which the pod does not tolerate."


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A node selector entry or a term's requirement that no node with a certain label can meet."""

    path: str
    """Relative to the pod, such as ``spec.nodeSelector["zone"]`` or the requirement's own path."""
    text: str
    """The entry as a person would write it: ``zone=b``, ``zone NotIn [a]``, ``(no requirement at all)``."""


def matches_node_selector(node_selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether ``labels`` has every entry of ``spec.nodeSelector``; an empty selector matches every node."""
    return _missing_entry(node_selector, labels) is None


def matches_terms(terms: Iterable[NodeSelectorTerm], labels: Mapping[str, str], node_name: str) -> bool:
    """Return whether a term matches the node: terms are ORed, their requirements ANDed.

    A term without requirements matches no node; nor does one with a requirement that Kubernetes cannot parse (an
    unknown operator, a key or value that is no label, the wrong number of values).
    """
    return any(term_matches(term, labels, node_name) for term in terms)


def untolerated(
    tolerations: Collection[Toleration],
    taints: Iterable[Taint],
    effects: Collection[str] = SCHEDULER_EFFECTS,
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """Return the first taint with one of ``effects`` that no toleration tolerates, or None where all are tolerated.

    ``comparison_operators`` is the gate TaintTolerationComparisonOperators (alpha and off in 1.35 to 1.37): without
    it a toleration with ``Lt`` or ``Gt`` tolerates nothing.
    """
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(toleration, taint, comparison_operators=comparison_operators) for toleration in tolerations
        ):
            return taint
    return None


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Return whether one toleration tolerates one taint (kubernetes/api:core/v1/toleration.go)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            wanted, found = _decimal_integer(toleration.value), _decimal_integer(taint.value)
            if wanted is None or found is None:
                return False
            return found < wanted if toleration.operator == "Lt" else found > wanted
        case _:
            return False


def ineligibility(pod: Pod, node: NodeFacts, *, comparison_operators: bool = False) -> Ineligible | None:
    """Return why ``pod`` cannot be bound to ``node``, or None where it is eligible; resources are not looked at.

    A pod with ``spec.nodeName`` meets no scheduler: only that node counts, cordon and ``NoSchedule`` taints do not.
    """
    preset = bool(pod.node_name)
    if preset and pod.node_name != node.name:
        return Ineligible("node_name", node.name, pod.node_name)
    if not node.ready:
        return Ineligible("not_ready", node.name)
    if (
        node.unschedulable
        and not preset
        and not tolerates_cordon(pod.tolerations, comparison_operators=comparison_operators)
    ):
        return Ineligible("unschedulable", node.name)
    if pod.node_selector and (key := _missing_entry(pod.node_selector, node.labels)) is not None:
        return Ineligible("node_selector", node.name, f"{key}={pod.node_selector[key]}")
    if pod.required_terms is not None and not matches_terms(pod.required_terms, node.labels, node.name):
        return Ineligible("affinity", node.name)
    if node.taints:
        effects = KUBELET_EFFECTS if preset else SCHEDULER_EFFECTS
        taint = untolerated(pod.tolerations, node.taints, effects, comparison_operators=comparison_operators)
        if taint is not None:
            return Ineligible("taint", node.name, str(taint))
    return None


def tolerates_cordon(tolerations: Collection[Toleration], *, comparison_operators: bool = False) -> bool:
    """Return whether a pod may be bound to a cordoned node (the scheduler's plugin NodeUnschedulable)."""
    cordon = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)
    return untolerated(tolerations, (cordon,), comparison_operators=comparison_operators) is None


def demands_label(pod: Pod, key: str, values: Collection[str]) -> bool:
    """Return whether every node that the pod's selector and affinity let in carries ``key`` with one of ``values``.

    Said by ``spec.nodeSelector``, or by an ``In`` of every term that can match at all; so it is also true of a pod
    whose terms are all empty, which matches no node.
    """
    if pod.node_selector.get(key) in values:
        return True
    if pod.required_terms is None:
        return False
    return all(
        any(
            requirement.key == key
            and requirement.operator is Operator.IN
            and all(value in values for value in requirement.values)
            for requirement in term.expressions
        )
        for term in pod.required_terms
        if not term.is_empty
    )


def contradicts_label(pod: Pod, key: str, value: str) -> tuple[Contradiction, ...]:
    """Return what keeps the pod from every node with the label ``key=value``; empty where nothing does.

    That is the node selector's entry, or for each term of the required affinity the first requirement (or the lack of
    any) that such a node fails. Only ``key`` is looked at, and requirements that Kubernetes cannot parse.
    """
    wanted = pod.node_selector.get(key)
    if wanted is not None and wanted != value:
        return (Contradiction(f'spec.nodeSelector["{key}"]', f"{key}={wanted}"),)
    if pod.required_terms is None:
        return ()
    found = []
    for term in pod.required_terms:
        contradiction = _contradiction(term, key, value)
        if contradiction is None:
            return ()
        found.append(contradiction)
    return tuple(found)


def _contradiction(term: NodeSelectorTerm, key: str, value: str) -> Contradiction | None:
    if term.is_empty:
        return Contradiction(term.path, "(no requirement at all)")
    for requirement in term.expressions:
        if not is_expression(requirement):
            return Contradiction(requirement.path, text_of(requirement))
        if requirement.key == key and not requirement_matches(requirement, {key: value}):
            return Contradiction(requirement.path, text_of(requirement))
    for requirement in term.fields:
        if not is_field(requirement):
            return Contradiction(requirement.path, text_of(requirement))
    return None


def _missing_entry(node_selector: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    for key, value in node_selector.items():
        if labels.get(key) != value:
            return key
    return None


def _decimal_integer(text: str) -> int | None:
    """Return the integer of a numeric toleration: no plus sign, no leading nought."""
    return parse_integer(text) if _DECIMAL_INTEGER.fullmatch(text) else None
