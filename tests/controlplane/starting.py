"""Starting a control plane, in the order in which its programs need each other."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from controlplane import flags
from controlplane.authority import create_authority, create_signing_keys
from controlplane.binaries import APISERVER, CONTROLLER_MANAGER, ETCD, KUBECTL, SCHEDULER, Binaries
from controlplane.objects import developers_rights
from controlplane.plane import ControlPlane
from controlplane.processes import Fleet, StartError, free_ports
from controlplane.users import CONTROLLER_MANAGER_USER, SCHEDULER_USER, Users

ALL_COMPONENTS = frozenset({CONTROLLER_MANAGER, SCHEDULER})
# Another program may take a port between our look and our use; that it happens three times in a row is no chance.
PORT_ATTEMPTS = 3
PORT_TAKEN = "address already in use"


def needed_programs(components: Iterable[str]) -> tuple[str, ...]:
    """The programs that a control plane with these components is made of, kubectl included."""
    return (ETCD, APISERVER, KUBECTL, *sorted(components))


@contextmanager
def start(
    binaries: Binaries,
    folder: Path,
    *,
    components: Iterable[str] = ALL_COMPONENTS,
    extra_flags: Mapping[str, tuple[str, ...]] | None = None,
) -> Iterator[ControlPlane]:
    """Run etcd, kube-apiserver and the components in a folder; all are stopped at the end, and the store is removed.

    Args:
        binaries: Where the programs are.
        folder: An empty or new folder; keys, kubeconfigs and logs stay in it.
        components: Of `kube-controller-manager` and `kube-scheduler`, also spelt without `kube-`.
        extra_flags: Further flags by program, such as `{"kube-apiserver": ("--v=4",)}`.

    Raises:
        MissingProgramError: A program is not there.
        StartError: A program did not become ready; the text has the end of its log.
    """
    wanted = component_names(components)
    with Fleet() as fleet:
        plane = _start_with_free_ports(binaries, folder, wanted, extra_flags or {}, fleet)
        try:
            yield plane
        finally:
            fleet.stop_all()
            shutil.rmtree(plane.files.etcd_data, ignore_errors=True)


def component_names(names: Iterable[str]) -> frozenset[str]:
    """The full names of components. Raises ValueError for one that is none."""
    full = frozenset(f"kube-{name.removeprefix('kube-')}" for name in names)
    if full - ALL_COMPONENTS:
        raise ValueError(f"{sorted(full - ALL_COMPONENTS)} are no components; choose of {sorted(ALL_COMPONENTS)}.")
    return full


def _start_with_free_ports(
    binaries: Binaries,
    folder: Path,
    components: frozenset[str],
    extra_flags: Mapping[str, tuple[str, ...]],
    fleet: Fleet,
) -> ControlPlane:
    for attempt in range(1, PORT_ATTEMPTS + 1):
        place = folder / f"attempt-{attempt}" if attempt > 1 else folder
        plane = _prepare(binaries, place, components, extra_flags, fleet)
        try:
            _start_programs(plane)
        except StartError as error:
            fleet.stop_all()
            if PORT_TAKEN not in str(error) or attempt == PORT_ATTEMPTS:
                raise
        else:
            return plane
    raise AssertionError("the loop above returns or raises")


def _prepare(
    binaries: Binaries,
    folder: Path,
    components: frozenset[str],
    extra_flags: Mapping[str, tuple[str, ...]],
    fleet: Fleet,
) -> ControlPlane:
    ports = flags.Ports(*free_ports(5))
    authority = create_authority(folder / "keys")
    serving = authority.issue_server("serving", flags.SERVING_NAMES)
    tokens_key, tokens_public_key = create_signing_keys(authority.folder, "service-accounts")
    files = flags.Files(
        etcd_data=folder / "etcd",
        scratch=folder / "scratch",
        ca=authority.ca_file,
        serving_certificate=serving.certificate,
        serving_key=serving.key,
        tokens_key=tokens_key,
        tokens_public_key=tokens_public_key,
    )
    (folder / "logs").mkdir()
    return ControlPlane(
        folder=folder,
        binaries=binaries,
        version=binaries.kubernetes_version(),
        components=components,
        extra_flags=extra_flags,
        users=Users(authority, ports.apiserver),
        ports=ports,
        files=files,
        fleet=fleet,
    )


def _start_programs(plane: ControlPlane) -> None:
    # The API server waits for etcd by itself, so both come up side by side.
    plane.start_program(ETCD, flags.etcd(plane.ports, plane.files))
    plane.start_apiserver()
    for item in developers_rights():
        path = f"/apis/{item['apiVersion']}/{item['kind'].lower()}s"
        plane.api("POST", path, item).wanted()
    # Both need the API server and not each other: they come up side by side.
    started = []
    if CONTROLLER_MANAGER in plane.components:
        kubeconfig = plane.kubeconfig(CONTROLLER_MANAGER_USER)
        plane.start_program(CONTROLLER_MANAGER, flags.controller_manager(plane.ports, plane.files, kubeconfig))
        started.append((CONTROLLER_MANAGER, plane.ports.controller_manager))
    if SCHEDULER in plane.components:
        plane.start_program(SCHEDULER, flags.scheduler(plane.ports, plane.files, plane.kubeconfig(SCHEDULER_USER)))
        started.append((SCHEDULER, plane.ports.scheduler))
    for name, port in started:
        plane.wait_healthy(name, port)
    plane.wait_for_service_account("default")
