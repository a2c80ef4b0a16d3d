"""Values that would render something else than was meant are refused by name, before anything reaches the cluster."""

from pathlib import Path

import pytest
import yaml
from rendering import CHART, FULLNAME, RELEASE, Helm, only

from webhook.service.settings_file import parse_settings

ROW_OF_FOO = '{"kind":"Foo","templates":[{"path":"a"}]}'


@pytest.mark.parametrize(("arguments", "told"), [
    pytest.param(("--set", "enforcment=warn"), "enforcment", id="misspelt"),
    pytest.param(("--set", "rules.replica=3"), "replica", id="misspelt-below"),
    pytest.param(("--set", "settings.rules.familys.cpu=warn"), "familys", id="unknown-setting"),
    pytest.param(("--set", "settings.server.role=both"), "role", id="setting-of-the-chart"),
    pytest.param(("--set", "settings.tls.certFile=/x"), "tls", id="setting-of-the-chart-section"),
    pytest.param(("--set", "settings.cluster.live=false"), "cluster", id="live-is-the-charts"),
    pytest.param(("--set", "settings.rules.families.cpu=loud"), "cpu", id="unknown-mode"),
    pytest.param(("--set", "webhooks.bind.failurePolicy=Fail"), "failurePolicy", id="bind-may-not-fail"),
    pytest.param(("--set", "webhooks.validate-pods.timeoutSeconds=31"), "timeoutSeconds", id="too-long"),
    pytest.param(("--set", "rules.maxUnavailable=0"), "maxUnavailable", id="node-never-drains"),
    pytest.param(("--set", "certificates.mode=auto"), "mode", id="unknown-mode-of-certificates"),
    pytest.param(("--set", "certificates.mode=existingSecret"), "existingSecret.name", id="secret-without-name"),
    pytest.param(("--set", "ledger.replicas=2"), "leaderElection", id="two-ledgers-without-leader"),
    pytest.param(("--set", "terminationGracePeriodSeconds=5"), "wanted 17 or more for the rules", id="no-drain"),
    pytest.param(("--set", "terminationGracePeriodSeconds=20,ledger.leaderElection=true"), "wanted 27 or more for the "
                 "ledger", id="no-time-to-find-a-leader"),
    pytest.param(("--set", "settings.server.gracefulSeconds=200"), "wanted 205 or more", id="less-time-than-promised"),
    pytest.param(("--kube-version", "1.24.0"), "1.25", id="too-old"),
    pytest.param(("--set", "rules.replicas=0"), "replicas", id="nobody-serves"),
    pytest.param(("--set", "rules.maxUnavailable=-1"), "maxUnavailable", id="less-than-nothing"),
    pytest.param(("--set", "rules.maxUnavailable=00%"), "maxUnavailable", id="no-share"),
    pytest.param(("--set", "rules.probePort=8443"), "rules.probePort", id="one-port-for-two"),
    pytest.param(("--set", "rules.hostNetwork=true,ledger.hostNetwork=true"), "port 8443", id="one-host-port-for-two"),
    pytest.param(("--set", "rules.hostNetwork=true,ledger.hostNetwork=true,ledger.port=8080,ledger.probePort=18080"),
                 "port 8080", id="one-host-port-for-another"),
    pytest.param(("--set", "rules.podLabels.app\\.kubernetes\\.io/component=x"), "podLabels", id="label-of-a-selector"),
    pytest.param(("--set", "fullnameOverride=a.b"), "fullnameOverride", id="dot-in-a-name"),
    pytest.param(("--set-string", "fullnameOverride=1a"), "fullnameOverride", id="digit-first"),
    pytest.param(("--set", "nameOverride=A"), "nameOverride", id="capital-in-a-name"),
    pytest.param(("--set", "excludedNamespaces={a.b}"), "excludedNamespaces", id="no-namespace"),
    pytest.param(("--set", "certificates.extraDNSNames={a b}"), "extraDNSNames", id="no-dns-name"),
    pytest.param(("--set", "certificates.extraDNSNames={10.0.0.1}"), "extraDNSNames", id="address-among-names"),
    pytest.param(("--set", "certificates.extraDNSNames={fd00::1}"), "extraDNSNames", id="address-of-six-among-names"),
    pytest.param(("--set", "certificates.extraDNSNames={a..b}"), "extraDNSNames", id="dns-name-with-a-hole"),
    pytest.param(("--set", f"certificates.extraDNSNames={{{'a' * 64}.b}}"), "extraDNSNames", id="label-too-long"),
    pytest.param(("--set", "certificates.extraIPAddresses={a.b}"), "extraIPAddresses", id="name-among-addresses"),
    pytest.param(("--set", "certificates.extraIPAddresses={10.0.0.256}"), "extraIPAddresses", id="no-address"),
    pytest.param(("--set", "certificates.extraIPAddresses={10.0.0.01}"), "extraIPAddresses", id="octal-address"),
    pytest.param(("--set", "certificates.extraIPAddresses={1::2::3}"), "extraIPAddresses", id="no-address-of-six"),
    pytest.param(("--set", "certificates.extraIPAddresses={1:2:3:4:5:6:7::8}"), "extraIPAddresses",
                 id="address-of-six-too-long"),
    pytest.param(("--set", "certificates.mode=certManager,certificates.existingSecret.name=s"), "existingSecret",
                 id="secret-that-nobody-looks-at"),
    pytest.param(("--set", "certificates.existingSecret.caBundle=LS0tLS1CRUdJTg=="), "caBundle", id="bundle-in-base64"),
    pytest.param(("--set", "certificates.days=null"), "days", id="no-days"),
    pytest.param(("--set", "certificates.authorityDays=30"), "authorityDays", id="authority-ends-first"),
    pytest.param(("--set", "webhooks.bind=null"), "bind", id="row-without-a-value"),
    pytest.param(("--set", "rules.resources.limits.memory=96MiB"), "memory", id="no-quantity"),
    pytest.param(("--set-string", "podSecurityContext.runAsUser=me"), "runAsUser", id="user-by-name"),
    pytest.param(("--set", "image.repository=registry:5000/numa:0.1.0"), "repository", id="tag-in-the-repository"),
    pytest.param(("--set", "image.repository=https://registry/numa"), "repository", id="scheme-of-a-registry"),
    pytest.param(("--set", "image.repository=registry/Numa"), "repository", id="capital-in-a-repository"),
    pytest.param(("--set", "settings.workloads[0].group=a.b"), "workloads/0", id="workload-without-a-kind"),
    pytest.param(("--set", "settings.workloads[0].kind=Foo"), "templates", id="workload-without-templates"),
    pytest.param(("--set", "settings.workloads[0].kind=5"), "kind", id="workload-kind-is-a-number"),
    pytest.param(("--set", "settings.workloads[0].kind=Foo,settings.workloads[0].templates[0].path=a..b"), "path",
                 id="workload-path-that-is-none"),
    pytest.param(("--set", "settings.workloads[0].kind=Foo,settings.workloads[0].templates[0].paths=a"), "paths",
                 id="workload-with-an-unknown-key"),
    pytest.param(("--set-json", f"settings.workloads=[{ROW_OF_FOO},{ROW_OF_FOO}]"), "settings.workloads: Foo",
                 id="workload-kind-that-stands-twice"),
    pytest.param(("--set", "rules.url=http://rules"), "url", id="not-https"),
    pytest.param(("--set", "rules.url=https://rules/validate"), "url", id="path-is-ours"),
    pytest.param(("--set", "rules.url=https://10.0.1"), "url", id="half-an-address"),
    pytest.param(("--set", "networkPolicy.apiServerCIDRs={10.0.0.1}"), "apiServerCIDRs", id="address-without-length"),
])  # fmt: skip
def test_wrong_values_are_refused_with_their_name(each_helm: Helm, arguments: tuple[str, ...], told: str) -> None:
    done = each_helm.run("template", RELEASE, str(CHART), *arguments)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize("name", ["1st", "2.numa"])
def test_release_whose_services_could_not_be_named_is_told_what_to_give(helm: Helm, name: str) -> None:
    """Helm takes such a name; a Service's must begin with a letter."""
    done = helm.run("template", name, str(CHART))
    assert done.returncode != 0
    assert "fullnameOverride" in done.stderr
    assert only(helm.template("--set", "fullnameOverride=numa", release=name), "Service", "numa-rules")


@pytest.mark.parametrize("repository", [
    "numa-admission", "team/numa_admission", "registry.example.com/numa-admission", "registry:5000/a/b-c.d__e",
    "[fd00::1]:5000/numa",
])  # fmt: skip
def test_repositories_that_a_node_can_pull_from_are_taken(helm: Helm, repository: str) -> None:
    deployment = only(helm.template("--set", f"image.repository={repository}"), "Deployment", f"{FULLNAME}-rules")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].startswith(f"{repository}:")


def test_a_workload_kind_with_all_that_the_server_reads_is_taken(helm: Helm, tmp_path: Path) -> None:
    template = {"path": "spec.tasks[].template", "replicas": ["spec.tasks[].replicas"], "inline": False,
                "metadata": ["metadata"], "partial": True}  # fmt: skip
    row = {"group": "", "kind": "Foo", "plural": "foos", "clusterScoped": True, "templates": [template]}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"settings": {"workloads": [row]}}))
    objects = helm.template("--values", str(values))
    for text in only(objects, "ConfigMap", f"{FULLNAME}-settings")["data"].values():
        assert parse_settings(text.encode()).workloads[0].plural == "foos"


EMPTY_OF_ROLES = (
    "url", "priorityClassName", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints",
    "podAnnotations", "podLabels", "extraEnv", "extraArgs",
)  # fmt: skip
EMPTY = (
    "settings", "excludedNamespaces", "image.tag", "image.digest", "image.pullSecrets", "nameOverride",
    "fullnameOverride", "certificates.extraDNSNames", "certificates.extraIPAddresses",
    "certificates.existingSecret.name", "certificates.existingSecret.caBundle", "clientCA.secretName",
    "networkPolicy.apiServerCIDRs", "networkPolicy.metricsNamespaces", "networkPolicy.extraEgress",
    "serviceMonitor.labels", "prometheusRule.labels", "serviceAccounts.annotations",
    *(f"{role}.{key}" for role in ("rules", "ledger") for key in EMPTY_OF_ROLES),
)  # fmt: skip
"""Values whose default says nothing: null means the same."""


@pytest.mark.parametrize("value", EMPTY)
def test_null_is_as_good_as_empty(helm: Helm, value: str) -> None:
    enabled = ("--set", "networkPolicy.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true")
    assert helm.template(*enabled, "--set", f"{value}=null") == helm.template(*enabled)
