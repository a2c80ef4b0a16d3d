"""The checkpoint on a real API server: killed at any moment it is readable, and a restart recalls what it says."""

import base64
import json
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "proof"), str(TESTS / "oracle")]

from controlplane.authority import create_authority  # noqa: E402 - the path is set above
from proof_server import registered, start_ledger  # noqa: E402 - as above
from proof_world import gpu_pod, small_world  # noqa: E402 - as above

from webhook.wire.checkpoint import digest_of, unseal  # noqa: E402 - as above

CLUSTER = {"namespace": "system", "checkpoint": "places"}


@pytest.fixture(scope="module")
def world(control_plane_binaries, oracle, tmp_path_factory):
    with small_world(control_plane_binaries, tmp_path_factory.mktemp("checkpoint"), nodes=10) as world:
        yield world


def digests(world):
    """Every pod that the checkpoint knows; each of its parts must be readable."""
    maps = world.plane.get("/api/v1/namespaces/system/configmaps?labelSelector=numa-admission/checkpoint=places")
    found = set()
    for item in maps["items"]:
        _, nodes = unseal(base64.b64decode(item["binaryData"]["places"]))
        found |= {place.digest for places in nodes.values() for place in places}
    return found


def recalled(ledger):
    """How many places the process recalled when it started, by its log."""
    lines = [json.loads(line) for line in ledger.running.log.read_text().splitlines() if line.startswith("{")]
    return sum(line["places"] for line in lines if line["event"] == "recalled")


def test_places_survive_kills_and_restarts(world, tmp_path):
    authority = create_authority(tmp_path / "keys", "checkpoint")
    port, known = None, 0
    for number in range(3):
        ledger = start_ledger(tmp_path / f"run-{number}", authority, world.plane.kubeconfig(), port=port, **CLUSTER)
        port = ledger.port
        try:
            assert recalled(ledger) == known
            with registered(world.plane, port, authority):
                names = [f"pod-{number}-{each}" for each in range(6)]
                world.create(*(gpu_pod(name, (1, 2, 4)[number], 8) for name in names))
                world.until(lambda names=names: world.running(*names), "the pods")
                uids = {digest_of(pod["metadata"]["uid"]) for pod in world.pods()}
                world.until(lambda uids=uids: digests(world) == uids, "all places in the checkpoint", 20)
                # Killed while it has something to write: what is stored names pods that are gone, and matches none.
                world.plane.kubectl("delete", "pod", names[0], names[1], "-n", "default", "--wait=true", check=True)
        finally:
            ledger.running.kill()
        assert digests(world) <= uids
        known = len(world.pods())
    assert world.errors() == []
