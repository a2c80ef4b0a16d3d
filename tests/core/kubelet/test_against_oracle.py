"""The kubelet's own code against our model: verdict, reason, text, CPUs, memory and chosen NUMA nodes of every step.

Always the committed samples (``tests/oracle/sample.jsonl.gz`` and one of our own).
``NUMA_ADMISSION_ORACLE_CASES=100000`` draws that many fresh cases with the oracle itself (``make oracle``);
``NUMA_ADMISSION_ORACLE_SEED`` repeats a run.
The state before each step and the devices are the recorded ones (which of equal devices a kubelet takes is the order of
a Go map); everything else must come out the same.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from oracle_cases import (
    DISTRIBUTED,
    SAMPLE,
    TOPOLOGY_REASONS,
    Books,
    OracleMachine,
    demand_of_record,
    differences,
    given_of,
    machine_of,
)
from support.recorded_cases import FreshCases, judged, recorded

from webhook.core.demand import PodDemand
from webhook.core.kubelet import KubeletAllocator
from webhook.core.kubelet.startup import startup_faults
from webhook.core.placement import Placement, Rejection

CASES = "NUMA_ADMISSION_ORACLE_CASES"
SEED = "NUMA_ADMISSION_ORACLE_SEED"

SHARES = {"small": 0.4, "wild": 0.2, "gpu8": 0.3, "podlevel": 0.1}
"""The part of the fresh cases that each profile of the oracle draws."""
FRESH = FreshCases(Path(__file__).parents[2] / "oracle" / "build", CASES, SEED, SHARES)


class Judge:
    """Our model beside the recorded kubelet, one case after the other."""

    def __init__(self) -> None:
        """Start with nothing compared."""
        self.allocator = KubeletAllocator()
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def judge(self, case: dict) -> None:
        """Compare every step of one case."""
        if case["machine"]["kubelet"].get("feature_gates"):
            # PodLevelResourceManagers is off in every release, and not modelled.
            self.counts["skipped: feature gates beyond the defaults"] += 1
            return
        devices = dict(case["machine"].get("devices") or {})
        at = machine_of(case["machine"])
        if case.get("refused_to_start"):
            self.counts["cases whose kubelet does not start"] += 1
            if not any(fault in case["refused_to_start"] for fault in startup_faults(at.machine)):
                self.faults.append(f"{case['id']}: starts, recorded {case['refused_to_start']}")
            return
        if startup_faults(at.machine):
            self.faults.append(f"{case['id']}: recorded as started, {startup_faults(at.machine)}")
        self.counts["cases"] += 1
        books = Books(at)
        for number, step in enumerate(case["steps"]):
            where = f"{case['id']} step {number}"
            match step["op"]:
                case "devices":
                    devices[step["resource"]] = step.get("devices") or []
                    at = machine_of(case["machine"], devices)
                case "hold":
                    got = {"hold": {"cpu_ids": step.get("hold_cpu_ids"), "devices": step.get("hold_devices")}}
                    books.hold(at, step["pod_uid"], got, [])
                case "start" if step["pod_uid"] in books.held:
                    books.release(at, step["pod_uid"], step["got"])
                case "remove":
                    books.release(at, step["pod_uid"])
                case "admit" if not step["verdict"].get("api_errors"):
                    self.compare(where, at, books, step)

    def compare(self, where: str, at: OracleMachine, books: Books, step: dict) -> None:
        """Compare one arrival of a pod, and book it as recorded."""
        verdict, got = step["verdict"], step["got"]
        self.counts["verdicts"] += 1
        self.counts[f"recorded {verdict['reason'] or 'admitted'}"] += 1
        demand = demand_of_record(step["pod"])
        answer = self.allocator.place(at.machine, books.state(at), demand, given=given_of(at, got))
        expected = verdict["reason"] if verdict["reason"] in TOPOLOGY_REASONS else ""
        reason = answer.reason if isinstance(answer, Rejection) else ""
        if reason != expected:
            self.faults.append(
                f"{where}: {reason or 'admitted'}, recorded {expected or 'admitted'}: {verdict['message']}"
            )
        elif isinstance(answer, Placement):
            self.faults += [f"{where}: {difference}" for difference in differences(at, answer, got)]
        elif answer.message != verdict["message"] and not names_another_device(answer, demand):
            self.faults.append(f"{where}: says {answer.message!r}, recorded {verdict['message']!r}")
        order = [container["name"] for container in step["pod"]["containers"]]
        books.hold(at, step["pod"]["uid"], got, order)
        if not verdict["admit"]:
            books.release(at, step["pod"]["uid"])


def names_another_device(answer: Rejection, demand: PodDemand) -> bool:
    """Whether the kubelet may have named another of several short devices: it walks a Go map."""
    container = next((one for one in demand.containers if one.name == answer.container), None)
    return container is not None and len(container.devices) > 1 and answer.resource in dict(container.devices)


def test_sample_of_recorded_verdicts():
    """0 wrong verdicts, reasons, texts, CPU sets or NUMA masks in the committed sample."""
    judge = judged(Judge(), recorded(SAMPLE))
    assert not judge.faults, "\n".join(judge.faults[:50])
    assert judge.counts["verdicts"] > 5000
    for reason in ("admitted", *TOPOLOGY_REASONS):
        assert judge.counts[f"recorded {reason}"] > 100


def test_recorded_distribution_over_many_numa_nodes():
    """Exact CPU sets where the kubelet's best combination is overwritten by a later one."""
    judge = judged(Judge(), recorded(DISTRIBUTED))
    assert not judge.faults, "\n".join(judge.faults[:50])
    assert judge.counts["recorded admitted"] > 200


@pytest.mark.slow
@pytest.mark.parametrize("profile", SHARES)
@pytest.mark.skipif(CASES not in os.environ, reason=f"{CASES} is not set: only the committed sample is compared")
def test_fresh_verdicts(profile, capsys):
    """0 wrong verdicts, reasons, texts, CPU sets or NUMA masks in cases that were drawn just now."""
    judge, seed, cases = FRESH.judged(Judge(), profile)
    with capsys.disabled():
        print(f"\n{profile}, seed {seed}: {dict(judge.counts)}")  # noqa: T201 - the proof of make oracle
    assert not judge.faults, "\n".join(judge.faults[:50])
    assert sum(judge.counts[key] for key in judge.counts if "cases" in key or "skipped" in key) == cases
