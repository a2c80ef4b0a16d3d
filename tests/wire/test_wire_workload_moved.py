"""Templates in lists: where one comes or goes, the others have another path and are the same."""

import copy

import pytest
from support.builders import SINGLE, SPEC_KEY, ask, container

from webhook.core.decide import decide_validate
from webhook.core.modes import Rules
from webhook.wire.workload_table import STANDARD_KINDS
from webhook.wire.workloads import read_workload

JOBSET = STANDARD_KINDS["jobset.x-k8s.io", "JobSet"]


def _job(cpu):
    template = {
        "metadata": {"annotations": {"cpuset-scheduler": "required", SPEC_KEY: SINGLE}},
        "spec": {"containers": [container(cpu=cpu)]},
    }
    return {"name": f"j{cpu}", "template": {"spec": {"template": template}}}


def _set(*cpus):
    """A JobSet with one replicated job for each amount of CPU."""
    return read_workload({"spec": {"replicatedJobs": [_job(cpu) for cpu in cpus]}}, JOBSET, namespace="team")


def _refused(old, new):
    findings = decide_validate(ask(new, old), Rules()).findings
    return [finding.path.partition(".template")[0] for finding in findings]


BAD, WORSE = "1500m", "2500m"


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param([BAD], ["4", BAD], [], id="a right one comes before"),
        pytest.param(["4", BAD], [BAD], [], id="the first goes"),
        pytest.param(["4", BAD, WORSE], [WORSE, "4", BAD], [], id="all change places"),
        pytest.param([BAD, BAD], [BAD], [], id="one of two equal ones goes"),
        pytest.param([BAD], [BAD, BAD], ["spec.replicatedJobs[1]"], id="a copy of a broken one is new"),
        pytest.param(["4"], [BAD, "4"], ["spec.replicatedJobs[0]"], id="a broken one comes before"),
        pytest.param([BAD, "4"], [WORSE, "4"], ["spec.replicatedJobs[0]"], id="a broken one changes"),
        pytest.param(["4", BAD], [BAD, WORSE], ["spec.replicatedJobs[1]"], id="one moves, one is new"),
        pytest.param([], [BAD], ["spec.replicatedJobs[0]"], id="the first that there is"),
    ],
)
def test_only_what_is_new_is_refused(old, new, refused):
    assert _refused(_set(*old), _set(*new)) == refused


def test_each_old_one_is_the_counterpart_of_one():
    old, new = _set(BAD, BAD, "4"), _set("8", BAD, BAD)
    pairs = [(template.path, was.path if was else None) for template, was in new.paired_with(old)]
    assert pairs == [
        ("spec.replicatedJobs[0].template.spec.template", "spec.replicatedJobs[0].template.spec.template"),
        ("spec.replicatedJobs[1].template.spec.template", "spec.replicatedJobs[1].template.spec.template"),
        ("spec.replicatedJobs[2].template.spec.template", "spec.replicatedJobs[0].template.spec.template"),
    ]


def test_a_kind_without_lists_is_paired_by_its_path():
    row = STANDARD_KINDS["apps", "Deployment"]
    raw = {"spec": {"template": _job(BAD)["template"]["spec"]["template"]}}
    changed = copy.deepcopy(raw)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1Gi"
    old, new = read_workload(raw, row), read_workload(changed, row)
    assert [(template.path, was) for template, was in new.paired_with(old)] == [("spec.template", old.templates[0])]
