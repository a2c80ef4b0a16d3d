"""``make proof``: AdmissionErrors without us and with us, under the same load."""

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "oracle"), str(HERE.parent.parent)]

from proof_run import Numbers, Setup, run_once  # noqa: E402 - the path is set above


def table(setup: Setup, without: Numbers | None, with_us: Numbers | None) -> str:
    """The table for the README, Markdown."""
    rows = (
        ("pods created", lambda n: str(n.pods)),
        ("AdmissionErrors", lambda n: str(n.admission_errors)),
        ("GPUs in use, last third", lambda n: f"{n.gpu_use_end:.1%}"),
        ("GPUs in use, whole run", lambda n: f"{n.gpu_use:.1%}"),
        ("wishes that came to run", lambda n: f"{n.wishes_run} of {n.wishes}"),
        ("time to running, p50", lambda n: f"{n.running_p50_seconds:.1f} s"),
        ("time to running, p95", lambda n: f"{n.running_p95_seconds:.1f} s"),
    )
    columns = [(name, numbers) for name, numbers in (("without", without), ("with", with_us)) if numbers is not None]
    lines = [
        (
            f"{setup.nodes} nodes with 8 GPUs, {setup.seconds:.0f} s, seed {setup.seed}, "
            f"{setup.load:.0%} of the GPUs asked for on average"
        ),
        "",
        "| | " + " | ".join(name for name, _ in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    lines += [f"| {title} | " + " | ".join(show(numbers) for _, numbers in columns) + " |" for title, show in rows]
    return "\n".join(lines)


def main() -> int:
    """Run both and print; 1 where an AdmissionError was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--load", type=float, default=1.1)
    parser.add_argument("--only", choices=("without", "with"))
    parser.add_argument("--folder", type=Path, help="keep logs here")
    given = parser.parse_args()
    setup = Setup(given.seed, given.nodes, given.seconds, given.load)
    with tempfile.TemporaryDirectory(prefix="numa-admission-proof-") as temporary:
        folder = given.folder or Path(temporary)
        runs: dict[str, Numbers | None] = {"without": None, "with": None}
        for name in runs:
            if given.only in (None, name):
                runs[name] = found = run_once(setup, folder / name, with_us=name == "with")
                sys.stderr.write(f"{name}: {dict(found.errors)} {dict(found.counts)}\n")
    sys.stdout.write(table(setup, runs["without"], runs["with"]) + "\n")
    with_us = runs["with"]
    return 1 if with_us is not None and with_us.admission_errors else 0


if __name__ == "__main__":
    sys.exit(main())
