# ruff: noqa: INP001 - a script of the chart, no package
"""Write what the chart takes from the code: the webhook entries and the schema of the values.

    python helm/numa-admission/generate.py      writes the files; a test compares them with what this would write

``files/webhooks.json`` holds every entry of ``webhook.wire.webhook_configurations`` without what a release decides
(whom to call, which namespaces are left out); the template adds that. ``files/needs-restart.json`` lists the settings
that a running server does not take over; the template rolls the pods when one of them changes. ``files/stop.json`` has
the seconds that a stop needs beside its drain. ``values.schema.json`` is ``values.schema.in.json`` with the server's
own schema of the settings in it, less what the chart sets, and with every value required that has a default which says
something: ``helm upgrade --reuse-values`` brings the defaults of the chart before, and a value that is new since then
would be rendered as nothing.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from webhook.service.settings import CLOSING_SECONDS, key_of
from webhook.service.settings_file import settings_schema
from webhook.service.settings_restart import NEEDS_RESTART
from webhook.wire.webhook_configurations import CUSTOM_SUFFIX, DOMAIN, Target, webhook_configurations
from webhook.wire.workload_kinds import PATH_FORM

CHART = Path(__file__).parent
LEDGER_PATHS = frozenset({"/capacity", "/bind"})
SET_BY_THE_CHART = (
    ("server", ("bind", "probeBind", "role", "workers")),
    ("rules", ("enforcement",)),
    ("capacity", ("guardsBindings",)),
)
"""Keys of the settings that come from other values."""
SECTIONS_SET_BY_THE_CHART = ("tls", "cluster")
ENDING_SECONDS = 5.0
"""Between the server's own end by force and the kubelet's: a process that is killed writes no last line, and a node is
busy when many pods end at once."""


def webhook_entries() -> list[dict[str, Any]]:
    """Return for each entry its row in the values, role and path, and the entry without what a release decides."""
    configurations = webhook_configurations("", Target(service="any"), ca_bundle="", excluded_namespaces=())
    return [
        _entry(configuration["kind"], entry) for configuration in configurations for entry in _webhooks(configuration)
    ]


def _webhooks(configuration: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = configuration["webhooks"]
    return entries


def _entry(kind: object, entry: dict[str, Any]) -> dict[str, Any]:
    path = entry["clientConfig"]["service"]["path"]
    kept = {key: value for key, value in entry.items() if key not in {"clientConfig", "namespaceSelector"}}
    row = str(entry["name"]).removesuffix(f".{DOMAIN}").removesuffix(CUSTOM_SUFFIX)
    role = "ledger" if path in LEDGER_PATHS else "rules"
    return {"kind": kind, "row": row, "role": role, "path": path, "entry": kept}


def values_schema() -> dict[str, Any]:
    """Return the schema of the values."""
    schema: dict[str, Any] = json.loads((CHART / "values.schema.in.json").read_text(encoding="utf-8"))
    settings = settings_schema()
    for section, keys in SET_BY_THE_CHART:
        for key in keys:
            del settings["properties"][section]["properties"][key]
    for section in SECTIONS_SET_BY_THE_CHART:
        del settings["properties"][section]
    # Helm's validator would look for the schema's own name, and for the one it refers to, as files beside the chart.
    for name in ("$id", "$schema"):
        settings.pop(name)
    # The server reads these rows without a schema; here a wrong one must be told before it is installed.
    settings["properties"]["workloads"]["items"] = {"$ref": "#/$defs/workload"}
    template = schema["$defs"]["workload"]["properties"]["templates"]["items"]
    template["properties"]["path"]["pattern"] = f"^(?:{PATH_FORM.pattern})$"
    definitions = settings.pop("$defs")
    schema["$defs"].update({name: _or_null(_moved(each)) for name, each in definitions.items()})
    schema["$defs"]["settings"] = _or_null(_moved(settings))
    return _with_required(schema, yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")))


def _with_required(schema: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a map with its keys required, but those whose default is an empty text, list or map."""
    if schema.get("additionalProperties") is not False:
        return schema
    properties = {
        key: _with_required(each, defaults[key]) if isinstance(defaults.get(key), dict) else each
        for key, each in schema["properties"].items()
    }
    required = [key for key in properties if defaults.get(key) not in (None, "", [], {})]
    return {**schema, "properties": properties, "required": required}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that may be null as well: to the server that is a key that is not there."""
    changed = dict(schema)
    if isinstance(schema.get("type"), str):
        changed["type"] = [schema["type"], "null"]
    if "enum" in schema:
        changed["enum"] = [*schema["enum"], None]
    if "properties" in schema:
        changed["properties"] = {key: _or_null(each) for key, each in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        changed["additionalProperties"] = _or_null(schema["additionalProperties"])
    return changed


def keys_that_need_a_restart() -> dict[str, list[str]]:
    """Return the keys of the settings that wait for a restart, by section."""
    return {section: sorted(key_of(name) for name in names) for section, names in NEEDS_RESTART.items()}


def seconds_of_a_stop() -> dict[str, float]:
    """Return what a pod's grace period must hold beside ``preStopSeconds`` and the drain, in seconds."""
    return {"closingSeconds": CLOSING_SECONDS, "endingSeconds": ENDING_SECONDS}


def _moved(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the schema without references to other files: what they describe is checked by the server alone."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if not schema.get("$ref", "#").startswith("#"):
        return {"type": "object"}
    return {key: _moved(value) for key, value in schema.items()}


def generated() -> dict[Path, str]:
    """Return each file's path and text."""
    return {
        CHART / "files" / "webhooks.json": _text(webhook_entries()),
        CHART / "files" / "needs-restart.json": _text(keys_that_need_a_restart()),
        CHART / "files" / "stop.json": _text(seconds_of_a_stop()),
        CHART / "values.schema.json": _text(values_schema()),
    }


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the files."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
