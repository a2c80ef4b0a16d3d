"""The plan as a table: facts and a moment in, an action and the next look out."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from certs_world import NAMES, START, policy, seconds

from certs.faults import UnreadableError
from certs.holdings import Holdings
from certs.names import names_of
from certs.pki import mint_authority, mint_leaf
from certs.plan import Action, Asked, Facts, plan

DAY = timedelta(days=1)
POLICY = policy(leaf_lifetime=9 * DAY, authority_lifetime=90 * DAY)
OLD = mint_authority(START, 90 * DAY)
NEW = mint_authority(START + 60 * DAY, 90 * DAY)
LEAF = mint_leaf(OLD, NAMES, START, 9 * DAY)
LATE_LEAF = mint_leaf(OLD, NAMES, START + 58 * DAY, 9 * DAY)
NEW_LEAF = mint_leaf(NEW, NAMES, START + 60 * DAY, 9 * DAY)
EXPIRED_OLD = mint_authority(START - 90 * DAY, 90 * DAY)
NOT_BEGUN = mint_authority(START + 70 * DAY, 90 * DAY)

SETTLED = Holdings(leaf=LEAF, signer=OLD, anchors=(OLD.certificate,))
LATE = replace(SETTLED, leaf=LATE_LEAF)
OVERLAP = replace(LATE, next_signer=NEW)
T60 = START + 60 * DAY
TRUSTED = replace(OVERLAP, trusted_since=T60)
SWITCHED = Holdings(NEW_LEAF, NEW, anchors=(OLD.certificate, NEW.certificate), switched_at=T60)
BEHIND = {"behind": ("validating",)}

CASES = [
    pytest.param(Holdings(), {}, START, Action.START, id="an empty Secret"),
    pytest.param(replace(SETTLED, signer=None), {}, START + 10 * DAY, Action.START, id="expired, and no signer"),
    pytest.param(SETTLED, {}, START + 91 * DAY, Action.START, id="everything expired"),
    pytest.param(SETTLED, {}, START, Action.KEEP, id="fresh"),
    pytest.param(SETTLED, {}, START + 5.9 * DAY, Action.KEEP, id="before two thirds of the leaf"),
    pytest.param(SETTLED, {}, START + 6 * DAY, Action.RENEW_LEAF, id="at two thirds of the leaf"),
    pytest.param(SETTLED, {}, START + 20 * DAY, Action.RENEW_LEAF, id="the leaf expired, its signer did not"),
    pytest.param(replace(SETTLED, leaf=None), {}, START, Action.RENEW_LEAF, id="the leaf is gone"),
    pytest.param(
        replace(SETTLED, leaf=NEW_LEAF), {}, T60, Action.RENEW_LEAF, id="a leaf by an authority nobody trusts"
    ),
    pytest.param(LATE, {}, START + 59.9 * DAY, Action.KEEP, id="before two thirds of the authority"),
    pytest.param(LATE, {}, T60, Action.BEGIN_OVERLAP, id="at two thirds of the authority"),
    pytest.param(LATE, BEHIND, T60, Action.BEGIN_OVERLAP, id="even while a configuration is behind"),
    pytest.param(replace(SETTLED, signer=None), {}, START, Action.BEGIN_OVERLAP, id="a leaf of somebody else's CA"),
    pytest.param(
        replace(SETTLED, signer=EXPIRED_OLD),
        {},
        START + DAY,
        Action.BEGIN_OVERLAP,
        id="the signer expired, the leaf lives",
    ),
    pytest.param(OVERLAP, BEHIND, T60, Action.KEEP, id="overlap: not everywhere yet"),
    pytest.param(OVERLAP, {}, T60, Action.NOTE_TRUST, id="overlap: now everywhere"),
    pytest.param(TRUSTED, {}, T60 + seconds(89), Action.KEEP, id="overlap: trusted for less than the delay"),
    pytest.param(TRUSTED, {}, T60 + seconds(90), Action.SWITCH_LEAF, id="overlap: trusted for the delay"),
    pytest.param(TRUSTED, BEHIND, T60 + seconds(90), Action.FORGET_TRUST, id="overlap: a configuration was reset"),
    pytest.param(TRUSTED, {}, T60 - seconds(1), Action.NOTE_TRUST, id="overlap: the clock was set back"),
    pytest.param(OVERLAP, BEHIND, START + 64 * DAY, Action.RENEW_LEAF, id="overlap: stuck, and the leaf is due"),
    pytest.param(OVERLAP, BEHIND, START + 89 * DAY, Action.RENEW_LEAF, id="overlap: stuck, the leaf has expired"),
    pytest.param(OVERLAP, BEHIND, START + 91 * DAY, Action.SWITCH_LEAF, id="overlap: stuck until all of it expired"),
    pytest.param(
        replace(OVERLAP, leaf=None, signer=None),
        BEHIND,
        T60,
        Action.SWITCH_LEAF,
        id="overlap: no leaf and no old signer",
    ),
    pytest.param(
        replace(LATE, next_signer=EXPIRED_OLD),
        {},
        T60,
        Action.BEGIN_OVERLAP,
        id="overlap: the next one expired meanwhile",
    ),
    pytest.param(SWITCHED, {}, T60 + seconds(179), Action.KEEP, id="switched: a replica may be late"),
    pytest.param(SWITCHED, {}, T60 + seconds(180), Action.FINISH_OVERLAP, id="switched: none can be"),
    pytest.param(replace(SWITCHED, switched_at=None), {}, T60, Action.NOTE_SWITCH, id="older trust, and since when"),
    pytest.param(SETTLED, {"in_order": False}, START, Action.REPAIR, id="another spelling of the same"),
    pytest.param(SETTLED, {"in_order": False}, START + 6 * DAY, Action.RENEW_LEAF, id="what is due comes first"),
]


@pytest.mark.parametrize(("held", "facts", "now", "wanted"), CASES)
def test_the_action(held: Holdings, facts: dict, now: datetime, wanted: Action):
    found = plan(Facts(held, **facts), POLICY, now)

    assert found.action is wanted
    assert found.reason.endswith(".")
    assert found.look_at >= now


@pytest.mark.parametrize(
    ("held", "facts", "now", "wanted"),
    [
        pytest.param(SETTLED, {}, START, START + 6 * DAY, id="the leaf's two thirds"),
        pytest.param(LATE, {}, START + 59 * DAY, T60, id="the authority's two thirds, which come first"),
        pytest.param(TRUSTED, {}, T60, T60 + seconds(90), id="the end of the first wait"),
        pytest.param(SWITCHED, {}, T60, T60 + seconds(180), id="the end of the second wait"),
        pytest.param(OVERLAP, BEHIND, T60, T60, id="at once, for the configurations are given the bundle now"),
    ],
)
def test_the_next_look(held: Holdings, facts: dict, now: datetime, wanted: datetime):
    found = plan(Facts(held, **facts), POLICY, now)

    assert found.action is Action.KEEP
    assert abs(found.look_at - wanted) < seconds(3600), "the backdating of an hour"
    assert found.look_at >= now


@pytest.mark.parametrize(
    ("held", "asked", "wanted"),
    [
        pytest.param(SETTLED, Asked.LEAF, Action.RENEW_LEAF, id="a leaf"),
        pytest.param(SETTLED, Asked.AUTHORITY, Action.BEGIN_OVERLAP, id="an authority"),
        pytest.param(OVERLAP, Asked.AUTHORITY, Action.NOTE_TRUST, id="an authority, while one is on its way"),
    ],
)
def test_what_a_person_asked_for_comes_ahead_of_its_time(held: Holdings, asked: Asked, wanted: Action):
    now = START if held is SETTLED else T60

    assert plan(Facts(held), POLICY, now, asked).action is wanted


def test_a_new_name_gets_a_new_leaf():
    wanted = policy(names=names_of([*NAMES.dns, "new.numa.svc"]), leaf_lifetime=9 * DAY, authority_lifetime=90 * DAY)
    found = plan(Facts(SETTLED), wanted, START)

    assert (found.action, found.reason) == (Action.RENEW_LEAF, "The leaf does not cover new.numa.svc.")


def test_the_reason_for_a_new_start_says_what_could_not_be_read():
    held = Holdings(
        faults=(UnreadableError("The serving certificate is not readable as PEM; it may be half-written."),)
    )

    assert "half-written" in plan(Facts(held), POLICY, START).reason


def test_a_leaf_as_long_as_its_authority_waits_for_the_overlap():
    """Renewing it would gain no second, and would be done again and again."""
    authority = mint_authority(START, seconds(60))
    held = Holdings(mint_leaf(authority, NAMES, START, seconds(60)), authority, anchors=(authority.certificate,))
    short = policy(leaf_lifetime=seconds(60), authority_lifetime=seconds(60))

    found = plan(Facts(held), short, START + seconds(45))

    assert found.action is Action.BEGIN_OVERLAP


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"leaf_lifetime": seconds(59)}, "leaf's lifetime must lie between"),
        ({"authority_lifetime": 3661 * DAY}, "authority's lifetime must lie between"),
        ({"leaf_lifetime": 10 * DAY, "authority_lifetime": 9 * DAY}, "at least as long as its leaves"),
        ({"names": names_of()}, "at least one name"),
        ({"renew_at_share": 1.0}, "share must lie between"),
        ({"renew_at_share": float("nan")}, "share must lie between"),
        ({"propagation": seconds(-1)}, "must not be negative"),
        ({"look_every": seconds(0)}, "must be above 0"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(changed: dict, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        policy(**changed)
