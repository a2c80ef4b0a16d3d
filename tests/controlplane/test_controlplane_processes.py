"""A program that a test starts is stopped surely, whatever becomes of the test."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from controlplane.processes import Fleet, StartError, free_ports, start_process, wait_until

# Prints a line once it sleeps, starts a child of its own, and does not heed a polite request to end.
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; sleep 1000 & echo asleep; wait; wait; sleep 1000"]


def has_said(log: Path, text: str) -> bool:
    return log.exists() and text in log.read_text()


def group_is_gone(group: int) -> bool:
    """Whether no process of the group is left, but for dead ones that wait for a parent to look at them."""
    states = subprocess.run(["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False)
    return not [state for state in states.stdout.split() if not state.startswith("Z")]


def test_a_stubborn_program_is_killed_with_its_children(tmp_path):
    running = start_process("stubborn", STUBBORN, tmp_path / "log")
    wait_until(lambda: has_said(running.log, "asleep"), what="its line", within_seconds=10, running=running)
    assert running.stop(within_seconds=0.2) == -signal.SIGKILL
    assert not running.alive
    wait_until(lambda: group_is_gone(running.process.pid), what="its children to end", within_seconds=10)


def test_children_of_a_program_that_ended_by_itself_are_killed(tmp_path):
    running = start_process("parent", ["/bin/sh", "-c", "sleep 1000 & exit 3"], tmp_path / "log")
    assert running.process.wait(10) == 3
    assert running.stop() == 3
    # Nobody waits for grandchildren: where the machine is busy, the killed one ends a moment later.
    wait_until(lambda: group_is_gone(running.process.pid), what="its child to end", within_seconds=10)


def test_stopping_twice_is_harmless(tmp_path):
    running = start_process("polite", ["sleep", "1000"], tmp_path / "log")
    assert running.stop() == running.stop() == running.kill() == -signal.SIGTERM


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", id="it is killed"),
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)", id="it is asked to end"),
        pytest.param("os._exit(1)", id="it leaves without unwinding"),
        pytest.param("os.kill(os.getpid(), signal.SIGINT)", id="Ctrl-C"),
        pytest.param("sys.exit(0)", id="it ends as usual"),
    ],
)
def test_a_program_does_not_outlive_the_python_that_started_it_when(tmp_path, end):
    log = tmp_path / "log"
    script = f"""
        import os, signal, sys
        from pathlib import Path
        from controlplane.processes import Fleet, start_process
        with Fleet() as fleet:
            running = fleet.add(start_process("sleeper", ["sleep", "1000"], Path({str(log)!r})))
            print(running.process.pid, flush=True)
            {end}
    """
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=30)
    group = int(done.stdout)
    watch = start_process("watch", ["sleep", "30"], tmp_path / "watch.log")
    try:
        wait_until(lambda: group_is_gone(group), what="the sleeper's end", within_seconds=10, running=watch)
    finally:
        watch.stop()


def test_a_program_that_ends_too_early_is_told_with_the_end_of_its_log(tmp_path):
    running = start_process("hasty", ["/bin/sh", "-c", "echo no flag --such; exit 7"], tmp_path / "log")
    with pytest.raises(StartError, match=r"(?s)^hasty ended with 7 before its page.*no flag --such$"):
        wait_until(lambda: False, what="its page", within_seconds=10, running=running)
    running.stop()


def test_a_program_that_never_becomes_ready_is_not_waited_for_beyond_the_time(tmp_path):
    running = start_process("slow", ["sleep", "1000"], tmp_path / "log")
    with pytest.raises(StartError, match=r"^slow runs, but its page did not come within 0.1 s"):
        wait_until(lambda: False, what="its page", within_seconds=0.1, running=running)
    running.stop()


def test_a_fleet_stops_its_programs_and_takes_a_restarted_one_in_its_old_place(tmp_path):
    with Fleet() as fleet:
        store = fleet.add(start_process("store", ["sleep", "1000"], tmp_path / "store"))
        fleet.add(start_process("server", ["sleep", "1000"], tmp_path / "server"))
        with pytest.raises(StartError, match="store runs already"):
            fleet.add(start_process("store", ["sleep", "1000"], tmp_path / "store"))
        store.kill()
        assert fleet.names() == ("server",)
        fleet.add(start_process("store", ["sleep", "1000"], tmp_path / "store"))
        assert fleet.names() == ("store", "server")
    assert fleet.names() == ()


def test_free_ports_are_distinct():
    ports = free_ports(20)
    assert len(set(ports)) == 20
