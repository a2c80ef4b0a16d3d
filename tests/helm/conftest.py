"""Real helm, where it is found."""

import os

import pytest
from rendering import Helm, find_helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm; without it the test is skipped, or fails where the control plane's programs are required."""
    program = find_helm()
    if program is None:
        sentence = "helm was not found: run `make controlplane` once to build it."
        if os.environ.get("NUMA_ADMISSION_REQUIRE_E2E") == "1":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return Helm(program, tmp_path_factory.mktemp("helm-home"))
