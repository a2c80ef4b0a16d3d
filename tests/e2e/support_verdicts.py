"""Three pods that tell whether the webhooks judge: one is refused, one is changed, one is none of their business."""

from typing import Any

from controlplane.plane import ControlPlane
from support_pods import unique
from support_release import KEY, marks, pod


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
