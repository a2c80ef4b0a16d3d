"""The image as the chart runs it: built step by step, then nobody's process on a read-only root serves reviews."""

import http.client
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from controlplane.authority import create_authority
from controlplane.client import Client, create_client
from controlplane.processes import free_ports, start_process, wait_until
from dockerfile import ROOT, read_stages
from layers import Layer, LayerError, build

pytestmark = pytest.mark.slow

NOBODY = "65532"
START_SECONDS = 120.0


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    """The last stage of the Dockerfile, built from the files that COPY names."""
    if os.geteuid() != 0:
        pytest.skip("Mounting an overlay needs root.")
    return build(read_stages((ROOT / "Dockerfile").read_text()), tmp_path_factory.mktemp("image"))


def test_nothing_can_be_written_but_tmp(image: Layer) -> None:
    for path in ("/opt/numa-admission/x", "/x", "/opt/numa-admission/lib/x", "/home/x"):
        with pytest.raises(LayerError, match=r"Read-only file system|Permission denied"):
            image.run(["touch", path], user=NOBODY)
    assert image.run(["sh", "-c", "touch /tmp/x && id -u"], user=NOBODY) == f"{NOBODY}\n"


def test_nothing_that_installs_is_shipped(image: Layer) -> None:
    ours = "/opt/numa-admission"
    names = ("pip*", "easy_install*", "setuptools*", "pkg_resources", "wheel*", "_distutils_hack")
    for name in names:
        found = image.run(["sh", "-c", f"find {ours}/bin {ours}/lib/python*/site-packages -maxdepth 1 -name '{name}'"])
        assert found == ""
    for name in ("pip", "setuptools"):
        with pytest.raises(LayerError, match=f"No module named '?{name}"):
            image.run([f"{ours}/bin/python", "-c", f"import {name}"], user=NOBODY)


def test_every_tracked_file_of_the_packages_is_installed(image: Layer) -> None:
    where = "import webhook, certs, pathlib; print(pathlib.Path(webhook.__file__).parents[1])"
    site = image.run(["python", "-c", where], user=NOBODY).strip()
    assert site.startswith("/opt/numa-admission/lib/")
    tracked = subprocess.run(
        ["git", "ls-files", "webhook", "certs"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in tracked.stdout.split():
        assert image.place(f"{site}/{name}").read_bytes() == (ROOT / name).read_bytes()
        assert not name.endswith(".py") or list((image.place(f"{site}/{name}").parent / "__pycache__").glob("*.pyc"))


@pytest.mark.parametrize("words", [
    pytest.param(["numa-admission", "serve", "--help"], id="what-the-image-runs-by-itself"),
    pytest.param(["python", "-m", "webhook.cli.certs", "keep", "--help"], id="the-container-beside"),
    pytest.param(["numa-admission", "explain", "CPU_NOT_WHOLE"], id="a-page"),
    pytest.param(["sleep", "0"], id="pre-stop"),
])  # fmt: skip
def test_commands_of_the_chart_run(image: Layer, words: list[str]) -> None:
    image.run(words, user=NOBODY, workdir="/tmp")  # noqa: S108 - the image's


@pytest.fixture
def served(image: Layer, tmp_path: Path) -> Iterator[Client]:
    """A server started as the Deployment does, its files mounted where the chart mounts them."""
    authority = create_authority(tmp_path / "keys")
    pair = authority.issue_server("server", ("127.0.0.1",))
    tls, settings = tmp_path / "tls", tmp_path / "settings"
    for folder in (tls, settings):
        folder.mkdir()
    for path, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
        (tls / name).write_bytes(path.read_bytes())
        (tls / name).chmod(0o644)
    (settings / "rules.yaml").write_text("server: {role: rules}\n")
    port, probes = free_ports(2)
    words = [
        "numa-admission", "serve", "--settings=/etc/numa-admission/rules.yaml",
        f"--bind=127.0.0.1:{port}", f"--probe-bind=127.0.0.1:{probes}",
        "--tls-cert=/run/numa-admission/tls/tls.crt", "--tls-key=/run/numa-admission/tls/tls.key",
    ]  # fmt: skip
    mounts = {"/etc/numa-admission": settings, "/run/numa-admission/tls": tls}
    command = image.command(words, user=NOBODY, workdir="/tmp", mounts=mounts)  # noqa: S108 - the image's
    running = start_process("server", command, tmp_path / "server.log")
    try:
        wait_until(lambda: _ready(probes), what="readiness", within_seconds=START_SECONDS, running=running)
        yield create_client(port, authority.ca_file)
    finally:
        running.kill()


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def test_reviews_are_answered(served: Client) -> None:
    review = json.loads((ROOT / "tests/recorded/pod-create-invalid-half-gpu.mutating.json").read_text())
    answer = served.call("POST", "/mutate", review)
    assert answer.status == http.client.OK
    assert answer.json()["response"]["uid"] == review["request"]["uid"]
