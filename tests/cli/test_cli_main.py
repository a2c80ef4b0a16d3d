"""``numa-admission``: every command of the table is there, and help says what it is for."""

from importlib.resources import files

import pytest
from click.testing import CliRunner

from webhook.cli.main import COMMANDS, main


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
