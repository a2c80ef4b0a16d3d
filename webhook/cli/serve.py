"""``numa-admission serve``: the admission server."""

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from webhook.service.settings import Settings
    from webhook.service.settings_file import SettingsFile
    from webhook.service.wiring import LedgerSource

EXIT_CANNOT_START: Final = 2


@click.command(short_help="Run the admission server.")
@click.option("--bind", metavar="HOST:PORT", help="The admission port (HTTPS); port 0 takes a free one.")
@click.option("--probe-bind", metavar="HOST:PORT", help="Probes and metrics (plain HTTP).")
@click.option("--tls-cert", metavar="FILE", help="The serving certificate, PEM, the leaf first.")
@click.option("--tls-key", metavar="FILE", help="Its key, PEM.")
@click.option("--client-ca", metavar="FILE", help="Authorities that may sign clients; without it anyone may call.")
@click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    help="Settings, YAML, followed as they change; options count more.",
)
@click.option("--role", type=click.Choice(["rules", "ledger", "both"]), help="Which endpoints are served.")
@click.option("--demo", is_flag=True, help="Mint a throw-away certificate and judge by a small built-in GPU cluster.")
def serve(
    *,
    bind: str | None,
    probe_bind: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    client_ca: str | None,
    settings_file: str | None,
    role: str | None,
    demo: bool,
) -> None:
    """Answer admission reviews over HTTPS until a signal ends it; TERM drains, a second INT does not wait."""
    # Heavy imports wait until here, so that --help and a wrong option stay quick.
    from certs.faults import CertificateError  # noqa: PLC0415 - as above
    from webhook.service.settings import Role, Settings  # noqa: PLC0415 - as above
    from webhook.service.settings_file import check_settings, read_settings_file  # noqa: PLC0415 - as above
    from webhook.service.start import StartError  # noqa: PLC0415 - as above

    def above(settings: Settings) -> Settings:
        server = replace(
            settings.server,
            bind=bind or settings.server.bind,
            probe_bind=probe_bind or settings.server.probe_bind,
            role=Role(role) if role else settings.server.role,
        )
        tls = replace(
            settings.tls,
            cert_file=tls_cert or settings.tls.cert_file,
            key_file=tls_key or settings.tls.key_file,
            client_ca_file=client_ca or settings.tls.client_ca_file,
        )
        return replace(settings, server=server, tls=tls)

    try:
        file = read_settings_file(Path(settings_file), above) if settings_file else None
        if file is not None:
            settings = file.settings(file.content)
        else:
            settings = above(Settings())
            check_settings(settings)
        with _certificate(settings, demo=demo) as (settings, ca_file), _metrics_folder(settings):
            _run(settings, file, ca_file, demo=demo)
    except (CertificateError, StartError) as error:
        click.echo(f"numa-admission serve: {error}", err=True)
        sys.exit(EXIT_CANNOT_START)


@contextmanager
def _certificate(settings: "Settings", *, demo: bool) -> "Iterator[tuple[Settings, Path | None]]":
    """Give settings that name a certificate, and the file of its authority where we have minted it."""
    from webhook.service.start import StartError  # noqa: PLC0415 - see serve

    if settings.tls.cert_file:
        yield settings, None
        return
    if not demo:
        raise StartError(
            "A serving certificate is needed: give --tls-cert and --tls-key, or --demo for a throw-away one."
        )
    from certs.mint import mint_development_pair  # noqa: PLC0415 - see serve

    with tempfile.TemporaryDirectory(prefix="numa-admission-demo-") as folder:
        files = mint_development_pair(Path(folder))
        tls = replace(settings.tls, cert_file=str(files.cert_file), key_file=str(files.key_file))
        yield replace(settings, tls=tls), files.ca_file


@contextmanager
def _metrics_folder(settings: "Settings") -> Iterator[None]:
    """Name the folder of shared metrics where there are several processes; prometheus_client looks when imported."""
    if settings.server.workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="numa-admission-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def _run(settings: "Settings", file: "SettingsFile | None", ca_file: Path | None, *, demo: bool) -> None:
    from certs.files import ReloadingServerContext  # noqa: PLC0415 - see serve
    from webhook.edge.app import create_app  # noqa: PLC0415 - see serve
    from webhook.edge.probes import Probes  # noqa: PLC0415 - see serve
    from webhook.serve.plan import Plan, open_listener  # noqa: PLC0415 - see serve
    from webhook.serve.server import serve_plan  # noqa: PLC0415 - see serve
    from webhook.service.logs import open_log  # noqa: PLC0415 - see serve
    from webhook.service.wiring import build_services  # noqa: PLC0415 - see serve

    files = settings.tls
    tls = ReloadingServerContext(files.cert_file, files.key_file, files.client_ca_file or None)
    source = _ledger_source(settings, demo=demo)
    server = settings.server
    listener = open_listener(server.bind)
    probe_listener = open_listener(server.probe_bind) if server.probe_bind else None
    plan = Plan(
        server=server,
        listener=listener,
        probe_listener=probe_listener,
        tls=tls,
        build=lambda: build_services(
            settings, open_log(sys.stderr.buffer, settings.log.level), source=source, tls=tls, file=file
        ),
        application=create_app,
        probes=lambda services: Probes(services.health, services.meters),
        log_level=settings.log.level,
        on_ready=_announcement(_lines(settings, listener, probe_listener, ca_file)),
    )
    serve_plan(plan)


def _ledger_source(settings: "Settings", *, demo: bool) -> "LedgerSource | None":
    """Return what the ledger starts with: the picture of the settings' file, or the built-in one of the demo."""
    from webhook.service.picture import demo_picture, load_picture  # noqa: PLC0415 - see serve
    from webhook.service.start import StartError  # noqa: PLC0415 - see serve
    from webhook.service.wiring import source_of  # noqa: PLC0415 - see serve

    if not settings.server.role.has_ledger:
        return None
    file = settings.capacity.picture_file
    if file:
        try:
            return source_of(load_picture(Path(file).read_text(encoding="utf-8"), file))
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(
                f"The cluster picture {file} cannot be read: {getattr(error, 'strerror', error)}."
            ) from error
    return source_of(demo_picture()) if demo else None


def _lines(
    settings: "Settings", listener: socket.socket, probe_listener: socket.socket | None, ca_file: Path | None
) -> list[str]:
    """Return what the server says when it is ready: where it is, and what to paste."""
    role = settings.server.role
    paths = [
        *(("/mutate", "/validate") if role.has_rules else ()),
        *(("/capacity", "/bind") if role.has_ledger else ()),
    ]
    url = f"https://{_address(listener)}"
    lines = [f"numa-admission: ready, {url} answers {', '.join(paths)}"]
    if probe_listener is not None:
        lines.append(f"numa-admission: probes http://{_address(probe_listener)}/livez, /readyz, /metrics")
    if ca_file is not None:
        lines.append(f"numa-admission: throw-away certificate, its authority is {ca_file}")
        lines.extend(_to_paste(url, ca_file))
    return lines


def _to_paste(url: str, ca_file: Path) -> list[str]:
    """Return the demo's first commands, to be pasted in another terminal, in the folder of the clone."""
    program = shlex.join([str(Path(sys.argv[0]).absolute())])
    ask = f"{program} ask --url {url} --ca {shlex.quote(str(ca_file))}"
    return [
        "",
        "Paste into another terminal, in this folder:",
        "",
        "  # the vendor guide's own pod, whose JSON ends with a comma: see the patch",
        f"  {ask} --dry-run examples/guide-pod.yaml",
        "  # a broken pod: see every finding",
        f"  {ask} examples/broken-pod.yaml",
        "  # four GPUs on one NUMA node: the demo has room once, and keeps it; the second is refused, with the proof",
        f"  {ask} examples/four-gpus.yaml examples/four-gpus.yaml",
        "  # the machines of the demo, and where that pod would go",
        f"  {program} map --pod examples/four-gpus.yaml",
        "  # the same rules on a folder of manifests, with file, line and column",
        f"  {program} check examples",
        "",
    ]


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _announcement(lines: list[str]) -> Callable[[], None]:
    def announce() -> None:
        for line in lines:
            click.echo(line)
        sys.stdout.flush()

    return announce
