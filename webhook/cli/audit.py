"""``numa-admission audit``: which running pods and workloads would be refused at their next restart."""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.audit_report import (
    NEVER_JUDGED,
    Audit,
    RawObject,
    as_json,
    as_sarif,
    as_table,
    audit_objects,
    objects_in,
)
from webhook.cli.documents import read_documents
from webhook.cli.sources import Unreadable, read_sources
from webhook.core.modes import Rules
from webhook.core.spelling import ended
from webhook.wire.manifests import BrokenDocument

if TYPE_CHECKING:
    from webhook.cluster.client import Client

EXIT_REFUSED: Final = 1
EXIT_UNREADABLE: Final = 3
PAGE: Final = 500
LIVE_PATHS: Final = (
    "/api/v1/{}pods",
    "/apis/apps/v1/{}deployments",
    "/apis/apps/v1/{}replicasets",
    "/apis/apps/v1/{}statefulsets",
    "/apis/apps/v1/{}daemonsets",
    "/apis/batch/v1/{}jobs",
    "/apis/batch/v1/{}cronjobs",
)
"""What is listed of a live cluster; other kinds are judged by the pods that they have made."""
FORMATS: Final[Mapping[str, Callable[[Audit], str]]] = MappingProxyType(
    {"table": as_table, "json": as_json, "sarif": as_sarif}
)


class CannotReadError(Exception):
    """The objects cannot be read; ``str`` is one sentence."""


@click.command("audit", short_help="Tell which running pods would be refused at their next restart.")
@click.argument("paths", nargs=-1, metavar="[PATH...|-]")
@click.option("--kubeconfig", metavar="FILE", help="The cluster to look at; else the usual one.")
@click.option("--context", "context_name", metavar="NAME", help="Of the kubeconfig.")
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace of the live cluster.")
@click.option(
    "--exclude-namespace",
    "excluded",
    multiple=True,
    metavar="NAME",
    help="A namespace that is never judged, as in the chart's excludedNamespaces; besides kube-system.",
)
@click.option("-o", "--output", type=click.Choice(sorted(FORMATS)), default="table", show_default=True)
@click.option("--settings", "settings_file", metavar="FILE", help="The server's settings: its modes count here too.")
@click.option("--errors-only", is_flag=True, help="Leave out what would only be warned of.")
@click.pass_context
def audit(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    kubeconfig: str | None,
    context_name: str | None,
    namespace: str | None,
    excluded: tuple[str, ...],
    output: str,
    settings_file: str | None,
    errors_only: bool,
) -> None:
    """Look at the live cluster, or at dumps: kubectl get pods,deploy,rs,sts,ds,jobs,cronjobs -A -o yaml.

    Changes nothing. Exit code: 0 nothing would be refused, 1 something would, 2 wrong usage, 3 something could not be
    read.
    """
    rules = _rules_of(settings_file)
    try:
        objects = _of_files(paths) if paths else _of_cluster(_client(kubeconfig, context_name), namespace)
        found = audit_objects(objects, rules, NEVER_JUDGED.union(excluded))
    except CannotReadError as error:
        click.echo(f"numa-admission audit: {error}", err=True)
        context.exit(EXIT_UNREADABLE)
    shown = found.without_warnings() if errors_only else found
    click.echo(FORMATS[output](shown))
    context.exit(EXIT_REFUSED if found.refused else 0)


def _of_files(paths: tuple[str, ...]) -> Iterator[RawObject]:
    """Yield every object of the dumps.

    Raises:
        CannotReadError: a file cannot be read, or there is no object: a dump that went wrong is no clean cluster.
    """
    count = 0
    for source in read_sources(paths):
        if isinstance(source, Unreadable):
            raise CannotReadError(f"{source.name}: {source.problem}")
        for document in read_documents(source).documents:
            if isinstance(document, BrokenDocument):
                raise CannotReadError(f"{source.name}:{document.position.line}: {document.problem}")
            if not _has_kind(document.value):
                line = document.start.line
                raise CannotReadError(f"{source.name}:{line}: This is no Kubernetes object: it has no kind.")
            count += 1
            yield from objects_in(document.value)
    if not count:
        raise CannotReadError(f"{', '.join(paths)}: It holds no Kubernetes object.")


def _has_kind(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("kind"), str)


def _of_cluster(client: "Client", namespace: str | None) -> Iterator[RawObject]:
    """Yield every object of ``LIVE_PATHS``, page by page.

    Raises:
        CannotReadError: the cluster does not answer, we may not list, or there is no such namespace.
    """
    from webhook.cluster.errors import ClusterError, Gone, NotFound  # noqa: PLC0415 - files are read without the client

    if namespace:
        # Of a namespace that is not there the API server lists nothing, without a word.
        try:
            client.get(f"/api/v1/namespaces/{namespace}", timeout_seconds=60.0)
        except NotFound as error:
            raise CannotReadError(f"There is no namespace {namespace}.") from error
        except ClusterError:  # the rights to list in it need not be rights to read it
            pass
    for path in LIVE_PATHS:
        where = path.format(f"namespaces/{namespace}/" if namespace else "")
        token: str | None = None
        while True:
            try:
                page = client.get(where, {"limit": PAGE, "continue": token}, timeout_seconds=60.0)
            except Gone as error:
                raise CannotReadError(f"The list of {where} took too long: {ended(str(error))} Start again.") from error
            except ClusterError as error:
                raise CannotReadError(ended(str(error))) from error
            yield from objects_in(page)
            token = (page.get("metadata") or {}).get("continue") or None
            if token is None:
                break


def _client(kubeconfig: str | None, context_name: str | None) -> "Client":
    from webhook.cluster.client import Client  # noqa: PLC0415 - files are read without the client
    from webhook.cluster.errors import NotConfigured  # noqa: PLC0415 - as above

    try:
        return Client.from_environment(kubeconfig, context_name)
    except NotConfigured as error:
        raise CannotReadError(f"{ended(str(error))} Give --kubeconfig, or the path of a dump.") from error


def _rules_of(settings_file: str | None) -> Rules:
    """Return the rules by which a server with these settings would judge."""
    if settings_file is None:
        return Rules()
    from pathlib import Path  # noqa: PLC0415 - a quick start without settings

    from webhook.service.settings_file import read_settings  # noqa: PLC0415 - as above
    from webhook.service.start import StartError  # noqa: PLC0415 - as above
    from webhook.service.wiring import rules_of  # noqa: PLC0415 - as above

    try:
        return rules_of(read_settings(Path(settings_file)))
    except StartError as error:
        raise click.BadParameter(str(error), param_hint="--settings") from error


if __name__ == "__main__":
    sys.exit(audit(prog_name="numa-admission audit"))
