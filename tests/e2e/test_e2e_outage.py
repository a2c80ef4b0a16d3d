"""Webhooks that come late or go away: what was there before us, and what happens while our server is down."""

import json

from controlplane.plane import ControlPlane
from support.builders import SPEC_KEY, raw_pod
from support_server import registered

RULES_ONLY = ("--without=capacity-pods", "--without=capacity-workloads", "--without=bind")


def pod_manifest(namespace: str, name: str, **changes) -> dict:
    """Return a pod that keeps every rule, with ``changes`` as ``support.builders.raw_pod`` takes them."""
    pod = raw_pod(**changes)
    pod["metadata"] |= {"name": name, "namespace": namespace}
    for container in pod["spec"]["containers"]:
        container.setdefault("image", "busybox")
    return pod


def test_an_old_bad_replica_set_scales_to_zero(control_plane: ControlPlane, webhook_server, namespace):
    """What was there before us can be scaled down and deleted; only a changed template is judged."""
    bad = pod_manifest(namespace, "x", annotations={SPEC_KEY: "{}"})
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": bad["metadata"]["annotations"]},
        "spec": bad["spec"],
    }
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "x", "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    control_plane.apply(json.dumps(replica_set))
    plane = control_plane
    with registered(plane, webhook_server(extra=("--role", "rules")), RULES_ONLY):
        plane.kubectl("scale", "rs", "x", "--replicas=0", "-n", namespace, check=True)
        plane.kubectl("label", "rs", "x", "team=a", "-n", namespace, check=True)
        plane.kubectl("delete", "rs", "x", "-n", namespace, check=True)


def test_pods_of_others_never_reach_a_server_that_is_down(control_plane, webhook_server, namespace):
    """With the server gone, a pod without a mark is created at once; one that asks for NUMA placement is not."""
    server = webhook_server(extra=("--role", "rules"))
    plane = control_plane
    with registered(plane, server, RULES_ONLY):
        server.running.kill()
        plain = pod_manifest(namespace, "plain")
        del plain["metadata"]["annotations"]
        plane.apply(json.dumps(plain))
        marked = plane.kubectl("apply", "-f", "-", input=json.dumps(pod_manifest(namespace, "marked")))
        assert marked.returncode == 1
        assert "failed calling webhook" in marked.stderr
