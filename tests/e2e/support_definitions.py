"""Resource definitions that a cluster with cert-manager and the Prometheus operator has, on the control plane."""

from pathlib import Path

from controlplane.plane import ControlPlane

# Of the Prometheus operator's only what the chart makes; the others are large.
MONITORING = ("servicemonitors", "prometheusrules")


def define(plane: ControlPlane, folder: Path) -> None:
    """Define the resources from the folder of definitions; returns once objects of each kind may be made."""
    chosen = [
        path
        for path in sorted(folder.glob("*.yaml"))
        if "cert-manager.io" in path.name or path.stem.rpartition("_")[2] in MONITORING
    ]
    files = [word for path in chosen for word in ("-f", str(path))]
    # The whole definition in an annotation, as a plain apply puts it there, would be more than an annotation holds.
    made = plane.kubectl("apply", "--server-side", "-o", "name", *files, check=True)
    plane.wait_for_definitions(line.partition("/")[2] for line in made.stdout.split())
