"""``numa-admission certs``: the serving certificate in files (development) or in the cluster.

certs mint DIRECTORY ...                          a new authority and leaf in files
certs show DIRECTORY | --secret NAMESPACE/NAME    what is held, and what is wrong with it
certs rotate DIRECTORY | --secret NAMESPACE/NAME  one step of the rotation, or a change ahead of its time
certs keep --secret NAMESPACE/NAME                the loop beside a server; the chart runs it
"""

import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from webhook.core.spelling import ended

if TYPE_CHECKING:
    from certs.names import Names
    from certs.policy import Policy
    from webhook.cluster.client import Client
    from webhook.service.certificates import CertificateKeeper, Stepper

EXIT_FAULTY: Final = 1
EXIT_BROKEN: Final = 3
LOOKS: Final = 3
"""Within the delay that replicas are granted: the look at the Secret, then the server's at its files, and room."""
_PLACE = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9][a-z0-9.-]*)")
_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

_secret = click.option("--secret", metavar="NAMESPACE/NAME", required=True, help="The Secret in the cluster.")
_configurations = click.option(
    "--configurations", metavar="NAME", help="The webhook configurations that must trust it."
)
_kubeconfig = click.option("--kubeconfig", metavar="FILE", help="Instead of the service account or your own.")
_service = click.option("--service", "services", multiple=True, help="A Service whose names the certificate carries.")
_dns = click.option("--dns", multiple=True, help="One more DNS name.")
_ip = click.option("--ip", multiple=True, help="One more IP address.")
_days = click.option("--days", type=float, default=90.0, show_default=True, help="Lifetime of a certificate.")
_authority_days = click.option("--authority-days", type=float, default=1825.0, help="Of an authority (1825).")
_propagation = click.option(
    "--propagation",
    type=click.FloatRange(min=0.0, min_open=True),
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="How late a replica may see a change: an overlap waits so long, and a loop looks three times as often.",
)


@click.group(short_help="Show, rotate, mint and keep the serving certificate.")
def certs() -> None:
    """Show, rotate, mint and keep the serving certificate, in a directory or in the cluster."""


@certs.command(context_settings=_PASSED_ON, short_help="Write a new authority and certificate into a directory.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mint(arguments: Sequence[str]) -> None:
    """Write a new authority and certificate into a directory."""
    _pass_on("mint", arguments)


@certs.command(context_settings=_PASSED_ON, short_help="Print what is held and what is wrong with it.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def show(arguments: Sequence[str]) -> None:
    """Print what a directory holds and what is wrong with it; with --secret NAMESPACE/NAME, what the cluster holds."""
    _by_place("show", show_cluster, arguments)


@certs.command(context_settings=_PASSED_ON, short_help="Do one step of the rotation.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def rotate(arguments: Sequence[str]) -> None:
    """Rotate what a directory holds; with --secret NAMESPACE/NAME, what the cluster holds."""
    _by_place("rotate", rotate_cluster, arguments)


@click.command("show")
@_secret
@_kubeconfig
@_service
@_dns
@_ip
def show_cluster(
    *, secret: str, kubeconfig: str | None, services: Sequence[str], dns: Sequence[str], ip: Sequence[str]
) -> None:
    """Print what the Secret holds and what is wrong with it; exit code 1 with a fault, 3 without a certificate.

    A name that is given and that the certificate does not carry is a fault.
    """
    from certs.holdings import holdings_of  # noqa: PLC0415 - a quick --help
    from certs.show import shown  # noqa: PLC0415 - as above
    from webhook.service.server_clock import ServerClock  # noqa: PLC0415 - as above

    namespace, name = _place(secret)
    required = _names(namespace, services, dns, ip)
    client = _client(kubeconfig)
    data = _there(client, namespace, name)
    result = shown(holdings_of(data), ServerClock(client)(), required)
    click.echo("\n".join(result.lines))
    if not data:
        sys.exit(EXIT_BROKEN)
    sys.exit(EXIT_FAULTY if result.faults else 0)


@click.command("rotate")
@_secret
@_configurations
@_kubeconfig
@click.option(
    "--ask", type=click.Choice(["nothing", "leaf", "authority"]), default="nothing", help="Ahead of its time."
)
@_service
@_dns
@_ip
@click.option("--drop-names", is_flag=True, help="Let go of names that the certificate carries and that are not given.")
@_days
@_authority_days
@_propagation
def rotate_cluster(
    *,
    secret: str,
    configurations: str | None,
    kubeconfig: str | None,
    ask: str,
    services: Sequence[str],
    dns: Sequence[str],
    ip: Sequence[str],
    drop_names: bool,
    days: float,
    authority_days: float,
    propagation: float,
) -> None:
    """Do one step; ``--ask`` begins a change ahead of its time, and the loop beside the servers finishes it.

    Give the names, lifetimes and configurations that the loop was given. Where a name of the certificate is not given,
    nothing is done (exit code 2).
    """
    from certs.holdings import holdings_of  # noqa: PLC0415 - a quick --help
    from certs.moments import in_words  # noqa: PLC0415 - as above
    from certs.plan import Asked  # noqa: PLC0415 - as above
    from certs.rotate import Rotator  # noqa: PLC0415 - as above
    from certs.steps import Outcome  # noqa: PLC0415 - as above
    from webhook.cluster.configurations import ClusterConfigurationStore  # noqa: PLC0415 - as above
    from webhook.cluster.secrets import ClusterSecretStore  # noqa: PLC0415 - as above
    from webhook.service.server_clock import ServerClock  # noqa: PLC0415 - as above

    namespace, name = _place(secret)
    if configurations is None:
        raise click.UsageError("Give --configurations as well: trust moves with the certificate.")
    policy = _policy(_names(namespace, services, dns, ip), days, authority_days, propagation)
    client = _client(kubeconfig)
    leaf = holdings_of(_there(client, namespace, name)).leaf
    if leaf is not None and not drop_names:
        _refuse_loss(leaf.certificate.names, policy.names, namespace)
    rotator = Rotator(
        ClusterSecretStore(client, namespace, name), ClusterConfigurationStore(client, configurations), policy
    )
    step = rotator.step(ServerClock(client)(), Asked(ask))
    click.echo(f"{step.action.value}: {step.reason} Look again at {in_words(step.look_at)}.")
    if step.outcome is not Outcome.DONE:
        _end(step.error)


@certs.command(short_help="Keep the certificate, beside a server.")
@click.option(
    "--duty",
    type=click.Choice(["keep", "trust"]),
    default="keep",
    show_default=True,
    help="keep: authority, certificate and trust; trust: only the trust in a Secret that another writes.",
)
@_secret
@_configurations
@_kubeconfig
@click.option("--directory", metavar="DIR", help="Where the server reads its pair.")
@_service
@_dns
@_ip
@_days
@_authority_days
@_propagation
@click.option("--once", is_flag=True, help="End as soon as a pair lies in the directory.")
def keep(
    *,
    duty: str,
    secret: str,
    configurations: str | None,
    kubeconfig: str | None,
    directory: str | None,
    services: Sequence[str],
    dns: Sequence[str],
    ip: Sequence[str],
    days: float,
    authority_days: float,
    propagation: float,
    once: bool,
) -> None:
    """Keep looking after the certificate until a signal ends it."""
    if configurations is None:
        raise click.UsageError("Give --configurations: their trust is kept.")
    if directory is None and once:
        raise click.UsageError("Give --directory: with --once it ends when a pair lies there.")
    namespace, name = _place(secret)
    policy = (
        _policy(_names(namespace, services, dns, ip), days, authority_days, propagation) if duty == "keep" else None
    )
    keeper = _keeper(
        client=_client(kubeconfig),
        place=(namespace, name),
        configurations=configurations,
        policy=policy,
        directory=directory,
        propagation_seconds=propagation,
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ender(ended))
    keeper.run(ended.wait, until_first_pair=once)
    if once and not keeper.has_pair:
        sys.exit(EXIT_BROKEN)


def _ender(ended: threading.Event) -> Callable[[int, object], None]:
    def end(_number: int, _frame: object) -> None:
        ended.set()

    return end


def _keeper(
    *,
    client: "Client",
    place: tuple[str, str],
    configurations: str,
    policy: "Policy | None",
    directory: str | None,
    propagation_seconds: float,
) -> "CertificateKeeper":
    from certs.directory import DirectoryStore  # noqa: PLC0415 - a quick --help
    from certs.rotate import Rotator  # noqa: PLC0415 - as above
    from certs.trust import TrustKeeper  # noqa: PLC0415 - as above
    from webhook.cluster.configurations import ClusterConfigurationStore  # noqa: PLC0415 - as above
    from webhook.cluster.secrets import ClusterSecretStore  # noqa: PLC0415 - as above
    from webhook.service.certificates import CertificateKeeper  # noqa: PLC0415 - as above
    from webhook.service.logs import open_log  # noqa: PLC0415 - as above
    from webhook.service.server_clock import ServerClock  # noqa: PLC0415 - as above

    propagation = timedelta(seconds=propagation_seconds)
    stores = ClusterSecretStore(client, *place), ClusterConfigurationStore(client, configurations)
    stepper: Stepper
    if policy is not None:
        stepper = Rotator(*stores, policy)
    else:
        stepper = TrustKeeper(*stores, propagation=propagation, look_every=propagation / LOOKS)
    files = DirectoryStore(Path(directory)) if directory is not None else None
    log = open_log(sys.stderr.buffer, "info")
    return CertificateKeeper(stepper, files, log, ServerClock(client, log))


def _policy(names: "Names", days: float, authority_days: float, propagation_seconds: float) -> "Policy":
    from certs.mint import lifetime_of  # noqa: PLC0415 - a quick --help
    from certs.policy import Policy  # noqa: PLC0415 - as above

    try:
        return Policy(
            names=names,
            leaf_lifetime=lifetime_of(days),
            authority_lifetime=lifetime_of(authority_days),
            propagation=timedelta(seconds=propagation_seconds),
            look_every=timedelta(seconds=propagation_seconds / LOOKS),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _names(namespace: str, services: Sequence[str], dns: Sequence[str], ip: Sequence[str]) -> "Names":
    from certs.names import names_of, service_names  # noqa: PLC0415 - a quick --help

    try:
        return names_of([*(name for each in services for name in service_names(each, namespace).dns), *dns], ip)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _refuse_loss(carried: "Names", given: "Names", namespace: str) -> None:
    """End with a usage error where a name of the certificate is not given.

    Whoever calls by that name would meet a certificate without it until the loop, which knows every name, looks again.
    """
    from certs.names import service_names, uncovered  # noqa: PLC0415 - a quick --help

    left = missing = uncovered(carried, given)
    options = []
    for service in [name.removesuffix(f".{namespace}.svc") for name in missing if name.endswith(f".{namespace}.svc")]:
        names = service_names(service, namespace).dns
        if set(names) <= set(left):
            options.append(f"--service {service}")
            left = tuple(name for name in left if name not in names)
    options += [f"--ip {name}" if name in carried.ip else f"--dns {name}" for name in left]
    if options:
        raise click.UsageError(
            f"The certificate carries names that are not given, and calls by them would fail: {', '.join(missing)}. "
            f"Give {' '.join(options)} as well, or --drop-names to do without."
        )


def _client(kubeconfig: str | None) -> "Client":
    from webhook.cluster.client import Client  # noqa: PLC0415 - a quick --help
    from webhook.cluster.errors import ClusterError  # noqa: PLC0415 - as above

    try:
        return Client.from_environment(kubeconfig)
    except ClusterError as error:
        _end(ended(str(error)))


def _place(secret: str) -> tuple[str, str]:
    found = _PLACE.fullmatch(secret)
    if found is None:
        raise click.BadParameter(f"{secret!r} is not of the form NAMESPACE/NAME.", param_hint="--secret")
    return found["namespace"], found["name"]


def _there(client: "Client", namespace: str, name: str) -> "Mapping[str, bytes]":
    """Return the Secret's data; ends where there is none, for a misspelt name must not become a Secret of its own."""
    from certs.store import StoreError  # noqa: PLC0415 - a quick --help
    from webhook.cluster.secrets import ClusterSecretStore  # noqa: PLC0415 - as above

    try:
        found = ClusterSecretStore(client, namespace, name).read()
    except StoreError as error:
        _end(str(error))
    if not found.version:
        _end(f"There is no Secret {namespace}/{name}.")
    return found.data


def _by_place(name: str, of_cluster: click.Command, arguments: Sequence[str]) -> None:
    if any(each.split("=")[0] == "--secret" for each in arguments):
        of_cluster.main(list(arguments), prog_name=f"numa-admission certs {name}")
    _pass_on(name, arguments)


def _pass_on(command: str, arguments: Sequence[str]) -> NoReturn:
    from certs.__main__ import main  # noqa: PLC0415 - a quick --help

    sys.exit(main([command, *arguments], program="numa-admission certs"))


def _end(sentence: str) -> NoReturn:
    click.echo(f"numa-admission certs: {sentence}", err=True)
    sys.exit(EXIT_BROKEN)


if __name__ == "__main__":
    certs(prog_name="numa-admission certs")
