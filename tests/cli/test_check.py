"""``numa-admission check`` as it is called: values as kubectl reads them, places in files, exit codes."""

import json
import re

import pytest
from click.testing import CliRunner
from support.builders import ABSENT, GUIDE_SPEC, SINGLE, SPEC_KEY, container, raw_pod

from webhook.cli.check import check

CLEAN, FINDINGS, USAGE, UNREADABLE = 0, 1, 2, 3
LINE = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<severity>error|warning): .+ \[(?P<code>[A-Z_]+)\]")

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    cpuset-scheduler: {cpuset}
    scheduling.alibabacloud.com/numa-topology-spec: '{{"numaTopologyPolicy":"SingleNUMANode"}}'
spec:
  nodeSelector: {{ack.node.gpu.schedule: topology}}
  containers:
  - name: c
    resources:
      requests: {{cpu: {cpu}, aliyun.com/gpu: 1}}
      limits: {{cpu: {cpu}, aliyun.com/gpu: 1}}
"""


def pod(cpu="4", cpuset="required"):
    """A pod of ours in block style, right but for what is given."""
    return POD.format(cpu=cpu, cpuset=cpuset)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the command in an empty folder, with files written there first."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, stdin=None, files=None):
        for name, content in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return CliRunner().invoke(check, arguments, input=stdin)

    return call


def places(result):
    """(code, line, column) of each line, which all have the one form."""
    found = [LINE.fullmatch(line) for line in result.stdout.splitlines()]
    assert all(found), result.stdout
    return [(each["code"], int(each["line"]), int(each["column"])) for each in found]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("8", None),
        ("'8'", None),
        ("0o10", None),
        ("010", None),
        ("8.0", None),
        ("8e0", None),
        ("0x8", None),
        ("1_000", None),
        ("0b100", None),
        ("8000m", None),
        ("1:30", 'the text "1:30"'),
        ("2026-01-01", 'the text "2026-01-01"'),
        ("'0o10'", 'the text "0o10"'),
        ("0o9", 'the text "0o9"'),
        ("yes", "found true"),
        ("off", "found false"),
        ("[4]", "found a list"),
    ],
)
def test_a_quantity_is_what_kubectl_reads(run, written, said):
    """Numbers of YAML 1.1 and 1.2 as go-yaml takes them; what is no number there is not made one here."""
    result = run("-", stdin=pod(cpu=written))
    if said is None:
        assert (result.exit_code, result.stdout) == (CLEAN, "")
    else:
        assert result.exit_code == FINDINGS
        assert said in result.stdout
        assert {code for code, *_ in places(result)} == {"FIELD_UNREADABLE"}


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("required", None),
        ('"required"', None),
        ("!!str required", None),
        ("true", "FIELD_UNREADABLE"),
        ("yes", "FIELD_UNREADABLE"),
        ("1:30", "CPUSET_UNKNOWN_VALUE"),
        ("010", "FIELD_UNREADABLE"),
        ('"true"', "CPUSET_OTHER_FEATURE"),
        ("'yes'", "CPUSET_UNKNOWN_VALUE"),
        ("|\n      required", "CPUSET_UNKNOWN_VALUE"),
        ("null", "CPUSET_MISSING"),
    ],
    ids=repr,
)
def test_an_annotation_is_what_kubectl_reads(run, written, code):
    """An unquoted ``true`` is no text, and the API server takes no other; a block ends with its line break."""
    result = run("-", stdin=pod(cpuset=written))
    assert [found for found, *_ in places(result)] == ([] if code is None else [code])


def test_an_unquoted_true_is_found_in_pods_of_others_too(run):
    """The API server refuses it whoever it belongs to."""
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {a/b: true}}\nspec: {containers: []}\n"
    result = run("-", stdin=text)
    assert places(result) == [("FIELD_UNREADABLE", 3, 35)]
    assert result.exit_code == FINDINGS


HALF = raw_pod(containers=[container(requests={"cpu": "500m"}, limits={"cpu": "500m"})])
FLOW = (
    "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {cpuset-scheduler: required,\n"
    f"  {SPEC_KEY}: '{SINGLE}'}}}}, spec: {{nodeSelector: {{ack.node.gpu.schedule: topology}},\n"
    "  containers: [{name: c, resources: {requests: {cpu: 1500m}, limits: {cpu: 1500m, aliyun.com/gpu: 1}}}]}}\n"
)
LIST = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
    f"- {line}" if number % 14 == 0 else f"  {line}"
    for number, line in enumerate((pod() + pod(cpu="500m")).splitlines(keepends=True))
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(pod(cpu="500m"), [("CPU_NOT_WHOLE", 13, 18)], id="block"),
        pytest.param(FLOW, [("CPU_NOT_WHOLE", 3, 49)], id="flow"),
        pytest.param(json.dumps(HALF, indent=2), [("CPU_NOT_WHOLE", 19, 13)], id="JSON"),
        pytest.param(LIST, [("CPU_NOT_WHOLE", 30, 20)], id="the second item of a List"),
        pytest.param(f"{pod()}---\n{pod(cpu='500m')}", [("CPU_NOT_WHOLE", 28, 18)], id="the second document"),
        pytest.param(f"---\n# nothing\n---\n{pod(cpu='500m')}", [("CPU_NOT_WHOLE", 16, 18)], id="an empty one before"),
        pytest.param("\ufeff" + pod(cpu="500m"), [("CPU_NOT_WHOLE", 13, 18)], id="a byte order mark"),
        pytest.param(pod(cpu="500m").replace("\n", "\r\n"), [("CPU_NOT_WHOLE", 13, 18)], id="line ends of Windows"),
        pytest.param(
            pod(cpuset="Required"), [("CPUSET_UNKNOWN_VALUE", 6, 5)], id="an annotation's key that is a plain word"
        ),
        pytest.param(
            pod().replace('"SingleNUMANode"', '"Single"'),
            [("POLICY_UNKNOWN", 7, 5)],
            id="an annotation's key with a slash",
        ),
        pytest.param(
            pod().replace("    cpuset-scheduler: required\n", ""),
            [("CPUSET_MISSING", 5, 3)],
            id="what is missing is said where it belongs",
        ),
        pytest.param(
            pod().replace("  name: p\n", "  name: p\n  name: q\n"),
            [("FIELD_TWICE", 5, 3)],
            id="a key that stands twice",
        ),
        pytest.param(
            "kind: InferenceService\napiVersion: serving.kserve.io/v1beta1\nspec:\n  predictor:\n    annotations:\n"
            f"      cpuset-scheduler: required\n      {SPEC_KEY}: '{SINGLE}'\n    containers:\n    - name: c\n"
            "      resources:\n        limits: {cpu: 500m, aliyun.com/gpu: 1}\n",
            [("CPU_NOT_WHOLE", 11, 18)],
            id="an inline pod spec",
        ),
        pytest.param(
            f"kind: Notebook\napiVersion: kubeflow.org/v1\nmetadata:\n  annotations:\n    {SPEC_KEY}: '{{}}'\n"
            "    cpuset-scheduler: required\nspec:\n  template:\n    spec:\n      containers:\n      - name: c\n"
            "        resources: {limits: {cpu: 1, aliyun.com/gpu: 1}}\n",
            [("POLICY_MISSING", 5, 5)],
            id="annotations of the object that reach its pods",
        ),
    ],
)
def test_each_finding_has_its_place(run, text, expected):
    """``file:line:column: severity: sentence [code]``, counted from 1."""
    result = run("-", "--stdin-name", "here.yaml", stdin=text)
    assert places(result) == expected
    assert all(line.startswith("here.yaml:") for line in result.stdout.splitlines())


WARNED = json.dumps(raw_pod(annotations={SPEC_KEY: GUIDE_SPEC}))
BROKEN = "a: [\n"


@pytest.mark.parametrize(
    ("text", "flags", "code"),
    [
        pytest.param(pod(), (), CLEAN, id="right"),
        pytest.param(WARNED, (), CLEAN, id="warnings only"),
        pytest.param(WARNED, ("--fail-on", "warning"), FINDINGS, id="warnings that count"),
        pytest.param(pod(cpu="500m"), (), FINDINGS, id="an error"),
        pytest.param(pod(cpu="500m"), ("--fail-on", "warning"), FINDINGS, id="an error where warnings count"),
        pytest.param(BROKEN, (), UNREADABLE, id="broken"),
        pytest.param(f"{pod(cpu='500m')}---\n{BROKEN}", (), UNREADABLE, id="broken wins over an error"),
        pytest.param("", (), UNREADABLE, id="empty"),
        pytest.param("# nothing\n---\n\n", (), UNREADABLE, id="comments only"),
        pytest.param("a: 1\n", (), UNREADABLE, id="no Kubernetes object"),
        pytest.param("{}", (), UNREADABLE, id="an empty map"),
        pytest.param("kind: List\nitems: []\n", (), CLEAN, id="an empty List"),
        pytest.param("kind: ConfigMap\napiVersion: v1\n", (), CLEAN, id="another kind"),
        pytest.param(".inf: 1\n", (), UNREADABLE, id="what JSON cannot say"),
        pytest.param("a: &x [*x]\n", (), UNREADABLE, id="an alias in itself"),
        pytest.param("a: !!python/object:os.system x\nkind: A\n", (), CLEAN, id="a tag is only a tag"),
        pytest.param(pod(), ("--fail-on", "never"), USAGE, id="an unknown option value"),
        pytest.param(pod(), ("--nothing",), USAGE, id="an unknown option"),
    ],
)
def test_exit_codes(run, text, flags, code):
    """0 clean, 1 findings, 2 usage, 3 something could not be read."""
    assert run("-", *flags, stdin=text).exit_code == code


def test_no_path_is_wrong_usage(run):
    assert run().exit_code == USAGE


def test_warnings_are_printed_without_failing(run):
    result = run("-", stdin=WARNED)
    assert [code for code, *_ in places(result)] == ["SPEC_REPAIRABLE_JSON"]
    assert ": warning: " in result.stdout


def test_one_broken_document_hides_no_other(run):
    """Before and after it, in the same file and in others, everything is judged."""
    files = {
        "a.yaml": f"{pod(cpu='500m')}---\n{BROKEN}---\n{pod(cpu='1500m')}",
        "b.yaml": pod(cpu="2500m"),
        "c.yaml": b"\xff\xfe",
    }
    result = run("a.yaml", "b.yaml", "c.yaml", "absent.yaml", files=files)
    codes = [(line.partition(":")[0], line.rpartition("[")[2]) for line in result.stdout.splitlines()]
    whole, unreadable = "CPU_NOT_WHOLE]", "UNREADABLE]"
    assert sorted(codes) == [
        ("a.yaml", whole),
        ("a.yaml", whole),
        ("a.yaml", unreadable),
        ("absent.yaml", unreadable),
        ("b.yaml", whole),
        ("c.yaml", unreadable),
    ]
    assert result.exit_code == UNREADABLE


def test_a_folder_gives_its_manifests_in_a_steady_order(run):
    """YAML and JSON at any depth, sorted, without hidden files and without others."""
    bad = pod(cpu="500m")
    files = {
        "m/b.yml": bad,
        "m/a.yaml": bad,
        "m/deep/c.json": json.dumps(HALF),
        "m/.hidden.yaml": bad,
        "m/.git/d.yaml": bad,
        "m/notes.md": bad,
    }
    result = run("m", files=files)
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["m/a.yaml", "m/b.yml", "m/deep/c.json"]
    assert result.exit_code == FINDINGS


def test_a_folder_without_manifests_cannot_be_read(run):
    result = run("empty", files={"empty/notes.md": ""})
    assert result.exit_code == UNREADABLE
    assert "holds no" in result.stdout


FOREIGN = {
    "r/values.yaml": "gpu: {count: 8}\n",
    "r/package.json": "{}",
    "r/tsconfig.json": "{\n  // comments are no JSON\n}\n",
    "r/list.yaml": "- 1\n- 2\n",
    "r/empty.yaml": "",
    "r/chart/Chart.yaml": "apiVersion: v2\nname: x\n",
    "r/chart/templates/a.yaml": "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
    "r/chart/templates/b.yaml": "kind: Pod\nmetadata:\n  name: '{{ .Release.Name }}'\n",
    "r/other.yaml": "kind: Pod\n{{- if .x }}\na: [\n{{- end }}\n",
    "r/kustomization.yaml": "resources: [pod.yaml]\n",
    "r/workflow.yaml": "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec: {args: ['{{inputs.x}}']}\n",
}


PASSED_OVER = ("6 documents without a kind passed over", "3 Helm templates not judged")


def test_a_folder_may_hold_what_is_no_manifest(run):
    """It is passed over and counted; templates are named, with what to do; braces in a text make no template."""
    result = run("r", files={**FOREIGN, "r/pod.yaml": pod(cpu="500m")})
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["r/pod.yaml"]
    assert result.exit_code == FINDINGS
    assert result.stderr.splitlines() == [
        "r/chart: 2 Helm templates; judge what it renders: helm template r/chart | numa-admission check -",
        "r/other.yaml: a template; judge what it renders: helm template CHART | numa-admission check -",
        f"1 error, 0 warnings; 2 objects read, 1 of them judged, {', '.join(PASSED_OVER)}.",
    ]


OBJECTS = {"r/workflow.yaml", "r/chart/templates/b.yaml"}


@pytest.mark.parametrize("name", [name for name in FOREIGN if name not in OBJECTS])
def test_what_is_no_manifest_is_an_error_where_it_is_named(run, name):
    result = run(name, files=FOREIGN)
    assert result.exit_code == UNREADABLE
    assert ("helm template CHART" in result.stdout) is ("{{" in FOREIGN[name])


def test_a_broken_manifest_of_a_folder_is_an_error(run):
    """Nobody knows what it holds, and it says that it is a manifest."""
    result = run("r", files={"r/a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: [\n", "r/pod.yaml": pod()})
    assert result.exit_code == UNREADABLE
    assert [code for code, *_ in places(result)] == ["UNREADABLE"]


def test_a_folder_without_any_object_is_an_error(run):
    """Nothing was judged, and a pipeline that is green for that is no good."""
    result = run("r", files={name: text for name, text in FOREIGN.items() if name != "r/workflow.yaml"})
    assert result.exit_code == UNREADABLE
    assert result.stdout == "r:1:1: error: Nothing in it is a Kubernetes object, so nothing was judged. [UNREADABLE]\n"


def test_what_is_ignored_is_not_read(run):
    files = {"r/a.yaml": pod(), "r/old/b.yaml": "kind: [\n", "r/c.gen.yaml": "kind: [\n"}
    assert run("r", "--ignore", "old", "--ignore", "*.gen.yaml", files=files).exit_code == CLEAN
    assert run("r", "--ignore", "old", files=files).exit_code == UNREADABLE


def test_a_pattern_that_takes_nothing_is_told(run):
    result = run(
        "r", "--ignore", "nosuch", "--ignore", "[", "--ignore", "old", files={"r/a.yaml": pod(), "r/old/b.json": "{"}
    )
    assert (result.exit_code, result.stderr.splitlines()[:-1]) == (
        CLEAN,
        ['--ignore "nosuch" matched nothing.', '--ignore "[" matched nothing.'],
    )


@pytest.mark.parametrize("pattern", ["", " ", "/"])
def test_an_empty_pattern_is_wrong_usage(run, pattern):
    result = run("r", "--ignore", pattern, files={"r/a.yaml": pod()})
    assert result.exit_code == USAGE
    assert "Invalid value for '--ignore': The pattern is empty." in result.stderr


def test_links_to_folders_are_counted(run, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "up").symlink_to(tmp_path)
    result = run("r", files={"r/a.yaml": pod()})
    assert result.stderr == "0 errors, 0 warnings; 1 object read, 1 of them judged, 1 link to a folder not followed.\n"


@pytest.mark.parametrize("text", ["kind: List\nitems: []\n", "apiVersion: v1\nkind: PodList\nitems: []\n"])
def test_an_empty_list_is_clean_and_says_that_it_is_empty(run, text):
    result = run("-", stdin=text)
    assert result.exit_code == CLEAN
    assert result.stderr == "0 errors, 0 warnings; no object read, so nothing was judged.\n"


def test_the_summary_goes_to_the_other_stream(run):
    """Lines are for programs, the total is for people."""
    result = run("-", stdin=f"{pod(cpu='500m')}---\nkind: ConfigMap\napiVersion: v1\n")
    assert "object" not in result.stdout
    assert result.stderr == "1 error, 0 warnings; 2 objects read, 1 of them judged.\n"


def test_text_of_the_file_is_printed_escaped(run):
    """A file cannot paint the terminal or forge a line."""
    raw = raw_pod(annotations={SPEC_KEY: ABSENT, "cpuset-scheduler": "required\n\x1b[31m", f"{SPEC_KEY}s": "{}"})
    result = run("-", stdin=json.dumps(raw))
    assert result.exit_code == FINDINGS
    assert all(line.isprintable() for line in result.stdout.splitlines())
    places(result)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        pytest.param("rules: {families: {cpu: warn}}", CLEAN, id="a family that only warns"),
        pytest.param("rules: {families: {cpu: 'off'}}", CLEAN, id="a family that is off"),
        pytest.param("{}", FINDINGS, id="the defaults"),
        pytest.param("rules: {familys: {}}", USAGE, id="settings with a fault"),
    ],
)
def test_the_server_s_settings_count_here_too(run, settings, code):
    result = run("p.yaml", "--settings", "settings.yaml", files={"p.yaml": pod(cpu="500m"), "settings.yaml": settings})
    assert result.exit_code == code


def test_help_says_what_each_exit_code_means(run):
    """Warnings alone end with 0, so 1 is not for every finding."""
    text = " ".join(run("--help").stdout.split())
    assert "0 clean or warnings only, 1 errors (or what --fail-on says), 2 wrong usage, 3 something" in text
