"""The list of reasons that are errors here and warnings there is that of the rules' own text."""

import ast
from importlib.resources import files

from webhook.core.softened import SOFTENED


def weighed_codes():
    """The constants that a rule weighs itself: ``X.at(severity=...)`` and ``repairable(X, ...)``."""
    for file in files("webhook.core.rules").iterdir():
        if not file.name.endswith(".py"):
            continue
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(func=ast.Name(id="repairable"), args=[ast.Name(id=code), *_]):
                    yield code
                case ast.Call(func=ast.Attribute(attr="at", value=ast.Name(id=code)), keywords=keywords):
                    if any(keyword.arg == "severity" for keyword in keywords):
                        yield code


def test_every_reason_that_a_rule_weighs_itself_is_listed():
    written = set(weighed_codes())
    assert {code for code in written if code.isupper()} == SOFTENED
    assert written - SOFTENED <= {"reason"}, "repairable's own parameter"
