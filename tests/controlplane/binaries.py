"""Where the control plane's programs lie, and which of them are there. Standard library only: the build uses it too."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_KUBERNETES_VERSION = "v1.37.2"

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KUBECTL = "kubectl"
HELM = "helm"
HELM_3 = "helm3"
PROMTOOL = "promtool"
CERT_MANAGER = "cert-manager"
# No program but a folder: the resource definitions (YAML) of cert-manager and of the Prometheus operator.
DEFINITIONS = "crds"
# Another: those of NodeResourceTopology, and of Koordinator's Device, which the ledger reads where a cluster has them.
SOURCE_DEFINITIONS = "source-crds"

KUBERNETES_PROGRAMS = (APISERVER, KUBECTL, CONTROLLER_MANAGER, SCHEDULER)
# What a control plane and the chart on it are made of, in the order of the build: what a first test needs comes first.
ALL_PROGRAMS = (ETCD, *KUBERNETES_PROGRAMS, HELM)
# What the chart works with where a cluster has it; none of it depends on the version of Kubernetes.
COMPANIONS = (PROMTOOL, CERT_MANAGER, HELM_3, DEFINITIONS, SOURCE_DEFINITIONS)
# The Helms that the chart is tested with; the first is the one of a run that names none.
HELM_VERSIONS = ("4", "3")


class MissingProgramError(Exception):
    """A program of the control plane is not in the folder where it is looked for; the text says how to get it."""


@dataclass(frozen=True)
class Binaries:
    """A folder with programs of the control plane; nothing says that all of them are there."""

    folder: Path

    def missing(self, names: tuple[str, ...] = ALL_PROGRAMS) -> tuple[str, ...]:
        """Those of the named programs that are not in the folder, in the order given."""
        return tuple(name for name in names if not os.access(self.folder / name, os.X_OK))

    def path(self, name: str) -> Path:
        """The path of a program. Raises MissingProgramError where it is not there."""
        if self.missing((name,)):
            raise MissingProgramError(f"{name} is not in {self.folder}: run `make controlplane` to build it.")
        return self.folder / name

    def kubernetes_version(self) -> str:
        """The API server's version, such as `v1.37.2`, asked from the program itself."""
        command = [str(self.path(APISERVER)), "--version"]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        found = re.search(r"v\d+\.\d+\.\d+\S*", text)
        if found is None:
            raise MissingProgramError(f"{command[0]} --version answers {text!r}, which names no version.")
        return found[0]


def wanted_version(environ: Mapping[str, str]) -> str:
    """The Kubernetes version to build and to look for: K8S_VERSION, else the one whose go.mod is committed."""
    version = environ.get("K8S_VERSION") or DEFAULT_KUBERNETES_VERSION
    if re.fullmatch(r"v1\.\d+\.\d+", version) is None:
        raise ValueError(f"K8S_VERSION is {version!r}; a Kubernetes version reads like {DEFAULT_KUBERNETES_VERSION}.")
    return version


def locate(environ: Mapping[str, str]) -> Binaries:
    """The folder that the environment names (KUBEBUILDER_ASSETS), else the one in the user's cache, made or not."""
    return _folder(environ, f"controlplane-{wanted_version(environ)}")


def locate_companions(environ: Mapping[str, str]) -> Binaries:
    """The folder of the companions, one for all versions of Kubernetes, unless KUBEBUILDER_ASSETS names another."""
    return _folder(environ, "companions")


def locate_helm(environ: Mapping[str, str], version: str = "") -> tuple[Binaries, str]:
    """The folder in which a Helm is looked for, and its name there: of this version, else of HELM_VERSION, else 4."""
    wanted = version or environ.get("HELM_VERSION") or HELM_VERSIONS[0]
    if wanted not in HELM_VERSIONS:
        raise ValueError(f"HELM_VERSION is {wanted!r}; the tests know {' and '.join(HELM_VERSIONS)}.")
    return (locate_companions(environ), HELM_3) if wanted == "3" else (locate(environ), HELM)


def _folder(environ: Mapping[str, str], name: str) -> Binaries:
    if named := environ.get("KUBEBUILDER_ASSETS"):
        return Binaries(Path(named))
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Binaries(cache / "numa-admission" / name)
