"""Beside a GitOps tool: what we write at run time is what the page tells the tool to leave out, and is put right."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from controlplane.processes import wait_until
from support_release import CHART, CONFIGURATIONS, Release, serving

KINDS = "mutatingwebhookconfiguration,validatingwebhookconfiguration,secret,configmap,lease,deployment,service,role"
OTHERS = re.compile(r"helm|kubectl|kube-controller-manager|kube-scheduler")
"""Field managers that are none of ours; what a test has changed is left out by its field."""
OF_THE_TEST = {"spec.type", "spec.externalName", "spec.clusterIP", "spec.clusterIPs"}
WITHIN_SECONDS = 60.0
QUICK = ("--set", "certificates.propagationSeconds=15")


def page_ignores() -> dict[str, set[str]]:
    """Kind to the fields that the page's Argo CD snippet leaves out, lists without their index."""
    page = (CHART / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?m)^    spec:\n(?:^    .*\n)+", page)
    found: dict[str, set[str]] = {}
    for each in yaml.safe_load(block)["spec"]["ignoreDifferences"]:
        of_jq = [re.sub(r"\[\]\??", "", path).lstrip(".") for path in each.get("jqPathExpressions", ())]
        of_pointers = [path.strip("/").replace("/", ".") for path in each.get("jsonPointers", ())]
        found.setdefault(each["kind"], set()).update(of_jq, of_pointers)
    return found


def written_fields(managed: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The leaves of a managed field set, lists without their index."""
    below = {key: value for key, value in managed.items() if key != "."}
    if not below:
        yield path
    for key, value in below.items():
        step = key.removeprefix("f:") if key.startswith("f:") else ""
        yield from written_fields(value, ".".join(filter(None, [path, step])))


def written_by_us(release: Release) -> set[tuple[str, str]]:
    """(kind, field) of everything in the release's objects that neither helm nor a controller has written."""
    label = f"app.kubernetes.io/instance={release.name}"
    shown = ("-A", "-l", label, "-o", "json", "--show-managed-fields")
    found = set()
    for each in json.loads(release.plane.kubectl("get", KINDS, *shown, check=True).stdout)["items"]:
        for manager in each["metadata"]["managedFields"]:
            if not OTHERS.match(manager["manager"]):
                found.update((each["kind"], field) for field in written_fields(manager["fieldsV1"]))
    return {(kind, field) for kind, field in found if field not in OF_THE_TEST}


def test_what_we_write_at_run_time_is_what_the_page_leaves_out(release: Release, tmp_path: Path) -> None:
    """By the API server's own account of who wrote which field."""
    ignored = page_ignores()
    with serving(release, tmp_path, "--set", "ledger.leaderElection=true"):
        written = written_by_us(release)
    assert ("Secret", "data.tls.crt") in written
    assert ("ValidatingWebhookConfiguration", "webhooks.clientConfig.caBundle") in written
    unexpected = {
        (kind, field)
        for kind, field in written
        if not any(field == path or field.startswith(f"{path}.") for path in ignored.get(kind, ()))
    }
    assert unexpected == set()
    rendered = {each["kind"] for each in release.objects().values()}
    assert set(ignored) <= rendered, "the page names a kind that the chart does not make"


def test_a_tool_that_resets_the_bundle_is_put_right(release: Release, tmp_path: Path) -> None:
    """It replaces both configurations by what the chart renders, which has no caBundle; the keeper patches them."""
    with serving(release, tmp_path, *QUICK) as installed:
        manifest = [each for each in yaml.safe_load_all(release.helm("get", "manifest", release.name)) if each]
        plain = [each for each in manifest if f"{each['kind'].lower()}s" in CONFIGURATIONS]
        assert len(plain) == 2
        done = release.plane.kubectl("replace", "-f", "-", "-o", "json", input=yaml.safe_dump_all(plain), check=True)
        # What was stored then; the keeper may have looked since.
        assert "caBundle" not in done.stdout
        assert "clientConfig" in done.stdout
        wait_until(
            release.is_trusted,
            what="caBundle in every webhook, again",
            within_seconds=WITHIN_SECONDS,
            running=installed.pods["rules"].fleet.get("certificates"),
        )
