"""Fixtures of the certificate tests: minted per session, never committed."""

import pytest
from certs_world import NAMES, START, MovingClock, seconds

from certs.pki import Pair, mint_authority, mint_leaf


@pytest.fixture(scope="session")
def authority() -> Pair:
    """An authority that is valid for 30 days from START."""
    return mint_authority(START, seconds(30 * 86400))


@pytest.fixture(scope="session")
def other_authority() -> Pair:
    """Another one, with another name and key."""
    return mint_authority(START, seconds(30 * 86400))


@pytest.fixture(scope="session")
def leaf(authority: Pair) -> Pair:
    """A leaf for NAMES by ``authority``, valid for 10 days."""
    return mint_leaf(authority, NAMES, START, seconds(10 * 86400))


@pytest.fixture
def clock() -> MovingClock:
    """A clock that stands at START."""
    return MovingClock()
