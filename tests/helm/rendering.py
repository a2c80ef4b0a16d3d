"""The chart as real helm renders it: for the everyday tests, without a cluster."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from controlplane.binaries import locate_helm

CHART = Path(__file__).parents[2] / "helm" / "numa-admission"
VALUE_SETS = tuple(sorted((CHART / "ci").glob("*.yaml")))
RELEASE, NAMESPACE = "numa", "numa-system"
FULLNAME = "numa-numa-admission"
HELM_SECONDS = 60.0


def find_helm(version: str = "") -> str | None:
    """The helm that `make controlplane` built, else one of the PATH, else None; of a version, else of HELM_VERSION."""
    binaries, program = locate_helm(os.environ, version)
    return shutil.which(program) if binaries.missing((program,)) else str(binaries.path(program))


@dataclass(frozen=True)
class Helm:
    """Real helm in a home folder of its own."""

    program: str
    home: Path

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run helm; never raises for what it says."""
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [self.program, *args], capture_output=True, text=True, check=False, timeout=HELM_SECONDS, env=environment
        )

    def template(self, *args: str, release: str = RELEASE) -> list[dict[str, Any]]:
        """The rendered objects, tests included. Raises AssertionError with helm's words where it fails."""
        done = self.run("template", release, str(CHART), "--namespace", NAMESPACE, *args)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]


def only(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one object of this kind and name."""
    found = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name, [(each["kind"], each["metadata"]["name"]) for each in objects])
    return found[0]


def webhook_entries(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of both configurations in their order."""
    return [entry for each in objects for entry in each.get("webhooks", ())]


def containers_of(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each container, init containers and those of the test's pod too: its object's name, its pod's spec, itself."""
    for each in objects:
        spec = each["spec"] if each["kind"] == "Pod" else each.get("spec", {}).get("template", {}).get("spec")
        if spec:
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                yield each["metadata"]["name"], spec, container
