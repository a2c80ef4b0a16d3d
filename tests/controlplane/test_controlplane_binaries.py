"""Where the programs are looked for, and what a build does to a folder, without building any of Kubernetes."""

import re
import subprocess
from pathlib import Path

import pytest

from controlplane import recipe
from controlplane.binaries import (
    ALL_PROGRAMS,
    APISERVER,
    CERT_MANAGER,
    COMPANIONS,
    DEFAULT_KUBERNETES_VERSION,
    ETCD,
    HELM,
    HELM_3,
    KUBECTL,
    Binaries,
    MissingProgramError,
    locate,
    locate_companions,
    locate_helm,
    wanted_version,
)

EVERYTHING = (*ALL_PROGRAMS, *COMPANIONS)

UPSTREAM = """module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require (
\tgithub.com/other/thing v1.0.0
\tk8s.io/api v0.0.0
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubectl => ./staging/src/k8s.io/kubectl
)
"""

OURS = """module controlplane.test/kubernetes

go 1.24.0

godebug default=go1.24

tool (
\tk8s.io/kubernetes/cmd/kube-apiserver
\tk8s.io/kubernetes/cmd/kube-controller-manager
\tk8s.io/kubernetes/cmd/kube-scheduler
\tk8s.io/kubernetes/cmd/kubectl
)

require k8s.io/kubernetes v1.34.4

replace (
\tk8s.io/api => k8s.io/api v0.34.4
\tk8s.io/kubectl => k8s.io/kubectl v0.34.4
)
"""


def put_program(folder: Path, name: str, script: str = "exit 0") -> None:
    """Put a shell script in a program's place."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def go_shim(tmp_path, monkeypatch):
    """A `go` that makes the file named after -o and ends with the number in `code`; its arguments are in `calls`."""
    folder = tmp_path / "shim"
    folder.mkdir()
    put_program(
        folder,
        "go",
        f'echo "$@" >> {folder}/calls\n'
        f'[ "$1" != mod ] || exec echo \'{{"Dir": "{folder}/module"}}\'\n'
        'while [ "$1" != "-o" ]; do shift; done\n'
        'echo "#!/bin/sh" > "$2"; chmod +x "$2"\n'
        f"exit $(cat {folder}/code)",
    )
    (folder / "code").write_text("0")
    (folder / "calls").touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        pytest.param({"KUBEBUILDER_ASSETS": "/a", "XDG_CACHE_HOME": "/c"}, "/a", id="the folder that is named"),
        pytest.param(
            {"XDG_CACHE_HOME": "/c"}, f"/c/numa-admission/controlplane-{DEFAULT_KUBERNETES_VERSION}", id="the cache"
        ),
        pytest.param(
            {"XDG_CACHE_HOME": "/c", "K8S_VERSION": "v1.34.4"},
            "/c/numa-admission/controlplane-v1.34.4",
            id="the cache of another version",
        ),
        pytest.param(
            {"XDG_CACHE_HOME": "/c", "KUBEBUILDER_ASSETS": ""},
            f"/c/numa-admission/controlplane-{DEFAULT_KUBERNETES_VERSION}",
            id="an empty name is none",
        ),
    ],
)
def test_the_folder_is_the_named_one_else_the_users_cache(environ, folder):
    assert locate(environ) == Binaries(Path(folder))


def test_the_companions_of_all_versions_are_in_one_folder():
    """Unless the folder is named: then everything is in it."""
    for version in ("v1.34.4", DEFAULT_KUBERNETES_VERSION):
        environ = {"XDG_CACHE_HOME": "/c", "K8S_VERSION": version}
        assert locate_companions(environ) == Binaries(Path("/c/numa-admission/companions"))
    assert locate_companions({"KUBEBUILDER_ASSETS": "/a"}) == Binaries(Path("/a"))


@pytest.mark.parametrize(
    ("named", "asked", "program", "folder"),
    [
        pytest.param("", "", HELM, f"controlplane-{DEFAULT_KUBERNETES_VERSION}", id="nobody names one"),
        pytest.param("3", "", HELM_3, "companions", id="the run does"),
        pytest.param("", "3", HELM_3, "companions", id="a test does"),
        pytest.param("3", "4", HELM, f"controlplane-{DEFAULT_KUBERNETES_VERSION}", id="the test's counts"),
    ],
)
def test_one_switch_chooses_the_helm(named, asked, program, folder):
    environ = {"XDG_CACHE_HOME": "/c", "HELM_VERSION": named}
    assert locate_helm(environ, asked) == (Binaries(Path("/c/numa-admission") / folder), program)


def test_a_helm_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'v3'; the tests know 4 and 3"):
        locate_helm({"HELM_VERSION": "v3"})


def test_helm_3_is_told_its_version_and_that_of_its_client():
    """Else `helm template` would take the cluster for a 1.20, which the chart refuses."""
    stamp = recipe.helm_stamp(recipe.MODULES / HELM_3, "helm.sh/helm/v3")
    assert re.fullmatch(r"v3\.\d+\.\d+", stamp.pop("helm.sh/helm/v3/internal/version.version"))
    minor = DEFAULT_KUBERNETES_VERSION.split(".")[1]
    assert stamp == {
        f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}": number
        for package in ("chartutil", "lint/rules")
        for part, number in (("Major", "1"), ("Minor", minor))
    }


@pytest.mark.parametrize("name", recipe.DEFINED)
def test_resource_definitions_are_copied_out_of_their_modules(tmp_path, go_shim, name):
    """What lies beside them stays there."""
    wanted = {}
    for _, _, where in recipe.DEFINED[name]:
        file = go_shim / "module" / where.replace("*", f"of-{Path(where).parts[0]}.")
        file.parent.mkdir(parents=True)
        file.write_text(where)
        file.with_suffix(".txt").write_text("no definition")
        wanted[file.name] = where
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert recipe.main([name], environ) == 0
    folder = locate_companions(environ).path(name)
    assert {path.name: path.read_text() for path in folder.iterdir()} == wanted
    assert not locate(environ).folder.exists()


@pytest.mark.parametrize("version", ["1.37.2", "v1.37", "v1.37.2; true", "latest"])
def test_a_version_that_is_none_is_refused(version):
    with pytest.raises(ValueError, match="reads like v1"):
        wanted_version({"K8S_VERSION": version})


def test_a_program_that_is_not_there_is_told_with_the_way_to_get_it(tmp_path):
    with pytest.raises(MissingProgramError, match="make controlplane"):
        Binaries(tmp_path).path(ETCD)


def test_a_file_that_cannot_be_run_is_no_program(tmp_path):
    (tmp_path / ETCD).touch()
    put_program(tmp_path, KUBECTL)
    assert Binaries(tmp_path).missing((ETCD, KUBECTL)) == (ETCD,)


def test_a_complete_folder_is_left_as_it_is(tmp_path, go_shim, capsys):
    folder = tmp_path / "assets"
    folder.mkdir()
    for name in EVERYTHING:
        put_program(folder, name)
    assert recipe.main([], {"KUBEBUILDER_ASSETS": str(folder)}) == 0
    assert capsys.readouterr().out == f"{folder}\n"
    assert (go_shim / "calls").read_text() == ""
    assert sorted(path.name for path in folder.iterdir()) == sorted(EVERYTHING)


def test_only_what_is_missing_is_built_etcd_first(tmp_path, go_shim):
    folder = tmp_path / "assets"
    folder.mkdir()
    put_program(folder, KUBECTL)
    assert recipe.main([], {"KUBEBUILDER_ASSETS": str(folder)}) == 0
    built = re.findall(r"-o \S+/\.(\S+)\.unfinished", (go_shim / "calls").read_text())
    assert built == [name for name in EVERYTHING if name not in {KUBECTL, *recipe.DEFINED}]
    assert Binaries(folder).missing(EVERYTHING) == ()


def test_a_build_that_breaks_off_leaves_no_program(tmp_path, go_shim):
    (go_shim / "code").write_text("1")
    folder = tmp_path / "assets"
    assert recipe.main([ETCD, CERT_MANAGER], {"KUBEBUILDER_ASSETS": str(folder)}) == 1
    assert [path.name for path in folder.iterdir()] == [".build.lock"]


def test_programs_of_two_versions_are_not_mixed(tmp_path, go_shim, capsys):
    put_program(tmp_path, APISERVER, "echo Kubernetes v1.30.1")
    assert recipe.main([KUBECTL], {"KUBEBUILDER_ASSETS": str(tmp_path)}) == 1
    assert "K8S_VERSION=v1.30.1" in capsys.readouterr().err
    assert (go_shim / "calls").read_text() == ""


def test_an_unknown_program_is_a_fault_of_use(tmp_path, capsys):
    assert recipe.main(["kubelet"], {"KUBEBUILDER_ASSETS": str(tmp_path)}) == 2
    assert "no program kubelet" in capsys.readouterr().err


def test_the_script_answers_with_the_folder_alone(tmp_path):
    for name in EVERYTHING:
        put_program(tmp_path, name)
    environ = {"KUBEBUILDER_ASSETS": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    script = Path(__file__).with_name("build")
    done = subprocess.run([str(script)], env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{tmp_path}\n", "")


def test_another_version_gets_a_module_with_every_staging_module_replaced():
    assert recipe.kubernetes_go_mod(UPSTREAM, "v1.34.4") == OURS


def test_a_go_mod_without_staging_modules_is_refused():
    with pytest.raises(recipe.BuildError, match="no staging modules"):
        recipe.kubernetes_go_mod("module m\n\ngo 1.24\n", "v1.34.4")


def test_the_committed_module_is_of_the_default_version_throughout():
    text = (recipe.MODULES / "kubernetes" / "go.mod").read_text()
    released = DEFAULT_KUBERNETES_VERSION.removeprefix("v1")
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) >= 31
    assert replaced == [(path, path, f"v0{released}") for path, _, _ in replaced]
    assert recipe.required_version(recipe.MODULES / "kubernetes", "k8s.io/kubernetes") == DEFAULT_KUBERNETES_VERSION
