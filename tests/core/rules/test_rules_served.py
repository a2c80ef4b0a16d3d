"""Every recorded review over real TLS and HTTP: the right verdict, in a reply that the API server takes as it is."""

import io
import json
import re
from pathlib import Path

import pytest
from serve.serve_world import World, answer, post, serving, status_of
from support import server_rules
from test_rules_recorded import MUTATED, RECORDED, VALIDATED

from webhook.edge.app import create_app
from webhook.serve.limits import Limits
from webhook.service.logs import open_log
from webhook.service.settings import Settings
from webhook.service.wiring import build_services
from webhook.wire.patches import shows

CODE = re.compile(r"\[([A-Z][A-Z_]+)\]$")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The application with its default settings, behind the server's own TLS and HTTP."""
    services = build_services(Settings(), open_log(io.BytesIO()))
    with serving(tmp_path_factory.mktemp("served"), create_app(services), Limits()) as world:
        yield world
        assert world.faults == []


def served(world: World, file: Path, endpoint: str) -> server_rules.ServerView:
    """What the API server makes of the reply to the recorded call."""
    body = file.read_bytes()
    with world.tls() as sock:
        sock.sendall(post(body, path=f"/{endpoint}?timeout=3s", fields="Content-Type: application/json\r\n"))
        reply = answer(sock)
    assert status_of(reply) == 200
    return server_rules.judge_reply(body, reply.partition(b"\r\n\r\n")[2], mutating=endpoint == "mutate")


def codes(view: server_rules.ServerView) -> list[str]:
    """The codes of all that is said, refusals before warnings."""
    lines = [*view.message.split("\n"), *view.warnings]
    return [found[1] for line in lines if (found := CODE.search(line))]


@pytest.mark.parametrize("name", VALIDATED)
def test_validate(world, name):
    """Allowed or not, with every finding said; a refusal is 403."""
    allowed, found = VALIDATED[name]
    view = served(world, RECORDED / f"{name}.validating.json", "validate")
    assert (view.allowed, sorted(codes(view))) == (allowed, sorted(found))
    assert view.code == (200 if allowed else 403)


@pytest.mark.parametrize("name", MUTATED)
def test_mutate(world, name):
    """Always allowed; the patched object shows each edit, and nothing but annotations and affinity differs."""
    file = RECORDED / f"{name}.mutating.json"
    view = served(world, file, "mutate")
    assert view.allowed
    assert bool(view.patch) is bool(MUTATED[name])
    assert all(shows(view.object, edit) for edit in MUTATED[name])
    before = json.loads(file.read_bytes())["request"]["object"]
    assert _without_ours(view.object) == _without_ours(before)


def _without_ours(raw):
    """The object without what mutate may touch."""
    metadata = {key: value for key, value in raw.get("metadata", {}).items() if key != "annotations"}
    spec = {key: value for key, value in raw.get("spec", {}).items() if key != "affinity"}
    return {**raw, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("name", MUTATED)
def test_a_second_call_changes_nothing(world, name):
    """The patched object, sent again, comes back as it is."""
    file = RECORDED / f"{name}.mutating.json"
    review = json.loads(file.read_bytes())
    review["request"]["object"] = served(world, file, "mutate").object
    body = json.dumps(review).encode()
    with world.tls() as sock:
        sock.sendall(post(body, path="/mutate", fields="Content-Type: application/json\r\n"))
        reply = answer(sock).partition(b"\r\n\r\n")[2]
    assert server_rules.judge_reply(body, reply, mutating=True).patch == ()
