"""List and watch against an API server that does everything real ones do to a client."""

import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest
from support.api_server import FakeApi, fake_api
from support.feed_world import QUICK, Kept, watching

from webhook.cluster.client import Client
from webhook.cluster.pulse import Pulse
from webhook.cluster.watch import Watch, WatchLimits

THINGS = "/apis/example.com/v1/things"


def thing(name):
    return {"metadata": {"name": name}}


@pytest.fixture
def served():
    with fake_api() as (api, url):
        api.serve(THINGS)
        yield api, url


def lists(api):
    return [request for request in api.requests if "watch" not in request]


def watches(api):
    return [request for request in api.requests if "watch" in request]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 10])
def test_a_list_is_read_page_by_page_and_then_watched_from_its_version(served, count):
    api, url = served
    for at in range(count):
        api.put(THINGS, thing(f"t{at}"))
    with watching(api, url, THINGS) as (kept, pulse):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        assert kept.names() == sorted(f"t{at}" for at in range(count))
        assert len(lists(api)) == max(1, -(-count // 3))
        assert f"resourceVersion={api.version}" in watches(api)[0]
        assert "allowWatchBookmarks=true" in watches(api)[0]
        assert pulse.state.has_listed


def test_changes_arrive_in_order(served):
    api, url = served
    with watching(api, url, THINGS) as (kept, _):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        api.put(THINGS, thing("a"))
        api.put(THINGS, thing("a"))
        api.put(THINGS, thing("b"))
        api.delete(THINGS, "a")
        api.wait_until(lambda: len(kept.kinds) == 4)
        assert kept.kinds == ["ADDED", "MODIFIED", "ADDED", "DELETED"]
        assert kept.names() == ["b"]


def test_a_cut_watch_resumes_where_it_was_without_a_list(served):
    api, url = served
    with watching(api, url, THINGS) as (kept, _):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        version = api.put(THINGS, thing("a"))
        api.wait_until(lambda: kept.names() == ["a"])
        api.cut()
        api.wait_until(lambda: len(watches(api)) == 2)
        api.put(THINGS, thing("b"))
        api.wait_until(lambda: kept.names() == ["a", "b"])
        assert kept.lists == 1
        assert f"resourceVersion={version}&" in watches(api)[-1]


def test_a_bookmark_moves_the_version_on(served):
    api, url = served
    with watching(api, url, THINGS) as (kept, _):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        api.put("/apis/example.com/v1/others", thing("x"))
        version = api.version
        api.bookmark()
        api.put(THINGS, thing("a"))
        api.wait_until(lambda: kept.names() == ["a"])
        api.forget_history()
        assert version < api.oldest
        api.bookmark()
        api.cut()
        api.wait_until(lambda: len(watches(api)) == 2)
        api.put(THINGS, thing("b"))
        api.wait_until(lambda: "b" in kept.names())


@pytest.mark.parametrize("as_status", [False, True], ids=["as an ERROR event", "as HTTP 410"])
def test_a_version_that_is_too_old_is_followed_by_a_list(served, as_status):
    api, url = served
    api.gone_as_status = as_status
    api.put(THINGS, thing("a"))
    with watching(api, url, THINGS) as (kept, _):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        api.status = 503
        api.cut()
        api.wait_until(lambda: api.watching.get(THINGS) == 0)
        api.delete(THINGS, "a")
        api.put(THINGS, thing("b"))
        api.forget_history()
        api.status = 0
        api.wait_until(lambda: kept.names() == ["b"])
        assert kept.lists == 2


def test_an_old_continue_token_starts_the_list_anew(served):
    api, url = served
    for at in range(7):
        api.put(THINGS, thing(f"t{at}"))
    page = api.page

    def forgetful(path, limit, token):
        if token and not api.other_answers:
            api.other_answers["once"] = {}
            api.forget_history()
        return page(path, limit, token)

    api.page = forgetful
    with watching(api, url, THINGS) as (kept, _):
        api.wait_until(lambda: kept.lists == 1)
        assert len(kept.names()) == 7


def test_a_missing_kind_is_absent_until_it_appears_and_again_when_it_goes():
    with fake_api() as (api, url), watching(api, url, THINGS, may_be_absent=True) as (kept, pulse):
        api.wait_until(lambda: len(lists(api)) >= 3)
        assert pulse.state.is_absent
        api.put(THINGS, thing("a"))
        api.wait_until(lambda: kept.names() == ["a"])
        assert not pulse.state.is_absent
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        api.remove_kind(THINGS)
        api.wait_until(lambda: kept.names() == [])


def test_a_kind_that_is_served_under_another_path_is_followed_there_and_nothing_is_forgotten():
    """A CRD whose served versions change: the objects are the same, so at no moment may there be none."""
    newer = "/apis/group/v2/things"
    with fake_api() as (api, url):
        api.put(THINGS, thing("a"))
        emptied = []

        def path():
            return THINGS if THINGS in api.objects else newer

        with watching(api, url, path, may_be_absent=True) as (kept, pulse):
            api.wait_until(lambda: api.watching.get(THINGS) == 1)
            kept.list_ends = _watched(kept.list_ends, lambda: emptied.append(1) if not kept.items else None)
            api.put(newer, thing("a"))
            api.remove_kind(THINGS)
            api.wait_until(lambda: api.watching.get(newer) == 1)
            assert (kept.names(), emptied, pulse.state.is_absent) == (["a"], [], False)


def _watched(call, after):
    def called():
        call()
        after()

    return called


def test_a_needed_kind_that_is_answered_404_is_lost_and_nothing_is_forgotten(served):
    """A proxy in the way may answer 404 for pods; that must not empty the ledger."""
    api, url = served
    api.put(THINGS, thing("a"))
    with watching(api, url, THINGS) as (kept, pulse):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        kept_objects = api.objects[THINGS]
        api.remove_kind(THINGS)
        asked = len(api.requests)
        api.wait_until(lambda: len(api.requests) > asked + 3)
        assert kept.names() == ["a"]
        assert pulse.state.lost_since_seconds is not None
        with api.changed:
            api.objects[THINGS] = kept_objects
        api.wait_until(lambda: kept.lists == 2)


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_refused_feed_is_lost_and_tries_again(served, status):
    api, url = served
    api.status = status
    with watching(api, url, THINGS) as (kept, pulse):
        api.wait_until(lambda: len(api.requests) >= 4)
        assert pulse.state.lost_since_seconds is not None
        assert str(status) in pulse.state.why_lost
        assert not pulse.state.has_listed
        api.status = 0
        api.wait_until(lambda: kept.lists == 1)


def test_a_silent_watch_is_given_up_and_resumed(served):
    api, url = served
    limits = replace(QUICK, silence_seconds=0.1)
    with watching(api, url, THINGS, limits=limits) as (kept, pulse):
        api.wait_until(lambda: len(watches(api)) >= 3)
        assert kept.lists == 1
        api.put(THINGS, thing("a"))
        api.wait_until(lambda: kept.names() == ["a"])
        assert pulse.state.losses >= 1


@pytest.mark.parametrize(
    "line",
    [b"garbage", b"{}", b"[]", b"null", b'{"type":"ADDED","object":null}', b'{"type":"ERROR","object":{"code":500}}'],
)
def test_a_line_that_is_no_event_ends_that_watch_and_not_the_feed(served, line):
    api, url = served
    with watching(api, url, THINGS) as (kept, _):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        api.send_line(THINGS, line)
        api.wait_until(lambda: len(watches(api)) >= 2)
        with api.changed:
            api.history.clear()
        api.put(THINGS, thing("a"))
        api.wait_until(lambda: kept.names() == ["a"])


def test_a_fault_of_ours_is_told_and_followed_by_a_list(served):
    api, url = served
    faults = []
    with watching(api, url, THINGS, on_fault=faults.append) as (kept, _):
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
        kept.fail_next = True
        api.put(THINGS, thing("a"))
        api.wait_until(lambda: kept.lists == 2)
        assert kept.names() == ["a"]
        assert [str(fault) for fault in faults] == ["a fault of ours"]


def test_a_server_that_lost_its_store_is_listed_anew():
    """Versions start over: the old one is answered with errors, not with 410."""
    with fake_api() as (first, url):
        first.put(THINGS, thing("a"))
        with watching(first, url, THINGS) as (kept, pulse):
            first.wait_until(lambda: first.watching.get(THINGS) == 1)
            first.status = 500
            first.cut()
            first.wait_until(lambda: pulse.state.losses >= 4)
            with first.changed:
                first.objects[THINGS].clear()
                first.history.clear()
                first.version = 5
            first.put(THINGS, thing("b"))
            first.status = 0
            first.wait_until(lambda: kept.names() == ["b"])


def test_a_server_that_is_away_for_a_while_is_resumed_without_a_list():
    """Nothing that it said makes the version doubtful, and the order of what happened is kept."""
    api = FakeApi()
    api.put(THINGS, thing("a"))
    with fake_api(api=api) as (_, url):
        port = int(url.rpartition(":")[2])
        clients = ExitStack()
        kept, pulse = clients.enter_context(watching(api, url, THINGS))
        api.wait_until(lambda: api.watching.get(THINGS) == 1)
    with clients:
        wait_for(lambda: pulse.state.losses >= 6)
        api.put(THINGS, thing("b"))
        with fake_api(port, api):
            api.wait_until(lambda: kept.names() == ["a", "b"])
            assert kept.lists == 1


@pytest.mark.parametrize(
    ("is_away", "longest"),
    [
        pytest.param(True, 1.0, id="nobody answers: asked again within a second"),
        pytest.param(False, 8.0, id="answers that fail are an overload: less and less often"),
    ],
)
def test_pauses_grow_by_what_is_wrong(is_away, longest):
    """An API server that is back has pods bound at once: a feed that sleeps then leaves the guard blind."""
    limits = WatchLimits(first_pause_seconds=0.5, longest_pause_seconds=8.0, longest_away_pause_seconds=1.0)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 12:
            watch.stop()

    with fake_api() as (api, url):
        api.status = 503
        port = free_port() if is_away else int(url.rpartition(":")[2])
        client = Client.of_server(f"http://127.0.0.1:{port}")
        watch = Watch(client, THINGS, Kept(api), Pulse("things", lambda: 0.0), limits=limits, pause=pause)
        watch.run()
    assert longest / 2 <= max(pauses) <= longest
    assert pauses[0] <= 0.5


def free_port():
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(condition, within_seconds=10.0):
    """Wait for what wakes nobody."""
    end = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.01)
