"""No create fails because of us, whatever happens to us: a steady stream of creates through the chart's own webhooks.

One control plane, one release, one stream of creates of five kinds (`support_creates`); scene after scene.
The certificates' clock is compressed: replicas are granted 12 s to see a change instead of 90, the loops look each 4 s
instead of 30; the servers' own look at their files stays at 5 to 10 s. `make outage-proof` compresses nothing.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
import support_drill as drill
import support_events as events
from controlplane.binaries import Binaries, locate_helm
from controlplane.starting import start
from support_creates import Verdict
from support_release import CHART
from support_scenes import HEAD, Kill, Scene, streaming
from support_stage import Stage, add_nodes, staged

RATE = 25.0
"""Creates a second: a third of what two cores carry with the whole control plane beside it; the proof wants 100."""
SLOWEST_CALM_MILLISECONDS = 500.0
"""The bind guard's time-out is a second: where creates take this long with nothing going on, calls time out by
themselves, and what fails tells of the machine and not of us."""
CALM_SECONDS = 5.0
PROPAGATION_SECONDS = 12.0
IN_ORDER = {
    "rolling restart": events.rolling_restart,
    "leaf rotation": events.leaf_rotation,
    "authority rotation": events.authority_rotation,
    "leader ended": events.leader_ended,
}
KILLED = {
    "leader killed": events.leader_killed,
    "rules replica killed": events.rules_killed,
}


@pytest.fixture(scope="module")
def stage(control_plane_binaries: Binaries, require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The chart at work on a control plane of its own."""
    require(*locate_helm(os.environ))
    folder = tmp_path_factory.mktemp("rollout")
    with start(control_plane_binaries, folder / "plane") as plane:
        add_nodes(plane)
        with staged(plane, folder, propagation_seconds=PROPAGATION_SECONDS) as stage:
            yield stage


@pytest.fixture(scope="module")
def in_order(stage: Stage, request: pytest.FixtureRequest) -> dict[str, Scene]:
    """What an operator does to us, played once."""
    return _played(stage, request, "in-order", IN_ORDER)


@pytest.fixture(scope="module")
def killed(stage: Stage, request: pytest.FixtureRequest) -> dict[str, Scene]:
    """What machines do to us, played once."""
    return _played(stage, request, "killed", KILLED)


def _played(
    stage: Stage,
    request: pytest.FixtureRequest,
    namespace: str,
    happenings: Mapping[str, Callable[[Stage], Kill | None]],
) -> dict[str, Scene]:
    stage.plane.create_namespace(namespace)
    with streaming(stage.plane, stage.folder, namespace, RATE) as playing:
        playing.scene("calm", partial(playing.flows_for, CALM_SECONDS))
        (calm,) = playing.scenes()
        slow = calm.percentile_milliseconds(0.99)
        if slow > SLOWEST_CALM_MILLISECONDS:
            pytest.skip(f"A create takes up to {slow:.0f} ms here with nothing going on: too slow to tell us from it.")
        for name, happen in happenings.items():
            playing.scene(name, partial(happen, stage))
    played = {each.name: each for each in playing.scenes()}
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    terminal.write_line("\n".join(["", HEAD, *(each.row() for each in played.values())]))
    return played


# Beside other work (a load of 8 on two cores) the calm moments pass and a rolling restart still fails: on demand.
@pytest.mark.slow
@pytest.mark.parametrize("name", IN_ORDER)
def test_no_create_fails_and_none_passes_unseen(in_order: dict[str, Scene], name: str) -> None:
    """By the API server's answers, and by its own count of calls that failed and were ignored."""
    scene = in_order[name]
    assert {each.kind for each in scene.of(Verdict.RIGHT)} == {"plain", "aligned", "repaired", "broken", "never"}
    assert [each for each in scene.creates if each.verdict is not Verdict.RIGHT] == [], scene.text()
    assert not scene.failed_open, scene.text()


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_kill_costs_only_calls_on_their_way(killed: dict[str, Scene], name: str) -> None:
    scene = killed[name]
    assert scene.failures_beside_the_kill() == [], scene.text()
    assert {each.verdict for each in scene.creates if each.kind == "plain"} == {Verdict.RIGHT}, scene.text()


ROWS = drill.rows((CHART / "README.md").read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.down)
def test_who_starts_while_it_is_down_is_what_the_readme_says(stage: Stage, row: drill.Row) -> None:
    """The outage drill: the roles' machines lose their power, and every cell of the table is tried."""
    assert drill.found_while_down(stage, row) == row.promises


def test_the_drill_covers_every_role() -> None:
    assert [row.down for row in ROWS] == ["rules", "ledger", "both"]
    assert all(re.fullmatch("rules|ledger|both", row.down) for row in ROWS)
