"""``make outage-proof``: what users lose while we are restarted, rotated or killed; the table goes to OUTAGE.md.

The scenes of ``tests/e2e/test_e2e_rollout.py`` with nothing compressed: replicas are granted the chart's 90 seconds to
see a certificate and some of them take all of it; kills are repeated; the same stream runs before we are installed.
"""

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "e2e"), str(HERE.parent / "oracle"), str(HERE.parent.parent)]

import support_events as events  # noqa: E402 - the path is set above
from controlplane.binaries import locate  # noqa: E402 - as above
from controlplane.plane import ControlPlane  # noqa: E402 - as above
from controlplane.starting import start  # noqa: E402 - as above
from support_creates import SHARES, Verdict  # noqa: E402 - as above
from support_scenes import HEAD, Play, Scene, streaming  # noqa: E402 - as above
from support_stage import REPLICAS, add_nodes, staged  # noqa: E402 - as above

RESULTS = HERE / "OUTAGE.md"
PROPAGATION_SECONDS = 90.0
"""The chart's default."""
CALM_SECONDS = 20.0
IN_ORDER = (
    ("rolling restart of both Deployments", events.rolling_restart),
    ("leaf rotation", events.leaf_rotation),
    ("authority rotation, one pod of each role 90 s late", events.authority_rotation),
    ("leader ended in order", events.leader_ended),
)
KILLED = (
    ("leader killed (-9)", events.leader_killed),
    ("rules replica killed (-9)", events.rules_killed),
    ("rules worker killed (-9)", events.worker_killed),
)


def main() -> int:
    """Run; 0 where nobody lost anything that a kill does not explain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100.0, help="creates a second")
    parser.add_argument("--repeats", type=int, default=3, help="of each scene but those of certificates")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outage-proof-") as name:
        folder = Path(name)
        with start(locate(os.environ), folder / "plane") as plane:
            add_nodes(plane)
            without = _without_us(plane, folder, options.rate)
            scenes = _with_us(plane, folder, options.rate, options.repeats)
            RESULTS.write_text(_page(plane, options.rate, [without, *scenes]))
    lost = [scene for scene in scenes if _lost(scene)]
    for scene in lost:
        print(scene.text())
    return 1 if lost else 0


def _without_us(plane: ControlPlane, folder: Path, rate: float) -> Scene:
    """The same stream before we are installed: what the machine gives by itself."""
    plane.create_namespace("before")
    with streaming(plane, folder, "before", rate) as play:
        play.scene("without us", partial(play.flows_for, CALM_SECONDS))
    return _told(play)[0]


def _with_us(plane: ControlPlane, folder: Path, rate: float, repeats: int) -> list[Scene]:
    with staged(plane, folder, propagation_seconds=PROPAGATION_SECONDS) as stage:
        plane.create_namespace("stream")
        with streaming(plane, folder, "stream", rate) as play:
            play.scene("nothing happens", partial(play.flows_for, CALM_SECONDS))
            for name, happen in (*IN_ORDER, *KILLED):
                for _ in range(1 if "rotation" in name else repeats):
                    print(f"{name} ...", flush=True)
                    play.scene(name, partial(happen, stage))
        return _told(play)


def _told(play: Play) -> list[Scene]:
    scenes = play.scenes()
    print("\n".join(scene.row() for scene in scenes), flush=True)
    return scenes


def _lost(scene: Scene) -> bool:
    if scene.kill is not None:
        return bool(scene.failures_beside_the_kill())
    return bool(scene.failed_open) or any(each.verdict is not Verdict.RIGHT for each in scene.creates)


def _page(plane: ControlPlane, rate: float, scenes: list[Scene]) -> str:
    kinds = ", ".join(f"{share} % {kind}" for kind, share in SHARES.items())
    rows = "\n".join(scene.row() for scene in scenes)
    return f"""# What `make outage-proof` said

Kubernetes {plane.version}, {os.cpu_count()} cores for everything: control plane, {REPLICAS} pods of each role, stream.
Wanted: {rate:.0f} creates a second ({kinds}); "a second" is what was reached.

* failed: no verdict came (`failed calling webhook`, or the API server itself); after a kill, how many of them were on
  their way when it happened. Without us, `broken` and `never` are created and nothing is mutated: "passed unseen".
* passed unseen: created although a webhook refuses such pods, or not mutated.
* calls ignored: the API server's own count of calls that failed and were ignored (`failurePolicy: Ignore`), by webhook.

{HEAD}
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
