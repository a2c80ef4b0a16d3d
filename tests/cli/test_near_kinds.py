"""A kind that is nearly a known one does not go through a pipeline in silence."""

import pytest
from click.testing import CliRunner

from webhook.cli.check import check
from webhook.cli.near_kinds import misspelt_kind
from webhook.core.modes import Rules
from webhook.wire.objects import read_objects
from webhook.wire.workload_table import STANDARD_KINDS

MARKED = {"metadata": {"annotations": {"cpuset-scheduler": "required"}}}


def wanted(api_version, kind, body=MARKED):
    """What is meant, of each warning on the one object."""
    (found,) = read_objects({"apiVersion": api_version, "kind": kind, **body})
    return [finding.wanted for finding in misspelt_kind(found, STANDARD_KINDS, Rules().vocabulary)]


@pytest.mark.parametrize(
    ("api_version", "kind", "meant"),
    [
        pytest.param("v1", "pod", "Pod of v1", id="case"),
        pytest.param("v1", "Pods", "Pod of v1", id="plural"),
        pytest.param("v1", "NODE", "Node of v1", id="capitals"),
        pytest.param("apps/v1", "Deploymnet", "Deployment of apps", id="a slip"),
        pytest.param("v1", "Deployment", "Deployment of apps", id="another group"),
        pytest.param(None, "Deployment", "Deployment of apps", id="no version"),
        pytest.param("apps/v1", "Pod", "Pod of v1", id="core under apps"),
        pytest.param("batch/v1", "cronJob", "CronJob of batch", id="the group's own comes first"),
    ],
)
def test_a_near_miss_is_told(api_version, kind, meant):
    assert wanted(api_version, kind) == [meant]
    assert wanted(api_version, kind, {"spec": {"x": [{"template": MARKED}]}}) == [meant]


@pytest.mark.parametrize(
    ("api_version", "kind", "body"),
    [
        pytest.param("v1", "Pod", MARKED, id="the kind itself"),
        pytest.param("apps/v1", "Deployment", MARKED, id="a row of the table"),
        pytest.param("v1", "pod", {"metadata": {"annotations": {"a": "b"}}}, id="no marks"),
        pytest.param("v1", "pod", {"metadata": {"annotations": ["cpuset-scheduler"]}}, id="annotations that are none"),
        pytest.param("v1", "Service", MARKED, id="a kind of v1 that another group has too"),
        pytest.param("v1", "ConfigMap", MARKED, id="a kind that is not near"),
        pytest.param("v1", "PodTemplateThing", MARKED, id="a longer word"),
        pytest.param("example.com/v1", "Deployment", MARKED, id="somebody's own group"),
    ],
)
def test_another_kind_is_nobody_s_business(api_version, kind, body):
    assert wanted(api_version, kind, body) == []


LISTED = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: pod
  metadata: {annotations: {cpuset-scheduler: required}}
"""


def test_the_checker_warns_at_the_kind():
    result = CliRunner().invoke(check, ["-"], input=LISTED)
    assert result.exit_code == 0
    assert result.stdout.startswith(
        '<stdin>:5:3: warning: items[0].kind: the kind "pod" is not known, so it was not judged;'
    )
    assert result.stdout.endswith(" [KIND_MISSPELT]\n")
    assert CliRunner().invoke(check, ["--fail-on", "warning", "-"], input=LISTED).exit_code == 1
