"""Real helm, where it is found, and the chart as it can show everything."""

import os
import shutil
from pathlib import Path

import pytest
from controlplane.binaries import HELM_VERSIONS
from rendering import CHART, Helm, find_helm

RENDER = '{{ dict "notes" (tpl (.Files.Get "files/NOTES.txt") .) | toYaml }}'


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The run's Helm: of HELM_VERSION, else 4."""
    return _found(tmp_path_factory)


@pytest.fixture(scope="session", params=HELM_VERSIONS, ids="helm-{}".format)
def each_helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """One Helm after the other, whatever the run's is."""
    return _found(tmp_path_factory, request.param)


@pytest.fixture(scope="session")
def all_helms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Helm]:
    """The Helms by version."""
    return {version: _found(tmp_path_factory, version) for version in HELM_VERSIONS}


def _found(tmp_path_factory: pytest.TempPathFactory, version: str = "") -> Helm:
    """Helm; without it the test is skipped, or fails where the control plane's programs are required."""
    program = find_helm(version)
    if program is None:
        sentence = f"{f'helm {version}'.strip()} was not found: run `make controlplane` once to build it."
        if os.environ.get("NUMA_ADMISSION_REQUIRE_E2E") == "1":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return Helm(program, tmp_path_factory.mktemp("helm-home"))


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with its notes as a template, for `helm template` shows none and `helm install` asks a cluster."""
    folder = tmp_path_factory.mktemp("chart") / "numa-admission"
    shutil.copytree(CHART, folder)
    shutil.move(folder / "templates" / "NOTES.txt", folder / "files" / "NOTES.txt")
    (folder / "templates" / "notes.yaml").write_text(RENDER)
    return folder
