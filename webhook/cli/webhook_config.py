"""``numa-admission webhook-config``: the plain webhook configurations, for whoever does not use Helm."""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import click
import yaml

from webhook.wire.nodes import minor_version
from webhook.wire.webhook_configurations import CONDITIONS_SINCE_MINOR, Target, webhook_configurations
from webhook.wire.workload_kinds import KindTable
from webhook.wire.workload_table import STANDARD_KINDS, kind_table

_SERVICE = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9-]+)(?::(?P<port>[0-9]{1,5}))?")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@click.command("webhook-config", short_help="Print the webhook configurations.")
@click.option("--url", metavar="https://HOST:PORT", help="Where the API server reaches the server.")
@click.option("--service", metavar="NAMESPACE/NAME[:PORT]", help="The Service in front of the server.")
@click.option(
    "--ca", "ca_file", metavar="FILE", required=True, help="The CA certificates that the server's leaf chains to, PEM."
)
@click.option("--name", default="numa-admission", show_default=True, help="Name of both configurations.")
@click.option(
    "--exclude-namespace",
    "excluded",
    multiple=True,
    help="A namespace that is never judged, besides kube-system and the Service's own.",
)
@click.option("--without", "left_out", multiple=True, metavar="WEBHOOK", help="Leave a webhook out, such as bind.")
@click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    help="The server's settings: its further workload kinds are sent too.",
)
@click.option(
    "--kube-version",
    metavar="VERSION",
    default=f"1.{CONDITIONS_SINCE_MINOR}",
    show_default=True,
    help=f"The cluster's. Before 1.{CONDITIONS_SINCE_MINOR} every pod is sent, so that no failure policy is Fail.",
)
def webhook_config(
    *,
    url: str | None,
    service: str | None,
    ca_file: str,
    name: str,
    excluded: Sequence[str],
    left_out: Sequence[str],
    settings_file: str | None,
    kube_version: str,
) -> None:
    """Print MutatingWebhookConfiguration and ValidatingWebhookConfiguration, to be applied by kubectl."""
    target, namespaces = _target(url, service)
    documents = webhook_configurations(
        name,
        target,
        ca_bundle=_ca_bundle(ca_file),
        excluded_namespaces=("kube-system", *namespaces, *excluded),
        left_out=frozenset(left_out),
        kinds=STANDARD_KINDS if settings_file is None else _kinds_of(settings_file),
        with_conditions=_minor(kube_version) >= CONDITIONS_SINCE_MINOR,
    )
    click.echo(yaml.safe_dump_all(documents, sort_keys=False, width=1000), nl=False)


def _minor(kube_version: str) -> int:
    minor = minor_version(kube_version)
    if minor is None:
        raise click.BadParameter(f"{kube_version!r} is not of the form 1.MINOR.", param_hint="--kube-version")
    return minor


def _kinds_of(settings_file: str) -> KindTable:
    from webhook.service.settings_file import read_settings  # noqa: PLC0415 - a quick start without settings
    from webhook.service.start import StartError  # noqa: PLC0415 - as above

    try:
        return kind_table(read_settings(Path(settings_file)).workloads)
    except StartError as error:
        raise click.BadParameter(str(error), param_hint="--settings") from error


def _target(url: str | None, service: str | None) -> tuple[Target, tuple[str, ...]]:
    if (url is None) == (service is None):
        raise click.UsageError("Give exactly one of --url and --service.")
    if url is not None:
        parts = _split(url)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.path.strip("/"):
            raise click.BadParameter(f"{url!r} is not of the form https://HOST:PORT.", param_hint="--url")
        return Target(url=url.rstrip("/")), ()
    found = _SERVICE.fullmatch(service or "")
    if found is None or (found["port"] and not 0 < int(found["port"]) < 65536):
        raise click.BadParameter(f"{service!r} is not of the form NAMESPACE/NAME[:PORT].", param_hint="--service")
    port = int(found["port"]) if found["port"] else 443
    return Target(namespace=found["namespace"], service=found["name"], port=port), (found["namespace"],)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # a port that is no number, a bracket that does not close: no URL at all
        return urlsplit("")
    return parts


def _ca_bundle(ca_file: str) -> str:
    """Return the file's certificates, base64; keys and comments stay behind."""
    try:
        text = Path(ca_file).read_text(encoding="ascii")
    except OSError as error:
        raise click.BadParameter(f"{ca_file!r} cannot be read: {error.strerror}.", param_hint="--ca") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{ca_file!r} holds no PEM certificate.", param_hint="--ca") from error
    certificates = _CERTIFICATE.findall(text)
    if not certificates:
        raise click.BadParameter(f"{ca_file!r} holds no PEM certificate.", param_hint="--ca")
    return base64.b64encode(("\n".join(certificates) + "\n").encode("ascii")).decode("ascii")
