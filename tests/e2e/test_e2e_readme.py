"""The pages' commands, followed word by word: each runs, and prints what the page shows.

What a reader has and we have not is put in his way: images (pods run as processes), a pod network (Services lead to
loopback), and the kubelet's way into a container (`kubectl exec` runs the command beside the others).
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from controlplane.binaries import APISERVER, Binaries, locate_helm
from controlplane.plane import ControlPlane
from controlplane.processes import wait_until
from controlplane.settling import wait_for_webhooks
from controlplane.starting import start
from support.console_blocks import Step, read_steps
from support_first_day import NAME, FirstDay, first_day
from support_pods import quiet_ports
from support_reader import ROOT, Reader, admin_environment, home_environment, steps_of, with_helm
from support_release import Release, marks, pod

PATIENCE_SECONDS = 60.0
README, CHART = "README.md", "helm/numa-admission/README.md"
FOLLOWED = {
    README: {"Try it", "In CI", "In a cluster"},
    CHART: {"Install", "Break glass", "Certificates", "Uninstall"},
}


@pytest.mark.parametrize("page", [README, CHART])
def test_no_command_of_a_page_is_left_out(page: str) -> None:
    assert {step.heading for step in read_steps(ROOT / page)} == FOLLOWED[page]


# --- without a cluster ---


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Reader]:
    """`make run`, as the page has it, on free ports; the reader knows what it has printed."""
    run, test = steps_of(README, ["Try it"])[:2]
    assert [step.command.split("#")[0].strip() for step in (run, test)] == ["make run", "make test"]
    port, probe_port = quiet_ports(2)
    prefix = Path(sys.executable).parents[1]
    made = ["make", f"VENV={prefix}", f"--old-file={prefix}/.installed", f"PORT={port}", f"PROBE_PORT={probe_port}"]
    subprocess.run([*made, "-n", "test"], check=True, capture_output=True, cwd=ROOT, timeout=PATIENCE_SECONDS)
    with subprocess.Popen(
        [*made, "run"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, start_new_session=True
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "check examples" in line:
                break
        authority = re.search(r"its authority is (\S+)", "".join(lines))
        assert authority is not None, lines
        words = {"8443": str(port), " CA ": f" {authority[1]} ", "pasted": "".join(lines)}
        try:
            yield Reader(home_environment(tmp_path), words=words)
        finally:
            process.send_signal(signal.SIGINT)
            _ended(process)


def _ended(process: "subprocess.Popen[str]") -> None:
    """Take what make's child still prints, so that it ends."""
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)


def test_try_it(demo: Reader) -> None:
    for step in steps_of(README, ["Try it"])[2:]:
        demo.run(step)


def test_lines_to_paste_run(demo: Reader) -> None:
    """Those that `make run` prints; its demo was not asked before."""
    pasted = [line.strip() for line in demo.words["pasted"].splitlines() if line.startswith("  ") and "#" not in line]
    assert len(pasted) == 5
    for line in pasted:
        Reader(demo.environment).run(Step("make run", 0, "", f"numa-admission {line.partition(' ')[2]}"))


def test_in_ci(require: Callable[..., None], tmp_path: Path) -> None:
    require(*locate_helm(os.environ))
    environment = with_helm(home_environment(tmp_path), tmp_path)
    for step in steps_of(README, ["In CI"]):
        Reader(environment).run(step)


# --- with one ---


@pytest.fixture(scope="module")
def plane(
    control_plane_binaries: Binaries, require: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A cluster of the reader's own: the pages name release and namespace."""
    require(*locate_helm(os.environ))
    with start(control_plane_binaries, tmp_path_factory.mktemp("reader")) as plane:
        plane.add_gpu_node("worker", cpu=32, memory="64Gi", gpus={})
        yield plane


@pytest.fixture
def day(plane: ControlPlane, tmp_path: Path) -> Iterator[FirstDay]:
    """The reader at the cluster, and what his cluster does by itself."""
    with first_day(plane, tmp_path, Reader(admin_environment(plane))) as day:
        yield day


def test_safe_first_day(day: FirstDay) -> None:
    """Of the first page; then its way without Helm, and its break glass."""
    steps = steps_of(README, ["In a cluster"])
    own = [step for step in steps if step.command.startswith(("numa-admission certs", "numa-admission serve"))]
    with_helm = [step for step in steps if step.command.startswith(("helm", "kubectl -n", "numa-admission audit"))]
    for step in with_helm:
        day.follow(step)
    day.until_refused()
    day.follow_text("helm uninstall numa-admission --namespace numa-admission")
    left = [step for step in steps if step not in with_helm and step not in own]
    assert [step.command.split()[:2] for step in left] == [
        ["numa-admission", "webhook-config"],
        ["kubectl", "delete"],
    ]
    _without_helm(day, own, left)


def _without_helm(day: FirstDay, own: list[Step], left: list[Step]) -> None:
    port, probe_port = quiet_ports(2)
    folder = day.folder / "own"
    folder.mkdir()
    words = {"8443": str(port), "8080": str(probe_port)}
    reader = Reader(day.reader.environment, folder, words)
    mint, serve = own
    reader.run(mint)
    command = reader.own(serve.command).removesuffix("&")
    with subprocess.Popen(
        shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder,
        env=dict(reader.environment),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in serve.output)
        reader.judge(serve, subprocess.CompletedProcess(command, 0, printed, ""))
        for step in left:
            reader.run(step)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)


def test_the_chart_s_page(day: FirstDay) -> None:
    """Install, look after certificates, break the glass and put it back, uninstall: nothing is left."""
    for step in steps_of(CHART, ["Install"]):
        day.follow(step)
    day.until_refused()
    for step in steps_of(CHART, ["Certificates", "Break glass"]):
        day.follow(step)
    for step in steps_of(CHART, ["Uninstall"]):
        day.follow(step)
    assert day.left_behind() == []


def test_notes_first_three_commands(day: FirstDay) -> None:
    """What helm prints after an installation, as it is printed."""
    printed = day.follow_text("helm install numa-admission helm/numa-admission -n numa-admission --create-namespace")
    commands = [line.strip() for line in printed.splitlines() if re.match(r" +(kubectl|helm|numa-admission) ", line)]
    assert [command.split()[0] for command in commands] == ["kubectl", "helm", "numa-admission", "kubectl"]
    for command in commands:
        day.follow_text(command)


def test_break_glass_with_nothing_of_ours_running(plane: ControlPlane) -> None:
    """No pod of the release ever runs here: the page's words need nothing but the API server, and Helm."""
    reader = Reader(admin_environment(plane))
    aligned = pod("aligned", marks(), whole=True)

    def starts() -> bool:
        wait_for_webhooks(plane)
        return plane.apply([aligned], "-n", "default", "--dry-run=server", check=False).returncode == 0

    reader.run(Step("text", 0, "", f"helm install {NAME} helm/{NAME} -n {NAME} --create-namespace"))
    try:
        assert not starts()
        delete, put_back, milder = steps_of(CHART, ["Break glass"])
        reader.run(delete)
        assert starts()
        reader.run(put_back)
        assert not starts()
        reader.run(milder)
        assert starts()
    finally:
        Release(plane, NAME, NAME).remove()
        wait_until(
            lambda: _is_gone(plane, f"/api/v1/namespaces/{NAME}"),
            what="the namespace's end",
            within_seconds=PATIENCE_SECONDS,
            running=plane.fleet.get(APISERVER),
        )


def _is_gone(plane: ControlPlane, path: str) -> bool:
    """Whether the namespace has ended; its pods are bound, and no kubelet will ever say that they have stopped."""
    plane.api("DELETE", f"{path}/pods?gracePeriodSeconds=0")
    return plane.api("GET", path).status == 404
