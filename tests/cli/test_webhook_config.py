"""``numa-admission webhook-config``: configurations that an API server takes, one entry for each row of the table."""

import base64
import re

import pytest
import yaml
from click.testing import CliRunner

from certs.mint import mint_development_pair
from webhook.cli.webhook_config import webhook_config
from webhook.core.judged import TABLE
from webhook.core.match_conditions import match_conditions
from webhook.wire.workload_table import STANDARD_ROWS

DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")
URL = ("--url", "https://webhook.example:8443")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return mint_development_pair(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def run(files):
    """Return a function that runs the command with a CA of its own; the two configurations by kind."""

    def call(*arguments):
        result = CliRunner().invoke(webhook_config, [*arguments, "--ca", str(files.ca_file)])
        assert result.exit_code == 0, result.output
        documents = list(yaml.safe_load_all(result.stdout))
        return {document["kind"]: document for document in documents}

    return call


def entries(documents):
    """All webhooks by the first word of their names."""
    return {
        webhook["name"].partition(".")[0]: webhook
        for document in documents.values()
        for webhook in document["webhooks"]
    }


def test_every_row_of_the_table_is_there(run):
    """By its name, at its endpoint, with its operations and conditions; workloads have two entries."""
    documents = run(*URL)
    found = entries(documents)
    conditions = match_conditions()
    assert set(found) == {*(row.webhook for row in TABLE), "validate-workloads-custom", "capacity-workloads-custom"}
    for row in TABLE:
        entry = found[row.webhook]
        assert entry["clientConfig"]["url"] == f"https://webhook.example:8443/{row.endpoint.value}"
        wanted = [{"name": each.name, "expression": each.expression} for each in conditions[row.webhook]]
        assert entry.get("matchConditions", []) == wanted
        for rule in entry["rules"]:
            assert set(rule["operations"]) == {operation.value for operation in row.operations}


def test_mutating_and_validating_are_apart(run):
    documents = run(*URL)
    assert [webhook["name"].partition(".")[0] for webhook in documents["MutatingWebhookConfiguration"]["webhooks"]] == [
        "mutate-pods"
    ]


@pytest.mark.parametrize("version", ["1.25", "v1.27.9", "1.27.16-eks-1"])
def test_before_match_conditions_nothing_fails(run, version):
    """An API server that knows none drops them without a word: Fail would then be for every pod of the cluster.

    And two entries would be sent each update of a pod.
    """
    found = entries(run(*URL, "--kube-version", version))
    assert not [entry for entry in found.values() if "matchConditions" in entry]
    assert {entry["failurePolicy"] for entry in found.values()} == {"Ignore"}
    assert found.keys() == entries(run(*URL)).keys() - {"validate-results"}


@pytest.mark.parametrize("version", ["1.28", "v1.37.2", "1.28.3-gke.100"])
def test_with_match_conditions_the_version_changes_nothing(run, version):
    assert run(*URL, "--kube-version", version) == run(*URL)


def test_version_that_is_none_is_told(files):
    result = CliRunner().invoke(webhook_config, [*URL, "--ca", str(files.ca_file), "--kube-version", "latest"])
    assert result.exit_code == 2
    assert "'latest' is not of the form 1.MINOR." in result.output


def test_names_are_domain_names_and_differ(run):
    """The API server wants at least three labels, each of them once in a configuration."""
    for document in run(*URL).values():
        names = [webhook["name"] for webhook in document["webhooks"]]
        assert len(set(names)) == len(names)
        assert all(DNS_NAME.fullmatch(name) and len(name) <= 253 for name in names)


def test_every_kind_of_the_table_is_matched(run):
    """By group and plural, in any version of a group that is not Kubernetes' own."""
    found = entries(run(*URL))
    for webhook in ("validate-workloads", "capacity-workloads"):
        rules = [*found[webhook]["rules"], *found[f"{webhook}-custom"]["rules"]]
        matched = {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}
        assert {(row.group, f"{row.kind.lower()}s") for row in STANDARD_ROWS} <= matched
        assert all(rule["apiVersions"] == ["*"] for rule in rules if rule["apiGroups"] != [""])


def test_only_what_must_not_fail_open_fails(run):
    """Only pods that ask for NUMA placement, and Bindings that would write our keys, wait for us."""
    failing = {name for name, entry in entries(run(*URL)).items() if entry["failurePolicy"] == "Fail"}
    assert failing == {"validate-pods", "validate-bindings"}


def test_times_are_short(run):
    times = {name: entry["timeoutSeconds"] for name, entry in entries(run(*URL)).items()}
    assert times["mutate-pods"] == 2
    assert times["validate-pods"] == 3
    assert times["capacity-pods"] == 2
    assert times["bind"] == 1


def test_a_service_instead_of_a_url(run):
    """Its namespace is never judged: a server that is down must be able to come up again."""
    for entry in entries(run("--service", "numa-system/numa-admission:8443")).values():
        client = entry["clientConfig"]
        assert "url" not in client
        assert client["service"]["namespace"] == "numa-system"
        assert client["service"]["name"] == "numa-admission"
        assert client["service"]["port"] == 8443
        assert client["service"]["path"].startswith("/")
        (expression,) = entry["namespaceSelector"]["matchExpressions"]
        assert expression["key"] == "kubernetes.io/metadata.name"
        assert {"kube-system", "numa-system"} <= set(expression["values"])


def test_the_bundle_holds_certificates_only(run, files, tmp_path):
    """A key in the same file stays behind."""
    both = tmp_path / "both.pem"
    both.write_bytes(files.key_file.read_bytes() + files.ca_file.read_bytes())
    result = CliRunner().invoke(webhook_config, [*URL, "--ca", str(both)])
    documents = {document["kind"]: document for document in yaml.safe_load_all(result.stdout)}
    bundle = base64.b64decode(entries(documents)["mutate-pods"]["clientConfig"]["caBundle"])
    assert b"BEGIN CERTIFICATE" in bundle
    assert b"PRIVATE KEY" not in bundle


def test_webhooks_and_namespaces_can_be_left_out(run):
    documents = run(*URL, "--without", "bind", "--without", "mutate-pods", "--exclude-namespace", "legacy")
    assert set(documents) == {"ValidatingWebhookConfiguration"}
    found = entries(documents)
    assert "bind" not in found
    assert "legacy" in found["validate-pods"]["namespaceSelector"]["matchExpressions"][0]["values"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="neither URL nor Service"),
        pytest.param((*URL, "--service", "a/b"), id="both"),
        pytest.param(("--url", "http://webhook.example"), id="no TLS"),
        pytest.param(("--url", "https://webhook.example/path"), id="a path"),
        pytest.param(("--service", "no-namespace"), id="a Service without namespace"),
        pytest.param(("--service", "a/b:99999"), id="a port that is none"),
    ],
)
def test_wrong_usage(arguments, files):
    result = CliRunner().invoke(webhook_config, [*arguments, "--ca", str(files.ca_file)])
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize("content", [None, "", "no certificate"], ids=["absent", "empty", "something else"])
def test_a_file_without_a_certificate(content, tmp_path):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    assert CliRunner().invoke(webhook_config, [*URL, "--ca", str(file)]).exit_code == 2


def test_kinds_of_the_settings_are_sent(run, tmp_path):
    """By their plural and scope; one that stands above a standard row is named once."""
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "workloads:\n"
        "- {group: example.io, kind: Proxy, plural: proxies, templates: [{path: spec.template, partial: true}]}\n"
        "- {group: example.io, kind: Pool, clusterScoped: true, templates: [{path: spec.template}]}\n"
        "- {group: ray.io, kind: RayJob, templates: [{path: spec.rayClusterSpec.headGroupSpec.template}]}\n"
    )
    found = entries(run(*URL, "--settings", str(settings)))
    for name in ("validate-workloads-custom", "capacity-workloads-custom"):
        rules = {(rule["apiGroups"][0], rule["scope"]): rule["resources"] for rule in found[name]["rules"]}
        assert rules["example.io", "Namespaced"] == ["proxies"]
        assert rules["example.io", "Cluster"] == ["pools"]
        assert rules["ray.io", "Namespaced"].count("rayjobs") == 1


def test_settings_with_a_fault_are_wrong_usage(files, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("workloads: [{kind: A, plural: 3, templates: []}]\n")
    arguments = [*URL, "--ca", str(files.ca_file), "--settings", str(settings)]
    result = CliRunner().invoke(webhook_config, arguments)
    assert result.exit_code == 2
    assert "plural: found the number 3, wanted a text." in result.output
