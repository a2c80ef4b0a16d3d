"""The NetworkPolicy lets through exactly the ports that the rendered processes listen on and connect to."""

from typing import Any

import pytest
from rendering import FULLNAME, VALUE_SETS, Helm, only

POLICIES_ON = ("--set", "networkPolicy.enabled=true")
ROLES = ("rules", "ledger")


def pods_of(objects: list[dict[str, Any]], policy: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates that a policy selects."""
    wanted = policy["spec"]["podSelector"]["matchLabels"].items()
    templates = [each["spec"]["template"] for each in objects if each["kind"] == "Deployment"]
    return [each for each in templates if wanted <= each["metadata"]["labels"].items()]


def bound_ports(pod: dict[str, Any]) -> set[int]:
    """The ports in the command lines of a pod's containers."""
    words = [word for each in pod["spec"]["containers"] for word in each.get("args", ())]
    return {int(word.rpartition(":")[2]) for word in words if word.startswith(("--bind=", "--probe-bind="))}


def ports_of(rules: list[dict[str, Any]]) -> set[int]:
    """All ports of ingress or egress rules; each rule must name some."""
    assert all(port["protocol"] == "TCP" for rule in rules for port in rule["ports"])
    return {port["port"] for rule in rules for port in rule["ports"]}


@pytest.mark.parametrize("values", [pytest.param(path, id=path.stem) for path in VALUE_SETS])
def test_policy_of_each_role_has_the_ports_of_its_deployment(helm: Helm, values: Any) -> None:
    objects = helm.template("--values", str(values), *POLICIES_ON)
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    deployments = [each for each in objects if each["kind"] == "Deployment"]
    assert len(policies) == len(deployments)
    for policy in policies:
        (pod,) = pods_of(objects, policy)
        declared = {port["containerPort"] for each in pod["spec"]["containers"] for port in each.get("ports", ())}
        assert ports_of(policy["spec"]["ingress"]) == declared == bound_ports(pod)
        asks = any(each["name"] == "token" for each in pod["spec"]["volumes"])
        assert ports_of(policy["spec"]["egress"]) == ({443, 6443} if asks else set())
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("role", ROLES)
def test_other_ports_are_followed(helm: Helm, role: str) -> None:
    ports = f"{role}.port=9443,{role}.probePort=9080,{role}.servicePort=8443"
    objects = helm.template(*POLICIES_ON, "--set", ports, "--set", "networkPolicy.apiServerPorts={16443}")
    policy = only(objects, "NetworkPolicy", f"{FULLNAME}-{role}")
    assert ports_of(policy["spec"]["ingress"]) == {9443, 9080}
    assert ports_of(policy["spec"]["egress"]) == {16443}
    (pod,) = pods_of(objects, policy)
    named = {
        port["name"]: port["containerPort"] for each in pod["spec"]["containers"] for port in each.get("ports", ())
    }
    service = only(objects, "Service", f"{FULLNAME}-{role}")["spec"]
    assert [(each["port"], named[each["targetPort"]]) for each in service["ports"]] == [(8443, 9443)]


def test_who_may_call_is_narrowed_without_a_word_about_probes_of_the_node(helm: Helm) -> None:
    """Addresses of API servers stand at the admission port, namespaces of a Prometheus at the other."""
    label = "kubernetes.io/metadata.name"
    objects = helm.template(
        *POLICIES_ON,
        "--set", "networkPolicy.apiServerCIDRs={10.0.0.0/28,10.1.0.0/28}",
        "--set", f"networkPolicy.metricsNamespaces[0].matchLabels.{label.replace('.', chr(92) + '.')}=monitoring",
        "--set", "networkPolicy.extraEgress[0].ports[0].port=53",
    )  # fmt: skip
    for role in ROLES:
        spec = only(objects, "NetworkPolicy", f"{FULLNAME}-{role}")["spec"]
        admission, probes = spec["ingress"]
        assert admission["from"] == [{"ipBlock": {"cidr": f"10.{each}.0.0/28"}} for each in (0, 1)]
        assert probes["from"] == [{"namespaceSelector": {"matchLabels": {label: "monitoring"}}}]
        assert spec["egress"][-1] == {"ports": [{"port": 53}]}
        assert all("to" not in each for each in spec["egress"])
