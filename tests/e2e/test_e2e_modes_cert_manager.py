"""cert-manager's own controllers and CA injector make the chart's certificate, and keep it right while it changes."""

import base64
import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from controlplane.binaries import CERT_MANAGER, DEFINITIONS, locate_companions
from controlplane.client import MERGE_PATCH
from controlplane.plane import ControlPlane, scrubbed_environment
from controlplane.processes import Running, start_process, wait_until
from cryptography import x509
from support_definitions import define
from support_pods import quiet_ports
from support_release import Installed, Release, running_pods
from support_verdicts import check_verdicts, wait_until_served

ISSUED_SECONDS = 120.0
CERTIFICATES = "/apis/cert-manager.io/v1"


@pytest.fixture(scope="module")
def cert_manager(control_plane: ControlPlane, require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """cert-manager beside the control plane, with its resources defined."""
    companions = locate_companions(os.environ)
    require(companions, CERT_MANAGER, DEFINITIONS)
    define(control_plane, companions.path(DEFINITIONS))
    folder = tmp_path_factory.mktemp("cert-manager")
    command = [str(companions.path(CERT_MANAGER)), f"--kubeconfig={control_plane.kubeconfig()}"]
    running = start_process("cert-manager", command, folder / "cert-manager.log", scrubbed_environment(folder))
    yield running
    running.stop()


@dataclass(frozen=True)
class Issued:
    """A release whose certificate cert-manager makes."""

    installed: Installed
    cert_manager: Running

    def secret(self, name: str) -> dict[str, bytes]:
        """The files of a Secret; none where there is no such Secret yet."""
        release = self.installed.release
        answer = release.plane.api("GET", f"/api/v1/namespaces/{release.namespace}/secrets/{name}")
        data = answer.json().get("data", {}) if answer.status < 300 else {}
        return {key: base64.b64decode(value) for key, value in data.items()}

    def renew(self, name: str) -> dict[str, bytes]:
        """Have a Certificate issued anew, as `cmctl renew` asks for it; the files of its Secret afterwards."""
        release = self.installed.release
        path = f"{CERTIFICATES}/namespaces/{release.namespace}/certificates/{name}"
        certificate = release.plane.get(path)
        before = self.secret(certificate["spec"]["secretName"])["tls.crt"]
        issuing = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "lastTransitionTime": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": certificate["metadata"]["generation"],
        }
        change = {"status": {"conditions": [*certificate["status"]["conditions"], issuing]}}
        release.plane.api("PATCH", f"{path}/status", change, content_type=MERGE_PATCH).wanted()
        self.wait(lambda: self.secret(certificate["spec"]["secretName"])["tls.crt"] != before, f"a renewed {name}")
        return self.secret(certificate["spec"]["secretName"])

    def wait(self, question: Any, what: str) -> None:
        """Wait until the answer is yes, while cert-manager runs."""
        wait_until(question, what=what, within_seconds=ISSUED_SECONDS, running=self.cert_manager)

    def bundles(self) -> set[bytes]:
        """The caBundle of every webhook."""
        return {base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in self.installed.release.entries()}


@pytest.fixture
def ports() -> dict[str, int]:
    return dict(zip(("rules", "ledger"), quiet_ports(2), strict=True))


@pytest.fixture
def mode(ports: dict[str, int]) -> tuple[str, str]:
    """The helm arguments of this mode."""
    services = ",".join(f"{role}.servicePort={port}" for role, port in ports.items())
    return "--set", f"certificates.mode=certManager,{services}"


@pytest.fixture
def certified(release: Release, cert_manager: Running, mode: tuple[str, str]) -> Issued:
    """An installed release without pods, once its first certificate is there and trusted."""
    release.install(*mode)
    waiting = Issued(Installed(release, {}), cert_manager)
    waiting.wait(lambda: bool(waiting.secret(f"{release.fullname}-tls").get("tls.crt")), "the issued certificate")
    waiting.wait(release.is_trusted, "caBundle in every webhook")
    return waiting


@pytest.fixture
def issued(certified: Issued, ports: dict[str, int], tmp_path: Path) -> Iterator[Issued]:
    """The same with its pods."""
    release = certified.installed.release
    with running_pods(release, tmp_path, ports) as pods:
        yield Issued(Installed(release, pods), certified.cert_manager)


def test_certificate_is_issued_trusted_and_renewed_with_its_authority(issued: Issued, namespace: str) -> None:
    """The leaf, then the authority, then the leaf of the renewed authority; judged at each moment, no pod anew."""
    release = issued.installed.release
    name, plane = f"{release.fullname}-tls", release.plane
    files = issued.secret(name)
    leaf = x509.load_pem_x509_certificate(files["tls.crt"])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert {f"{release.fullname}-{role}.{release.namespace}.svc" for role in ("rules", "ledger")} <= set(names)
    assert issued.bundles() == {files["ca.crt"]}
    check_verdicts(plane, namespace)

    renewed = issued.renew(name)
    assert renewed["ca.crt"] == files["ca.crt"]
    refresh(issued, renewed)
    check_verdicts(plane, namespace)

    authority = issued.renew(f"{release.fullname}-authority")
    assert authority["tls.crt"] != files["ca.crt"]
    check_verdicts(plane, namespace)
    last = issued.renew(name)
    assert last["ca.crt"] == authority["tls.crt"]
    # The injector keeps the one of before beside it.
    wanted = authority["tls.crt"].strip()
    issued.wait(lambda: all(wanted in each for each in issued.bundles()), "the renewed authority in caBundle")
    # The pods still show the certificate of before: a kubelet brings the new one up to 90 s later.
    check_verdicts(plane, namespace)
    refresh(issued, last)
    check_verdicts(plane, namespace)


def refresh(issued: Issued, files: dict[str, bytes]) -> None:
    """Do the kubelet's part, and wait until the servers show the Secret's certificate."""
    for pod in issued.installed.pods.values():
        pod.refresh_volumes()
        wait_until_served(pod, files["tls.crt"])


def test_nobody_of_ours_may_touch_the_certificate(certified: Issued) -> None:
    release = certified.installed.release
    for role in ("rules", "ledger"):
        for verb in ("get", "update", "patch", "delete"):
            assert not release.may(role, verb, f"secrets/{release.fullname}-tls")
            assert not release.may(role, verb, f"secrets/{release.fullname}-authority")
        assert not release.may(role, "patch", "validatingwebhookconfigurations")


def test_upgrade_keeps_what_was_injected(certified: Issued, mode: tuple[str, str]) -> None:
    release = certified.installed.release
    before = certified.bundles()
    release.upgrade(*mode, "--set", "webhooks.bind.timeoutSeconds=2")
    assert certified.bundles() == before
