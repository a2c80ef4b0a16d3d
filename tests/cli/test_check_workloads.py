"""``check`` on the kinds of other projects: the examples are clean, a fault in any of their templates has its place."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from webhook.cli.check import check

EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"
CLEAN, FINDINGS = 0, 1
REQUESTS = "requests: {cpu: 24,"
KEY = "scheduling.alibabacloud.com/numa-topology-spec"

PATHS = {
    "jobset": "spec.replicatedJobs[1].template.spec.template.spec",
    "leaderworkerset": "spec.leaderWorkerTemplate.workerTemplate.spec",
    "mpijob": "spec.mpiReplicaSpecs.Worker.template.spec",
    "pytorchjob": "spec.pytorchReplicaSpecs.Worker.template.spec",
    "rayjob": "spec.rayClusterSpec.workerGroupSpecs[0].template.spec",
}
"""Where each example's last template with GPUs stands."""

PODS = {"jobset": 9, "leaderworkerset": 8, "mpijob": 5, "pytorchjob": 4, "rayjob": 5}

WARNED = {"rayjob": ["[CPU_ADDED_CONTAINER]"]}
"""KubeRay adds a container to every worker."""

PICTURE = """\
apiVersion: numa-admission/v1
kind: ClusterPicture
classes:
- name: gpu-2x4
  matchLabels: {ack.node.gpu.schedule: topology}
  layout: {numaNodes: 2, coresPerNUMANode: 32, memoryPerNUMANode: 512Gi, devices: {aliyun.com/gpu: 4}}
  kubelet:
    topologyManagerPolicy: single-numa-node
    topologyManagerScope: pod
    cpuManagerPolicy: static
    reservedSystemCPUs: "0,32"
nodes:
- {name: gpu-1, class: gpu-2x4}
"""


def _text(name):
    return (EXAMPLES / f"{name}.yaml").read_text()


def _run(text, *options):
    return CliRunner().invoke(check, ["-", *options], input=text)


def _position(text, where):
    """Line and column, both from 1, of the key that stands at ``where``."""
    return text.count("\n", 0, where) + 1, where - text.rfind("\n", 0, where)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_an_example_is_clean_and_judged(file):
    result = _run(file.read_text())
    objects = len(list(yaml.safe_load_all(file.read_text())))
    assert result.exit_code == CLEAN
    assert re.findall(r"\[[A-Z_]+\]$", result.stdout, re.MULTILINE) == WARNED.get(file.stem, [])
    assert re.search(rf"{objects} objects? read, 1 of them judged", result.stderr)


@pytest.mark.parametrize("name", PATHS)
def test_a_fault_in_a_template_has_its_path_line_and_column(name):
    where = _text(name).rindex(REQUESTS)
    text = _text(name)[:where] + _text(name)[where:].replace("cpu: 24", "cpu: 24500m", 1)
    line, column = _position(text, text.index("cpu: 24500m"))
    result = _run(text)
    assert result.exit_code == FINDINGS
    assert f"<stdin>:{line}:{column}: error: {PATHS[name]}.containers[0].resources.requests.cpu: " in result.stdout
    assert "[CPU_NOT_WHOLE]" in result.stdout


@pytest.mark.parametrize("name", PATHS)
def test_a_broken_spec_in_a_template_has_its_path_line_and_column(name):
    text = _text(name)
    where = text.rindex(KEY)
    text = text[:where] + text[where:].replace("SingleNUMANode", "SingleNode", 1)
    line, column = _position(text, where)
    result = _run(text)
    assert result.exit_code == FINDINGS
    assert f"<stdin>:{line}:{column}: error: {PATHS[name].removesuffix('spec')}metadata.annotations[" in result.stdout
    assert "[POLICY_UNKNOWN]" in result.stdout


def test_a_fault_in_a_training_runtime_has_its_place():
    text = _text("trainjob").replace('"SingleNUMANode"', '"SingleNode"')
    line, column = _position(text, text.index(KEY))
    result = _run(text)
    path = "spec.template.spec.replicatedJobs[0].template.spec.template.metadata.annotations["
    assert f"<stdin>:{line}:{column}: error: {path}" in result.stdout


@pytest.mark.parametrize(("name", "pods"), PODS.items(), ids=PODS)
def test_every_pod_of_every_template_is_counted(name, pods, tmp_path):
    """The picture's one machine takes two pods with 4 GPUs; what asks for none comes first."""
    (tmp_path / "c.yaml").write_text(PICTURE)
    result = _run(_text(name), "--cluster", str(tmp_path / "c.yaml"))
    gpus = _text(name).count(REQUESTS)
    without = len(re.findall(r"^ *- name: (?:driver|ray-head|launcher)\n *image", _text(name), re.MULTILINE))
    assert gpus
    assert f"warning: spec: {2 + without} of {pods} pods fit." in result.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "pods"),
    [
        ("pytorchjob", "replicas: 4", "replicas: 5", 5),
        ("mpijob", "replicas: 4", "replicas: 16", 17),
        ("rayjob", "replicas: 4", "numOfHosts: 2\n      replicas: 4", 9),
        ("jobset", "replicas: 2", "replicas: 3", 13),
        ("jobset", "completions: 4", "completions: 3", 7),
        ("leaderworkerset", "size: 4", "size: 8", 16),
        ("leaderworkerset", "replicas: 2", "replicas: 3", 12),
    ],
)
def test_factors_multiply(name, old, new, pods, tmp_path):
    (tmp_path / "c.yaml").write_text(PICTURE)
    result = _run(_text(name).replace(old, new, 1), "--cluster", str(tmp_path / "c.yaml"))
    assert f" of {pods} pods fit." in result.stdout


def test_the_examples_page_says_what_the_checker_finds():
    result = CliRunner().invoke(check, [str(EXAMPLES)])
    codes = re.findall(r"\[([A-Z_]+)\]$", result.stdout, re.MULTILINE)
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"`numa-admission check examples/workloads` finds (.*) \|", page)
    assert result.stderr.startswith("0 errors, 1 warning;")
    assert said.startswith("no error, and one warning:")
    assert re.findall(r"`([A-Z_]+)`", said) == codes


def test_the_examples_page_counts_the_broken_pod_s_faults():
    result = CliRunner().invoke(check, [str(EXAMPLES.parent / "broken-pod.yaml")])
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert result.stderr.startswith("5 errors, 1 warning;")
    assert "six faults" in page
