"""The soak runs for minutes on a control plane of its own: `make soak`, with MINUTES."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in ("", "oracle", "e2e"):
    sys.path.insert(0, str(HERE.parent / folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that no everyday run takes it along."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.e2e)
