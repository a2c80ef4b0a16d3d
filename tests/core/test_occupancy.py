"""Taking and giving back: who gives back what was taken last restores the state before."""

from dataclasses import replace

import pytest

from webhook.core.machine import CpuLayout, Machine, MemoryLayout, NodeState
from webhook.core.occupancy import give_back, take
from webhook.core.placement import Holding

CPUS = CpuLayout((0b0011, 0b1100), (0b0011, 0b1100), (1, 2, 4, 8))
MACHINE = Machine((0, 1), CPUS, memory=(MemoryLayout("memory", (1 << 30, 1 << 30), (0, 0)),))
LOW, HIGH, BOTH = (0b01, 4096), (0b10, 4096), (0b11, 4096)


def holding(*groups: tuple[int, int], cpuset: int = 0) -> Holding:
    return Holding(0, (), (groups,), cpuset)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(holding(LOW), id="as the first"),
        pytest.param(holding(HIGH), id="as the second"),
        pytest.param(holding(LOW, LOW), id="twice as the first"),
        pytest.param(holding(HIGH, LOW), id="as both, the other way round"),
        pytest.param(holding(BOTH), id="as none"),
        pytest.param(holding(LOW, cpuset=0b0011), id="with CPUs of the first's pool"),
    ],
)
def test_giving_back_the_last_restores_the_state_before(last: Holding) -> None:
    """The order of memory groups is part of the state: each is booked on what those before it have left."""
    before = replace(NodeState.empty(MACHINE), busy_memory=((LOW, HIGH, BOTH),), cpusets=(0b0011, 0b1100))
    assert give_back(MACHINE, take(before, last), last) == before
