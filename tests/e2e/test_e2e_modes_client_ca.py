"""An API server that shows a client certificate, and servers that answer nobody else.

The API server has an AdmissionConfiguration whose kubeconfig names the chart's Services, so it is one of its own.
"""

import base64
import http.client
import os
import re
import ssl
import textwrap
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from controlplane.authority import Authority, KeyPair, create_authority
from controlplane.binaries import APISERVER, Binaries, locate_helm
from controlplane.starting import start
from support_pods import LocalPod, quiet_ports
from support_release import CHART, Release, running_pods
from support_verdicts import check_verdicts

RELEASE, NAMESPACE = "numa", "numa-system"
SECRET = "apiserver-client-ca"  # noqa: S105 - a name
CALL_SECONDS = 10.0


@dataclass(frozen=True)
class Guarded:
    """The servers, and whom they trust."""

    release: Release
    pods: Mapping[str, LocalPod]
    clients: Authority
    apiserver: KeyPair


@pytest.fixture(scope="module")
def guarded(control_plane_binaries: Binaries, require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    require(*locate_helm(os.environ))
    folder = tmp_path_factory.mktemp("client-ca")
    clients = create_authority(folder / "clients", "authority of the API server's client certificate")
    shown = clients.issue_client("kube-apiserver", "kube-apiserver", ())
    ports = dict(zip(("rules", "ledger"), quiet_ports(2), strict=True))
    services = {role: f"{RELEASE}-numa-admission-{role}.{NAMESPACE}.svc:{port}" for role, port in ports.items()}
    flag = f"--admission-control-config-file={admission_configuration(folder, services, shown)}"
    with start(control_plane_binaries, folder / "plane", components=(), extra_flags={APISERVER: (flag,)}) as plane:
        release = Release(plane, RELEASE, NAMESPACE)
        plane.create_namespace(NAMESPACE)
        data = {"ca.crt": base64.b64encode(clients.ca_file.read_bytes()).decode()}
        metadata = {"name": SECRET, "namespace": NAMESPACE}
        plane.apply([{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}])
        service_ports = ",".join(f"{role}.servicePort={port}" for role, port in ports.items())
        release.install("--set", f"clientCA.secretName={SECRET},{service_ports}")
        with running_pods(release, folder / "pods", ports) as pods:
            yield Guarded(release, pods, clients, shown)


def admission_configuration(folder: Path, services: Mapping[str, str], shown: KeyPair) -> Path:
    """Write what the chart's README tells, with paths and names of here; the file that the API server is given."""
    section = (CHART / "README.md").read_text().partition("### An API server that shows who it is\n")[2]
    first, second = (textwrap.dedent(block) for block in re.findall(r"(?:^ {4}.+\n)+", section, re.MULTILINE)[:2])
    configuration, kubeconfig = folder / "admission.yaml", folder / "webhooks.kubeconfig"
    configuration.write_text(replaced(first, {"/etc/kubernetes/webhooks.kubeconfig": str(kubeconfig)}))
    ours = {
        "/etc/kubernetes/webhooks.crt": str(shown.certificate),
        "/etc/kubernetes/webhooks.key": str(shown.key),
        **{f"numa-admission-{role}.numa-admission.svc": name for role, name in services.items()},
    }
    kubeconfig.write_text(replaced(second, ours))
    return configuration


def replaced(text: str, changes: Mapping[str, str]) -> str:
    """The text with each of these replaced; each stands in it once."""
    for old, new in changes.items():
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return text


def test_api_server_that_shows_its_certificate_is_served(guarded: Guarded) -> None:
    plane = guarded.release.plane
    plane.create_namespace("team")
    check_verdicts(plane, "team")


@pytest.mark.parametrize(("role", "path"), [("rules", "/validate"), ("ledger", "/capacity")])
def test_caller_without_the_certificate_is_refused(guarded: Guarded, role: str, path: str, tmp_path: Path) -> None:
    """None at all, or one of another authority: the connection ends before a word of the call is read."""
    stranger = create_authority(tmp_path / "other").issue_client("stranger", "kube-apiserver", ())
    for pair in (None, stranger):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            call(guarded.pods[role], path, pair)
    assert call(guarded.pods[role], path, guarded.apiserver) == http.client.BAD_REQUEST


@pytest.mark.parametrize("role", ["rules", "ledger"])
def test_probes_need_no_certificate(guarded: Guarded, role: str) -> None:
    """A kubelet and a Prometheus have none."""
    probes = list(guarded.pods[role].ports.values())[1]
    for path in ("/livez", "/readyz", "/metrics"):
        with urllib.request.urlopen(f"http://127.0.0.1:{probes}{path}", timeout=CALL_SECONDS) as answer:
            assert answer.status == http.client.OK


def call(pod: LocalPod, path: str, pair: KeyPair | None) -> int:
    """Send a review that is none to the admission port; the status of the answer."""
    tls = ssl.create_default_context()
    # Who the server is does not matter here, but whom it serves.
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    if pair is not None:
        tls.load_cert_chain(pair.certificate, pair.key)
    port = next(iter(pod.ports.values()))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=CALL_SECONDS, context=tls)
    try:
        connection.request("POST", path, b"{}", {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()
