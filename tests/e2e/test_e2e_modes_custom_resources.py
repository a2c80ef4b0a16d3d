"""Every documented set of values on a real API server that knows the resources of cert-manager and the operator."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane.binaries import DEFINITIONS, locate_companions
from controlplane.plane import ControlPlane
from support_definitions import define
from support_release import CHART, Release

VALUE_SETS = tuple(sorted((CHART / "ci").glob("*.yaml")))
CUSTOM_GROUPS = ("monitoring.coreos.com/", "cert-manager.io/")
EVERYTHING = ("--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,certificates.mode=certManager")

value_sets = pytest.mark.parametrize("values", [pytest.param(path, id=path.stem) for path in VALUE_SETS])


@pytest.fixture(scope="module")
def defined(control_plane: ControlPlane, require) -> ControlPlane:
    """The control plane with the definitions."""
    companions = locate_companions(os.environ)
    require(companions, DEFINITIONS)
    define(control_plane, companions.path(DEFINITIONS))
    return control_plane


def rendered(release: Release, *values: str) -> list[dict[str, Any]]:
    """What helm would install; its test's pod asks for an account that a dry run does not store."""
    text = release.helm("template", release.name, str(CHART), "--no-hooks", *values)
    return [each for each in yaml.safe_load_all(text) if each]


def strictly(release: Release, objects: list[dict[str, Any]]) -> tuple[int, str]:
    """Have the API server judge the objects without storing them: an unknown field is a fault."""
    done = release.plane.apply(objects, "--validate=strict", "--dry-run=server", check=False)
    return done.returncode, done.stderr


@value_sets
def test_whatever_is_rendered_is_accepted_strictly(defined: ControlPlane, release: Release, values: Path) -> None:
    assert strictly(release, rendered(release, "--values", str(values))) == (0, "")


def test_custom_resources_are_accepted_strictly_and_a_wrong_field_is_not(
    defined: ControlPlane, release: Release
) -> None:
    """Issuers, Certificates, ServiceMonitor and PrometheusRule, by their projects' own definitions."""
    custom = [each for each in rendered(release, *EVERYTHING) if each["apiVersion"].startswith(CUSTOM_GROUPS)]
    assert sorted(each["kind"] for each in custom) == [
        "Certificate", "Certificate", "Issuer", "Issuer", "PrometheusRule", "ServiceMonitor",
    ]  # fmt: skip
    assert strictly(release, custom) == (0, "")
    for each in custom:
        wrong = {**each, "spec": {**each["spec"], "misspelt": True}}
        code, said = strictly(release, [wrong])
        assert code != 0, each["kind"]
        assert "misspelt" in said


@value_sets
def test_life_with_every_set_of_values(defined: ControlPlane, release: Release, values: Path) -> None:
    """Install, upgrade without a change, roll back to the first, uninstall: nothing changes, nothing is left."""
    release.install("--values", str(values))
    first = versions(release)
    assert len(first) > 10
    release.upgrade("--values", str(values))
    assert versions(release) == first
    release.helm("rollback", release.name, "1")
    assert versions(release) == first
    release.helm("uninstall", release.name)
    assert versions(release) == {}


def versions(release: Release) -> dict[str, str]:
    """Of custom resources too."""
    kinds = "certificates.cert-manager.io,issuers.cert-manager.io,servicemonitors,prometheusrules"
    label = f"app.kubernetes.io/instance={release.name}"
    done = release.plane.kubectl("get", kinds, "-A", "-l", label, "-o", "json", check=True)
    custom = {
        f"{each['kind']}/{each['metadata']['name']}": str(each["metadata"]["generation"])
        for each in json.loads(done.stdout)["items"]
    }
    return release.versions() | custom
