"""The checker's report as JSON, as SARIF, and as annotations of GitHub Actions: the same places in each."""

import json

import pytest
from click.testing import CliRunner
from support.builders import container, raw_pod
from support.sarif import assert_is_sarif

from webhook.cli.check import check

HALF = json.dumps(raw_pod(containers=[container(requests={"cpu": "500m"}, limits={"cpu": "500m"})]), indent=2)
FILES = {"m/a b,c.yaml": HALF, "m/broken.yaml": "kind: Pod\n  a: [\n", "m/good.yaml": "kind: A\n", "m/v.yaml": "a: 1\n"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the command on these files in one form."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def call(form, *paths):
        return CliRunner().invoke(check, ["-o", form, *(paths or ["m"])])

    return call


def test_json_has_every_place_and_the_totals(run):
    result = run("json")
    told = json.loads(result.stdout)
    (finding,) = told["findings"]
    assert (finding["file"], finding["line"], finding["column"]) == ("m/a b,c.yaml", 19, 13)
    assert (finding["code"], finding["family"], finding["severity"]) == ("CPU_NOT_WHOLE", "cpu", "error")
    assert finding["message"].startswith(finding["path"])
    (unreadable,) = told["unreadable"]
    assert (unreadable["file"], unreadable["line"]) == ("m/broken.yaml", 2)
    assert told["totals"] == {
        "objects": 2, "judged": 1, "errors": 1, "warnings": 0, "unreadable": 1, "documentsWithoutKind": 1,
    }  # fmt: skip
    assert result.exit_code == 3


def test_sarif_keeps_its_schema_and_has_every_place(run):
    log = json.loads(run("sarif").stdout)
    assert_is_sarif(log)
    (run_,) = log["runs"]
    (result,) = run_["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "m/a%20b%2Cc.yaml"
    assert place["region"] == {"startLine": 19, "startColumn": 13}
    assert (result["ruleId"], result["level"]) == ("CPU_NOT_WHOLE", "error")
    assert [rule["id"] for rule in run_["tool"]["driver"]["rules"]] == ["CPU_NOT_WHOLE"]
    (invocation,) = run_["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "m/broken.yaml"


def test_sarif_of_a_clean_file_and_of_an_absolute_path_keeps_its_schema(run, tmp_path):
    clean = json.loads(run("sarif", "m/good.yaml").stdout)
    assert_is_sarif(clean)
    assert clean["runs"][0]["results"] == []
    absolute = json.loads(run("sarif", str(tmp_path / "m/a b,c.yaml")).stdout)
    assert_is_sarif(absolute)
    place = absolute["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (tmp_path / "m/a b,c.yaml").as_uri()


def test_annotations_are_workflow_commands_on_one_line_each(run):
    first, second = run("github").stdout.splitlines()
    assert first.startswith("::error file=m/a b%2Cc.yaml,line=19,col=13,title=CPU_NOT_WHOLE::spec.containers[0].")
    assert second.startswith("::error file=m/broken.yaml,line=2,col=")
    assert ",title=UNREADABLE::This is no YAML: " in second


def test_text_of_a_file_cannot_end_an_annotation(run, tmp_path):
    """A percent sign and a line break are escaped as GitHub reads them back."""
    raw = raw_pod(containers=[container(requests={"cpu": "5%0A::error::x"}, limits={"cpu": "1"})])
    (tmp_path / "m/forged.yaml").write_text(json.dumps(raw))
    lines = run("github", "m/forged.yaml").stdout.splitlines()
    assert all(line.startswith(("::error file=m/forged.yaml,", "::warning file=m/forged.yaml,")) for line in lines)
    assert any("5%250A::error::x" in line for line in lines), lines


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_every_form_ends_with_the_same_code_and_summary(run, form):
    result = run(form)
    assert result.exit_code == 3
    assert result.stderr == (
        "1 error, 0 warnings, 1 unreadable; 2 objects read, 1 of them judged, 1 document without a kind passed over.\n"
    )
