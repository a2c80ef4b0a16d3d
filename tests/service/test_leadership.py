"""The term: on two clocks, ended by silence, and told once."""

import io

import pytest

from webhook.cluster.errors import ClusterError, TimedOut
from webhook.cluster.leases import DURATION_SECONDS, RETRY_SECONDS, TERM_SECONDS
from webhook.service.clock import Clock
from webhook.service.leadership import Leadership, Term
from webhook.service.logs import open_log


class Hands:
    """Two clocks in a test's hands."""

    def __init__(self):
        self.monotonic = 1000.0
        self.wall = 2_000_000.0

    @property
    def clock(self):
        return Clock(lambda: self.monotonic, lambda: self.wall)

    def pass_by(self, seconds):
        self.monotonic += seconds
        self.wall += seconds


class Ballot:
    """An election whose outcome a test sets."""

    def __init__(self):
        self.outcome = True
        self.rounds = 0
        self.released = 0
        self.before_answer = lambda: None

    def try_once(self, monotonic_seconds, wall_seconds):
        self.rounds += 1
        self.before_answer()
        if isinstance(self.outcome, ClusterError):
            raise self.outcome
        return self.outcome

    def release(self, wall_seconds):
        self.released += 1


@pytest.fixture
def hands():
    return Hands()


@pytest.fixture
def ballot():
    return Ballot()


@pytest.fixture
def told():
    return []


@pytest.fixture
def fit():
    return [True]


@pytest.fixture
def leadership(hands, ballot, told, fit):
    return Leadership(
        ballot,
        hands.clock,
        open_log(io.BytesIO()),
        may_stand=lambda: fit[0],
        on_lead=lambda: told.append("lead"),
        on_lost=lambda: told.append("lost"),
    )


class TestTerm:
    """A term is over when either clock says so."""

    @pytest.mark.parametrize(
        "monotonic, wall, lasts",
        [
            pytest.param(0.0, 0.0, True, id="at once"),
            pytest.param(TERM_SECONDS - 0.1, TERM_SECONDS - 0.1, True, id="shortly before its end"),
            pytest.param(TERM_SECONDS, TERM_SECONDS, False, id="at its end"),
            pytest.param(0.0, 3600.0, False, id="the machine slept, its monotonic clock too"),
            pytest.param(3600.0, 0.0, False, id="the wall clock was set back"),
            pytest.param(1.0, -3600.0, True, id="the wall clock was set back within the term"),
        ],
    )
    def test_it_lasts(self, hands, monotonic, wall, lasts):
        term = Term(hands.clock)
        term.renew(hands.monotonic, hands.wall)
        hands.monotonic += monotonic
        hands.wall += wall
        assert term.lasts() is lasts

    def test_there_is_none_before_an_election(self, hands):
        assert not Term(hands.clock).lasts()

    def test_it_is_over_well_before_another_may_take_the_lease(self):
        assert TERM_SECONDS + 2 * RETRY_SECONDS < DURATION_SECONDS
        assert DURATION_SECONDS + 2 * RETRY_SECONDS < 15


class TestLeadership:
    """Rounds of the election."""

    def test_it_leads_while_it_renews(self, leadership, hands, told):
        for _ in range(10):
            leadership.round()
            hands.pass_by(1)
            assert leadership.leads()
        assert told == ["lead"] * 10

    def test_silence_of_the_api_server_ends_the_term_and_no_sooner(self, leadership, hands, ballot, told):
        leadership.round()
        ballot.outcome = TimedOut("silence")
        hands.pass_by(TERM_SECONDS - 0.1)
        leadership.round()
        assert leadership.leads()
        hands.pass_by(0.2)
        assert not leadership.leads()
        leadership.round()
        assert told[-1] == "lost"
        assert told.count("lost") == 1

    def test_a_lease_that_another_holds_ends_it_at_once(self, leadership, ballot, told):
        leadership.round()
        ballot.outcome = False
        leadership.round()
        assert not leadership.leads()
        assert told == ["lead", "lost"]

    def test_a_renewal_that_hung_counts_from_before_it_was_sent(self, leadership, hands, ballot):
        ballot.before_answer = lambda: hands.pass_by(TERM_SECONDS + 1)
        leadership.round()
        assert not leadership.leads()

    def test_a_leader_that_was_frozen_is_none_when_it_wakes(self, leadership, hands, told):
        leadership.round()
        hands.pass_by(60)
        assert not leadership.leads()
        leadership.look()
        leadership.look()
        assert told == ["lead", "lost"]

    def test_who_is_not_synced_does_not_stand_but_finishes_its_term(self, leadership, ballot, fit):
        fit[0] = False
        leadership.round()
        assert (ballot.rounds, leadership.leads()) == (0, False)
        fit[0] = True
        leadership.round()
        fit[0] = False
        leadership.round()
        assert (ballot.rounds, leadership.leads()) == (2, True)

    def test_stopping_gives_the_lease_up(self, leadership, ballot, told):
        leadership.round()
        leadership.stop()
        assert (ballot.released, leadership.leads(), told[-1]) == (1, False, "lost")

    def test_stopping_without_having_led_gives_nothing_up(self, leadership, ballot):
        leadership.stop()
        assert ballot.released == 0
