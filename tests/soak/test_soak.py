"""MINUTES (default 2) of random life on a real control plane; then the ledger is what a fresh list says."""

import logging
import os
import time

import pytest
from controlplane.binaries import locate
from controlplane.starting import ALL_COMPONENTS, needed_programs
from soak_life import Life
from support_crds import DEVICES
from support_living import living_cluster

POOLS = 4
STEP_SECONDS = 0.05


def test_soak(tmp_path):
    minutes, seed = float(os.environ.get("MINUTES", "2")), int(os.environ.get("SEED", "1"))
    binaries = locate(os.environ)
    if missing := binaries.missing(needed_programs(ALL_COMPONENTS)):
        pytest.skip(f"{', '.join(missing)} not found: run `make controlplane` once to build them.")
    with living_cluster(binaries, tmp_path, pools=POOLS, objects=[DEVICES.definition()]) as cluster:
        plane, hollow = cluster.plane, cluster.hollow
        plane.create_namespace("soak")
        nodes = [cluster.node(cluster.pool()) for _ in range(POOLS)]
        life = Life(plane, "soak", nodes, seed)
        live_through(plane, life, minutes * 60)
        log = logging.getLogger("soak")
        log.warning("%g minutes with SEED=%d: %s", minutes, seed, dict(sorted(life.done.items())))
        log.warning("%s; lost at reboots: %d", hollow.metrics(), len(hollow.lines("lost")))

        cluster.converges()
        assert set(cluster.book.snapshot().views) >= {node.name for node in nodes}
        assert life.done["_create 201"] > 0
        assert life.reboots > 0
        assert cluster.admission_errors() == [], cluster.ours.said("divergence")


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
