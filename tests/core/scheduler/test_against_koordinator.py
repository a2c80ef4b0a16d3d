"""Koordinator's own code against our model: verdict, words, NUMA nodes, CPUs, memory and devices of every step.

Always the committed sample (``tests/koordinator/sample.jsonl.gz``). ``NUMA_ADMISSION_KOORDINATOR_CASES=100000`` draws
that many fresh cases with the program in ``tests/koordinator`` (``make koordinator-oracle``);
``NUMA_ADMISSION_KOORDINATOR_SEED`` repeats a run. The state before each step is the recorded one.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from koordinator_cases import SAMPLE, Books, demand_of
from support.recorded_cases import FreshCases, judged, recorded

from webhook.core.masks import mask_of, members
from webhook.core.placement import Rejection
from webhook.core.scheduler import SchedulerAllocator, Scoring
from webhook.core.scheduler.exclusive import Occupants
from webhook.core.scheduler.hints import Hint
from webhook.core.scheduler.merge import Terms, merge

CASES = "NUMA_ADMISSION_KOORDINATOR_CASES"
SEED = "NUMA_ADMISSION_KOORDINATOR_SEED"

SHARES = {"merge": 0.4, "small": 0.58, "gpu8": 0.02}
"""The part of the fresh cases that each profile draws."""
FRESH = FreshCases(Path(__file__).parents[2] / "koordinator" / "build", CASES, SEED, SHARES)


class Judge:
    """Our model beside the recorded scheduler, one case after the other."""

    def __init__(self) -> None:
        """Start with nothing compared."""
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def judge(self, case: dict) -> None:
        """Compare every step of one case."""
        self.counts["cases"] += 1
        if "merge" in case:
            self.merge(case["id"], case["merge"])
            return
        books = Books.of(case["machine"])
        allocator = SchedulerAllocator(Scoring(case["machine"]["numa_scoring"]))
        for number, step in enumerate(case["steps"]):
            if "pod" not in step:
                books.held.pop(step["remove"], None)
                continue
            self.compare(f"{case['id']} step {number}", allocator, books, step)
            if step["answers"][-1]["admit"]:
                books.held[step["pod"]["uid"]] = step["answers"][-1]

    def compare(self, where: str, allocator: SchedulerAllocator, books: Books, step: dict) -> None:
        """Compare one arrival of a pod."""
        left_out = books.left_out(step["pod"])
        if left_out:
            self.counts[f"not compared: {left_out}"] += 1
            return
        self.counts["verdicts"] += 1
        found = allocator.place(books.machine, books.state(), demand_of(step["pod"]))
        self.counts[f"we say {found.reason if isinstance(found, Rejection) else 'placed'}"] += 1
        differences = [books.differences(found, answer) for answer in step["answers"]]
        if all(differences):
            self.faults.append(f"{where}: {'; '.join(differences[-1])}")

    def merge(self, where: str, case: dict) -> None:
        """Compare one merge of bare hints."""
        self.counts["merges"] += 1
        status = case["status"]
        occupants = Occupants(
            mask_of(numa for numa, word in enumerate(status) if word == "single"),
            mask_of(numa for numa, word in enumerate(status) if word == "shared"),
        )
        terms = Terms(case["policy"], (1 << case["numa_nodes"]) - 1, case.get("exclusive", ""), occupants)
        merged = merge(terms, [(one["resource"], hints_of(one["hints"])) for one in case["hints"]])
        found = {
            "numa": None if merged.numa_mask is None else list(members(merged.numa_mask)),
            "preferred": merged.preferred,
            "unsatisfied": merged.unsatisfied,
            "admit": merged.admits,
            "reasons": list(merged.reasons),
        }
        if found != {"reasons": [], **case["answer"]}:
            self.faults.append(f"{where}: {found}, recorded {case['answer']}")


def hints_of(hints: list | None) -> list[Hint] | None:
    if hints is None:
        return None
    return [
        Hint(
            None if one["numa"] is None else mask_of(one["numa"]),
            preferred=one.get("preferred", False),
            score=one.get("score", 0),
        )
        for one in hints
    ]


def test_sample_of_recorded_verdicts():
    """0 wrong verdicts, words, NUMA nodes, CPUs, amounts or devices in the committed sample."""
    judge = judged(Judge(), recorded(SAMPLE))
    assert not judge.faults, "\n".join(judge.faults[:50])
    assert judge.counts["merges"] > 1000
    assert judge.counts["verdicts"] > 5000
    for word in (
        "placed",
        "policy-mismatch",
        "cpus-not-whole",
        "insufficient",
        "unsatisfied",
        "unaligned",
        "exclusive",
    ):
        assert judge.counts[f"we say {word}"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("profile", SHARES)
@pytest.mark.skipif(CASES not in os.environ, reason=f"{CASES} is not set: only the committed sample is compared")
def test_fresh_verdicts(profile, capsys):
    """0 differences in cases that were drawn just now."""
    judge, seed, cases = FRESH.judged(Judge(), profile)
    with capsys.disabled():
        print(f"\n{profile}, seed {seed}: {dict(judge.counts)}")  # noqa: T201 - the proof of make koordinator-oracle
    assert not judge.faults, "\n".join(judge.faults[:50])
    assert judge.counts["cases"] == cases
