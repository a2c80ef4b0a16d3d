"""How each program is built from published Go modules. Standard library only: it runs before anything is installed.

Kubernetes is a module like any other once the staging modules, which its own go.mod replaces by folders, are replaced
by the published ones: v1.X.Y of k8s.io/kubernetes goes with v0.X.Y of k8s.io/api and its sisters. etcd, Kubernetes and
each Helm are modules of their own, for their dependencies clash. The modules under gomod/ are committed with their
sums; another Kubernetes version gets a scratch module of the same form.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from controlplane.binaries import (
    ALL_PROGRAMS,
    APISERVER,
    CERT_MANAGER,
    COMPANIONS,
    DEFAULT_KUBERNETES_VERSION,
    DEFINITIONS,
    ETCD,
    HELM,
    HELM_3,
    KUBERNETES_PROGRAMS,
    PROMTOOL,
    SOURCE_DEFINITIONS,
    Binaries,
    locate,
    locate_companions,
    wanted_version,
)

MODULES = Path(__file__).parent / "gomod"
# By folder: our module, the one that it requires, and where that has its resource definitions.
DEFINED = {
    DEFINITIONS: (
        ("certmanager", "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml"),
        ("monitoring", "github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/*.yaml"),
    ),
    SOURCE_DEFINITIONS: (
        ("topology", "github.com/k8stopologyawareschedwg/noderesourcetopology-api", "manifests/crd.yaml"),
        ("koordinator", "github.com/koordinator-sh/koordinator", "config/crd/bases/*koordinator.sh_devices.yaml"),
    ),
}
HELM_PATHS = {HELM: "helm.sh/helm/v4", HELM_3: "helm.sh/helm/v3"}


class BuildError(Exception):
    """The build cannot go on; the text is for the person who asked for it."""


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Build the named programs (all, where none is named) that are not there yet; print their folder last."""
    every = (*ALL_PROGRAMS, *COMPANIONS)
    unknown = [name for name in arguments if name not in every]
    if unknown:
        say(f"There is no program {', '.join(unknown)} here; choose from {', '.join(every)}.")
        return 2
    try:
        binaries = locate(environ)
        wanted = arguments or every
        build(binaries, tuple(name for name in ALL_PROGRAMS if name in wanted), wanted_version(environ))
        build_companions(locate_companions(environ), tuple(name for name in COMPANIONS if name in wanted))
    except (BuildError, ValueError, OSError) as error:
        say(str(error))
        return 1
    except subprocess.CalledProcessError as error:
        say(f"`{' '.join(error.cmd)}` ended with {error.returncode}; what it printed stands above.")
        return 1
    print(binaries.folder)  # noqa: T201 - the folder on standard output is the script's answer
    return 0


def build(binaries: Binaries, names: tuple[str, ...], version: str) -> None:
    """Build those of the programs that the folder lacks; nothing is touched where it lacks none."""
    if not binaries.missing(names):
        return
    with ready_to_build(binaries.folder):
        absent = binaries.missing(names)
        refuse_to_mix(binaries, absent, version)
        if ETCD in absent:
            go_build(MODULES / ETCD, ".", binaries.folder / ETCD, {})
        of_kubernetes = [name for name in absent if name in KUBERNETES_PROGRAMS]
        if of_kubernetes:
            with kubernetes_module(version) as module:
                for name in of_kubernetes:
                    go_build(module, f"k8s.io/kubernetes/cmd/{name}", binaries.folder / name, version_stamp(version))
        if HELM in absent:
            build_helm(binaries.folder / HELM)


def build_companions(binaries: Binaries, names: tuple[str, ...]) -> None:
    """Build those of the companions that the folder lacks."""
    if not binaries.missing(names):
        return
    with ready_to_build(binaries.folder):
        absent = binaries.missing(names)
        if PROMTOOL in absent:
            package = "github.com/prometheus/prometheus/cmd/promtool"
            # Its service discovery for all clouds would be most of the build.
            go_build(MODULES / PROMTOOL, package, binaries.folder / PROMTOOL, {}, "remove_all_sd")
        if CERT_MANAGER in absent:
            go_build(MODULES / "certmanager", ".", binaries.folder / CERT_MANAGER, {})
        if HELM_3 in absent:
            build_helm(binaries.folder / HELM_3)
        for name in DEFINED:
            if name in absent:
                copy_definitions(binaries.folder / name)


def refuse_to_mix(binaries: Binaries, absent: tuple[str, ...], version: str) -> None:
    """Raise BuildError where the folder's API server is of another version than what would be put beside it."""
    if binaries.missing((APISERVER,)) or not set(absent) & set(KUBERNETES_PROGRAMS):
        return
    found = binaries.kubernetes_version()
    if found != version:
        raise BuildError(
            f"{binaries.folder} holds kube-apiserver {found}, so {version} is not built into it. "
            f"Set K8S_VERSION={found}, or name another folder in KUBEBUILDER_ASSETS."
        )


def go_build(module: Path, package: str, target: Path, stamp: Mapping[str, str], tags: str = "") -> None:
    """Build one program of a module; it gets its name only when it is whole, so that a broken-off build leaves none."""
    say(f"Building {target.name} ...")
    started = time.monotonic()
    linker_flags = " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in stamp.items())])
    unfinished = target.with_name(f".{target.name}.unfinished")
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", linker_flags]
    command += ["-o", str(unfinished), package]
    try:
        subprocess.run(command, cwd=module, env={**os.environ, "CGO_ENABLED": "0"}, check=True, stdout=sys.stderr)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    say(f"Built {target.name} in {time.monotonic() - started:.0f} s.")


def build_helm(target: Path) -> None:
    """Build the Helm that the target is named after."""
    module, path = MODULES / target.name, HELM_PATHS[target.name]
    go_build(module, f"{path}/cmd/helm", target, helm_stamp(module, path))


def helm_stamp(module: Path, path: str) -> dict[str, str]:
    """What is linked in so that a Helm tells its version, and takes the cluster that it cannot ask for a new one.

    Helm 4 finds the Kubernetes of its client in its own build; to Helm 3 its Makefile tells it, else it is 1.20.
    """
    stamp = {f"{path}/internal/version.version": required_version(module, path)}
    if path == HELM_PATHS[HELM_3]:
        minor = required_version(module, "k8s.io/client-go").split(".")[1]
        for package in ("pkg/chartutil", "pkg/lint/rules"):
            stamp |= {f"{path}/{package}.k8sVersionMajor": "1", f"{path}/{package}.k8sVersionMinor": minor}
    return stamp


def copy_definitions(target: Path) -> None:
    """Copy the resource definitions out of their modules; the folder gets its name only when it is whole."""
    say(f"Copying {target.name} ...")
    with tempfile.TemporaryDirectory(prefix=".crds.", dir=target.parent) as folder:
        unfinished = Path(folder) / target.name
        unfinished.mkdir()
        for module, path, where in DEFINED[target.name]:
            for each in Path(downloaded(MODULES / module, path)["Dir"]).glob(where):
                shutil.copyfile(each, unfinished / each.name)
        unfinished.replace(target)


def downloaded(module: Path, path: str) -> dict[str, str]:
    """Download a module that this folder's one requires, or PATH@VERSION; where its files are (`Dir`, `GoMod`)."""
    command = ["go", "mod", "download", "-json", path]
    done = subprocess.run(command, cwd=module, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def version_stamp(version: str) -> dict[str, str]:
    """What is linked in so that the programs tell their version; without it they say v0.0.0, and clients complain."""
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{name}": value for package in packages for name, value in values.items()}


def required_version(module: Path, path: str) -> str:
    """The version of a required module as the committed go.mod has it."""
    found = re.search(rf"^\s*(?:require )?{re.escape(path)} (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{module / 'go.mod'} does not require {path}.")
    return found[1]


@contextmanager
def kubernetes_module(version: str) -> Iterator[Path]:
    """The folder of a module that builds Kubernetes: the committed one, or a scratch one for any other version."""
    if version == DEFAULT_KUBERNETES_VERSION:
        yield MODULES / "kubernetes"
        return
    with tempfile.TemporaryDirectory(prefix="numa-admission-kubernetes-") as folder:
        module = Path(folder)
        say(f"Resolving the modules of Kubernetes {version} ...")
        # The download runs inside a module, for outside of one `go` may follow a workspace of the caller's.
        (module / "go.mod").write_text("module controlplane.test/kubernetes\n")
        upstream = Path(downloaded(module, f"k8s.io/kubernetes@{version}")["GoMod"]).read_text()
        (module / "go.mod").write_text(kubernetes_go_mod(upstream, version))
        subprocess.run(["go", "mod", "tidy"], cwd=module, check=True, stdout=sys.stderr)
        yield module


def kubernetes_go_mod(upstream: str, version: str) -> str:
    """The text of a go.mod that builds Kubernetes, from the text of its own go.mod; `go mod tidy` fills in the rest."""
    staged = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", upstream, re.MULTILINE)
    language = re.search(r"^go \S+$", upstream, re.MULTILINE)
    if not staged or language is None:
        raise BuildError(f"The go.mod of k8s.io/kubernetes {version} has no staging modules or no go line.")
    godebug = re.search(r"^godebug \S+$", upstream, re.MULTILINE)
    paragraphs = [
        "module controlplane.test/kubernetes",
        language[0],
        *([godebug[0]] if godebug else []),
        "tool (\n" + "".join(f"\tk8s.io/kubernetes/cmd/{name}\n" for name in sorted(KUBERNETES_PROGRAMS)) + ")",
        f"require k8s.io/kubernetes {version}",
        "replace (\n" + "".join(f"\t{path} => {path} v0{version.removeprefix('v1')}\n" for path in staged) + ")",
    ]
    return "\n\n".join(paragraphs) + "\n"


@contextmanager
def ready_to_build(folder: Path) -> Iterator[None]:
    """Make the folder and hold its build lock; a second build waits here and then finds everything made."""
    if shutil.which("go") is None:
        raise BuildError("Building the control plane needs Go 1.26 or later on the PATH (`go version`).")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(sentence: str) -> None:
    """Tell the person at the terminal; standard output is kept for the answer."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - a build script speaks on standard error
