"""The settings file: what it can say, and that every fault of it is told at once."""

import os
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.core.capacity import Mode as OutcomeMode
from webhook.core.dialects import DIALECTS
from webhook.core.findings import Family
from webhook.core.ledger.verdicts import Outcome
from webhook.core.modes import Enforcement, Mode
from webhook.service.settings import SECTIONS, Role, Settings, key_of
from webhook.service.settings_file import SettingsError, parse_settings, read_settings, settings_schema
from webhook.service.settings_restart import NEEDS_RESTART
from webhook.service.wiring import LedgerSource, capacity_rules_of, kinds_of, rules_of
from webhook.wire.workload_kinds import PATH_WANTED

SCHEMA = settings_schema()
FULL = b"""
server:
  bind: 0.0.0.0:8443
  probeBind: "[::]:8080"
  role: rules
  workers: 4
  threads: 16
  keepaliveSeconds: 100
  gracefulSeconds: 20
  drainSeconds: 3.5
  handshakeSeconds: 2
  requestSeconds: 4
  maxConnections: 500
tls: {certFile: /tls/tls.crt, keyFile: /tls/tls.key, clientCaFile: /tls/client-ca.crt}
log: {level: debug}
timeouts: {mutateSeconds: 1, validateSeconds: 5, capacitySeconds: 1.5, bindSeconds: 2}
rules:
  enforcement: warn
  families: {cpu: off, gpu: warn, node: deny}
  namespaces: {team-a: {cpu: deny}, "1": {spec: off}}
  resultWriters: ["system:serviceaccount:kube-system:ack-scheduler"]
  dialects: [ack]
capacity:
  outcomes: {would_fail: wait, would_wait: off}
  namespaces: {team-a: {never: warn}}
  pictureFile: /etc/picture.yaml
  machineClasses: []
  schedulers: [default-scheduler, my-scheduler]
  controllers: []
  guardsBindings: false
workloads:
  - {group: example.com, kind: Fleet, templates: [{path: spec.template, replicas: [spec.size]}]}
"""


def test_everything_that_can_be_set_arrives():
    settings = parse_settings(FULL)
    server = settings.server
    assert (server.bind, server.probe_bind, server.role, server.workers) == ("0.0.0.0:8443", "[::]:8080", Role.RULES, 4)
    assert (server.drain_seconds, server.max_connections, server.threads) == (3.5, 500, 16)
    assert settings.tls.client_ca_file == "/tls/client-ca.crt"
    assert settings.timeouts.capacity_seconds == 1.5
    rules = rules_of(settings)
    assert [dialect.name for dialect in rules.dialects] == ["ack"]
    assert rules.modes.enforcement is Enforcement.WARN
    assert rules.modes.mode(Family.CPU, "other") is Mode.OFF
    assert rules.modes.mode(Family.CPU, "team-a") is Mode.DENY
    assert rules.result_writers == {"system:serviceaccount:kube-system:ack-scheduler"}
    capacity = capacity_rules_of(settings, LedgerSource())
    assert capacity.mode(Outcome.WOULD_FAIL, "other") is OutcomeMode.WAIT
    assert capacity.mode(Outcome.NEVER, "other") is OutcomeMode.DENY, "what is not named keeps its default"
    assert capacity.mode(Outcome.NEVER, "team-a") is OutcomeMode.WARN
    assert (capacity.guards_bindings, capacity.controllers) == (False, frozenset())
    assert ("example.com", "Fleet") in kinds_of(settings)
    assert ("apps", "Deployment") in kinds_of(settings)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"{}", b"---\n", b"server: {}\nrules: {families: {}}"])
def test_what_is_not_set_is_a_default(content):
    assert parse_settings(content) == Settings()


NOTHING = [
    *(f"{section}:" for section in (*SECTIONS, "workloads")),
    "server: {bind: null, workers: ~, role: null}",
    "rules: {enforcement: null, families: null, namespaces: {team-a: null}, dialects: null}",
    "rules: {families: {cpu: null}, namespaces: null}",
    "capacity: {outcomes: {never: null}, machineClasses: null, guardsBindings: null}",
]


@pytest.mark.parametrize("content", NOTHING)
def test_a_key_without_a_value_is_as_if_it_were_not_there(content):
    """Helm writes such keys, and who has commented out all that a section holds."""
    assert parse_settings(content.encode()) == Settings()


def test_keys_without_a_value_within_lists_of_maps_are_as_if_they_were_not_there():
    without = b"workloads: [{group: g, kind: B, templates: [{path: a.b}]}]"
    content = b"workloads: [{group: g, kind: B, templates: [{path: a.b, replicas: null, inline: null}]}]"
    assert parse_settings(content) == parse_settings(without)
    assert parse_settings(CLASS.replace(b"layout: {", b"layout: {distances: null, ")) == parse_settings(CLASS)
    assert parse_settings(CLASS + b"    kubelet:\n") == parse_settings(CLASS)


def test_a_workload_kind_stands_once():
    row = "{{group: g, kind: B, templates: [{{path: {}}}]}}"
    with pytest.raises(SettingsError) as caught:
        parse_settings(f"workloads: [{row.format('a')}, {row.format('b')}]".encode())
    assert caught.value.faults == ("workloads[1]: found B.g again, wanted all its templates in workloads[0].",)


NO_ROOM_FOR_NULL = [
    ("rules: {famlies: null}", "rules.famlies: found an unknown key"),
    ("colour: null", "colour: found an unknown key"),
    ("rules: {resultWriters: [null]}", "rules.resultWriters[0]: found null, wanted a text."),
    ("workloads: [null]", "workloads[0]: found null, wanted a map."),
    (
        "workloads: [{kind: B, templatez: null}]",
        "workloads[0].templatez: found an unknown key, wanted one of group, kind,",
    ),
]


def test_a_fault_of_a_workload_is_told_once_by_a_path_of_the_file():
    with pytest.raises(SettingsError) as raised:
        parse_settings(b"workloads: [{kind: 3, templates: [{path: 4}]}, {kind: A, templates: x}]")
    assert raised.value.faults == (
        "workloads[0].kind: found the number 3, wanted a text.",
        f"workloads[0].templates[0].path: found the number 4, wanted {PATH_WANTED}.",
        'workloads[1].templates: found the text "x", wanted a list.',
    )


@pytest.mark.parametrize("content, sentence", NO_ROOM_FOR_NULL)
def test_null_hides_no_fault(content, sentence):
    with pytest.raises(SettingsError) as raised:
        parse_settings(content.encode())
    assert [fault for fault in raised.value.faults if fault.startswith(sentence)], raised.value.faults
    assert len(set(raised.value.faults)) == len(raised.value.faults)


def test_every_fault_is_told_at_once_with_path_found_and_wanted():
    content = b"""
server: {keepaliveSeconds: 60, wrokers: 2, bind: nowhere, threads: many}
rules: {families: {cpu: dney, cpuu: deny}, namespaces: {Team_A: {cpu: deny}}}
capacity: {outcomes: {unknown: deny}}
workloads: [{kind: A}, {group: g, kind: B, templates: [{path: "a..b"}]}]
colour: red
"""
    with pytest.raises(SettingsError) as raised:
        parse_settings(content)
    faults = raised.value.faults
    for path in (
        "server.keepaliveSeconds: found the number 60, wanted a number of seconds from 91 to 3600.",
        "server.wrokers: found an unknown key",
        'server.bind: found the text "nowhere", wanted HOST:PORT',
        'server.threads: found the text "many", wanted a whole number.',
        'rules.families.cpu: found the text "dney", wanted one of deny, warn, off; did you mean deny?',
        "rules.families.cpuu: found an unknown key",
        'rules.namespaces: found the text "Team_A"',
        'capacity.outcomes.unknown: found the text "deny", wanted one of warn, off.',
        "workloads[0].templates: found none",
        "workloads[1].templates[0].path: ",
        "colour: found an unknown key",
    ):
        assert [fault for fault in faults if fault.startswith(path)], (path, faults)
    assert all(fault.endswith((".", "?")) for fault in faults)


CLASS = b"""
capacity:
  machineClasses:
  - name: gpu-a
    matchLabels: {class: gpu-a}
    layout: {numaNodes: 2, coresPerNUMANode: 8, threadsPerCore: 2, memoryPerNUMANode: 64Gi, devices: {a.com/gpu: 4}}
"""


def test_machine_classes_are_read_at_start():
    (declared,) = parse_settings(CLASS).capacity.machine_classes
    assert (declared.name, len(declared.machine.numa_ids)) == ("gpu-a", 2)
    assert capacity_rules_of(parse_settings(CLASS), LedgerSource()).classes == (declared,)


def test_a_machine_class_that_contradicts_itself_is_told_with_its_path():
    with pytest.raises(
        SettingsError, match=r"^capacity\.machineClasses\[1\]\.name: found gpu-a again, wanted each name"
    ):
        parse_settings(CLASS + CLASS.partition(b"machineClasses:\n")[2])


CONTRADICTIONS = [
    (b"server: {workers: 2}", "server.workers: found 2 with role both, wanted 1, or role rules"),
    (b"server: {workers: 2, role: ledger}", "server.workers: found 2 with role ledger"),
    (b"server: {gracefulSeconds: 5}", "server.gracefulSeconds: found 5, wanted 7 or more"),
    (b"server: {bind: '127.0.0.1:99999'}", "server.bind: found 127.0.0.1:99999, wanted a port up to 65535."),
    (b"tls: {certFile: a}", "tls.keyFile: found nothing beside certFile, wanted both or neither."),
    (b"tls: {keyFile: a}", "tls.certFile: found nothing beside keyFile"),
    (b"tls: {clientCaFile: a}", "tls.clientCaFile: found without certFile"),
]


@pytest.mark.parametrize("content, sentence", CONTRADICTIONS, ids=[sentence for _, sentence in CONTRADICTIONS])
def test_settings_that_contradict_each_other_stop_the_start(content, sentence):
    with pytest.raises(SettingsError) as raised:
        parse_settings(content)
    assert [fault for fault in raised.value.faults if fault.startswith(sentence)]


@pytest.mark.parametrize("number", [".nan", ".NaN", ".inf", "-.INF", "!!float .nan", "1e999"])
@pytest.mark.parametrize("section, key", [("timeouts", "validateSeconds"), ("server", "drainSeconds")])
def test_a_number_without_a_size_is_told(section, key, number):
    """Not-a-number is within all bounds, and a time-out of it would end every review at once."""
    with pytest.raises(SettingsError) as raised:
        parse_settings(f"{section}: {{{key}: {number}}}".encode())
    (fault,) = raised.value.faults
    assert fault.startswith(f"{section}.{key}: found the text ")


NO_YAML = [
    (b"a: [", "The settings are no YAML: line 2, column 1: "),
    (b"log: {}\nlog: {}", "The settings are no YAML: line 2, column 1: found the key log twice."),
    (b"- a", "settings: found a list, wanted a map."),
    (b"3", "settings: found the number 3, wanted a map."),
    (b"rules", 'settings: found the text "rules", wanted a map.'),
    (b"{}\n---\n{}", "The settings are one YAML document; found 2."),
    (b"\xff", "The settings are no YAML: "),
    (b"? [a]\n: b", "The settings are no YAML: line 1, column 3: found a key that is no text."),
    (b"a: !!python/object/apply:os.system [x]", "The settings are no YAML: line 1, column 4: "),
    (
        b"rules: &a {enforcement: warn, namespaces: *a}",
        "The settings are no YAML: line 1, column 8: found an alias that contains itself.",
    ),
    (b"capacity: {machineClasses: &a [*a]}", "The settings are no YAML: line 1, column 28: found an alias that"),
    (b"capacity: &a {<<: *a}", "The settings are no YAML: line 1, column 11: found an alias that contains itself."),
    (b"&a {a: *a}", "The settings are no YAML: line 1, column 1: found an alias that contains itself."),
    (
        b"capacity:\n  machineClasses:\n  - name: a\n    allocatable: &a {cpu: *a}",
        "The settings are no YAML: line 4, column 18: found an alias that contains itself.",
    ),
    (
        b"a: &a0 [x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)),
        "The settings are no YAML: line 1, column 9: found more than 1,000,000 values, with aliases written out.",
    ),
    (b"[" * 300 + b"]" * 300, "The settings are no YAML: line 1, column 201: found more than 200 levels."),
    (b" " * ((1 << 20) + 1), "The settings have more than 1048576 bytes."),
]


@pytest.mark.parametrize("content, sentence", NO_YAML, ids=[sentence for _, sentence in NO_YAML])
def test_what_is_no_settings_document_is_told_with_its_place(content, sentence):
    with pytest.raises(SettingsError) as raised:
        parse_settings(content)
    assert raised.value.faults[0].startswith(sentence)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"cannot be read: No such file or directory\.$"):
        read_settings(tmp_path / "none.yaml")


def test_settings_that_are_read_once_may_come_through_a_pipe():
    """As ``--settings <(helm template ...)`` gives them."""
    reading, writing = os.pipe()
    os.write(writing, FULL)
    os.close(writing)
    try:
        assert read_settings(Path(f"/dev/fd/{reading}")) == parse_settings(FULL)
    finally:
        os.close(reading)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(content):
    with suppress(SettingsError):
        parse_settings(content)


WORDS = st.sampled_from(["server", "rules", "families", "cpu", "off", "bind", "workers", "capacity", "x", ""])
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_no_document_raises_anything_else(document):
    import orjson  # noqa: PLC0415 - JSON is YAML

    with suppress(SettingsError, orjson.JSONEncodeError):  # the latter: an integer beyond 64 bits
        parse_settings(orjson.dumps(document))


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_the_schema_has_exactly_the_fields_of_the_dataclass(section):
    properties = SCHEMA["properties"][section]["properties"]
    assert set(properties) == {key_of(field.name) for field in fields(SECTIONS[section])}


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_the_schema_s_defaults_are_those_of_the_dataclass(section):
    properties = SCHEMA["properties"][section]["properties"]
    for field in fields(SECTIONS[section]):
        row = properties[key_of(field.name)]
        if "default" in row and field.default is not MISSING:
            default = field.default.value if hasattr(field.default, "value") else field.default
            assert row["default"] == (list(default) if isinstance(default, tuple) else default), field.name
        assert row.get("description"), f"{section}.{field.name} is not described"


def test_the_schema_marks_exactly_what_needs_a_restart():
    marked = {
        section: {key for key, row in body["properties"].items() if row.get("x-needs-restart")}
        for section, body in SCHEMA["properties"].items()
        if "properties" in body
    }
    assert {section: keys for section, keys in marked.items() if keys} == {
        section: {key_of(name) for name in names} for section, names in NEEDS_RESTART.items()
    }


def test_the_schema_has_exactly_the_sections():
    assert set(SCHEMA["properties"]) == {field.name for field in fields(Settings)}


def test_the_schema_s_words_are_those_of_the_code():
    defs = SCHEMA["$defs"]
    assert set(defs["familyModes"]["properties"]) == {family.value for family in Family}
    assert set(defs["familyMode"]["enum"]) == {mode.value for mode in Mode}
    assert set(defs["outcomeModes"]["properties"]) == {outcome.value for outcome in Outcome} - {"fits"}
    assert set(defs["outcomeMode"]["enum"]) == {mode.value for mode in OutcomeMode}
    dialects = SCHEMA["properties"]["rules"]["properties"]["dialects"]["items"]["enum"]
    assert dialects == [dialect.name for dialect in DIALECTS]
    assert SCHEMA["properties"]["server"]["properties"]["role"]["enum"] == [role.value for role in Role]


def test_every_field_is_documented():
    """What stands below a field in the source is its documentation."""
    import ast  # noqa: PLC0415 - for this test only
    import inspect  # noqa: PLC0415 - as above

    from webhook.service import settings as module  # noqa: PLC0415 - as above

    for kind in ast.parse(inspect.getsource(module)).body:
        if not isinstance(kind, ast.ClassDef) or kind.name in {"Role", "Settings", "TimeoutSettings"}:
            continue
        body = kind.body
        for statement, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign):
                assert isinstance(after, ast.Expr), f"{kind.name}.{ast.unparse(statement.target)} is not documented"
