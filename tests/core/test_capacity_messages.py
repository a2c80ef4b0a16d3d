"""What the ledger says, word for word, in ``capacity_messages.golden``; ``capacity_world.py`` prints it anew."""

import re
from pathlib import Path

import pytest
from capacity_world import CASES, said

from webhook.core.ledger.reasons import LEDGER_REASONS
from webhook.core.reasons import REASONS

GOLDEN = {
    name: text.strip()
    for name, _, text in (
        section.partition("\n")
        for section in re.split(
            r"^# ", (Path(__file__).parent / "capacity_messages.golden").read_text(), flags=re.MULTILINE
        )
        if section
    )
}


@pytest.mark.parametrize("name", CASES)
def test_capacity_says_word_for_word(name):
    """What is said of the case is what the golden file has."""
    assert said(CASES[name]()) == GOLDEN.get(name)


def test_the_golden_file_has_no_other_case():
    """A case that was taken out leaves nothing behind."""
    assert set(GOLDEN) == set(CASES)


def test_every_ledger_reason_is_spoken():
    """No reason stands in the list that nobody gives."""
    spoken = {finding.code for case in CASES.values() for finding in case().findings}
    assert set(LEDGER_REASONS) <= spoken <= {*LEDGER_REASONS, *REASONS}


@pytest.mark.parametrize("code", LEDGER_REASONS)
def test_every_ledger_reason_has_a_page(code):
    """The page that ``numa-admission explain`` prints: title, and the sections that all pages have."""
    page = (Path(__file__).parents[2] / "webhook" / "pages" / f"{code}.md").read_text()
    title, _, rest = page.partition("\n\n")
    assert title == f"# {code}"
    assert rest.partition("\n\n")[0].replace("\n", " ") == LEDGER_REASONS[code].summary
    assert re.findall(r"^## (.*)$", page, flags=re.MULTILINE) == [
        "What it means",
        "Example",
        "Why",
        "How to fix",
    ]
    assert max(map(len, page.splitlines())) <= 120


@pytest.mark.parametrize("name", CASES)
def test_capacity_keeps_the_voice(name):
    """Whole sentences on one line, figures with units; no words of a machine."""
    for finding in CASES[name]().findings:
        text = str(finding)
        assert text.isprintable()
        assert re.search(r"denied|invalid|None\b|  |\.\.|\(\)", text) is None
        assert finding.problem.endswith(".")
        assert finding.next_step.endswith(".")
        assert not finding.proof or finding.proof.endswith(".")
