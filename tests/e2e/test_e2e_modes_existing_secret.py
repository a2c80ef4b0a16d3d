"""A Secret that the admin keeps: we only read it, follow it without a restart, and could not write it."""

import base64
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from controlplane.authority import Authority, KeyPair, create_authority
from controlplane.client import MERGE_PATCH
from controlplane.processes import wait_until
from support_pods import LOOPBACK, LocalPod
from support_release import Installed, Release, serving
from support_verdicts import NOTICED_SECONDS, check_verdicts, wait_until_served

SECRET = "of-the-admin"  # noqa: S105 - a name
CALL_SECONDS = 10.0
# The container that keeps caBundle looks every 30 s.
TRUSTED_SECONDS = 60.0


def names_of(release: Release) -> tuple[str, ...]:
    """The names by which the API server calls the release's Services."""
    return tuple(f"{release.fullname}-{role}.{release.namespace}.svc" for role in ("rules", "ledger"))


def secret(release: Release, name: str, **files: bytes) -> dict[str, Any]:
    """A Secret in the release's namespace; `tls_crt` becomes `tls.crt`."""
    data = {key.replace("_", "."): base64.b64encode(content).decode() for key, content in files.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": release.namespace},
        "data": data,
    }


@dataclass(frozen=True)
class Admin:
    """The owner of the Secret: makes pairs, stores them, and waits as a kubelet would bring them to the pods."""

    installed: Installed

    def store(self, **files: bytes) -> None:
        """Change these files of the Secret and bring them into the pods."""
        release = self.installed.release
        path = f"/api/v1/namespaces/{release.namespace}/secrets/{SECRET}"
        change = {"data": secret(release, SECRET, **files)["data"]}
        release.plane.api("PATCH", path, change, content_type=MERGE_PATCH).wanted()
        for each in self.installed.pods.values():
            each.refresh_volumes()

    def wait_until_served(self, certificate: bytes) -> None:
        """Wait until both roles show this certificate (PEM) to whoever connects."""
        for pod in self.installed.pods.values():
            wait_until_served(pod, certificate)

    def wait_until_trusted(self, authority: Authority) -> None:
        """Wait until every webhook's caBundle holds this authority."""
        wanted = authority.ca_file.read_bytes().strip()
        wait_until(
            lambda: all(
                wanted in base64.b64decode(each["clientConfig"]["caBundle"])
                for each in self.installed.release.entries()
            ),
            what="the new authority in caBundle",
            within_seconds=TRUSTED_SECONDS,
            running=self.installed.pods["rules"].fleet.get("certificates"),
        )


def pids(installed: Installed) -> set[int]:
    """The process of each server."""
    return {each.fleet.get("server").process.pid for each in installed.pods.values()}


@pytest.fixture
def first(tmp_path: Path) -> Authority:
    return create_authority(tmp_path / "first", "first authority of an admin")


@pytest.fixture
def by_admin(release: Release, first: Authority, tmp_path: Path) -> Iterator[Admin]:
    """The chart in mode existingSecret, serving with a pair of the admin's own authority."""
    pair = first.issue_server("one", names_of(release))
    wanted = secret(release, SECRET, **files_of(pair), ca_crt=first.ca_file.read_bytes())
    release.plane.apply([wanted | {"type": "kubernetes.io/tls"}])
    values = f"certificates.mode=existingSecret,certificates.existingSecret.name={SECRET}"
    with serving(release, tmp_path / "pods", "--set", values) as installed:
        yield Admin(installed)


def files_of(pair: KeyPair) -> dict[str, bytes]:
    """The pair as files of a Secret."""
    return {"tls_crt": pair.certificate.read_bytes(), "tls_key": pair.key.read_bytes()}


def test_secret_of_the_admin_is_read_by_one_role_and_written_by_none(by_admin: Admin, namespace: str) -> None:
    release = by_admin.installed.release
    for role in ("rules", "ledger"):
        for verb in ("update", "patch", "delete", "create"):
            assert not release.may(role, verb, f"secrets/{SECRET}"), (role, verb)
        assert not release.may(role, "list", "secrets")
    assert release.may("rules", "get", f"secrets/{SECRET}")
    assert not release.may("ledger", "get", f"secrets/{SECRET}")
    assert not release.may("rules", "get", "secrets/other")
    check_verdicts(release.plane, namespace)


def test_admin_changes_leaf_and_authority_and_no_server_starts_anew(
    by_admin: Admin, first: Authority, namespace: str, tmp_path: Path
) -> None:
    """A new leaf, a bad one, then a new authority with an overlap: at each moment the webhooks judge."""
    installed = by_admin.installed
    plane, before = installed.release.plane, pids(installed)

    leaf = files_of(first.issue_server("two", names_of(installed.release)))
    by_admin.store(**leaf)
    by_admin.wait_until_served(leaf["tls_crt"])
    check_verdicts(plane, namespace)

    # Half of a change: the certificate is new, its key is still the old one. What was good is kept, and told.
    stray = files_of(first.issue_server("three", names_of(installed.release)))
    by_admin.store(tls_crt=stray["tls_crt"])
    for pod in installed.pods.values():
        wait_until(
            lambda pod=pod: is_refused(pod),
            what="a metric that tells of the bad pair",
            within_seconds=NOTICED_SECONDS,
            running=pod.fleet.get("server"),
        )
    by_admin.wait_until_served(leaf["tls_crt"])
    check_verdicts(plane, namespace)

    second = create_authority(tmp_path / "second", "second authority of an admin")
    overlap = first.ca_file.read_bytes() + second.ca_file.read_bytes()
    by_admin.store(**leaf, ca_crt=overlap)
    by_admin.wait_until_trusted(second)
    check_verdicts(plane, namespace)
    last = files_of(second.issue_server("four", names_of(installed.release)))
    by_admin.store(**last)
    by_admin.wait_until_served(last["tls_crt"])
    check_verdicts(plane, namespace)
    assert pids(installed) == before


def is_refused(pod: LocalPod) -> bool:
    """Whether the pod's metrics say that the files are not what is served."""
    probes = list(pod.ports.values())[1]
    with urllib.request.urlopen(f"http://{LOOPBACK}:{probes}/metrics", timeout=CALL_SECONDS) as answer:
        return b"\nnuma_admission_certificate_refused 1.0\n" in answer.read()
