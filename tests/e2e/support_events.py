"""What can happen to a release: each is done and waited for."""

import base64
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from support_kubelet import KILLED, RELIST_SECONDS, PodLife
from support_proxy import FOLLOW_SECONDS
from support_scenes import Kill
from support_stage import ROLES, Stage

BEGIN = b"-----BEGIN CERTIFICATE-----"


def rolling_restart(stage: Stage) -> None:
    """`kubectl rollout restart` of both Deployments; over once every old pod is gone, which ended by itself."""
    old = stage.kubelet.lives()
    names = [f"deployment/{stage.release.fullname}-{role}" for role in ROLES]
    stage.plane.kubectl("rollout", "restart", *names, "-n", stage.release.namespace, check=True)
    stage.until(lambda: stage.ready() and not any(life.is_alive() for life in old), "the new pods alone")
    codes = {(life.role, name): code for life in old for name, code in life.exit_codes.items()}
    assert KILLED not in codes.values(), f"not ended within the grace period: {codes}"


def leader_ended(stage: Stage) -> None:
    """The leader's pod is deleted, as a drained node does it."""
    old = _leader(stage)
    stage.plane.kubectl("delete", "pod", old.name, "-n", stage.release.namespace, "--wait=false", check=True)
    stage.until(lambda: stage.ready() and not old.is_alive(), "another leader and another pod")


def leader_killed(stage: Stage) -> Kill:
    """The leader's server is killed (-9), all its processes at once; the kubelet starts it again.

    The news is that another leads: until its term is over nobody else may, and calls go to where it was.
    """
    old = _leader(stage)
    at = time.time()
    old.server.kill()
    stage.until(lambda: stage.leader() not in (None, old), "another leader")
    spread_at = time.time() + 2 * FOLLOW_SECONDS
    stage.until(stage.ready, "the killed one's return")
    return Kill(at, spread_at)


def rules_killed(stage: Stage) -> Kill:
    """A rules pod's server is killed (-9), all its processes at once; the kubelet starts it again."""
    (old, *_) = stage.kubelet.ready("rules")
    return _killed(stage, old, old.server.kill, lambda: not old.probe("/readyz"))


def worker_killed(stage: Stage) -> Kill:
    """Only the process that answers is killed (-9); its master starts another, the port stays open."""
    (old, *_) = stage.kubelet.ready("rules")
    master = old.server.process.pid
    children = Path(f"/proc/{master}/task/{master}/children")
    (worker,) = children.read_text().split()
    # It may be replaced between two probes: the master keeps the port, and who asks meanwhile is answered by the next.
    return _killed(
        stage, old, lambda: os.kill(int(worker), signal.SIGKILL), lambda: worker not in children.read_text().split()
    )


def _killed(stage: Stage, victim: PodLife, kill: Callable[[], object], has_died: Callable[[], bool]) -> Kill:
    at = time.time()
    kill()
    stage.until(has_died, "the killed one's end")
    spread_at = time.time() + RELIST_SECONDS + 2 * FOLLOW_SECONDS
    stage.until(lambda: victim.probe("/readyz") and stage.ready(), "the killed one's return")
    return Kill(at, spread_at)


def leaf_rotation(stage: Stage) -> None:
    """A new leaf by the same authority; over once every server shows it."""
    before = stage.secret()
    stage.rotate("leaf")
    stage.until(lambda: stage.secret()["tls.crt"] != before["tls.crt"], "a new leaf")
    stage.until(stage.serves_the_secret, "every server with it", _patience(stage))
    assert stage.secret()["ca.crt"] == before["ca.crt"]


def authority_rotation(stage: Stage) -> None:
    """A new authority with an overlap, and replicas that see the new leaf as late as they may.

    From before the switch until the whole granted delay after it, one pod of each role is brought no certificate: they
    go on with the old leaf for that long, and then for as long as the server's own look at its files takes.
    """
    before = stage.secret()
    stage.rotate("authority")
    late = [stage.kubelet.lives(role)[-1] for role in ROLES]
    for life in late:
        life.hold_pair()
    try:
        stage.until(lambda: _authorities(stage) == 2, "both authorities")
        stage.until(lambda: stage.secret()["tls.crt"] != before["tls.crt"], "the switch", _patience(stage))
        switched = time.monotonic()
        stage.until(
            lambda: time.monotonic() - switched > stage.propagation_seconds, "the granted delay", _patience(stage)
        )
        assert _authorities(stage) == 2, "the old authority is dropped while replicas still serve its leaf"
        assert not stage.serves_the_secret(), "nobody was late"
    finally:
        for life in late:
            life.release_pair()
    stage.until(stage.serves_the_secret, "every server with the new leaf", _patience(stage))
    stage.until(lambda: _authorities(stage) == 1, "the end of the overlap", _patience(stage))
    assert stage.secret()["ca.crt"] != before["ca.crt"]


def _patience(stage: Stage) -> float:
    return 60 + 3 * stage.propagation_seconds


def _authorities(stage: Stage) -> int:
    return base64.b64decode(stage.secret()["ca.crt"]).count(BEGIN)


def _leader(stage: Stage) -> PodLife:
    leader = stage.leader()
    assert leader is not None, "there is no leader"
    return leader
