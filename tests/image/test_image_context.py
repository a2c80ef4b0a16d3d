"""What the Dockerfile copies is what the package needs: no file too few, and none of the tests or of the machine."""

import subprocess
import tomllib
from pathlib import Path

import pytest
from dockerfile import ROOT, Stage, context_files, copied_files, read_stages


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read_stages((ROOT / "Dockerfile").read_text())


def test_every_tracked_file_of_the_packages_is_taken_into_the_package(stages: list[Stage]) -> None:
    """Copied, and code or named as data: a page or a schema that is missing would be missed in the cluster only."""
    done = subprocess.run(["git", "ls-files", "webhook", "certs"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {Path(name) for name in done.stdout.split()}
    assert len(tracked) > 100
    assert tracked <= set(copied_files(stages[0], context_files()))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = ["*.py", *settings["package-data"]["*"]]
    assert [path for path in tracked if not any(path.match(pattern) for pattern in patterns)] == []
    assert settings["packages"]["find"]["include"] == ["webhook*", "certs*"]


def test_what_the_build_reads_is_copied(stages: list[Stage]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = copied_files(stages[0], context_files())
    for name in ("requirements.lock", "pyproject.toml", project["readme"], *project["license-files"]):
        assert Path(name) in copied


def test_context_has_neither_caches_nor_secrets_nor_tests() -> None:
    names = {path.parts[0] for path in context_files()}
    assert names == {"requirements.lock", "pyproject.toml", "README.md", "LICENSE", "webhook", "certs"}
    assert not [path for path in context_files() if "__pycache__" in path.parts or path.suffix == ".pyc"]


def test_what_is_shipped_runs_as_nobody_and_compiles_nothing(stages: list[Stage]) -> None:
    shipped = stages[-1]
    assert [step.text for step in shipped.of("USER")] == ["65532:65532"]
    assert shipped.environment()["PYTHONDONTWRITEBYTECODE"] == "1"
    assert [step.text for step in shipped.of("RUN")] == []
    assert [step.text for step in shipped.of("COPY")] == ["--from=build /opt/numa-admission /opt/numa-admission"]


@pytest.mark.parametrize("text", ["ADD . /", "FROM a\nVOLUME /x", "RUN true\nFROM a"])
def test_dockerfile_that_is_not_understood_is_no_proof(text: str) -> None:
    with pytest.raises(ValueError, match=r"not understood|before the first FROM"):
        read_stages(text)
