"""Three pods that tell whether the webhooks judge: one is refused, one is changed, one is none of their business."""

import ssl
from typing import Any

from controlplane.plane import ControlPlane
from controlplane.processes import wait_until
from cryptography import x509
from support_pods import LOOPBACK, LocalPod, unique
from support_release import KEY, marks, pod

# A server looks at its files every 5 s.
NOTICED_SECONDS = 60.0


def broken(name: str) -> dict[str, Any]:
    """A pod whose NUMA spec cannot be read."""
    return pod(name, {KEY: "{", "cpuset-scheduler": "required"})


def check_verdicts(plane: ControlPlane, namespace: str) -> None:
    """Raises AssertionError unless all three pods are treated as they should be; may be asked again and again."""
    refused = plane.apply([broken(unique("broken"))], "-n", namespace, check=False)
    assert refused.returncode != 0, refused.stdout
    assert "denied the request" in refused.stderr, refused.stderr
    assert KEY in refused.stderr

    aligned = unique("aligned")
    plane.apply([pod(aligned, marks(), whole=True)], "-n", namespace)
    assert stored_affinity(plane, namespace, aligned)

    plain = unique("plain")
    taken = plane.apply([pod(plain, {})], "-n", namespace)
    assert taken.stderr == ""
    assert not stored_affinity(plane, namespace, plain)


def stored_affinity(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    """The affinity of a stored pod; ours is added to marked pods."""
    spec: dict[str, Any] = plane.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"]
    return spec.get("affinity", {})


def served_serial(pod: LocalPod) -> int:
    """The serial number of the certificate that the pod's server shows."""
    port = next(iter(pod.ports.values()))
    return x509.load_pem_x509_certificate(ssl.get_server_certificate((LOOPBACK, port)).encode()).serial_number


def wait_until_served(pod: LocalPod, certificate: bytes) -> None:
    """Wait until the pod's server shows this certificate (PEM) to whoever connects."""
    wanted = x509.load_pem_x509_certificate(certificate).serial_number
    wait_until(
        lambda: served_serial(pod) == wanted,
        what="the Secret's certificate",
        within_seconds=NOTICED_SECONDS,
        running=pod.fleet.get("server"),
    )
