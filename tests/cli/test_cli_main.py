"""``numa-admission``: every command of the table is there, and help says what it is for."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli.main import COMMANDS, main
from webhook.cli.output import whole_output

POD = Path(__file__).parents[2] / "examples" / "guide-pod.yaml"
PROGRAM = [sys.executable, "-c", "from webhook.cli.main import main; main(prog_name='numa-admission')"]
CUT_SHORT = [
    pytest.param(["check", "-o", "sarif", str(POD)], id="check, long"),
    pytest.param(["check", "--help"], id="help of a command"),
    pytest.param(["explain"], id="explain"),
    pytest.param(["explain", "CPU_NOT_WHOLE"], id="a page"),
    pytest.param(["webhook-config", "--help"], id="another command"),
    pytest.param(["--help"], id="help of the program"),
    pytest.param(["--version"], id="version"),
]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_of_the_table_can_be_called(name):
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: main {name} ")


def test_every_command_module_is_in_the_table():
    """A command that is written and not listed cannot be called."""
    modules = {path.partition(":")[0] for path, _ in COMMANDS.values()}
    written = set()
    for file in files("webhook.cli").iterdir():
        if file.name.endswith(".py") and "@click.command" in file.read_text(encoding="utf-8"):
            written.add(f"webhook.cli.{file.name.removesuffix('.py')}")
    assert written <= modules


@pytest.mark.parametrize("arguments", CUT_SHORT)
def test_output_that_cannot_be_written_is_no_finding(arguments):
    """A truncated log must not pass where ``test $? -eq 1`` lets findings pass."""
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr.splitlines()[-1]) == (
        3,
        "Error: The output cannot be written: No space left on device.",
    )
    assert "Traceback" not in result.stderr


def test_errors_that_cannot_be_written_are_no_finding():
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*PROGRAM, "check", str(POD)], stderr=full, check=False)
    assert result.returncode == 3


def test_a_reader_that_has_gone_is_told_nothing():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        result = subprocess.run([*PROGRAM, "explain"], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (3, "")


def test_another_error_of_the_system_is_not_taken_for_the_output():
    with pytest.raises(OSError, match="not of the output"), whole_output():
        raise OSError("not of the output")


CRASHED = """
import click
from webhook.cli.main import main

@main.command("crash")
def crash():
    raise {error}

main.get_command = lambda context, name: crash
main(["crash"])
"""


@pytest.mark.parametrize(
    ("error", "code", "last_line"),
    [
        pytest.param("IndexError('nobody has foreseen it')", 3, "IndexError: nobody has foreseen it", id="a crash"),
        pytest.param("OSError(5, 'not of the output')", 3, "OSError: [Errno 5] not of the output", id="of the system"),
        pytest.param("click.UsageError('wrong')", 2, "Error: wrong", id="wrong usage"),
        pytest.param("click.exceptions.Exit(1)", 1, "", id="findings"),
        pytest.param("click.Abort()", 1, "Aborted!", id="given up"),
        pytest.param("SystemExit(4)", 4, "", id="a code of its own"),
    ],
)
def test_a_crash_is_no_finding(error, code, last_line):
    """It ends with its traceback and 3: Python's own 1 is the code of findings."""
    program = [sys.executable, "-c", CRASHED.format(error=error)]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (result.returncode, [*result.stderr.splitlines(), ""][-2 if result.stderr else 0]) == (code, last_line)
    assert ("Traceback" in result.stderr) is (code == 3)
