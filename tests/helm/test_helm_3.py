"""Helm 3 and Helm 4 make the same of the chart."""

import json
from pathlib import Path

import pytest
import yaml
from rendering import NAMESPACE, RELEASE, VALUE_SETS, Helm


def test_each_helm_is_of_its_version(all_helms: dict[str, Helm]) -> None:
    """Else one would be compared with itself."""
    told = {version: helm.run("version", "--template", "{{.Version}}").stdout for version, helm in all_helms.items()}
    assert {version: text.partition(".")[0] for version, text in told.items()} == {"3": "v3", "4": "v4"}, told


@pytest.mark.parametrize("cluster", [
    pytest.param((), id="newest"),
    pytest.param(("--kube-version", "1.27.9"), id="before-match-conditions"),
])  # fmt: skip
@pytest.mark.parametrize("values", [pytest.param(path, id=path.stem) for path in VALUE_SETS])
def test_objects_and_notes_are_equal(
    all_helms: dict[str, Helm], chart: Path, values: Path, cluster: tuple[str, ...]
) -> None:
    """But for their order, which is each Helm's own."""
    rendered = {version: documents(helm, chart, values, *cluster) for version, helm in all_helms.items()}
    assert len(rendered["4"]) > 10
    assert [each for each in rendered["4"] if "notes" in each] != []
    assert rendered["3"] == rendered["4"]


def documents(helm: Helm, chart: Path, values: Path, *arguments: str) -> list[dict[str, object]]:
    """All that is rendered, in an order that does not depend on the Helm."""
    done = helm.run("template", RELEASE, str(chart), "--namespace", NAMESPACE, "--values", str(values), *arguments)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))
