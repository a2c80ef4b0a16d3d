"""What helm says after an installation, for each version of Kubernetes; and never a refusal that meets everybody."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import NAMESPACE, RELEASE, Helm, webhook_entries

WITHOUT_CONDITIONS = ("1.25.0", "1.26.15", "1.27.9", "v1.27.16-eks-a1b2c3", "v1.27.3-gke.100")
WITH_CONDITIONS = (
    "1.28.0",
    "v1.28.0-rc.0",
    "v1.28.3-gke.100",
    "v1.30.4+k3s1",
    *(f"1.{each}.0" for each in range(29, 38)),
)
SAYS_WHY = "has no matchConditions (they come with 1.28)"
MAY_FAIL = (
    "mutate-pods", "validate-pods", "validate-results", "validate-workloads", "validate-bindings", "capacity-pods",
)  # fmt: skip
"""Rows whose failure policy the schema leaves open."""


def notes(helm: Helm, chart: Path, *arguments: str, namespace: str = NAMESPACE) -> str:
    """The notes as helm would print them."""
    only = ("--show-only", "templates/notes.yaml")
    done = helm.run("template", RELEASE, str(chart), "--namespace", namespace, *only, *arguments)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])


@pytest.mark.parametrize("version", WITHOUT_CONDITIONS)
def test_before_match_conditions_the_notes_say_that_nothing_is_refused_by_an_outage(
    helm: Helm, chart: Path, version: str
) -> None:
    text = notes(helm, chart, "--kube-version", version)
    # Of a version that is given, Helm 3 keeps the number only.
    number = re.escape(version.removeprefix("v").partition("-")[0])
    assert re.search(rf"NOTE: Kubernetes v{number}(-\S+)? {re.escape(SAYS_WHY)}", text)
    assert "Each failurePolicy was therefore turned into Ignore" in text
    assert {entry["failurePolicy"] for entry in webhook_entries(helm.template("--kube-version", version))} == {"Ignore"}


@pytest.mark.parametrize("version", WITH_CONDITIONS)
def test_with_match_conditions_the_notes_say_nothing_of_them(helm: Helm, chart: Path, version: str) -> None:
    assert "matchConditions" not in notes(helm, chart, "--kube-version", version)


@pytest.mark.parametrize("version", [*WITHOUT_CONDITIONS, *WITH_CONDITIONS])
@pytest.mark.parametrize("values", [
    pytest.param((), id="defaults"),
    pytest.param(("--set", ",".join(f"webhooks.{row}.failurePolicy=Fail" for row in MAY_FAIL)), id="all-fail"),
])  # fmt: skip
def test_fail_never_meets_what_carries_no_mark(helm: Helm, version: str, values: Any) -> None:
    """Whatever the values say: an entry without conditions, or on an API server that knows none, is ignored."""
    entries = webhook_entries(helm.template("--kube-version", version, *values))
    failing = [entry for entry in entries if entry["failurePolicy"] == "Fail"]
    assert all(entry.get("matchConditions") for entry in failing)
    assert bool(failing) is (version in WITH_CONDITIONS)


@pytest.mark.parametrize(("values", "command"), [
    pytest.param((), "numa-admission audit", id="every namespace"),
    pytest.param(("--set", "excludedNamespaces={a,b}"),
                 "numa-admission audit --exclude-namespace a --exclude-namespace b", id="some left out"),
])  # fmt: skip
def test_audit_leaves_out_what_is_never_judged(helm: Helm, chart: Path, values: Any, command: str) -> None:
    assert command in [line.strip() for line in notes(helm, chart, *values).splitlines()]


@pytest.mark.parametrize(("values", "asked", "next_step"), [
    pytest.param((), "Does it refuse a broken pod?", False, id="deny"),
    pytest.param(("--set", "enforcement=warn"), "Does it answer for a broken pod?", True, id="warn"),
    pytest.param(("--set", "webhooks.validate-pods.enabled=false"), "Does it answer for a broken pod?", False,
                 id="nobody-validates"),
])  # fmt: skip
def test_notes_say_what_is_asked_for(helm: Helm, chart: Path, values: Any, asked: str, next_step: bool) -> None:
    text = notes(helm, chart, *values)
    assert asked in text
    assert ("--set enforcement=deny" in text) is next_step
    assert "NOTE" not in text
    assert not re.search(r"\n\n\n", text)


def test_notes_tell_that_pods_beside_the_release_are_not_judged(helm: Helm, chart: Path) -> None:
    """A release without --namespace lies where users' pods are."""
    assert "Pods in the release's own namespace are never judged" in notes(helm, chart, namespace="default")
