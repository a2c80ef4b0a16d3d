"""The API server is killed under load while the guard follows it: nobody fails of it, and the ledger is the truth."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import pytest
from controlplane.client import ApiError
from support_guarded import CLASS_LABEL, fresh_namespace, pod
from support_living import Living
from support_truth import until

POOLS = 6
WRITERS = 3


@pytest.fixture
def space(living: Living, request):
    """A fresh namespace; when all that is in it has gone, the ledger holds what a fresh list says."""
    with fresh_namespace(living.plane, request.node.name) as name:
        yield name
    living.converges()


class Load:
    """Writers that create pods of all sizes and delete some of them; that nobody answers them is no fault."""

    def __init__(self, living, space, pools):
        self._living, self._space = living, space
        term = {"matchExpressions": [{"key": CLASS_LABEL, "operator": "In", "values": pools}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        self._where = {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}
        self._stopped = threading.Event()
        self.stored = self.unanswered = 0

    def write(self, writer):
        """Write until stopped."""
        path = f"/api/v1/namespaces/{self._space}/pods"
        for number in itertools.count():
            if self._stopped.wait(0.1):
                return
            body = pod(f"p{writer}-{number}", "", (1, 2, 3, 2)[number % 4], **self._where)
            try:
                if self._living.create(self._space, body).status == 201:
                    self.stored += 1
                if number > 5 and number % 3:
                    self._living.plane.api("DELETE", f"{path}/p{writer}-{number - 5}")
            except (OSError, HTTPException, ApiError):
                self.unanswered += 1

    def grows(self):
        """Wait until there is a good deal more."""
        before = self.stored
        until(lambda: self.stored > before + 30, "some load")

    def stop(self):
        """End."""
        self._stopped.set()


def test_killed_and_started_again_under_load(living, space):
    load = Load(living, space, [living.pool() for _ in range(POOLS)])
    feeds = living.ours.live.feeding
    with ThreadPoolExecutor(WRITERS) as threads:
        writers = [threads.submit(load.write, writer) for writer in range(WRITERS)]
        try:
            load.grows()
            living.plane.kill_apiserver()
            until(lambda: feeds.states()["pods"].lost_since_seconds is not None, "the feed to notice")
            living.plane.start_apiserver()
            until(lambda: feeds.states()["pods"].lost_since_seconds is None, "the feed to be back")
            load.grows()
        finally:
            load.stop()
        for writer in writers:
            writer.result()
    assert load.unanswered > 0
    try:
        until(lambda: _unsettled(living, space) == [], "every pod to run, or to wait for want of room")
    except AssertionError:
        assert _unsettled(living, space) == []
        raise
    living.no_admission_errors(space)
    living.converges()


def _unsettled(living, space):
    """Pods that are on their way: they neither run, nor has the scheduler or the guard said that they wait."""
    return [
        (item["metadata"]["name"], item["spec"].get("nodeName"), item["status"])
        for item in living.pods(space)
        if item["status"]["phase"] != "Running"
        and not any(
            each["type"] == "PodScheduled" and each["status"] == "False"
            for each in item["status"].get("conditions", ())
        )
    ]
