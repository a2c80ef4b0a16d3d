"""``numa-admission check``: objects of lists, and kinds that only the settings know."""

import json

import pytest
from click.testing import CliRunner

from webhook.cli.check import check

CLEAN, FINDINGS = 0, 1
TWICE = """\
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      cpuset-scheduler: required
      cpuset-scheduler: required
  spec: {}
"""
ONCE = TWICE.replace("      cpuset-scheduler: required\n", "", 1)


def test_a_field_that_stands_twice_belongs_to_its_own_object():
    """The path of the tenth item begins with the characters of the first's."""
    result = CliRunner().invoke(check, ["-"], input=f"kind: List\nitems:\n{ONCE * 10}{TWICE}")
    lines = [line for line in result.stdout.splitlines() if "[FIELD_TWICE]" in line]
    assert len(lines) == 1
    assert "items[10].metadata.annotations" in lines[0]


def test_the_pods_of_a_typed_list_are_judged():
    """As an API server answers them: the items name no kind."""
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"annotations": {"cpuset-scheduler": "x"}}}]}
    spec_key = "scheduling.alibabacloud.com/numa-topology-spec"
    pods["items"][0]["metadata"]["annotations"][spec_key] = '{"numaTopologyPolicy":"None"}'
    result = CliRunner().invoke(check, ["-"], input=json.dumps(pods))
    assert result.exit_code == FINDINGS
    assert "[POLICY_UNKNOWN]" in result.stdout


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        pytest.param("{}", CLEAN, id="an unknown kind is none of our business"),
        pytest.param(
            "workloads: [{group: x.example, kind: Trainer, templates: [{path: spec.template}]}]",
            FINDINGS,
            id="a kind of the settings is judged",
        ),
    ],
)
def test_kinds_of_the_settings_count(tmp_path, settings, code):
    (tmp_path / "settings.yaml").write_text(settings)
    annotations = {"scheduling.alibabacloud.com/numa-topology-spec": "{}"}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c"}]}}
    text = json.dumps({"apiVersion": "x.example/v1", "kind": "Trainer", "spec": {"template": template}})
    result = CliRunner().invoke(check, ["-", "--settings", str(tmp_path / "settings.yaml")], input=text)
    assert result.exit_code == code, result.output
