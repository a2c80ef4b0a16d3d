"""``check --cluster``: places for the objects of files, one after another, on the demo's machines."""

import pytest
from click.testing import CliRunner
from support.picture_texts import machine_class, text

from webhook.cli.check import check
from webhook.service.picture import demo_text

CLEAN, FINDINGS, UNREADABLE = 0, 1, 3
POD = """\
metadata:
  annotations:
    cpuset-scheduler: required
    scheduling.alibabacloud.com/numa-topology-spec: '{"numaTopologyPolicy":"SingleNUMANode"}'
spec:
  nodeSelector: {ack.node.gpu.schedule: topology}
  containers:
  - name: c
    resources:
      limits: {cpu: 24, memory: 64Gi, aliyun.com/gpu: 4}
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: %d\n  template:\n"


def deployment(replicas):
    return DEPLOYMENT % replicas + "".join(f"    {line}\n" for line in POD.splitlines())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs check on standard input with a picture's text, the demo's if none."""
    monkeypatch.chdir(tmp_path)

    def call(stdin, picture=None):
        (tmp_path / "c.yaml").write_text(demo_text() if picture is None else picture)
        return CliRunner().invoke(check, ["-", "--cluster", "c.yaml"], input=stdin)

    return call


def test_each_takes_its_room_from_the_next(run):
    """The demo has room for four GPUs on one NUMA node once."""
    pod = "apiVersion: v1\nkind: Pod\n" + POD
    assert run(pod).exit_code == CLEAN
    result = run(f"{pod}---\n{pod}")
    assert result.exit_code == FINDINGS
    assert result.stdout.startswith("<stdin>:20:1: error: spec: ")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("{containers: [], nodeSelector: {kubernetes.io/hostname: gpu-1}, overhead: %s}", id="empty list"),
        pytest.param("{nodeSelector: {kubernetes.io/hostname: gpu-1}, overhead: %s}", id="no list"),
        pytest.param("{containers: [], nodeName: gpu-1, overhead: %s}", id="names its node"),
    ],
)
@pytest.mark.parametrize("overhead", ["{memory: 1000Gi}", "{cpu: 4000}", "{aliyun.com/gpu: 5}"])
def test_a_pod_without_containers_is_answered(run, spec, overhead):
    """No API server takes such a pod, and a file may hold it; the findings of the others are not lost."""
    empty = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: empty}}\nspec: {spec % overhead}\n"
    result = run(f"{empty}---\n{deployment(2)}")
    assert result.exit_code == FINDINGS
    assert "<stdin>:4:1: " in result.stdout
    assert ": 1 of 2 pods fit. Of the next: " in result.stdout


@pytest.mark.parametrize("replicas", [50_000, 2_147_483_647])
def test_a_workload_beyond_all_bounds_is_counted_whole(run, replicas):
    """Replicas are placed one by one only while they find room."""
    result = run(deployment(replicas))
    assert result.exit_code == FINDINGS
    assert f": 1 of {replicas} pods fit. Of the next: " in result.stdout


def test_pods_that_are_not_tried_are_said(run):
    """A picture may have room for more pods than are given places."""
    plain = DEPLOYMENT % 50_000 + "    spec: {containers: [{name: c}]}\n"
    result = run(plain, text(classes=[machine_class()], nodes=[{"names": "n-{1..100}", "class": "box"}]))
    assert result.exit_code == CLEAN
    assert ": 10000 of 50000 pods fit, and 40000 were not tried. Look whether so many are meant." in result.stdout


@pytest.mark.parametrize(
    ("picture", "line"),
    [
        pytest.param("\tx", "c.yaml:1:1: error: This is no YAML", id="no YAML"),
        pytest.param(
            "apiVersion: numa-admission/v1\nkind: ClusterPicture\nnods: []\n", "c.yaml:3:1: error: nods: ", id="a key"
        ),
    ],
)
def test_a_fault_of_the_picture_has_its_place(run, picture, line):
    result = run(deployment(1), picture)
    assert result.exit_code == UNREADABLE
    assert line in result.stdout
    assert result.stdout.count("c.yaml") == 1


def test_a_picture_that_is_not_there_is_said_once(tmp_path):
    result = CliRunner().invoke(check, ["-", "--cluster", str(tmp_path / "none")], input=deployment(1))
    assert result.exit_code == UNREADABLE
    assert (
        f"{tmp_path / 'none'}:1:1: error: It cannot be read: No such file or directory. [UNREADABLE]" in result.stdout
    )
