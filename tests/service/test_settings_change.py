"""New settings in a process that serves: calls that have begun end by the old ones, and the ledger goes on."""

import io
import json
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from webhook.core.decisions import Endpoint
from webhook.service.admit import Door
from webhook.service.logs import open_log
from webhook.service.picture import demo_picture
from webhook.service.services import Services
from webhook.service.settings_file import read_settings_file
from webhook.service.wiring import build_services, source_of

REVIEW = json.loads((Path(__file__).parents[1] / "recorded" / "pod-create-apply.validating.json").read_text())
WAIT_SECONDS = 30.0
ALIGNED = {
    "cpuset-scheduler": "required",
    "scheduling.alibabacloud.com/numa-topology-spec": '{"numaTopologyPolicy":"SingleNUMANode"}',
}


@dataclass
class World:
    """The services of one process, whose thread that looks at the file is started by the test."""

    services: Services
    file: Path

    def ask(self, endpoint: Endpoint, uid: str = "", *, aligned: bool = True) -> tuple[bool, list[str]]:
        """Whether the recorded create is allowed, and the warnings."""
        request = json.loads(json.dumps(REVIEW))
        metadata = request["request"]["object"]["metadata"]
        metadata |= {"uid": uid, "name": uid} if uid else {}
        metadata["annotations"] = ALIGNED if aligned else metadata["annotations"]
        corridor = self.services.corridor
        now = corridor.clock.monotonic_seconds()
        reply = corridor.answer(endpoint, json.dumps(request).encode(), received_seconds=now)
        answer = json.loads(reply)["response"]
        return answer["allowed"], answer.get("warnings", [])

    def change(self, text: str) -> None:
        """Put this in the file and wait until it is in force."""
        doors = self.services.corridor.doors
        self.file.write_text(text)
        tick = threading.Event()
        for _ in range(int(WAIT_SECONDS / 0.05)):
            if self.services.corridor.doors is not doors:
                return
            tick.wait(0.05)
        raise AssertionError("The settings were never taken over.")


@pytest.fixture
def world(tmp_path):
    """Both roles on the demo's picture, with the file followed."""
    path = tmp_path / "settings.yaml"
    path.write_text("rules: {enforcement: deny}\n")
    file = read_settings_file(path, lambda settings: settings)
    settings = file.settings(file.content)
    services = build_services(settings, open_log(io.BytesIO()), source=source_of(demo_picture()), file=file)
    for action in services.on_start:
        action()
    yield World(services, path)
    for action in services.on_stop:
        action()


def test_the_ledger_keeps_what_it_holds(world):
    """The demo has room for this pod once."""
    assert world.ask(Endpoint.CAPACITY, "one") == (True, [])
    assert world.ask(Endpoint.CAPACITY, "two")[0] is False
    world.change("capacity: {outcomes: {would_fail: warn}}\n")
    allowed, (warning,) = world.ask(Endpoint.CAPACITY, "two")
    assert allowed
    assert "2 of 4 aliyun.com/gpu" in warning
    world.change("{}\n")
    assert world.ask(Endpoint.CAPACITY, "two")[0] is False


def test_rules_of_every_door_change_together(world):
    """What the stateless rules refuse is theirs to say, so capacity looks at such a pod only once they let it pass."""
    assert world.ask(Endpoint.VALIDATE, aligned=False)[0] is False
    assert world.ask(Endpoint.CAPACITY, "one", aligned=False) == (True, [])
    world.change("rules: {enforcement: warn}\n")
    allowed, warnings = world.ask(Endpoint.VALIDATE, aligned=False)
    assert allowed
    assert warnings


def test_a_call_that_has_begun_ends_by_the_old_settings(world):
    """Its judge is stopped in the middle, the settings change, and it goes on."""
    corridor = world.services.corridor
    door, began, go_on = corridor.doors[Endpoint.VALIDATE], threading.Event(), threading.Event()

    def slow(ask, until):
        began.set()
        assert go_on.wait(WAIT_SECONDS)
        return door.judge(ask, until)

    corridor.change_doors({**corridor.doors, Endpoint.VALIDATE: Door(slow, door.timeout_seconds, wants=door.wants)})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(world.ask(Endpoint.VALIDATE, aligned=False)))
    thread.start()
    assert began.wait(WAIT_SECONDS)
    world.change("rules: {enforcement: warn}\n")
    assert world.ask(Endpoint.VALIDATE, aligned=False)[0] is True
    go_on.set()
    thread.join(WAIT_SECONDS)
    ((allowed, _),) = answers
    assert allowed is False
