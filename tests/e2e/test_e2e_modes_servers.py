"""Every way to run the chart, started from what helm renders and seen to judge through the real API server."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from controlplane.settling import wait_for_webhooks
from support_pods import quiet_ports, unique
from support_release import CHART, KEY, Installed, Release, marks, pod, running_pods, serving, workload
from support_sockets import ports_of
from support_verdicts import broken, check_verdicts, stored_affinity

LETS_ALL_THROUGH = "enforcement=warn"


@pytest.mark.parametrize(("values", "roles"), [
    pytest.param(("--set", "rules.replicas=1,ledger.replicas=1"), ("rules", "ledger"), id="single-replica"),
    pytest.param(("--set", "ledger.enabled=false"), ("rules",), id="rules-only"),
    pytest.param(("--set", "rules.workers=2"), ("rules", "ledger"), id="two-workers"),
])  # fmt: skip
def test_chart_serves_and_judges(release: Release, namespace: str, tmp_path: Path, values, roles) -> None:
    with serving(release, tmp_path, *values, roles=roles):
        check_verdicts(release.plane, namespace)
    release.helm("uninstall", release.name)
    assert release.objects() == {}


def test_release_named_after_the_chart_serves(release: Release, namespace: str, tmp_path: Path) -> None:
    """As the README installs it: the objects bear the release's name alone."""
    named = Release(release.plane, unique("numa-admission"), release.namespace)
    try:
        with serving(named, tmp_path):
            assert f"Deployment/{named.name}-rules" in named.objects()
            check_verdicts(named.plane, namespace)
    finally:
        named.helm("uninstall", named.name)
        wait_for_webhooks(named.plane)


def test_host_network_uses_the_very_ports_of_the_values(release: Release, namespace: str, tmp_path: Path) -> None:
    """For API servers that cannot reach pod addresses: `ci/host-network.yaml` with ports that are free here."""
    rules, rules_probes, ledger, ledger_probes = quiet_ports(4)
    release.install(
        "--values", str(CHART / "ci" / "host-network.yaml"),
        "--set", f"rules.port={rules},rules.probePort={rules_probes},rules.servicePort={rules}",
        "--set", f"ledger.port={ledger},ledger.probePort={ledger_probes},ledger.servicePort={ledger}",
    )  # fmt: skip
    with running_pods(release, tmp_path, {"rules": rules, "ledger": ledger}) as pods:
        assert dict(pods["rules"].ports) == {rules: rules, rules_probes: rules_probes}
        check_verdicts(release.plane, namespace)


def test_processes_use_the_ports_that_the_network_policy_lets_through(
    release: Release, namespace: str, tmp_path: Path
) -> None:
    """No CNI is here to enforce it, so Linux tells what the processes listen on and connect to."""
    plane = release.plane
    api_server = urlsplit(plane.server_url).port
    policies = f"networkPolicy.enabled=true,networkPolicy.apiServerPorts={{{api_server}}}"
    with serving(release, tmp_path, "--set", policies) as installed:
        check_verdicts(plane, namespace)
        for role, one in installed.pods.items():
            path = (
                f"/apis/networking.k8s.io/v1/namespaces/{release.namespace}/networkpolicies/{release.fullname}-{role}"
            )
            spec = plane.get(path)["spec"]
            let_in = {one.ports[port["port"]] for rule in spec["ingress"] for port in rule["ports"]}
            let_out = {port["port"] for rule in spec["egress"] for port in rule["ports"]}
            used = [ports_of(one.fleet.get(name)) for name in one.fleet.names()]
            assert set().union(*(each.listened_on for each in used)) == let_in
            assert set().union(*(each.connected_to for each in used)) <= let_out
        assert ports_of(installed.pods["ledger"].fleet.get("server")).connected_to == {api_server}
        assert ports_of(installed.pods["rules"].fleet.get("server")).connected_to == set()


def test_url_is_called_where_services_cannot_be_reached(release: Release, namespace: str, tmp_path: Path) -> None:
    """Its host is in the certificate, and it is what the API server calls."""
    rules, ledger = quiet_ports(2)
    release.install()
    release.upgrade("--set", f"rules.url=https://127.0.0.1:{rules},ledger.url=https://localhost:{ledger}")
    with running_pods(release, tmp_path, {"rules": rules, "ledger": ledger}):
        assert {each["clientConfig"]["url"].rpartition("/")[0] for each in release.entries()} == {
            f"https://127.0.0.1:{rules}", f"https://localhost:{ledger}",
        }  # fmt: skip
        check_verdicts(release.plane, namespace)


@pytest.fixture
def without_binds(release: Release, tmp_path: Path):
    """The chart with capacity, but without the webhook that asks of bindings: nothing is steered."""
    with serving(release, tmp_path, "--set", "webhooks.bind.enabled=false") as installed:
        yield installed


def test_without_bind_guard_nothing_is_steered(without_binds: Installed, namespace: str) -> None:
    """No webhook sees a binding, and the ledger has no right to write any pod's status."""
    release = without_binds.release
    assert not [each for each in release.entries() if each["name"].startswith("bind.")]
    assert not release.may("ledger", "patch", "pods/status")
    settings = yaml.safe_load((without_binds.pods["ledger"].folder / "volumes/settings/ledger.yaml").read_text())
    assert settings["cluster"]["steers"] is False
    assert settings["capacity"]["guardsBindings"] is False
    check_verdicts(release.plane, namespace)


def test_without_capacity_only_the_rules_judge(release: Release, namespace: str, tmp_path: Path) -> None:
    off = "webhooks.capacity-pods.enabled=false,webhooks.capacity-workloads.enabled=false"
    with serving(release, tmp_path, "--set", off):
        assert {each["clientConfig"]["service"]["path"] for each in release.entries()} == {
            "/mutate", "/validate", "/bind",
        }  # fmt: skip
        check_verdicts(release.plane, namespace)


def test_warn_lets_everything_through_and_says_why(release: Release, namespace: str, tmp_path: Path) -> None:
    """A first day: the broken pod is stored with a warning; repairs are done; with the servers gone nobody notices."""
    plane = release.plane
    with serving(release, tmp_path, "--set", LETS_ALL_THROUGH):
        assert release.failure_policies() == {"Ignore"}
        let_in = plane.apply([broken("broken")], "-n", namespace)
        assert "created" in let_in.stdout
        assert "Warning: " in let_in.stderr
        assert KEY in let_in.stderr
        plane.apply([pod("aligned", marks(), whole=True)], "-n", namespace)
        assert stored_affinity(plane, namespace, "aligned")
        plain = plane.apply([pod("plain", {})], "-n", namespace)
        assert plain.stderr == ""
    after = plane.apply([broken("later"), workload("later")], "-n", namespace)
    assert after.stdout.count("created") == 2


def test_before_match_conditions_all_pods_are_asked_of_and_none_depends_on_us(
    release: Release, namespace: str, tmp_path: Path
) -> None:
    """What the chart renders for Kubernetes 1.27, on the API server there is: its webhooks match every pod."""
    plane = release.plane
    rules, ledger = quiet_ports(2)
    text = release.helm(
        "template", release.name, str(CHART), "--kube-version", "1.27.9", "--no-hooks",
        "--set", f"rules.servicePort={rules},ledger.servicePort={ledger}",
    )  # fmt: skip
    plane.apply(text)
    with running_pods(release, tmp_path, {"rules": rules, "ledger": ledger}):
        assert not [each for each in release.entries() if each.get("matchConditions")]
        assert release.failure_policies() == {"Ignore"}
        check_verdicts(plane, namespace)
    later = plane.apply([broken("later"), pod("later-plain", {})], "-n", namespace)
    assert later.stdout.count("created") == 2
    assert later.stderr == ""


def test_broken_settings_keep_the_release_of_before(release: Release, namespace: str, tmp_path: Path) -> None:
    """Values that the schema refuses never reach the cluster: what serves goes on."""
    with serving(release, tmp_path):
        before = release.versions()
        with pytest.raises(AssertionError, match="families"):
            release.upgrade("--set", "settings.rules.families.cpu=loud")
        assert release.versions() == before
        check_verdicts(release.plane, namespace)
