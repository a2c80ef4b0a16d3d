"""Webhooks that come late or go away: what was there before us, and what happens while our server is down."""

import itertools
import json
import string
from types import MappingProxyType

import pytest
from controlplane.client import MERGE_PATCH
from controlplane.plane import ControlPlane
from support.builders import BIND_POLICY, KOORD_OLDER_KEY, OLDER_KEY, SPEC_KEY, raw_pod
from support_server import registered

from webhook.core.match_conditions import MOST_ENTRIES

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


def test_a_pod_of_ours_that_runs_goes_on_while_the_server_is_down(control_plane, webhook_server, namespace):
    """What no rule reads is changed without us: finalizers, owners, results, images, debug containers."""
    plane, server = control_plane, webhook_server(extra=("--role", "rules"))
    at = f"/api/v1/namespaces/{namespace}/pods/p"
    with registered(plane, server, RULES_ONLY):
        pod = pod_manifest(namespace, "p", metadata={"finalizers": ["batch.kubernetes.io/job-tracking"]})
        plane.apply(json.dumps(pod))
        server.running.kill()

        def patched(patch):
            return plane.api("PATCH", at, patch, content_type="application/strategic-merge-patch+json")

        patched({"metadata": {"annotations": {"team/note": "x"}, "labels": {"role": "master"}}}).wanted(200)
        account = plane.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")["metadata"]
        owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": account["name"], "uid": account["uid"]}
        patched({"metadata": {"ownerReferences": [owner]}}).wanted(200)
        patched({"metadata": {"annotations": {"cpuset": "{}"}}}).wanted(200)
        chosen = {"scheduling.koordinator.sh/resource-status": "{}", KOORD_OLDER_KEY: BIND_POLICY}
        patched({"metadata": {"annotations": chosen}}).wanted(200)
        patched({"spec": {"containers": [{"name": "example", "image": "other"}]}}).wanted(200)
        patched({"metadata": {"$deleteFromPrimitiveList/finalizers": pod["metadata"]["finalizers"]}}).wanted(200)
        stored = plane.get(at)
        assert "finalizers" not in stored["metadata"]
        stored["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox"}]
        plane.api("PUT", f"{at}/ephemeralcontainers", stored).wanted(200)
        for change in ({"annotations": {SPEC_KEY: "{}"}}, {"annotations": {SPEC_KEY: None}}):
            assert "failed calling webhook" in patched({"metadata": change}).wanted(500).json()["message"]


ANNOTATION_BYTES = 256 * 1024
ROOM_OF_OTHERS_BYTES = 2048
"""For the annotations that are kept, and a letter more in each key."""
LETTERS = string.ascii_lowercase + string.digits


def most_annotations():
    """As many annotations as the API server stores: their keys are as short as can be."""
    keys, size = {}, 0
    for length in itertools.count(1):
        for letters in itertools.product(LETTERS, repeat=length):
            size += length
            if size > ANNOTATION_BYTES:
                return keys
            keys["".join(letters)] = ""
    raise AssertionError


def longest_annotations(count, end="end"):
    """So many of the longest keys, each of them nearly one of ours."""
    prefix = ".".join(["x" * 61] * 5)[:253]
    return {f"{prefix}/{at:03}{('resource-spec-' * 4)[: -len(end)]}{end}": "" for at in range(count)}


DEAREST = {
    "the most": most_annotations(),
    "the longest": longest_annotations(ANNOTATION_BYTES // 320),
    "the longest that are searched": longest_annotations(MOST_ENTRIES),
    "the longest text of another feature": {OLDER_KEY: "x" * (ANNOTATION_BYTES - ROOM_OF_OTHERS_BYTES)},
    "many long texts of another feature": {f"x{at}.y/resource-spec": "x" * 4000 for at in range(64)},
}


@pytest.mark.parametrize("annotations", DEAREST.values(), ids=DEAREST)
def test_the_largest_pods_of_others_never_notice(control_plane, webhook_server, namespace, annotations):
    """The conditions cost no more than the API server lets them, whatever another's pod carries."""
    plane, server = control_plane, webhook_server(extra=("--role", "rules"))
    with registered(plane, server, RULES_ONLY):
        server.running.kill()
        changed_whole(plane, pod_manifest(namespace, "p"), annotations)


@pytest.mark.parametrize("end, letters", [("end", 0), ("resource-spec", ANNOTATION_BYTES)])
def test_the_dearest_pod_of_ours_can_be_changed(control_plane, webhook_server, namespace, end, letters):
    """With a mark, what changes is searched for, too."""
    plane, server = control_plane, webhook_server(extra=("--role", "rules"))
    pod = pod_manifest(namespace, "p")
    mark = pod["metadata"]["annotations"]
    with registered(plane, server, RULES_ONLY):
        longest = longest_annotations(MOST_ENTRIES - len(mark), end)
        room = (letters - sum(map(len, longest)) - ROOM_OF_OTHERS_BYTES) // len(longest)
        changed_whole(plane, pod, dict.fromkeys(longest, "x" * room), kept=mark)


def changed_whole(plane, pod, annotations, kept=MappingProxyType({})):
    """Create the pod with the annotations, put a label on it, then change the key of each annotation."""
    at = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    pod["metadata"]["annotations"] = {**annotations, **kept}
    plane.api("POST", at, pod).wanted(201)
    plane.api("PATCH", f"{at}/p", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE_PATCH).wanted(200)
    stored = plane.get(f"{at}/p")
    del stored["metadata"]["resourceVersion"]  # the scheduler writes the pod's status meanwhile
    others = {key.upper() if "/" not in key else f"{key}s": text for key, text in annotations.items()}
    stored["metadata"]["annotations"] = {**others, **kept}
    plane.api("PUT", f"{at}/p", stored).wanted(200)
