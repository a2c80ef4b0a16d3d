"""A writer that is killed at any of its writes leaves parts that can be read, and the next one goes on from them."""

import base64
import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.small_api import small_api
from core.ledger.ledger_world import demand, ledger, machine, node, pod

from webhook.cluster.checkpoints import CheckpointMaps
from webhook.cluster.client import Client
from webhook.core.ledger.events import PodSeen
from webhook.service.checkpointing import SHARDS, Checkpointing, recalled
from webhook.service.logs import open_log
from webhook.wire.checkpoint import unseal

WRITER = Path(__file__).with_name("checkpoint_writer.py")
LONGEST_SECONDS = 60


def killed_at_write(api, url, number, *, is_stored):
    """Run the writer until its write ``number`` arrives; kill it before that is stored, or after and unanswered."""
    writer = subprocess.Popen([sys.executable, str(WRITER), url])
    seen = 0
    original = api.answer

    def answer(method, path, body):
        nonlocal seen
        if method not in {"PUT", "POST"}:
            return original(method, path, body)
        seen += 1
        if seen < number:
            return original(method, path, body)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        # What was sent before the death still arrives, or does not.
        return original(method, path, body) if is_stored and seen == number else (503, {"message": "too late"})

    api.answer = answer
    try:
        writer.wait(LONGEST_SECONDS)
    finally:
        writer.kill()
        writer.wait()
        api.answer = original


@pytest.mark.parametrize("is_stored", [False, True], ids=["before it is stored", "after"])
@pytest.mark.parametrize("number", [1, SHARDS, 2 * SHARDS + 5])
def test_killed_at_a_write(number, is_stored):
    with small_api() as (api, url):
        killed_at_write(api, url, number, is_stored=is_stored)
        blobs = [base64.b64decode(stored["binaryData"]["places"]) for stored in api.objects.values()]
        assert len(blobs) == min(SHARDS, number if is_stored else number - 1)
        places = {name: kept for blob in blobs for name, kept in unseal(blob)[1].items()}
        assert all(len(kept) > 0 for kept in places.values())
        made = ledger(*(node(f"n{at}", machine()) for at in range(40)))
        made.apply(PodSeen(pod("young", demand((1, 1)), node_name="n0")), 0.0)
        assert recalled(blobs, made.entries.values()) == ((), ()), "no part is unreadable, and it knows no such pod"

        class Views:
            def views(self):
                return dict(made.views)

        maps = CheckpointMaps(Client.of_server(url), "system", "places")
        keeper = Checkpointing(maps, Views(), lambda: True, open_log(io.BytesIO()))
        assert sorted(keeper.read()) == sorted(blobs)
        keeper.round(most_bytes=1 << 30)
        assert [len(unseal(blob)[1]) for blob in keeper.read()].count(1) == 1, "the next writer's own, whole"
