"""The closed list of reasons, and a page for each."""

import re
from importlib.resources import files

import pytest

from webhook.core.reasons import REASONS

PAGES = files("webhook.pages")
HEADINGS = ("## What it means", "## Example", "## Why", "## How to fix")


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)
def test_reason_is_whole(reason):
    """A code in capitals, a summary and a next step in whole sentences, none of the forbidden words."""
    assert re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", reason.code)
    for sentence in (reason.summary, reason.next_step):
        assert sentence.endswith(".")
        assert sentence.isprintable()
        assert re.search(r"\b(denied|invalid)\b", sentence, re.IGNORECASE) is None
    assert re.search(r"\. [A-Z]", reason.summary) is None, "the summary is one sentence"


@pytest.mark.parametrize("reason", REASONS.values(), ids=REASONS)
def test_reason_has_a_page(reason):
    """The page has the code as title, the summary as its first sentence, and all four parts in order."""
    page = (PAGES / f"{reason.code}.md").read_text()
    lines = page.splitlines()
    assert lines[0] == f"# {reason.code}"
    assert lines[2] == reason.summary
    assert [line for line in lines if line.startswith("## ")] == list(HEADINGS)
    assert 15 <= len(lines) <= 45
    assert page.count("```") % 2 == 0
    assert re.search(r"\b(denied|invalid)\b", page, re.IGNORECASE) is None
    prose = re.sub(r"```yaml\n.*?```", "", page, flags=re.DOTALL).splitlines()
    assert max(map(len, prose)) <= 120
