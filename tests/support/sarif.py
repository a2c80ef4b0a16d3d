"""SARIF 2.1.0 as OASIS publishes its schema (2.1.0-rtm.5), less the descriptions, in the file beside this one."""

import json
from pathlib import Path

from jsonschema import Draft4Validator, FormatChecker

_SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0.schema.json").read_text(encoding="utf-8"))


def assert_is_sarif(log: object) -> None:
    """Fail with every place that the schema forbids."""
    faults = [
        f"{list(fault.absolute_path)}: {fault.message}"
        for fault in Draft4Validator(_SCHEMA, format_checker=FormatChecker()).iter_errors(log)
    ]
    assert not faults, faults
