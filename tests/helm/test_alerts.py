"""Every alert of the chart, judged by Prometheus' own promtool: it fires when it should, and else it is silent."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane.binaries import PROMTOOL, locate_companions
from rendering import FULLNAME, NAMESPACE, Helm, only

PROMTOOL_SECONDS = 60
# In seconds; the clock of promtool starts at 1970.
DAY = 24 * 3600
RENDERED = ("--set", "prometheusRule.enabled=true,serviceMonitor.enabled=true")
OURS = f'namespace="{NAMESPACE}",job="{FULLNAME}-metrics"'
NEIGHBOUR = f'namespace="{NAMESPACE}",job="other-numa-admission-metrics"'
"""Another release in our namespace."""


@dataclass(frozen=True)
class Case:
    """What Prometheus has scraped minute by minute, when it is asked, and which alerts it must raise."""

    alert: str
    series: Mapping[str, str]
    minutes: int
    labels: Sequence[Mapping[str, str]] = ()
    value: str = ""
    """What the annotations say of the expression's value, where they do."""

    def as_test(self, rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """One group of promtool's unit tests; the expected annotations are the rule's own with their labels put in."""
        rule = rules[self.alert]
        expected = [
            {
                "exp_labels": {**rule["labels"], **labels},
                "exp_annotations": {name: self._filled(text, labels) for name, text in rule["annotations"].items()},
            }
            for labels in self.labels
        ]
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {"eval_time": f"{self.minutes}m", "alertname": self.alert, "exp_alerts": expected},
            ],
        }

    def _filled(self, text: str, labels: Mapping[str, str]) -> str:
        text = text.replace("{{ $value }}", self.value)
        return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


SELECTOR = re.compile(r"\bnuma_admission_\w+(\{[^}]*\})?")
WEBHOOK = "validate-pods.numa-admission.io"
REJECTED = "apiserver_admission_webhook_rejection_count"
FAILED_OPEN = "apiserver_admission_webhook_fail_open_count"
EXPIRY = "numa_admission_certificate_expiry_timestamp_seconds"


def durations(endpoint: str, slow_per_minute: int) -> dict[str, str]:
    """A histogram of a hundred reviews a minute of which so many take more than half a second, none more than one."""
    quick = 100 - slow_per_minute
    rows = {"0.25": quick, "0.5": quick, "1.0": 100, "+Inf": 100}
    name = "numa_admission_review_duration_seconds_bucket"
    return {f'{name}{{{OURS},endpoint="{endpoint}",le="{le}"}}': f"0+{each}x30" for le, each in rows.items()}


def gauge(name: str, labels: str = "", whose: str = OURS) -> str:
    """The name of a series, as a Prometheus in the cluster stores it."""
    return f"numa_admission_{name}{{{','.join([whose, *filter(None, [labels])])}}}"


def unseen(role: str) -> Mapping[str, str]:
    """The labels of the alert that a role has no series."""
    return {"namespace": NAMESPACE, "job": f"{FULLNAME}-metrics", "app_kubernetes_io_component": role}


def seen(role: str, whose: str = OURS) -> str:
    """A series that every process of the role has."""
    return f'numa_admission_in_flight{{{whose},app_kubernetes_io_component="{role}"}}'


CASES = {
    "rules-without-a-series": Case(
        "NumaAdmissionRulesUnseen", {seen("ledger"): "0x30", seen("rules", NEIGHBOUR): "0x30"}, 15, [unseen("rules")]
    ),
    "rules-whose-series-ended": Case("NumaAdmissionRulesUnseen", {seen("rules"): "0x10"}, 40, [unseen("rules")]),
    "rules-with-a-series": Case("NumaAdmissionRulesUnseen", {seen("rules"): "0x30"}, 15),
    "rules-with-a-gap": Case("NumaAdmissionRulesUnseen", {seen("rules"): "0x10 _x8 0x20"}, 25),
    "ledger-without-a-series": Case(
        "NumaAdmissionLedgerUnseen", {seen("rules"): "0x30", seen("ledger", NEIGHBOUR): "0x30"}, 15, [unseen("ledger")]
    ),
    "ledger-with-a-series": Case("NumaAdmissionLedgerUnseen", {seen("ledger"): "0x30"}, 15),
    "unreachable-and-refused": Case(
        "NumaAdmissionUnreachable",
        {f'{REJECTED}{{name="{WEBHOOK}",error_type="calling_webhook_error"}}': "0+1x20"},
        15,
        labels=[{"name": WEBHOOK}],
    ),
    "unreachable-and-let-through": Case(
        "NumaAdmissionUnreachable",
        {f'{FAILED_OPEN}{{name="mutate-pods.numa-admission.io"}}': "0+1x20"},
        15,
        labels=[{"name": "mutate-pods.numa-admission.io"}],
    ),
    "unreachable-for-two-minutes": Case(
        "NumaAdmissionUnreachable",
        {f'{REJECTED}{{name="{WEBHOOK}",error_type="calling_webhook_error"}}': "0+1x20"},
        3,
    ),
    "refused-by-us": Case(
        "NumaAdmissionUnreachable",
        {f'{REJECTED}{{name="{WEBHOOK}",error_type="no_error"}}': "0+5x20"},
        15,
    ),
    "another-webhook-unreachable": Case(
        "NumaAdmissionUnreachable",
        {
            f'{REJECTED}{{name="pods.example.com",error_type="calling_webhook_error"}}': "0+1x20",
            f'{FAILED_OPEN}{{name="numa-admission.io.example.com"}}': "0+1x20",
        },
        15,
    ),
    "certificate-ends-in-ten-days": Case(
        "NumaAdmissionCertificateEnds",
        {f'{EXPIRY}{{{OURS},pod="a"}}': f"{10 * DAY}x90", f'{EXPIRY}{{{OURS},pod="b"}}': f"{80 * DAY}x90"},
        90,
        labels=[{}],
    ),
    "certificate-ends-in-fifteen-days": Case(
        "NumaAdmissionCertificateEnds", {f'{EXPIRY}{{{OURS},pod="a"}}': f"{15 * DAY}x90"}, 90
    ),
    "certificate-of-another-namespace": Case(
        "NumaAdmissionCertificateEnds", {f'{EXPIRY}{{namespace="other"}}': f"{DAY}x90"}, 90
    ),
    "certificate-was-renewed-within-the-hour": Case(
        "NumaAdmissionCertificateEnds", {f"{EXPIRY}{{{OURS}}}": f"{10 * DAY}x30 {90 * DAY}x90"}, 90
    ),
    "slow": Case(
        "NumaAdmissionSlow",
        {**durations("validate", 5), **durations("mutate", 0)},
        25,
        labels=[{"endpoint": "validate"}],
    ),
    "certificate-refused": Case(
        "NumaAdmissionCertificateRefused",
        {gauge("certificate_refused", 'pod="a"'): "0x20", gauge("certificate_refused", 'pod="b"'): "1x20"},
        10,
        labels=[{}],
    ),
    "certificate-refused-for-a-moment": Case(
        "NumaAdmissionCertificateRefused", {gauge("certificate_refused", 'pod="a"'): "0x5 1x3 0x10"}, 10
    ),
    "settings-refused": Case(
        "NumaAdmissionSettingsRefused",
        {gauge("settings_reload_failed", 'pod="a"'): "0x20", gauge("settings_reload_failed", 'pod="b"'): "1x20"},
        5,
        labels=[{}],
    ),
    "settings-refused-and-put-right": Case(
        "NumaAdmissionSettingsRefused", {gauge("settings_reload_failed", 'pod="a"'): "0x5 1x1 0x20"}, 10
    ),
    "settings-need-a-restart": Case(
        "NumaAdmissionSettingsNeedRestart", {gauge("settings_restart_needed"): "1x30"}, 20, labels=[{}]
    ),
    "settings-need-a-restart-while-the-pods-roll": Case(
        "NumaAdmissionSettingsNeedRestart", {gauge("settings_restart_needed"): "1x5 0x30"}, 20
    ),
    "no-fresh-ledger": Case(
        "NumaAdmissionLedgerBlind",
        {gauge("ledger_trust", f'pod="{pod}",state="fresh"'): "0x20" for pod in "ab"}
        | {gauge("ledger_trust", 'pod="a",state="stale"'): "1x20"},
        10,
        labels=[{}],
    ),
    "one-fresh-ledger": Case(
        "NumaAdmissionLedgerBlind",
        {
            gauge("ledger_trust", 'pod="a",state="fresh"'): "0x20",
            gauge("ledger_trust", 'pod="b",state="fresh"'): "1x20",
        },
        10,
    ),
    "blind-ledger-beside-another-release": Case(
        "NumaAdmissionLedgerBlind",
        {
            gauge("ledger_trust", 'state="fresh"'): "0x20",
            gauge("ledger_trust", 'state="fresh"', whose=NEIGHBOUR): "1x20",
        },
        10,
        labels=[{}],
    ),
    "leader-of-each-of-two-releases": Case(
        "NumaAdmissionLeaders", {gauge("leader"): "1x20", gauge("leader", whose=NEIGHBOUR): "1x20"}, 10
    ),
    "no-leader": Case("NumaAdmissionLeaders", {gauge("leader"): "0x20"}, 10, labels=[{}], value="0"),
    "two-leaders": Case(
        "NumaAdmissionLeaders",
        {gauge("leader", 'pod="a"'): "1x20", gauge("leader", 'pod="b"'): "1x20"},
        10,
        labels=[{}],
        value="2",
    ),
    "leader-and-standby": Case(
        "NumaAdmissionLeaders", {gauge("leader", 'pod="a"'): "1x20", gauge("leader", 'pod="b"'): "0x20"}, 10
    ),
    "one-leader-after-the-other": Case(
        "NumaAdmissionLeaders",
        {gauge("leader", 'pod="a"'): "1x10 0x10", gauge("leader", 'pod="b"'): "0x12 1x8"},
        13,
    ),
    "admission-error": Case(
        "NumaAdmissionDivergence",
        {gauge("ledger_notices_total", 'kind="refused-though-allowed"'): "0x10 1x20"},
        20,
        labels=[{"kind": "refused-though-allowed"}],
    ),
    "place-that-was-not-replayed": Case(
        "NumaAdmissionDivergence",
        {gauge("ledger_notices_total", 'kind="placed-elsewhere"'): "0x10 1x20"},
        20,
        labels=[{"kind": "placed-elsewhere"}],
    ),
    "place-that-was-lost": Case(
        "NumaAdmissionDivergence", {gauge("ledger_notices_total", 'kind="place-lost"'): "0+1x20"}, 15
    ),
    "admission-error-two-hours-ago": Case(
        "NumaAdmissionDivergence",
        {gauge("ledger_notices_total", 'kind="refused-though-allowed"'): "0x10 1x150"},
        140,
    ),
    "claim-that-nothing-confirmed": Case(
        "NumaAdmissionDivergence", {gauge("ledger_notices_total", 'kind="claim-expired"'): "0+1x20"}, 15
    ),
    "checkpoint-lags": Case(
        "NumaAdmissionCheckpointLags", {gauge("checkpoint_lag_seconds"): "0+60x40"}, 30, labels=[{}]
    ),
    "checkpoint-keeps-up": Case("NumaAdmissionCheckpointLags", {gauge("checkpoint_lag_seconds"): "4 8x40"}, 30),
    "quick": Case("NumaAdmissionSlow", {**durations("validate", 0), **durations("mutate", 0)}, 25),
}


@dataclass(frozen=True)
class Promtool:
    """Prometheus' own tool."""

    program: Path
    folder: Path

    def run(self, *args: str) -> str:
        """Run it in its folder; raises AssertionError with its words where it finds a fault."""
        done = subprocess.run(
            [str(self.program), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=PROMTOOL_SECONDS,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, name: str, value: object) -> str:
        """Write a YAML file into the folder; its name."""
        (self.folder / name).write_text(yaml.safe_dump(value, sort_keys=False))
        return name


@pytest.fixture
def promtool(tmp_path: Path) -> Promtool:
    binaries = locate_companions(os.environ)
    if binaries.missing((PROMTOOL,)):
        sentence = "promtool was not found: run `make controlplane` once to build it."
        if os.environ.get("NUMA_ADMISSION_REQUIRE_E2E") == "1":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return Promtool(binaries.path(PROMTOOL), tmp_path)


@pytest.fixture(scope="module")
def groups(helm: Helm) -> list[dict[str, Any]]:
    """The groups of the rendered PrometheusRule: what the operator writes into Prometheus' rule files."""
    found: list[dict[str, Any]] = only(helm.template(*RENDERED), "PrometheusRule", FULLNAME)["spec"]["groups"]
    return found


def alerts_of(groups: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_rules_are_accepted(promtool: Promtool, groups: list[dict[str, Any]]) -> None:
    """With all of promtool's lints as faults: bad expressions, doubled rules."""
    rules = promtool.write("rules.yaml", {"groups": groups})
    said = promtool.run("check", "rules", "--lint=all", "--lint-fatal", rules)
    assert f"{len(alerts_of(groups))} rules found" in said


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_alert_fires_and_is_silent(promtool: Promtool, groups: list[dict[str, Any]], case: Case) -> None:
    rules = promtool.write("rules.yaml", {"groups": groups})
    tests = [case.as_test(alerts_of(groups))]
    promtool.run("test", "rules", promtool.write("tests.yaml", {"rule_files": [rules], "tests": tests}))


FIRING_ON_OURS = {
    name: case
    for name, case in CASES.items()
    if case.labels and any(OURS in series for series in case.series) and not case.alert.endswith("Unseen")
}
"""Cases in which a series of ours raises the alert."""


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in FIRING_ON_OURS.items()])
def test_what_befalls_another_release_of_the_namespace_fires_nothing(
    promtool: Promtool, groups: list[dict[str, Any]], case: Case
) -> None:
    theirs = {series.replace(OURS, NEIGHBOUR): values for series, values in case.series.items()}
    rules = promtool.write("rules.yaml", {"groups": groups})
    tests = [replace(case, series=theirs, labels=()).as_test(alerts_of(groups))]
    promtool.run("test", "rules", promtool.write("tests.yaml", {"rule_files": [rules], "tests": tests}))


def test_alerts_select_what_the_monitor_gives_each_series(helm: Helm, groups: list[dict[str, Any]]) -> None:
    """The operator's job is the Service's name, unless told otherwise; labels of pods come where they are asked for."""
    objects = helm.template(*RENDERED)
    monitor = only(objects, "ServiceMonitor", FULLNAME)["spec"]
    services = [each for each in objects if each["kind"] == "Service"]
    wanted = monitor["selector"]["matchLabels"].items()
    (scraped,) = [each for each in services if wanted <= each["metadata"]["labels"].items()]
    assert f'job="{scraped["metadata"]["name"]}"' in OURS
    assert "jobLabel" not in monitor
    assert monitor["podTargetLabels"] == ["app.kubernetes.io/component"]
    roles = {
        each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in objects
        if each["kind"] == "Deployment"
    }
    assert roles == {"rules", "ledger"}
    selectors = [each for rule in alerts_of(groups).values() for each in SELECTOR.findall(rule["expr"])]
    assert len(selectors) >= len(alerts_of(groups)) - 1
    assert [each for each in selectors if not each.startswith(f"{{{OURS}")] == []


def test_alerts_are_of_roles_that_are_installed(helm: Helm) -> None:
    objects = helm.template(*RENDERED, "--set", "ledger.enabled=false")
    names = alerts_of(only(objects, "PrometheusRule", FULLNAME)["spec"]["groups"])
    assert "NumaAdmissionRulesUnseen" in names
    assert "NumaAdmissionLedgerUnseen" not in names


def test_a_wrong_expectation_is_found(promtool: Promtool, groups: list[dict[str, Any]]) -> None:
    """The judge bites: what fires is not silent."""
    rules = promtool.write("rules.yaml", {"groups": groups})
    test = CASES["slow"].as_test(alerts_of(groups))
    test["alert_rule_test"][0]["exp_alerts"] = []
    with pytest.raises(AssertionError, match="NumaAdmissionSlow"):
        promtool.run("test", "rules", promtool.write("tests.yaml", {"rule_files": [rules], "tests": [test]}))


def test_every_alert_has_a_case_that_fires_and_one_that_does_not(groups: list[dict[str, Any]]) -> None:
    wanted = set(alerts_of(groups))
    assert {case.alert for case in CASES.values() if case.labels} == wanted
    assert {case.alert for case in CASES.values() if not case.labels} == wanted


def test_every_alert_says_what_to_do_and_how_grave_it_is(groups: list[dict[str, Any]]) -> None:
    for name, alert in alerts_of(groups).items():
        assert alert["labels"]["severity"] in {"critical", "warning"}, name
        assert alert["annotations"]["summary"].endswith("."), name
