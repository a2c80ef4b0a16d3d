"""What the chart takes from the code is what the code says now."""

import importlib.util
import json
from pathlib import Path

import pytest
import yaml
from controlplane.recipe import HELM_PATHS, MODULES, required_version
from rendering import CHART, VALUE_SETS

from webhook.service.settings_file import parse_settings
from webhook.wire.webhook_configurations import POLICIES

_SPEC = importlib.util.spec_from_file_location("chart_generate", CHART / "generate.py")
generate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in generate.generated()])
def test_generated_files_are_up_to_date(path: Path) -> None:
    """After a change of the table or of the settings: python helm/numa-admission/generate.py."""
    assert path.read_text(encoding="utf-8") == generate.generated()[path]


def test_page_names_the_helms_that_the_tests_run() -> None:
    tested = sorted(required_version(MODULES / name, path).removeprefix("v") for name, path in HELM_PATHS.items())
    assert f"(tested: {', '.join(tested)}," in (CHART / "README.md").read_text()


def test_policies_of_the_values_are_those_of_the_code() -> None:
    rows = yaml.safe_load((CHART / "values.yaml").read_text())["webhooks"]
    assert {name: (row["failurePolicy"], row["timeoutSeconds"]) for name, row in rows.items()} == {
        name: (policy.failure, policy.timeout_seconds) for name, policy in POLICIES.items()
    }
    assert all(row["enabled"] for row in rows.values())


def test_every_value_set_says_what_it_is_for() -> None:
    assert VALUE_SETS
    assert [path.name for path in VALUE_SETS if not path.read_text().startswith("# ")] == []


def test_schema_of_the_values_knows_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}


def test_settings_of_the_values_are_settings_of_the_server() -> None:
    """The example in the page of values is read by the server itself."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    start = lines.index("#   settings:")
    end = lines.index("settings: {}")
    example = yaml.safe_load("\n".join(line[4:] for line in lines[start:end]))
    assert parse_settings(yaml.safe_dump(example["settings"]).encode()).rules.families
