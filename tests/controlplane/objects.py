"""Kubernetes objects that the control plane's fixture makes: GPU nodes, and what the ordinary user may do."""

from collections.abc import Mapping
from typing import Any

DEVELOPERS = "dev-team"


def gpu_node(
    name: str, *, cpu: str | int, memory: str, gpus: Mapping[str, int], labels: Mapping[str, str]
) -> dict[str, Any]:
    """A Node as a kubelet would report it: Ready, with room for 250 pods; everything it has is allocatable."""
    room = {"cpu": str(cpu), "memory": memory, "pods": "250", **{key: str(count) for key, count in gpus.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "stand-in for a kubelet"}
            ],
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }


def developers_rights() -> list[dict[str, Any]]:
    """What people of the group dev-team may do: run workloads anywhere, look at nodes, touch nothing of the cluster's.

    Written out, for the stock role `edit` is empty until the controller manager has put it together.
    """
    workloads = [
        "pods",
        "pods/attach",
        "pods/ephemeralcontainers",
        "pods/eviction",
        "pods/exec",
        "pods/log",
        "pods/resize",
        "podtemplates",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "configmaps",
        "persistentvolumeclaims",
        "secrets",
        "serviceaccounts",
        "services",
    ]
    rules = [
        {"apiGroups": [""], "resources": workloads, "verbs": ["*"]},
        {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["nodes", "namespaces", "events"], "verbs": ["get", "list", "watch"]},
    ]
    api = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "test:developers"},
            "rules": rules,
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "test:developers"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "test:developers"},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": DEVELOPERS}],
        },
    ]


def kubeconfig(server_url: str, ca_file: str, certificate: str, key: str, user: str) -> dict[str, Any]:
    """A kubeconfig of one cluster and one user, with files named, not embedded."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server_url, "certificate-authority": ca_file}}],
        "users": [{"name": user, "user": {"client-certificate": certificate, "client-key": key}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    }
