"""``numa-admission explain``: every code has a page, and a wrong one is told which are near."""

import pytest
from click.testing import CliRunner

from webhook.cli.explain import all_reasons, explain, page_of


@pytest.mark.parametrize("code", all_reasons())
def test_every_code_has_a_page(code):
    """Its title begins with the code; what stands there is what is printed."""
    result = CliRunner().invoke(explain, [code])
    assert result.exit_code == 0
    assert result.output == page_of(code)
    assert result.output.startswith(f"# {code}")


@pytest.mark.parametrize("written", ["[CPU_NOT_WHOLE]", "cpu_not_whole"])
def test_a_code_is_taken_as_it_is_copied(written):
    assert CliRunner().invoke(explain, [written]).output == page_of("CPU_NOT_WHOLE")


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("cpu_not_whol", "Did you mean CPU_NOT_WHOLE, GPU_NOT_WHOLE or CPU_SUM_NOT_WHOLE?"),
        ("CPU_NOT_HOLE", "Did you mean CPU_NOT_WHOLE"),
        ("POLICY_UNKNWN", "Did you mean POLICY_UNKNOWN"),
        ("XYZ", "Run numa-admission explain for the list."),
        ("../../etc/passwd", "for the list."),
    ],
)
def test_an_unknown_code_gets_a_suggestion(written, hint):
    result = CliRunner().invoke(explain, [written])
    assert result.exit_code == 2
    assert hint in result.stderr
    assert result.stdout == ""


def test_without_a_code_all_are_listed():
    """One line each: code, severity, summary."""
    result = CliRunner().invoke(explain, [])
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines] == list(all_reasons())
    assert all(line.endswith(".") for line in lines)
    assert {line.split()[1] for line in lines} <= {"error", "warning"}


@pytest.mark.parametrize(
    ("code", "weight"),
    [
        ("SPEC_HOME_OLDER", "error or warning"),
        ("SPEC_REPAIRABLE_JSON", "error or warning"),
        ("CPU_REQUEST_MISSING", "error or warning"),
        ("CPU_NOT_WHOLE", "error "),
        ("CPU_ADDED_CONTAINER", "warning "),
    ],
)
def test_the_list_says_how_a_code_weighs(code, weight):
    (line,) = [line for line in CliRunner().invoke(explain, []).output.splitlines() if line.split()[0] == code]
    assert line.removeprefix(code).lstrip().startswith(weight)
