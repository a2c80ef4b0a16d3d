"""What libraries warn of is a line of our own log, whatever text a stranger has put into it."""

import json
import logging

import pytest

from webhook.serve.gunicorn_log import LibraryLog


@pytest.fixture
def said(capsysbinary):
    """Return a function that lets a library's logger speak, and gives the lines that came of it."""

    def call(level, message, *values, at="info", **options):
        logger = logging.Logger("library.part")  # noqa: LOG001 - one that no other test has
        logger.addHandler(LibraryLog(at))
        logger.log(level, message, *values, **options)
        return [json.loads(line) for line in capsysbinary.readouterr().err.splitlines()]

    return call


@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param(("no %s here", "a\nb"), "no a\\nb here", id="a line break stays in its line"),
        pytest.param(("%(a)s", {"a": 1}), "1", id="values by name"),
        pytest.param(("100%", ), "100%", id="no values"),
        pytest.param(("%d", "x"), "%d ('x',)", id="values that do not fit"),
    ],
)  # fmt: skip
def test_a_warning_is_one_line(said, values, text):
    (line,) = said(logging.WARNING, *values)
    assert (line["event"], line["level"], line["logger"], line["text"]) == ("library", "warning", "library.part", text)


def test_an_exception_is_named_without_its_values(said):
    (line,) = said(logging.ERROR, "failed", exc_info=ValueError("no\nnumber"))
    assert (line["level"], line["fault"], line["fault_text"]) == ("error", "ValueError", "no\\nnumber")


@pytest.mark.parametrize(("level", "at"), [(logging.INFO, "debug"), (logging.WARNING, "error")])
def test_what_is_less_than_asked_for_is_not_said(said, level, at):
    """Libraries chatter; their course is never logged."""
    assert said(level, "hello", at=at) == []
