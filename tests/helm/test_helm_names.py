"""Names that Helm allows, whatever YAML takes them for, give objects that the API server takes."""

import re
from typing import Any

import pytest
import yaml
from rendering import CHART, Helm

from certs.names import names_of

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A Service's name (RFC 1035); a Deployment's is told in its pods' host names."""
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LONGEST = "a" * 53
"""Helm allows no more."""
RELEASES = (
    LONGEST, f"{'a' * 51}-b", f"numa-admission-{'b' * 38}", "a.b", "numa.admission", "true", "null", "no",
    "e1", "numa-admission",
)  # fmt: skip


def rendered(helm: Helm, release: str, namespace: str, *arguments: str) -> list[dict[str, Any]]:
    """Every object, by YAML 1.1, as kubectl reads it."""
    done = helm.run("template", release, str(CHART), "--namespace", namespace, *arguments)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def everywhere(value: object, keys: frozenset[str]) -> list[object]:
    """What stands at these keys, wherever they are."""
    if isinstance(value, list):
        return [found for each in value for found in everywhere(each, keys)]
    if not isinstance(value, dict):
        return []
    here = [each for key, each in value.items() if key in keys]
    return here + [found for each in value.values() for found in everywhere(each, keys)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("namespace", ["kube-system", "123", "true", "n" * 63])
def test_names_and_labels_are_texts_that_fit(helm: Helm, release: str, namespace: str) -> None:
    everything = ("--set", "networkPolicy.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true")
    objects = rendered(helm, release, namespace, *everything, "--set", "ledger.leaderElection=true,ledger.replicas=2")
    for each in objects:
        metadata = each["metadata"]
        assert isinstance(metadata["name"], str)
        assert metadata.get("namespace", namespace) in {namespace, "default"}
        if each["kind"] in {"Service", "Deployment"}:
            assert LABEL.fullmatch(metadata["name"]), metadata["name"]
    for labels in everywhere(objects, frozenset({"labels", "matchLabels"})):
        assert isinstance(labels, dict)
        assert all(isinstance(value, str) and LABEL_VALUE.fullmatch(value) for value in labels.values()), labels
    for found in everywhere(objects, frozenset({"namespace"})):
        assert found in {namespace, "default"}


@pytest.mark.parametrize("release", RELEASES)
def test_two_objects_of_a_kind_never_share_a_name(helm: Helm, release: str) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in rendered(helm, release, "numa")]
    assert len(set(names)) == len(names)


def test_longest_names_fit_a_certificate_of_cert_manager(helm: Helm) -> None:
    """It refuses a common name of more than 64 characters."""
    objects = rendered(helm, LONGEST, "numa", "--set", "certificates.mode=certManager")
    names = [each["spec"]["commonName"] for each in objects if "commonName" in each.get("spec", {})]
    assert names
    assert max(map(len, names)) <= 64


def test_texts_of_the_values_stay_texts(helm: Helm) -> None:
    """`true` and `1e3` are names as good as any."""
    texts = "fullnameOverride=true,rules.priorityClassName=null-1,clientCA.secretName=no,clientCA.key=1e3"
    objects = rendered(helm, "numa", "numa", "--set-string", f"{texts},nameOverride=123,rules.nodeSelector.a=true")
    configurations = [each for each in objects if "webhooks" in each]
    assert {each["metadata"]["name"] for each in configurations} == {"true"}
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    for pod in pods:
        (volume,) = [each for each in pod["volumes"] if each["name"] == "client-ca"]
        assert volume["secret"] == {"secretName": "no", "items": [{"key": "1e3", "path": "1e3"}]}


def names_of_the_keeper(objects: list[dict[str, Any]]) -> list[str]:
    """The names that the container with the certificates is told, beside those of the Services."""
    (keeper,) = [
        container
        for each in objects
        if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("-rules")
        for container in each["spec"]["template"]["spec"]["containers"]
        if container["name"] == "certificates"
    ]
    return [word for word in keeper["args"] if word.startswith(("--dns=", "--ip="))]


@pytest.mark.parametrize(("url", "name"), [
    pytest.param("https://numa.example.com", "--dns=numa.example.com", id="name"),
    pytest.param("https://10.0.0.1:8443", "--ip=10.0.0.1", id="address"),
    pytest.param("https://[fd00::1]:8443", "--ip=fd00::1", id="address-of-six"),
])  # fmt: skip
def test_url_is_called_instead_of_the_service_and_is_in_the_certificate(helm: Helm, url: str, name: str) -> None:
    objects = rendered(helm, "numa", "numa", "--set", f"rules.url={url}")
    clients = [each["clientConfig"] for one in objects if "webhooks" in one for each in one["webhooks"]]
    called = {each["url"] for each in clients if "url" in each}
    assert called == {f"{url}/mutate", f"{url}/validate"}
    services = {each["service"]["path"] for each in clients if "service" in each}
    assert services == {"/capacity", "/bind"}
    assert names_of_the_keeper(objects) == [name]


DNS_NAMES = ("a", "*.example.com", "4.example.com", "xn--bcher-kva.example", "1a", f"{'a' * 63}.b")
ADDRESSES = (
    "10.0.0.1", "0.0.0.0", "255.255.255.255", "fd00::1", "::", "::1", "fe80::", "A::b",  # noqa: S104 - names only
    "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8",
)  # fmt: skip


def test_further_names_and_addresses_are_in_the_certificate(helm: Helm) -> None:
    """What the schema takes, the program takes, each as what it is."""
    names, addresses = ",".join(DNS_NAMES), ",".join(ADDRESSES)
    values = f"certificates.extraDNSNames={{{names}}},certificates.extraIPAddresses={{{addresses}}}"
    words = names_of_the_keeper(rendered(helm, "numa", "numa", "--set-string", f"{values},rules.url=https://10.0.0.1"))
    assert words == [*(f"--dns={each}" for each in DNS_NAMES), *(f"--ip={each}" for each in ADDRESSES)]
    held = names_of(DNS_NAMES, ADDRESSES)
    assert len(held.dns) == len(DNS_NAMES)
    assert len(held.ip) == len(ADDRESSES)
    of_cert_manager = rendered(helm, "numa", "numa", "--set-string", f"{values},certificates.mode=certManager")
    (leaf,) = [each["spec"] for each in of_cert_manager if "dnsNames" in each.get("spec", {})]
    assert set(DNS_NAMES) < set(leaf["dnsNames"])
    assert leaf["ipAddresses"] == list(ADDRESSES)


def test_url_is_in_a_certificate_of_cert_manager(helm: Helm) -> None:
    values = "certificates.mode=certManager,rules.url=https://numa.example.com:1,ledger.url=https://10.0.0.1:2"
    (leaf,) = [each for each in rendered(helm, "numa", "numa", "--set", values) if "dnsNames" in each.get("spec", {})]
    assert "numa.example.com" in leaf["spec"]["dnsNames"]
    assert leaf["spec"]["ipAddresses"] == ["10.0.0.1"]
