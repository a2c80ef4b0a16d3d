"""Every way a rule speaks, word for word, in ``messages.golden``; print it anew with ``message_cases.py``."""

import re
from pathlib import Path

import pytest
from message_cases import CASES, said

from webhook.core.reasons import REASONS

GOLDEN = {
    name: text.strip()
    for name, _, text in (
        section.partition("\n")
        for section in re.split(r"^# ", (Path(__file__).parent / "messages.golden").read_text(), flags=re.MULTILINE)
        if section
    )
}


@pytest.mark.parametrize("name", CASES)
def test_is_said_word_for_word(name):
    """What is said of the case is what the golden file has."""
    assert said(CASES[name]()) == GOLDEN.get(name)


def test_golden_file_has_no_other_case():
    """A case that was taken out leaves nothing behind."""
    assert set(GOLDEN) == set(CASES)


def test_every_reason_is_spoken():
    """No reason stands in the list that no rule gives, and no rule speaks outside the list."""
    assert {finding.code for judge in CASES.values() for finding in judge()} == set(REASONS)


@pytest.mark.parametrize("name", CASES)
def test_keeps_the_voice(name):
    """One line, a path, whole sentences, figures with units; no words of a machine."""
    for finding in CASES[name]():
        text = str(finding)
        assert text.isprintable()
        assert re.search(r"denied|invalid|Quantity|NumaSpec|None\b(?!\")", text) is None
        assert finding.path.startswith(("metadata.", "spec."))
        assert finding.problem[-1] in ".?"
        assert finding.next_step.endswith(".")
        assert finding.found
        assert finding.wanted
        assert finding.family is REASONS[finding.code].family
