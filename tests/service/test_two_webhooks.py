"""Validate and capacity behind one server: what one says of a pod or a workload the other does not say again."""

import pytest
from core.capacity_world import FULL, MACHINE, TOPOLOGY, asked, cluster, deployment
from core.ledger.ledger_world import node
from support import builders

from webhook.core.capacity import CapacityRules
from webhook.core.decisions import Endpoint
from webhook.core.modes import Enforcement
from webhook.core.pod import PodTemplate, Workload
from webhook.service.book import Book
from webhook.service.settings import RuleSettings, Settings
from webhook.service.wiring import LedgerSource, capacity_rules_of, doors_of

NEAR_MISS = {"Scheduling.alibabacloud.com/numa-topology-specs": builders.SINGLE}
GANG = "batch.volcano.sh"


def fraction(cpu="3500m", gpu="5", **changes):
    """Return a pod whose CPUs the rules refuse, and that fits no machine."""
    return asked(containers=[builders.container("main", cpu=cpu, gpu=gpu, memory="1Gi")], **changes)


def several(*pods) -> Workload:
    """Return a workload with a template for each of ``pods``."""
    templates = tuple(PodTemplate(f"spec.tasks[{at}].template", pod, 1) for at, pod in enumerate(pods))
    return Workload(GANG, "Job", "team", "example", templates)


def both(subject, made=None, settings=None, old=None):
    """Return the decisions of validate and of capacity, as the server makes them, and the book."""
    settings = settings or Settings()
    book = Book(made or cluster(), capacity_rules_of(settings, LedgerSource()), lambda: 130.0, str)
    doors, question = doors_of(settings, book), builders.ask(subject, old)
    return (*(doors[endpoint].judge(question, 0.0) for endpoint in (Endpoint.VALIDATE, Endpoint.CAPACITY)), book)


def codes(decision) -> list[str]:
    """Return the codes of its findings."""
    return [finding.code for finding in decision.findings]


def full():
    """Return a cluster with no room."""
    return cluster(node("gpu-2", MACHINE, labels=TOPOLOGY, cordoned=True), bound=FULL)


@pytest.mark.parametrize(
    ("subject", "made", "rules_refuse", "capacity_says"),
    [
        pytest.param(asked(4, 4), cluster, False, [], id="a good pod that fits"),
        pytest.param(asked(4, 5), cluster, False, ["CAPACITY_NEVER"], id="a good pod that never fits"),
        pytest.param(fraction(), cluster, True, [], id="a bad pod that never fits"),
        pytest.param(fraction(gpu="1"), full, True, [], id="a bad pod that would wait"),
        pytest.param(fraction(gpu="1", marked=False), cluster, False, ["CPU_NOT_PINNED"], id="no mark"),
        pytest.param(
            fraction(gpu="1", marked=False, annotations=NEAR_MISS), cluster, True, [], id="nearly a mark is a mark"
        ),
        pytest.param(deployment(fraction()), cluster, True, [], id="a bad template"),
        pytest.param(several(asked(4, 4), asked(4, 4)), cluster, False, [], id="two good templates"),
        pytest.param(several(asked(4, 4), asked(4, 5)), cluster, False, ["CAPACITY_NEVER"], id="the second never fits"),
        pytest.param(
            several(asked(4, 5), asked(4, 5)), cluster, False, ["CAPACITY_NEVER"] * 2, id="each that never fits"
        ),
        pytest.param(several(fraction(), asked(4, 5)), cluster, True, [], id="the first is bad"),
        pytest.param(several(asked(4, 5), fraction()), cluster, True, [], id="the second is bad"),
    ],
)
def test_nothing_is_said_twice(subject, made, rules_refuse, capacity_says):
    """What the rules refuse capacity lets pass in silence and without a claim; else it says what they do not."""
    validate, capacity, book = both(subject, made())
    assert validate.allowed is not rules_refuse
    assert codes(capacity) == capacity_says
    assert not {(each.code, each.path) for each in validate.findings} & {
        (each.code, each.path) for each in capacity.findings
    }
    assert not rules_refuse or (capacity.allowed and capacity.event is None and not book.entry("new"))


def test_what_the_rules_only_warn_of_is_judged():
    """Where the rules refuse nothing, a bad pod is created: then capacity is asked like for any other."""
    settings = Settings(rules=RuleSettings(enforcement=Enforcement.WARN))
    validate, capacity, _ = both(fraction(), settings=settings)
    assert validate.allowed
    assert codes(validate)
    assert codes(capacity) == ["CAPACITY_NEVER"]


def test_an_old_fault_does_not_hide_a_new_size():
    """The rules say nothing of a template that has not changed; that it does not fit is said all the same."""
    old, new = (deployment(fraction(gpu="1"), replicas, 0) for replicas in (1, 5))
    validate, capacity, _ = both(new, full(), old=old)
    assert validate.findings == ()
    assert codes(capacity) == ["REPLICAS_EXCEED_ROOM"]


def test_the_marks_are_those_of_the_rules():
    """A dialect that is not judged has no marks: its pods are warned of CPUs like any other."""
    settings = Settings(rules=RuleSettings(dialects=("koordinator",)))
    assert capacity_rules_of(settings, LedgerSource()).vocabulary.homes < CapacityRules().vocabulary.homes
    validate, capacity, _ = both(fraction(gpu="1"), settings=settings)
    assert (validate.findings, codes(capacity)) == ((), ["CPU_NOT_PINNED"])
