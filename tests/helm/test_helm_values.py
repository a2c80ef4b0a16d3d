"""The values read like a page of documentation: every key has its comment."""

import re

import yaml
from rendering import CHART

VALUES = CHART / "values.yaml"
SAID_ABOVE = {
    "certificates.resources": ("requests", "limits"),
    "rules.resources": ("requests", "limits"),
    "ledger.resources": ("requests", "limits"),
    "podSecurityContext": ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"),
}
"""Maps that Kubernetes describes: the comment above the map is for all of it."""
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z][A-Za-z-]*):")


def uncommented() -> list[str]:
    """Every key of the values without a comment on the line above."""
    found, path, before = [], [], ""
    for line in VALUES.read_text(encoding="utf-8").splitlines():
        match = _KEY.match(line)
        if match is not None:
            path = [*path[: len(match["indent"]) // 2], match["key"]]
            parent = ".".join(path[:-1])
            of_rules = path[0] == "ledger" and ["rules", *path[1:]]
            is_said = path[-1] in SAID_ABOVE.get(parent, ()) or (of_rules and _has(of_rules))
            if not before.lstrip().startswith("#") and not is_said:
                found.append(".".join(path))
        before = line
    return found


def _has(path: list[str]) -> bool:
    value = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def test_every_value_has_its_comment() -> None:
    assert uncommented() == []
