"""No value can give an object a key, or a container a variable, that the chart gives it too.

YAML's readers differ in what they make of a repeated key: the API server refuses it, kubectl keeps one of the two.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import CHART, FULLNAME, RELEASE, Helm, only

ROLES = ("rules", "ledger")
EVERYTHING = ("--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,networkPolicy.enabled=true")
MARKER = "marker.example.com/here"


SCHEMA = json.loads((CHART / "values.schema.in.json").read_text())


def open_maps(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The values that are maps of any key to a text: labels, annotations, selectors."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"].get(schema["$ref"].rpartition("/")[2], {})
    if schema.get("additionalProperties") == {"type": "string"}:
        yield path
    for key, each in schema.get("properties", {}).items():
        if isinstance(each, dict):
            yield from open_maps(each, (*path, key))


OPEN_MAPS = tuple(open_maps(SCHEMA))
WITH_KEYS_OF_THE_CHART = {
    "rules.podLabels", "rules.podAnnotations", "ledger.podLabels", "ledger.podAnnotations", "serviceMonitor.labels",
    "prometheusRule.labels",
}  # fmt: skip


def beside_the_marker(value: object) -> set[str]:
    """The keys of every map that holds the marker."""
    if isinstance(value, list):
        return {key for each in value for key in beside_the_marker(each)}
    if not isinstance(value, dict):
        return set()
    here = set(value) - {MARKER} if MARKER in value else set()
    return here.union(*(beside_the_marker(each) for each in value.values()))


def given(folder: Path, path: tuple[str, ...], value: object) -> str:
    """The argument that sets the value at this path."""
    for key in reversed(path):
        value = {key: value}
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(value))
    return f"--values={file}"


@pytest.mark.parametrize("path", [pytest.param(path, id=".".join(path)) for path in OPEN_MAPS])
def test_key_that_the_chart_sets_is_refused_by_name(helm: Helm, tmp_path: Path, path: tuple[str, ...]) -> None:
    ours = beside_the_marker(helm.template(*EVERYTHING, given(tmp_path, path, {MARKER: "x"})))
    assert bool(ours) is (".".join(path) in WITH_KEYS_OF_THE_CHART)
    if ours:
        done = helm.run("template", RELEASE, str(CHART), *EVERYTHING, given(tmp_path, path, dict.fromkeys(ours, "x")))
        assert done.returncode != 0
        unnamed = {key for key in ours if f"at '/{'/'.join(path)}/{key.replace('/', '~1')}'" not in done.stderr}
        assert unnamed == set(), done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_variable_that_the_chart_sets_or_that_stands_twice_is_refused_by_name(
    helm: Helm, tmp_path: Path, role: str
) -> None:
    deployment = only(helm.template(), "Deployment", f"{FULLNAME}-{role}")
    containers = {each["name"]: each for each in deployment["spec"]["template"]["spec"]["containers"]}
    ours = {each["name"] for each in containers["server"].get("env", ())}
    assert bool(ours) is (role == "ledger")
    for name, times in (*((name, 1) for name in ours), ("TZ", 2)):
        values = given(tmp_path, (role, "extraEnv"), [{"name": name, "value": str(each)} for each in range(times)])
        done = helm.run("template", RELEASE, str(CHART), values)
        assert done.returncode != 0, name
        assert f"{role}.extraEnv: {name} " in done.stderr
