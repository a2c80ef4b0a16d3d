"""Our rules against Kubernetes' own code, on thousands of random cases: no difference is allowed.

``K8SRULES_SEED`` changes the cases, ``K8SRULES_CASES`` their number (of each kind).
"""

import json
import os
from pathlib import Path
from random import Random

import pytest
from core.kubernetes_cases import ask, build, is_beyond, places, quantity_texts, spellings, sums

from webhook.core.effective import demand_of
from webhook.core.node_selection import (
    KUBELET_EFFECTS,
    NodeFacts,
    ineligibility,
    matches_node_selector,
    matches_terms,
    untolerated,
)
from webhook.core.pod import Pod
from webhook.core.quantity import QuantityError, parse_quantity

CASES = int(os.environ.get("K8SRULES_CASES", "4000"))
INT64 = range(2**63)


@pytest.fixture(scope="session")
def k8srules() -> Path:
    """Return the program of ``tests/k8srules``."""
    program = build()
    if program is None:
        pytest.skip("there is no Go here, so Kubernetes' own code cannot be asked.")
    return program


@pytest.fixture
def dice() -> Random:
    """Return random numbers that are the same in every run."""
    return Random(int(os.environ.get("K8SRULES_SEED", "37")))


def test_quantities_are_read_as_the_api_server_reads_them(k8srules: Path, dice: Random) -> None:
    """Texts and JSON numbers: accepted or refused alike, and of the same amount, value and canonical text."""
    literals = [json.dumps(text, ensure_ascii=False) for text in quantity_texts(dice, CASES) if not is_beyond(text)]
    literals += [
        repr(dice.choice([dice.uniform(0, 200), dice.uniform(0, 1e-7), dice.uniform(0, 1e25)]))
        for _ in range(CASES // 10)
    ]
    literals += [str(dice.randrange(10 ** dice.randrange(1, 30))) for _ in range(CASES // 10)]
    literals += ["true", "[]", "{}", '"NaN"', '"0x18"', '"Infinity"', "1E3", "-0", "-0.0", '" 24 "', '"\u00a024\u2003"']
    answers = ask(k8srules, (f'{{"ask": "quantity", "value": {literal}}}' for literal in literals))
    accepted = 0
    for literal, answer in zip(literals, answers, strict=True):
        try:
            ours = parse_quantity(json.loads(literal))
        except QuantityError:
            assert not answer["accepted"], f"Kubernetes accepts {literal} as {answer}"
            continue
        accepted += 1
        assert answer["accepted"], f"Kubernetes refuses {literal}"
        assert str(ours.nanos) == answer["nanos"], literal
        assert str(ours.as_stored.nanos) == answer["stored"], literal
        if ours.nanos % 10**30 or not ours.nanos:  # Kubernetes has no suffix above E, and then leaves it away
            assert str(ours) == answer["decimal"], literal
        if ours.millicores in INT64:  # beyond, and below zero, Kubernetes overflows in several ways
            assert (ours.value, ours.millicores) == (answer.get("value", 0), answer.get("milli", 0)), literal
    assert CASES // 4 < accepted < len(literals) - CASES // 10, "the cases are one-sided"


def test_quantities_compare_as_in_kubernetes(k8srules: Path, dice: Random) -> None:
    """Equal amounts in different spellings are equal, and the order is the same."""
    pairs = []
    for _ in range(CASES):
        left = dice.choice(
            [dice.randrange(100), 1000 * dice.randrange(100), dice.randrange(10**9), 1024000 * dice.randrange(9)]
        )
        right = dice.choice([left, left, left + dice.choice([-1, 1]), dice.randrange(10**6)])
        pairs.append((spellings(dice, left), spellings(dice, max(right, 0))))
    answers = ask(k8srules, ({"ask": "order", "left": left, "right": right} for left, right in pairs))
    for (left, right), answer in zip(pairs, answers, strict=True):
        ours, other = parse_quantity(left), parse_quantity(right)
        assert (ours > other) - (ours < other) == answer, (left, right)
        assert (ours == other) is (answer == 0), (left, right)
        assert answer or hash(ours) == hash(other)
    assert CASES // 4 < answers.count(0) < CASES


def test_nodes_are_chosen_as_in_kubernetes(k8srules: Path, dice: Random) -> None:
    """Node selector, required affinity and taints: the same verdict, and the same first taint."""
    cases = list(places(dice, CASES))
    answers = ask(k8srules, (case.question for case in cases))
    for case, answer in zip(cases, answers, strict=True):
        pod, node = case.pod, case.node
        selected = matches_node_selector(pod.node_selector, node.labels)
        affine = pod.required_terms is None or matches_terms(pod.required_terms, node.labels, node.name)
        taints = [
            untolerated(pod.tolerations, node.taints, *effects, comparison_operators=case.comparison_operators)
            for effects in [(), (KUBELET_EFFECTS,)]
        ]
        assert {
            "nodeSelector": selected,
            "affinity": affine,
            "schedulerTaint": "" if taints[0] is None else str(taints[0]),
            "kubeletTaint": "" if taints[1] is None else str(taints[1]),
        } == answer, case.question
        eligible = answer["nodeSelector"] and answer["affinity"] and not answer["schedulerTaint"]
        assert (_verdict(pod, node, case.comparison_operators) is None) is eligible, case.question
    for word in ("nodeSelector", "affinity", "schedulerTaint"):
        yes = sum(bool(answer[word]) for answer in answers)
        assert CASES // 8 < yes < CASES * 7 // 8, f"the cases are one-sided: {word} {yes}"


def _verdict(pod: Pod, node: NodeFacts, comparison_operators: bool) -> object:
    return ineligibility(pod, node, comparison_operators=comparison_operators)


def test_totals_and_qos_are_counted_as_in_kubernetes(k8srules: Path, dice: Random) -> None:
    """The scheduler's total of every resource, and the QoS class, of pods with sidecars, overhead and pod level."""
    cases = list(sums(dice, CASES))
    answers = ask(k8srules, (case.question for case in cases))
    for case, answer in zip(cases, answers, strict=True):
        ours = demand_of(case.pod)
        theirs = {name: answer["milli" if name == "cpu" else "value"][name] for name in answer["value"]}
        assert ours.totals == theirs, case.question
        assert ours.qos.value == answer["qos"], case.question
        assert ours.has_pod_level_resources is answer["podLevel"], case.question
    assert all(
        sum(answer["qos"] == name for answer in answers) > CASES // 20
        for name in ("Guaranteed", "Burstable", "BestEffort")
    )
