"""The chart through real helm: every documented value set, and what must hold in each."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions
from rendering import CHART, FULLNAME, NAMESPACE, VALUE_SETS, Helm, containers_of, only, webhook_entries

from webhook.cluster.endpoints import LeaderSlice
from webhook.service.checkpointing import SHARDS
from webhook.service.settings import CLOSING_SECONDS
from webhook.service.settings_file import parse_settings
from webhook.wire.webhook_configurations import Target, webhook_configurations

OLDEST, WITH_CONDITIONS = "1.25", "1.28"
KUBERNETES_VERSIONS = tuple(f"1.{minor}" for minor in range(25, 38))
CUSTOM_GROUPS = ("monitoring.coreos.com/", "cert-manager.io/")


def minor(version: str) -> int:
    """28 of 1.28 and of 1.28.0."""
    return int(version.split(".")[1])


value_sets = pytest.mark.parametrize("values", [pytest.param(path, id=path.stem) for path in VALUE_SETS])


@value_sets
def test_helm_lint_finds_nothing(each_helm: Helm, values: Any) -> None:
    done = each_helm.run("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def different_objects(helm: Helm) -> dict[str, list[dict[str, Any]]]:
    """What all value sets render before 1.28 and from it on, less what differs in names only; no custom resources.

    The chart looks at the version once, at 1.28: what it renders is the same on each side. Custom resources are judged
    by a real API server with their definitions (``tests/e2e/test_e2e_modes_custom_resources.py``).
    """
    return {version: _different(helm, version) for version in (OLDEST, WITH_CONDITIONS)}


def _different(helm: Helm, version: str) -> list[dict[str, Any]]:
    found = {}
    for values in VALUE_SETS:
        for each in helm.template("--values", str(values), "--kube-version", f"{version}.0"):
            if not each["apiVersion"].startswith(CUSTOM_GROUPS):
                nameless = {**each, "metadata": {**each["metadata"], "name": ""}}
                found[json.dumps(nameless, sort_keys=True)] = each
    return list(found.values())


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_objects_are_valid_in_every_kubernetes_version(different_objects: dict[str, Any], version: str) -> None:
    """Strictly: a field that a version does not know is a fault too."""
    rendered_for = max((each for each in different_objects if minor(each) <= minor(version)), key=minor)
    assert len(different_objects[rendered_for]) > 20
    for each in different_objects[rendered_for]:
        try:
            kubernetes_validate.validate(each, version, strict=True)
        except jsonschema.ValidationError as error:
            pytest.fail(f"{version} {each['kind']} {each['metadata']['name']}: {error.message}")


def test_versions_are_those_that_the_chart_allows_and_that_have_schemas() -> None:
    assert {f"{each}.0" for each in KUBERNETES_VERSIONS} == set(all_versions())
    (oldest,) = re.findall(r"^kubeVersion: \">=(\d+\.\d+)\.0-0\"$", (CHART / "Chart.yaml").read_text(), re.MULTILINE)
    assert oldest == OLDEST


def test_schema_of_a_version_refuses_what_came_later(different_objects: dict[str, Any]) -> None:
    """The chart's matchConditions are none of 1.25: so the judge above does bite."""
    later = [each for each in different_objects[WITH_CONDITIONS] if "webhooks" in each]
    assert later
    for each in later:
        with pytest.raises(jsonschema.ValidationError, match="matchConditions"):
            kubernetes_validate.validate(each, OLDEST, strict=True)


@value_sets
def test_rendered_settings_are_read_by_the_server(helm: Helm, values: Any) -> None:
    objects = helm.template("--values", str(values))
    files = only(objects, "ConfigMap", f"{FULLNAME}-settings")["data"]
    settings = {name: parse_settings(text.encode()) for name, text in files.items()}
    assert set(settings) == ({"rules.yaml"} if values.stem == "rules-only" else {"rules.yaml", "ledger.yaml"})
    wanted = (yaml.safe_load(values.read_text()) or {}).get("enforcement", "deny")
    assert {each.rules.enforcement.value for each in settings.values()} == {wanted}
    assert all(each.capacity.guards_bindings is (values.stem != "rules-only") for each in settings.values())


@value_sets
def test_containers_are_locked_down(helm: Helm, values: Any) -> None:
    """Non-root, read-only, no capability, no privilege to gain, bounded memory, no CPU limit, seccomp's default."""
    seen = 0
    for name, spec, container in containers_of(helm.template("--values", str(values))):
        seen += 1
        where = f"{name}/{container['name']}"
        assert spec["securityContext"]["runAsNonRoot"] is True, where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }, where
        assert "memory" in container["resources"]["limits"], where
        assert "cpu" not in container["resources"]["limits"], where
    assert seen >= 2


@value_sets
def test_no_name_is_rendered_twice(helm: Helm, values: Any) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in helm.template("--values", str(values))]
    assert len(names) == len(set(names))


@value_sets
def test_rendering_twice_gives_the_same(helm: Helm, values: Any) -> None:
    """No random text, no clock: a GitOps tool renders again and again."""
    assert helm.template("--values", str(values)) == helm.template("--values", str(values))


@pytest.mark.parametrize(("left_out", "arguments"), [
    pytest.param((), (), id="all"),
    pytest.param(("bind", "mutate-pods"), ("--set", "webhooks.bind.enabled=false,webhooks.mutate-pods.enabled=false"),
                 id="without-two"),
    pytest.param(("bind", "capacity-pods", "capacity-workloads"), ("--set", "ledger.enabled=false"), id="rules-only"),
])  # fmt: skip
def test_configurations_are_those_of_the_code(
    helm: Helm, left_out: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    """Entry for entry, in order; the Service depends on the role, and caBundle belongs to whoever keeps it."""
    rendered = [each for each in helm.template(*arguments) if "webhooks" in each]
    plain = webhook_configurations(
        FULLNAME,
        Target(namespace=NAMESPACE, service="by-role"),
        ca_bundle="",
        excluded_namespaces=("kube-system", NAMESPACE),
        left_out=left_out,
    )
    assert [each["kind"] for each in rendered] == [each["kind"] for each in plain]
    for ours, theirs in zip(rendered, plain, strict=True):
        assert ours["metadata"]["name"] == theirs["metadata"]["name"]
        for entry in theirs["webhooks"]:
            path = entry["clientConfig"]["service"]["path"]
            role = "ledger" if path in {"/capacity", "/bind"} else "rules"
            entry["clientConfig"] = {
                "service": {"namespace": NAMESPACE, "name": f"{FULLNAME}-{role}", "port": 443, "path": path}
            }
        assert ours["webhooks"] == theirs["webhooks"]


def test_kinds_of_the_settings_are_sent(helm: Helm, tmp_path: Path) -> None:
    """A kind that only the server knows would never reach it."""
    rows = [
        {"group": "example.io", "kind": "Proxy", "plural": "proxies", "templates": [{"path": "spec.template"}]},
        {"group": "example.io", "kind": "Pool", "clusterScoped": True, "templates": [{"path": "spec.template"}]},
    ]
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"settings": {"workloads": rows}}))
    found = {each["name"].partition(".")[0]: each for each in webhook_entries(helm.template("--values", str(values)))}
    for name in ("validate-workloads-custom", "capacity-workloads-custom"):
        assert [(rule["resources"], rule["scope"]) for rule in found[name]["rules"][-2:]] == [
            (["proxies"], "Namespaced"),
            (["pools"], "Cluster"),
        ]
        assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in found[name]["rules"])
    assert all(rule["apiGroups"] != ["example.io"] for rule in found["validate-workloads"]["rules"])


@value_sets
def test_own_namespace_and_kube_system_never_match(helm: Helm, values: Any) -> None:
    for entry in webhook_entries(helm.template("--values", str(values))):
        (expression,) = entry["namespaceSelector"]["matchExpressions"]
        assert expression["key"] == "kubernetes.io/metadata.name"
        assert expression["operator"] == "NotIn"
        assert {"kube-system", NAMESPACE} <= set(expression["values"])
        assert len(expression["values"]) == len(set(expression["values"]))


@pytest.mark.parametrize("arguments", [
    pytest.param(("--kube-version", "1.27.9"), id="no-match-conditions"),
    pytest.param(("--set", "enforcement=warn"), id="warn"),
])  # fmt: skip
def test_fail_is_turned_into_ignore(helm: Helm, arguments: tuple[str, ...]) -> None:
    """Where everything would match, and where everything is let through anyway."""
    entries = webhook_entries(helm.template(*arguments))
    assert {entry["failurePolicy"] for entry in entries} == {"Ignore"}
    assert any("matchConditions" in entry for entry in entries) is ("1.27.9" not in arguments)


def test_without_conditions_no_update_of_a_pod_is_asked_of_twice(helm: Helm) -> None:
    """From 1.28 on the conditions of validate-pods and validate-results never hold together."""
    entries = webhook_entries(helm.template("--kube-version", "1.27.9"))
    of_pods = [
        (entry["clientConfig"]["service"]["path"], operation)
        for entry in entries
        for rule in entry["rules"]
        if "pods" in rule["resources"]
        for operation in rule["operations"]
    ]
    assert ("/validate", "UPDATE") in of_pods
    assert len(of_pods) == len(set(of_pods))


def test_fail_stands_where_nothing_else_matches(helm: Helm) -> None:
    failing = {e["name"]: bool(e.get("matchConditions")) for e in webhook_entries(helm.template())
               if e["failurePolicy"] == "Fail"}  # fmt: skip
    assert failing == {"validate-pods.numa-admission.io": True, "validate-bindings.numa-admission.io": True}


def test_warn_softens_every_outcome_of_the_ledger(helm: Helm) -> None:
    values = ("--set", "enforcement=warn", "--set", "settings.capacity.outcomes.never=deny")
    text = only(helm.template(*values), "ConfigMap", f"{FULLNAME}-settings")["data"]["ledger.yaml"]
    assert {mode.value for mode in parse_settings(text.encode()).capacity.outcomes.values()} <= {"warn", "off"}


def test_rules_may_keep_their_certificates_and_nothing_else(helm: Helm) -> None:
    objects = helm.template()
    role = only(objects, "Role", f"{FULLNAME}-rules")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [f"{FULLNAME}-tls"], "verbs": ["get", "update"]}
    ]
    cluster_role = only(objects, "ClusterRole", f"{NAMESPACE}-{FULLNAME}-rules")
    assert cluster_role["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": [FULLNAME],
            "verbs": ["get", "patch"],
        }
    ]


@pytest.mark.parametrize(("values", "verbs"), [
    pytest.param(("--set", "certificates.mode=certManager"), None, id="cert-manager"),
    pytest.param(("--set", "certificates.mode=existingSecret,certificates.existingSecret.name=s"), ["get"],
                 id="existing-secret"),
])  # fmt: skip
def test_secret_of_others_is_never_ours_to_write(helm: Helm, values: tuple[str, ...], verbs: list[str] | None) -> None:
    roles = [each for each in helm.template(*values) if each["kind"] in {"Role", "ClusterRole"}]
    rules = [rule for role in roles for rule in role["rules"] if rule["resources"] == ["secrets"]]
    assert [rule["verbs"] for rule in rules] == ([verbs] if verbs else [])


@pytest.mark.parametrize("mode", [
    pytest.param("mode=self", id="self"),
    pytest.param("mode=certManager", id="cert-manager"),
    pytest.param("mode=existingSecret,certificates.existingSecret.name=s", id="existing-secret"),
])  # fmt: skip
def test_ledger_has_its_pair_and_no_way_to_the_key_that_signs(helm: Helm, mode: str) -> None:
    """It reads what strangers send and has a token, which must not read the Secret; the kubelet brings the pair."""
    objects = helm.template("--set", f"certificates.{mode}")
    of_ledger = [each for each in objects if each["metadata"]["name"].endswith("-ledger")]
    roles = [each for each in of_ledger if each["kind"] in {"Role", "ClusterRole"}]
    assert len(roles) == 2
    assert [rule for role in roles for rule in role["rules"] if {"secrets", "*"} & set(rule["resources"])] == []
    spec = only(objects, "Deployment", f"{FULLNAME}-ledger")["spec"]["template"]["spec"]
    (tls,) = [each["secret"] for each in spec["volumes"] if "secret" in each]
    assert tls["items"] == [{"key": name, "path": name} for name in ("tls.crt", "tls.key")]
    assert not tls.get("optional")
    assert [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])] == ["server"]


def test_ledger_follows_the_cluster_and_writes_only_what_is_its_own(helm: Helm) -> None:
    """By name wherever there is a name; nothing of the cluster but the nomination of a pod that it refused."""
    objects = helm.template("--set", "ledger.leaderElection=true,ledger.replicas=2")
    files = only(objects, "ConfigMap", f"{FULLNAME}-settings")["data"]
    cluster = parse_settings(files["ledger.yaml"].encode()).cluster
    assert cluster.live
    assert not parse_settings(files["rules.yaml"].encode()).cluster.live
    maps = {f"{cluster.checkpoint}-{shard}" for shard in range(SHARDS)}
    assert maps <= {each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"}
    only(objects, "Lease", cluster.lease)
    assert only(objects, "Service", cluster.service)["spec"]["ports"][0]["name"] == "https"
    writing = {
        (resource, verb): set(rule.get("resourceNames", ()))
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"} and role["metadata"]["name"].endswith("-ledger")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    }
    slice_name = LeaderSlice(None, NAMESPACE, cluster.service).name
    assert writing == {
        ("pods/status", "patch"): set(),
        ("configmaps", "update"): maps,
        ("leases", "update"): {cluster.lease},
        ("endpointslices", "create"): set(),
        ("endpointslices", "update"): {slice_name},
        ("endpointslices", "delete"): {slice_name},
    }


def test_container_that_reads_what_strangers_send_has_no_token(helm: Helm) -> None:
    deployment = only(helm.template(), "Deployment", f"{FULLNAME}-rules")
    spec = deployment["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    mounts = {c["name"]: {mount["name"] for mount in c["volumeMounts"]} for c in spec["containers"]}
    assert "token" not in mounts["server"]
    assert "token" in mounts["certificates"]


ELECTION = ("--set", "ledger.leaderElection=true,ledger.replicas=2")


@pytest.mark.parametrize(
    ("role", "arguments", "drain_seconds"),
    [
        pytest.param("rules", (), 5, id="rules"),
        pytest.param("ledger", (), 5, id="ledger"),
        pytest.param("ledger", ELECTION, 15, id="ledger with a leader, until another has been seen"),
        pytest.param("ledger", (*ELECTION, "--set", "settings.server.drainSeconds=3"), 3, id="as the admin says"),
    ],
)
def test_stopping_pod_has_time_to_drain(helm: Helm, role: str, arguments: tuple[str, ...], drain_seconds: int) -> None:
    """PreStop and the server's own end by force fit into the grace period, with room.

    After the drain an API server that calls no more has the 90 s after which it closes its connections.
    """
    objects = helm.template(*arguments)
    files = only(objects, "ConfigMap", f"{FULLNAME}-settings")["data"]
    server = parse_settings(files[f"{role}.yaml"].encode()).server
    assert server.drain_seconds == drain_seconds
    spec = only(objects, "Deployment", f"{FULLNAME}-{role}")["spec"]["template"]["spec"]
    (container,) = [each for each in spec["containers"] if each["name"] == "server"]
    pre_stop_seconds = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] >= pre_stop_seconds + server.graceful_seconds + 5
    assert server.graceful_seconds >= server.drain_seconds + 95


@pytest.mark.parametrize("closing_seconds", [CLOSING_SECONDS, 6.0], ids=["as-it-is", "were-it-longer"])
@pytest.mark.parametrize(("role", "arguments"), [
    pytest.param("rules", ("--set", "ledger.enabled=false"), id="rules"),
    pytest.param("ledger", ELECTION, id="ledger"),
])  # fmt: skip
def test_shortest_stop_that_the_chart_takes_is_the_shortest_that_the_server_takes(
    helm: Helm, tmp_path: Path, role: str, arguments: tuple[str, ...], closing_seconds: float
) -> None:
    """The server closes connections in its last seconds, after the drain; the chart counts them in."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "files" / "stop.json").write_text(json.dumps({"closingSeconds": closing_seconds, "endingSeconds": 5.0}))

    def rendered(seconds: int) -> subprocess.CompletedProcess[str]:
        return helm.run("template", "numa", str(chart), *arguments, "--set", f"terminationGracePeriodSeconds={seconds}")

    seconds = 1
    while (done := rendered(seconds)).returncode:
        assert f"drainSeconds + {closing_seconds + 5:g}" in done.stderr
        (wanted,) = re.findall(r"found (?:\d+), wanted (\d+) or more", done.stderr)
        assert rendered(int(wanted) - 1).returncode != 0
        seconds = int(wanted)
    texts = [
        each["data"][f"{role}.yaml"]
        for each in yaml.safe_load_all(done.stdout)
        if each and each["kind"] == "ConfigMap" and "data" in each
    ]
    server = parse_settings(texts[0].encode()).server
    assert server.graceful_seconds == server.drain_seconds + closing_seconds


def test_leader_service_has_no_selector(helm: Helm) -> None:
    objects = helm.template("--set", "ledger.leaderElection=true,ledger.replicas=2")
    assert "selector" not in only(objects, "Service", f"{FULLNAME}-ledger")["spec"]
    assert "selector" in only(objects, "Service", f"{FULLNAME}-rules")["spec"]


@pytest.mark.parametrize(("value", "key", "seconds"), [
    pytest.param("webhooks.validate-pods.timeoutSeconds=10", "validate", 10, id="of one webhook of a path"),
    pytest.param("webhooks.validate-pods.timeoutSeconds=1", "validate", 3, id="the others of the path wait longer"),
    pytest.param("webhooks.bind.timeoutSeconds=3", "bind", 3, id="of the ledger"),
    pytest.param("webhooks.bind.timeoutSeconds=3,settings.timeouts.bindSeconds=2", "bind", 2, id="settings count more"),
    pytest.param("webhooks.bind.timeoutSeconds=3,settings.timeouts.bindSeconds=null", "bind", 3, id="null is nothing"),
])  # fmt: skip
def test_the_server_takes_as_long_as_the_api_server_waits(helm: Helm, value: str, key: str, seconds: float) -> None:
    files = only(helm.template("--set", value), "ConfigMap", f"{FULLNAME}-settings")["data"]
    for text in files.values():
        assert getattr(parse_settings(text.encode()).timeouts, f"{key}_seconds") == seconds


ROLLS = [
    ("settings.log.level=debug", {"rules", "ledger"}),
    ("settings.server.threads=9", {"rules", "ledger"}),
    ("settings.capacity.pictureFile=/picture.yaml", {"rules", "ledger"}),
    ("rules.workers=2", {"rules"}),
    ("ledger.leaderElection=true", {"ledger"}),
    ("enforcement=warn", set()),
    ("settings.rules.families.cpu=warn", set()),
    ("settings.capacity.outcomes.never=warn", set()),
    ("settings.timeouts.bindSeconds=2", set()),
    ("ledger.resources.limits.memory=3Gi", set()),
    ("settings=null", set()),
    ("settings.server=null", set()),
    ("settings.rules.families.cpu=null,settings.rules.dialects=null,settings.capacity=null", set()),
]


@pytest.mark.parametrize("value, rolled", ROLLS, ids=[value for value, _ in ROLLS])
def test_only_settings_that_need_a_restart_mean_new_pods(helm: Helm, value: str, rolled: set[str]) -> None:
    def checksums(*arguments: str) -> dict[str, str]:
        objects = helm.template(*arguments)
        templates = {
            role: only(objects, "Deployment", f"{FULLNAME}-{role}")["spec"]["template"] for role in ("rules", "ledger")
        }
        return {role: each["metadata"]["annotations"]["checksum/restart-settings"] for role, each in templates.items()}

    before, after = checksums(), checksums("--set", value)
    assert {role for role, checksum in after.items() if checksum != before[role]} == rolled


def test_release_named_after_the_chart_keeps_its_name(helm: Helm) -> None:
    names = {each["metadata"]["name"] for each in helm.template(release="numa-admission")}
    assert "numa-admission-rules" in names


def test_rendered_entries_are_plain_json(helm: Helm) -> None:
    """Numbers from a JSON file are floats to helm; none may be rendered as one."""
    text = json.dumps(webhook_entries(helm.template()))
    assert '"timeoutSeconds": 3' in text
    assert ".0," not in text
