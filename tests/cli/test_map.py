"""``numa-admission map`` as it is called: what it prints, and what it ends with."""

import json
import re

import pytest
from click.testing import CliRunner
from support.picture_texts import GPU, machine_class, text

from webhook.cli.map import map_command, records_of, signs_for
from webhook.core.ledger.drawing_text import ASCII, UNICODE
from webhook.wire.objects import read_objects

GUIDE_POD = """
apiVersion: v1
kind: Pod
metadata: {name: guide, namespace: team}
spec:
  containers:
  - name: example
    resources:
      limits: {cpu: '24', aliyun.com/gpu: '4'}
      requests: {cpu: '24', aliyun.com/gpu: '4'}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
spec:
  replicas: %d
  template: {spec: {containers: [{name: c}]}}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the command in an empty folder, with files written there first."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, color=False, env=None, **written):
        for name, content in written.items():
            (tmp_path / f"{name}.yaml").write_text(content, encoding="utf-8")
        return CliRunner().invoke(map_command, arguments, color=color, env={"COLUMNS": "100", **(env or {})})

    return call


def test_demo_without_options(run):
    """Without a cluster it draws the demo's, all nodes, at the terminal's width, and the key."""
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split()[1].rstrip(",") for line in lines if line.startswith("╭")] == [
        "gpu-1",
        "gpu-2",
        "gpu-3",
        "gpu-4",
    ]
    assert {len(line) for line in lines[:-1]} == {100}
    assert "reserved for the system" in lines[-1]


@pytest.mark.parametrize(
    ("columns", "width"), [("40", 80), ("90", 90), ("500", 120)], ids=["narrow", "between", "wide"]
)
def test_width_follows_the_terminal(run, columns, width):
    """Between 80 and 120 columns."""
    assert len(run(env={"COLUMNS": columns}).stdout.splitlines()[0]) == width


def test_pod_that_fits(run):
    """Its place is drawn and said."""
    result = run("--pod", "pod.yaml", "--node", "gpu-2", pod=GUIDE_POD)
    assert result.exit_code == 0
    assert "a team/guide (would go here)" in result.stdout
    assert "→ team/guide would go to gpu-2: 4 aliyun.com/gpu and 24 shared CPUs." in result.stdout


def test_second_pod_does_not_fit(run):
    """The first takes the room; each node says why not, and the proof stands below."""
    result = run("--pod", "pods.yaml", pods=f"{GUIDE_POD}---{GUIDE_POD}")
    assert result.exit_code == 1
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stdout).split())
    assert "guide: has room by plain count, the kubelet would refuse it with TopologyAffinityError" in words
    assert "guide: the node is cordoned" in words
    assert "team/guide would fail" in words
    assert "2 of 4 aliyun.com/gpu" in words


def test_pod_without_containers_is_answered(run):
    """No API server takes it, and a file may hold it."""
    spec = {"containers": [], "nodeSelector": {"kubernetes.io/hostname": "gpu-1"}, "overhead": {"memory": "1000Gi"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": spec}
    result = run("--pod", "pod.yaml", pod=json.dumps(pod))
    assert (result.exit_code, result.stderr) == (1, "")
    assert "default/empty would wait, Pending." in result.stdout


@pytest.mark.parametrize("cpu", ["1e400", "1e512"])
def test_amounts_beyond_every_float(run, cpu):
    """A quantity may have more digits than a float can hold, on the pod's side and on the node's."""
    node = {"name": "n", "class": "box", "allocatable": {"cpu": "1e399"}}
    cluster = text(classes=[machine_class()], nodes=[node])
    result = run("--cluster", "c.yaml", "--pod", "pod.yaml", c=cluster, pod=GUIDE_POD.replace("24", cpu))
    assert (result.exit_code, result.stderr) == (1, "")
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stdout).split())
    assert f"guide: asks for {cpu.replace('e', 'e+')} CPUs, 1e+399 are free by plain count" in words


def test_pod_of_which_nothing_can_be_told(run):
    """The sentence is whole, says why, and the help says the exit code."""
    cluster = text(classes=[machine_class()], nodes=[{"name": "n", "class": "box", "ready": False}])
    result = run(
        "--cluster", "c.yaml", "--pod", "pod.yaml", c=cluster, pod=GUIDE_POD.replace("'4'", "'2'").replace("24", "2")
    )
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "team/guide: whether it fits cannot be told: no node that it may go to is ready." in words
    assert "0 of 1 node is eligible (1 is not ready or is cordoned)." in words
    assert "1 a pod does not fit or that cannot be told" in " ".join(run("--help").stdout.split())


def test_replicas_of_a_workload_are_placed_one_by_one(run):
    """A Deployment of three is three pods."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "2"}}}]}}
    raw = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": template},
    }
    cluster = text(classes=[machine_class()], nodes=[{"name": "n", "class": "box"}])
    result = run("--cluster", "cluster.yaml", "--pod", "web.yaml", cluster=cluster, web=json.dumps(raw))
    assert result.exit_code == 1
    assert "a default/web-0 (Deployment/web, would go here)" in result.stdout
    assert re.findall(r"^. (default/web-\d) would (?:go|fail|wait)", result.stdout, re.MULTILINE) == [
        "default/web-0",
        "default/web-1",
        "default/web-2",
    ]


def test_daemon_set_gives_one_pod():
    """Its number is the nodes', which its template does not say."""
    raw = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    (found,) = read_objects(raw)
    ((number, records),) = records_of(found.subject, "default", found.name)
    assert (number, [record.name for record in records]) == (1, ["d-0"])


@pytest.mark.parametrize(
    ("arguments", "files", "code", "words"),
    [
        pytest.param(["--cluster", "no.yaml"], {}, 3, "no.yaml: It cannot be read", id="no such file"),
        pytest.param(
            ["--cluster", "c.yaml"],
            {"c": "nodes:\n- name: n\n  class: box\n  redy: true\n"},
            3,
            "c.yaml:4:3: nodes[0].redy: found an unknown key, wanted one of",
            id="a faulty picture",
        ),
        pytest.param(["--pod", "p.yaml"], {"p": "kind: Service\n"}, 3, "it holds no pod", id="no pod"),
        pytest.param(["--pod", "p.yaml"], {"p": "a: [\n"}, 3, "p.yaml:", id="no YAML"),
        pytest.param(
            ["--pod", "p.yaml"],
            {"p": f"{DEPLOYMENT % 4}---\n{DEPLOYMENT % 2147483647}"},
            3,
            "p.yaml:9:1: 2147483651 pods to place up to here, wanted 1000 at most, for each is drawn; ",
            id="more replicas than can be drawn",
        ),
        pytest.param(["--node", "gpu-9"], {}, 2, "There is no node gpu-9", id="no such node"),
        pytest.param(["--width", "5"], {}, 2, "--width", id="too narrow"),
    ],
)
def test_what_cannot_be_drawn(run, arguments, files, code, words):
    """Nothing on standard output, the reason on standard error."""
    result = run(*arguments, **files)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


def test_colour_only_where_it_is_wanted(run):
    """A terminal gets colour, one that sets NO_COLOR none, and the text is the same."""
    coloured = run(color=True)
    assert "\x1b[" in coloured.stdout
    bare = run(color=True, env={"NO_COLOR": "1"})
    assert "\x1b[" not in bare.stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.stdout) == bare.stdout


@pytest.mark.parametrize(
    ("encoding", "signs"),
    [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), (None, ASCII), ("no-such", ASCII)],
)
def test_signs_by_encoding(encoding, signs):
    """A terminal that cannot show frames gets plain ASCII."""
    assert signs_for(encoding) is signs
