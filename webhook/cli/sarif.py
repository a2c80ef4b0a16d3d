"""SARIF 2.1.0, the interchange form of code scanners, around results of ours."""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

from webhook.cli.explain import all_reasons
from webhook.core.findings import Finding

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(
    findings: Iterable[Finding], results: Sequence[Mapping[str, Any]], notifications: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return a log of one run: ``results`` by the rules of ``findings``, and what the tool could not do."""
    reasons = all_reasons()
    families = {finding.code: finding.family.value for finding in findings}
    rules = [
        {
            "id": code,
            "shortDescription": {"text": reasons[code].summary},
            "help": {"text": reasons[code].next_step or reasons[code].summary},
            "properties": {"family": families[code]},
        }
        for code in sorted(families)
    ]
    driver = {"name": "numa-admission", "semanticVersion": version("numa-admission"), "rules": rules}
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": list(results),
    }
    if notifications:
        ended = {"executionSuccessful": False, "toolExecutionNotifications": list(notifications)}
        run["invocations"] = [ended]
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def uri_of(file: str) -> str:
    """Return a file's name as a URI reference: relative names stay relative, to the folder that was checked."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
