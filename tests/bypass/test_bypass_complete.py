"""No class of ways around that belongs to the stateless rules is left without a test that names it."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OWED = (*range(1, 10), *range(11, 27), *range(33, 39))
"""Classes of `practice` 5C that issue 4 names; 27 to 32 are the ledger's, 39 and 40 the certificates' and settings'."""
SOURCES = (*sorted(HERE.glob("test_bypass_*.py")), HERE.parent / "e2e" / "test_e2e_bypass.py")
NAMED = re.compile(r"\b5C-([0-9]+) ")


@pytest.mark.parametrize("number", OWED)
def test_the_class_is_named_by_a_test(number):
    """By its number, in the id or the first line of a test."""
    named = {int(found) for source in SOURCES for found in NAMED.findall(source.read_text())}
    assert number in named
