"""Tests on a real control plane: one for the whole session, and our server as the process that an operator starts."""

import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "oracle")]

from controlplane.binaries import Binaries, locate, locate_helm  # noqa: E402 - the path is set above
from controlplane.plane import ControlPlane  # noqa: E402 - as above
from controlplane.starting import ALL_COMPONENTS, needed_programs, start  # noqa: E402 - as above
from hollow_nodes import OracleMissingError, oracle_binary  # noqa: E402 - as above
from support_living import Living, living_cluster  # noqa: E402 - as above
from support_pods import unique  # noqa: E402 - as above
from support_release import Release  # noqa: E402 - as above
from support_server import WebhookServer, running_server  # noqa: E402 - as above

REQUIRE = "NUMA_ADMISSION_REQUIRE_E2E"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that none can be forgotten."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)


def require_programs(binaries: Binaries, *names: str) -> None:
    """Skip the test where one of the programs is missing, or fail it where they are required."""
    missing = binaries.missing(names)
    if missing:
        _cannot_run(f"{', '.join(missing)} not found in {binaries.folder}: run `make controlplane` once to build them.")


def _cannot_run(why: str) -> NoReturn:
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{why} ({REQUIRE}=1 demands these tests.)", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def require() -> Callable[..., None]:
    """`require(binaries, "helm")` skips the test where a program is missing, or fails it where all are demanded."""
    return require_programs


@pytest.fixture(scope="session")
def control_plane_binaries() -> Binaries:
    """The programs of a whole control plane; without them the test is skipped, or fails where they are required."""
    binaries = locate(os.environ)
    require_programs(binaries, *needed_programs(ALL_COMPONENTS))
    return binaries


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The program with the kubelet's own code; without it the test is skipped, or fails where it is required."""
    try:
        return oracle_binary()
    except OracleMissingError as fault:
        _cannot_run(str(fault))


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Real etcd, kube-apiserver, controllers and scheduler; tests share it, so each works in its own namespace."""
    with start(control_plane_binaries, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def living(
    control_plane_binaries: Binaries, oracle: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Living]:
    """A guarded cluster whose ledger the tests can look into; they share it, so each works on nodes of its own."""
    with living_cluster(control_plane_binaries, tmp_path_factory.mktemp("living"), pools=60) as cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new namespace in which pods may be created; it goes with all that is in it."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40].strip("-")
    name = f"{readable}-{uuid.uuid4().hex[:6]}"
    control_plane.create_namespace(name)
    yield name
    # A namespace that goes lets no new pod in; then those that wait for a kubelet's last word are ended by force.
    path = f"/api/v1/namespaces/{name}"
    control_plane.api("DELETE", path).wanted()
    control_plane.api("DELETE", f"{path}/pods?gracePeriodSeconds=0").wanted()


@pytest.fixture
def webhook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., WebhookServer]]:
    """Start our server as a process, `webhook_server(settings="...", extra=("--flag",))`; it is stopped at the end."""
    with ExitStack() as stack:

        def serve(settings: str | None = None, extra: tuple[str, ...] = ()) -> WebhookServer:
            folder = tmp_path_factory.mktemp("webhook-server")
            return stack.enter_context(running_server(folder, settings=settings, extra=extra))

        yield serve


@pytest.fixture
def release(control_plane: ControlPlane) -> Iterator[Release]:
    """A namespace for a release of the chart; whatever is left of it goes at the end."""
    require_programs(*locate_helm(os.environ))
    one = Release(control_plane, unique("numa"), unique("numa-system"))
    control_plane.create_namespace(one.namespace)
    yield one
    one.remove()
