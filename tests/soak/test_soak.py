"""MINUTES (default 2) of random life on a real control plane; then the ledger is what a fresh list says."""

import io
import logging
import os
import time
from contextlib import ExitStack, contextmanager

import pytest
from controlplane.binaries import locate
from controlplane.starting import ALL_COMPONENTS, needed_programs, start
from hollow_nodes import OracleMissingError, hollow_nodes
from soak_ledger import asked, open_ledger, running
from soak_life import Life
from support_guarded import ADMISSION_ERRORS, hollow_class, until

from webhook.cluster.client import Client
from webhook.core.capacity import CapacityRules
from webhook.core.kubelet import KubeletAllocator
from webhook.core.ledger.ledger import Ledger
from webhook.core.ledger.records import AllocatorKind, EntryState
from webhook.service.book import Book
from webhook.service.feeding import Feeding
from webhook.service.logs import open_log

POOLS = 4
STEP_SECONDS = 0.05


def facts(book):
    """What no history decides: nodes, plain counts, who is bound where, and each pod's record."""
    snapshot = book.snapshot()
    nodes = {
        name: (
            view.record,
            {resource: amount for resource, amount in view.bound_totals.items() if amount},
            sorted(entry.uid for entry in view.bound),
        )
        for name, view in snapshot.views.items()
    }
    pods = {uid: _without_version(entry.pod) for uid, entry in snapshot.entries.items()}
    return nodes, pods


def _without_version(pod):
    # A change that says nothing new is not taken over, so the version may lag behind.
    return {name: getattr(pod, name) for name in pod.__slots__ if name != "resource_version"}


@contextmanager
def fresh(plane, classes):
    """A book that has just been filled from lists."""
    book = Book(Ledger({AllocatorKind.KUBELET: KubeletAllocator()}), CapacityRules(), time.time, str)
    client = Client.from_environment(plane.kubeconfig())
    feeding = Feeding(client, book, open_log(io.BytesIO(), "error"), classes=classes)
    feeding.start()
    try:
        until(lambda: feeding.freshness.trust() == "", "the fresh feeds to be synced")
        yield book
    finally:
        feeding.stop()


def test_soak(tmp_path):
    minutes, seed = float(os.environ.get("MINUTES", "2")), int(os.environ.get("SEED", "1"))
    binaries = locate(os.environ)
    if missing := binaries.missing(needed_programs(ALL_COMPONENTS)):
        pytest.skip(f"{', '.join(missing)} not found: run `make controlplane` once to build them.")
    names = [f"pool-{at}" for at in range(POOLS)]
    with ExitStack() as stack:
        plane = stack.enter_context(start(binaries, tmp_path / "plane"))
        plane.create_namespace("soak")
        classes = {"classes": [hollow_class(name) for name in names]}
        try:
            hollow = stack.enter_context(hollow_nodes(plane.kubeconfig(), classes, tmp_path))
        except OracleMissingError as error:
            pytest.skip(str(error))
        live, machine_classes = open_ledger(plane, tmp_path)
        stack.enter_context(running(live))
        until(lambda: not live.feeding.freshness.trust(), "the ledger to be synced")
        stack.enter_context(asked(plane, live, tmp_path))
        life = Life(plane, "soak", [f"{name}-0" for name in names], seed)
        live_through(plane, life, minutes * 60)
        log = logging.getLogger("soak")
        log.warning("%g minutes with SEED=%d: %s", minutes, seed, dict(sorted(life.done.items())))
        log.warning("%s", hollow.metrics())

        with fresh(plane, machine_classes) as truth:
            equal = stays_equal(live.book, truth)
        views = live.book.snapshot().views
        assert set(views) >= {f"{name}-0" for name in names}
        assert equal
        assert all(amount >= 0 for view in views.values() for amount in view.bound_totals.values())
        assert life.done["_create 201"] > 0
        assert [line for line in hollow.lines("refused") if line["reason"] in ADMISSION_ERRORS] == []


def live_through(plane, life, seconds):
    """Step for that long; in the middle the API server is killed and started again."""
    begin = time.monotonic()
    has_been_killed = False
    while (passed := time.monotonic() - begin) < seconds:
        life.step()
        if not has_been_killed and passed > seconds / 2:
            has_been_killed = True
            plane.kill_apiserver()
            plane.start_apiserver()
        time.sleep(STEP_SECONDS)


def stays_equal(book, truth):
    """Wait until both say the same and no claim is left; where that never comes, show the difference."""

    def is_settled():
        claims = [entry for entry in book.snapshot().entries.values() if entry.state is EntryState.CLAIMED]
        return not claims and facts(book) == facts(truth)

    try:
        until(is_settled, "the ledger to equal a fresh list")
    except AssertionError:
        assert facts(book) == facts(truth)
        raise
    return True
