"""Settings that change under a running server: what is taken, what is refused whole, what waits for a restart."""

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.projected_folder import project

from webhook.core.findings import Family
from webhook.core.modes import Enforcement, Mode
from webhook.service.logs import open_log
from webhook.service.meters import Meters
from webhook.service.settings import Settings
from webhook.service.settings_file import SettingsError, parse_settings, read_settings_file
from webhook.service.settings_restart import NEEDS_RESTART, files_of_a_start, take_over
from webhook.service.settings_watch import SettingsWatch, hash_of

FIRST = "rules: {enforcement: warn}\n"
SECOND = "rules: {enforcement: deny, families: {cpu: warn}}\n"


@dataclass
class World:
    """A watch of a file, what it took, and what it said."""

    file: Path
    watch: SettingsWatch
    taken: list[Settings]
    meters: Meters
    output: io.BytesIO

    def write(self, text: str) -> None:
        """Put `text` in the file and look until it is judged."""
        self.file.write_text(text)
        self.settle()

    def settle(self) -> None:
        """Look as often as a change needs."""
        self.watch.look()
        self.watch.look()

    def metric(self, name: str) -> float:
        """The value of a metric of ours."""
        value = self.meters.registry.get_sample_value(f"numa_admission_settings_{name}")
        assert value is not None
        return value

    def lines(self) -> list[dict]:
        """What was logged since the last call."""
        found = [json.loads(line) for line in self.output.getvalue().splitlines()]
        self.output.seek(0)
        self.output.truncate()
        return found


@pytest.fixture
def open_world(tmp_path: Path) -> Callable[..., World]:
    def build(text: str = FIRST, above: Callable[[Settings], Settings] = lambda settings: settings) -> World:
        file = tmp_path / "settings.yaml"
        file.write_text(text)
        taken: list[Settings] = []
        meters, output = Meters(), io.BytesIO()
        watch = SettingsWatch(read_settings_file(file, above), taken.append, meters, open_log(output))
        return World(file, watch, taken, meters, output)

    return build


def test_a_good_change_is_taken_once_and_said(open_world):
    world = open_world()
    world.settle()
    assert (world.taken, world.lines()) == ([], [])
    assert world.metric("hash") == int(hash_of(FIRST.encode()), 16)

    world.write(SECOND)
    world.settle()
    (settings,) = world.taken
    assert settings.rules.enforcement is Enforcement.DENY
    assert settings.rules.families == {Family.CPU: Mode.WARN}
    (line,) = world.lines()
    assert (line["level"], line["changed"]) == ("info", ["rules.enforcement", "rules.families"])
    assert line["hash"] == hash_of(SECOND.encode())
    assert world.metric("hash") == int(line["hash"], 16)
    assert (world.metric("reload_failed"), world.metric("restart_needed")) == (0, 0)


def test_a_bad_change_is_refused_whole_with_every_fault_and_the_previous_stays(open_world):
    world = open_world()
    world.write("rules: {enforcement: deny, families: {cpu: dney}, colour: red}\nserver: {threads: many}\n")
    assert world.taken == []
    (line,) = world.lines()
    assert (line["level"], line["hash"]) == ("error", hash_of(FIRST.encode()))
    assert len(line["faults"]) == 3
    assert (world.metric("reload_failed"), world.metric("hash")) == (1, int(hash_of(FIRST.encode()), 16))

    world.settle()
    assert world.lines() == [], "it is said once"
    world.write(SECOND)
    assert len(world.taken) == 1
    assert world.metric("reload_failed") == 0
    for outcome in ("taken", "refused"):
        assert (
            world.meters.registry.get_sample_value("numa_admission_settings_reloads_total", {"outcome": outcome}) == 1
        )


def test_the_good_file_again_after_a_bad_one_is_no_failure_any_more(open_world):
    world = open_world()
    world.write("[")
    world.write(FIRST)
    assert world.metric("reload_failed") == 0
    assert world.lines()[-1]["changed"] == []


BAD_CONTENTS = [
    *(
        pytest.param(text, "The settings file sets nothing", id=f"cut off: {text!r}")
        for text in (
            "",
            " \n",
            "rules:\n",
            "rules:\n  families:\n",
            "rules: {}\nserver:\n",
            "rules: {namespaces: {team-a: null}}",
            "# only a comment",
            "---\n",
            "null",
            "~",
            "\ufeff",
        )
    ),
    pytest.param("rules: {", "The settings are no YAML", id="no YAML"),
    pytest.param(
        "server: {workers: 2, role: ledger}", "server.workers: found 2 with role ledger", id="a contradiction"
    ),
]


@pytest.mark.parametrize("text, sentence", BAD_CONTENTS)
def test_what_no_start_should_have_is_refused(open_world, text, sentence):
    world = open_world()
    world.write(text)
    assert world.taken == []
    (line,) = world.lines()
    assert line["faults"][0].startswith(sentence)


def test_a_bare_byte_order_mark_is_cut_off_too(open_world):
    world = open_world()
    world.file.write_bytes(b"\xff\xfe")
    world.settle()
    assert world.lines()[0]["faults"][0].startswith("The settings file sets nothing")
    assert (world.taken, world.metric("reload_failed")) == ([], 1)


@pytest.mark.parametrize("text", ["{}", "rules: {}", "rules: {families: {}}\n", "# comment\n{}\n"])
def test_who_writes_an_empty_map_gets_the_defaults(open_world, text):
    world = open_world()
    world.write(text)
    assert world.taken == [Settings()]


def test_a_file_that_goes_away_changes_nothing_but_is_said(open_world):
    world = open_world()
    world.file.unlink()
    world.settle()
    (line,) = world.lines()
    assert line["faults"][0].endswith("cannot be read: No such file or directory.")
    assert (world.taken, world.metric("reload_failed")) == ([], 1)


def test_a_pipe_in_the_file_s_place_is_refused_and_the_following_goes_on(open_world):
    """Nobody writes to it: who opened it as a file would wait for ever."""
    world = open_world()
    world.file.unlink()
    os.mkfifo(world.file)
    world.settle()
    (line,) = world.lines()
    assert line["faults"] == [f"The settings file {world.file} cannot be read: it is no regular file."]
    assert (world.taken, world.metric("reload_failed")) == ([], 1)

    world.file.unlink()
    world.write(SECOND)
    assert len(world.taken) == 1


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/"])
def test_what_cannot_be_followed_is_no_start(path):
    with pytest.raises(SettingsError, match=r"cannot be read: it is no regular file\.$"):
        read_settings_file(Path(path), lambda settings: settings)


def test_half_written_content_is_not_judged(open_world):
    """A writer that is slower than one look: each piece is another content than the one before it."""
    world = open_world()
    for end in range(1, len(SECOND) + 1):
        world.file.write_text(SECOND[:end])
        world.watch.look()
    assert world.taken == []
    world.watch.look()
    assert len(world.taken) == 1
    assert [line["level"] for line in world.lines()] == ["info"]


def test_a_swapped_symlink_is_a_change(open_world, tmp_path):
    """As the kubelet projects a ConfigMap."""
    mount = tmp_path / "mount"
    project(mount, {"settings.yaml": FIRST})
    world, taken = open_world(), []
    file = read_settings_file(mount / "settings.yaml", lambda settings: settings)
    watch = SettingsWatch(file, taken.append, Meters(), open_log(world.output))
    project(mount, {"settings.yaml": SECOND})
    watch.look()
    watch.look()
    assert [settings.rules.enforcement for settings in taken] == [Enforcement.DENY]


def test_a_change_that_needs_a_restart_is_named_and_the_rest_is_taken(open_world):
    world = open_world("server: {threads: 4}\nrules: {enforcement: warn}\n")
    world.write("server: {threads: 9}\ncluster: {live: true}\nrules: {enforcement: deny}\n")
    (settings,) = world.taken
    assert (settings.server.threads, settings.cluster.live) == (4, False)
    assert settings.rules.enforcement is Enforcement.DENY
    taken, warned = world.lines()
    assert taken["changed"] == ["rules.enforcement"]
    assert (warned["level"], warned["waiting"]) == ("warning", ["server.threads", "cluster.live"])
    assert world.metric("restart_needed") == 1

    world.write("server: {threads: 4}\nrules: {enforcement: deny}\n")
    assert world.metric("restart_needed") == 0


FILES_OF_A_START = [
    ("capacity: {pictureFile: FILE}", ["capacity.pictureFile"]),
    ("server: {role: rules}\ncapacity: {pictureFile: FILE}", []),
    ("tls: {certFile: FILE, keyFile: FILE, clientCaFile: FILE}", ["tls.certFile", "tls.keyFile", "tls.clientCaFile"]),
    ("cluster: {live: true, kubeconfig: FILE}", ["cluster.kubeconfig"]),
    ("cluster: {kubeconfig: FILE}", []),
]


@pytest.mark.parametrize("text, keys", FILES_OF_A_START)
def test_a_file_that_a_restart_would_miss_is_told_now(open_world, tmp_path, text, keys):
    """The rest of the settings is taken all the same: a rollout may bring the file with the next container."""
    world = open_world()
    missing, there = tmp_path / "missing", tmp_path / "there"
    there.touch()
    world.write(text.replace("FILE", str(missing)))
    lines = world.lines()
    assert len(world.taken) == 1
    assert [fault for line in lines for fault in line.get("faults", ())] == [
        f"{key}: found {missing}, wanted a file that can be read: No such file or directory." for key in keys
    ]
    assert ("error" in [line["level"] for line in lines]) is bool(keys)

    world.write(text.replace("FILE", str(there)))
    assert "error" not in [line["level"] for line in world.lines()]


def test_every_setting_that_names_a_file_is_known_as_such():
    """Whoever adds one says whether a start reads it."""
    named = {"kubeconfig", *(name for names in NEEDS_RESTART.values() for name in names if name.endswith("_file"))}
    started = parse_settings(
        b"tls: {certFile: a, keyFile: b, clientCaFile: c}\ncapacity: {pictureFile: d}\ncluster: {kubeconfig: e}"
    )
    live = replace(started, cluster=replace(started.cluster, live=True))
    assert len(files_of_a_start(live)) == len(named)


def test_options_of_the_command_line_stay_above_the_file(open_world):
    """A key that an option sets is no reason for a restart, and no fault of the file."""

    def above(settings: Settings) -> Settings:
        return replace(settings, server=replace(settings.server, bind="127.0.0.1:9443"))

    world = open_world(above=above)
    world.write("server: {bind: '0.0.0.0:1'}\nrules: {enforcement: deny}\n")
    (settings,) = world.taken
    assert settings.server.bind == "127.0.0.1:9443"
    assert world.metric("restart_needed") == 0


def test_a_process_that_takes_another_s_place_catches_up_at_once(open_world):
    world = open_world()
    world.file.write_text(SECOND)
    world.watch.catch_up()
    assert len(world.taken) == 1


def test_settings_of_the_start_that_are_faulty_are_no_start(open_world):
    with pytest.raises(SettingsError):
        open_world("rules: {enforcement: maybe}")


@pytest.mark.parametrize("section", sorted(NEEDS_RESTART))
def test_what_needs_a_restart_stays_as_started(section):
    """Each key of the section, taken back from settings in which everything else changed."""
    started, new = parse_settings(b""), parse_settings(b"rules: {enforcement: warn}")
    for name in NEEDS_RESTART[section]:
        value = getattr(getattr(new, section), name)
        other = value + 1 if isinstance(value, (int, float)) and not isinstance(value, bool) else f"not {value}"
        changed = replace(new, **{section: replace(getattr(new, section), **{name: other})})
        takeover = take_over(changed, started, started)
        assert takeover.settings == new, name
        assert len(takeover.waiting) == 1, name
