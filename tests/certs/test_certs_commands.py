"""``python -m certs``: what is printed and which exit code it ends with."""

import subprocess
import sys
from pathlib import Path

import pytest

from certs.__main__ import main

PROGRAM = str(Path(sys.executable).with_name("numa-admission"))


def test_mint_show_and_a_server_s_view_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["mint", str(tmp_path), "--service", "rules", "--namespace", "numa", "--ip", "127.0.0.1"]) == 0
    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == ["ca.crt", "tls.crt", "tls.key"]

    assert main(["show", str(tmp_path), "--service", "rules", "--namespace", "numa"]) == 0
    printed = capsys.readouterr().out
    assert "names        rules, rules.numa, rules.numa.svc, rules.numa.svc.cluster.local, 127.0.0.1" in printed
    assert "30.0 days" in printed
    assert "PRIVATE" not in printed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["show", "DIR", "--dns", "other"], 1, "does not cover other. [missing_name]", id="a fault"),
        pytest.param(["show", "DIR/nothing"], 3, "no certificate", id="nothing there"),
        pytest.param(["mint", "DIR"], 2, "at least one name", id="no name"),
        pytest.param(["mint", "DIR", "--ip", "x"], 2, "does not appear to be an IPv4 or IPv6 address", id="no address"),
        pytest.param(["mint", "DIR", "--dns", "a", "--days", "0"], 2, "more than 0 days", id="no time"),
        pytest.param(["mint", "DIR/ca.crt", "--dns", "a"], 3, "File exists", id="a file in the way"),
        pytest.param(["rotate", "DIR", "--dns", "a", "--days", "0"], 2, "must lie between", id="too short"),
        pytest.param(["rotate", "DIR/ca.crt", "--dns", "a"], 3, "cannot be used", id="no directory"),
    ],
)
def test_what_goes_wrong_is_said_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
):
    assert main(["mint", str(tmp_path), "--dns", "localhost"]) == 0
    capsys.readouterr()

    assert main([argument.replace("DIR", str(tmp_path)) for argument in arguments]) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_rotate_goes_one_step_and_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for arguments, said in (
        ([], "start: There is no serving certificate."),
        ([], "keep: Nothing is due."),
        (["--ask", "leaf"], "renew leaf: A new leaf was asked for."),
        (["--ask", "authority"], "begin overlap: A new authority was asked for."),
    ):
        assert main(["rotate", str(tmp_path), "--dns", "localhost", *arguments]) == 0
        assert capsys.readouterr().out.startswith(said)
    assert main(["show", str(tmp_path)]) == 0
    assert "overlap: a new authority is being made known; trusted everywhere since: not yet" in capsys.readouterr().out


def test_minting_loads_nothing_of_the_webhook():
    """A fresh interpreter: certs stands beside the webhook, and starts without Flask, Kubernetes or click."""
    program = (
        "import sys, certs.__main__, certs.files; "
        "print(sorted({name.split('.')[0] for name in sys.modules} & "
        "{'webhook', 'flask', 'kubernetes', 'click', 'jsonschema', 'structlog', 'yaml', 'gunicorn'}))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["mint", "show", "rotate"])
def test_usage_names_the_program_that_was_called(command):
    wrong = [PROGRAM, "certs", command, "--nothing"]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: numa-admission certs {command} ")
    assert "python -m" not in done.stderr
