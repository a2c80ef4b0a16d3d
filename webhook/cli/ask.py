"""``numa-admission ask``: send manifests to a running server as an API server would, and print its answers in words."""

import base64
import http.client
import json
import ssl
import uuid
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import click

from webhook.cli.sources import Unreadable, read_sources
from webhook.core.plain_text import plain
from webhook.core.spelling import ended
from webhook.wire.manifests import BrokenDocument, read_manifests
from webhook.wire.objects import raw_objects
from webhook.wire.patches import apply_patch
from webhook.wire.workload_table import STANDARD_KINDS

EXIT_REFUSED: Final = 1
EXIT_UNREADABLE: Final = 3
TIMEOUT_SECONDS: Final = 10

JsonMap = dict[str, object]


class NoAnswerError(Exception):
    """The server gave no verdict; ``str`` is one sentence."""


@click.command("ask", short_help="Send manifests to a running server and print its answers.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...|-")
@click.option("--url", default="https://127.0.0.1:8443", show_default=True, help="Where the server listens.")
@click.option("--ca", "ca_file", metavar="FILE", required=True, help="The authority of its certificate, PEM.")
@click.option("--namespace", default="default", show_default=True, help="Namespace of objects that name none.")
@click.option("--dry-run", is_flag=True, help="Ask as a server dry run: the ledger keeps nothing of it.")
@click.pass_context
def ask(
    context: click.Context, *, paths: tuple[str, ...], url: str, ca_file: str, namespace: str, dry_run: bool
) -> None:
    """Ask a running server about each manifest: what mutate would change, what validate and capacity would say.

    Exit code: 0 everything is let in, 1 something is refused, 2 wrong usage, 3 something could not be read or asked.
    """
    try:
        server = _Server(url, ca_file)
        codes = [_one(server, raw, namespace, dry_run=dry_run) for raw in _objects(paths)]
    except (NoAnswerError, OSError) as error:
        click.echo(f"numa-admission ask: {error}", err=True)
        context.exit(EXIT_UNREADABLE)
    context.exit(max(codes))


def _objects(paths: tuple[str, ...]) -> Iterator[JsonMap]:
    for source in read_sources(paths):
        if isinstance(source, Unreadable):
            raise NoAnswerError(f"{plain(source.name, 4096)}: {source.problem}")
        name, count = plain(source.name, 4096), 0
        for document in read_manifests(source.text):
            if isinstance(document, BrokenDocument):
                raise NoAnswerError(f"{name}:{document.position.line}: {document.problem}")
            for path, raw in raw_objects(document.value):
                if not isinstance(raw.get("kind"), str):
                    line = document.locate(path).line
                    raise NoAnswerError(f"{name}:{line}: This is no Kubernetes object: it has no kind.")
                count += 1
                yield dict(raw)
        if not count:
            raise NoAnswerError(f"{name}: It holds no object.")


def _one(server: "_Server", raw: JsonMap, namespace: str, *, dry_run: bool) -> int:
    """Ask about one object, print the answers, and return its exit code."""
    review = _review(raw, namespace, dry_run=dry_run)
    metadata = raw.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    name = own.get("name") or own.get("generateName") or "(no name)"
    click.secho(plain(f"{raw['kind']} {name}"), bold=True)
    if raw["kind"] == "Pod":
        reply = server.post("/mutate", review)
        raw = _patched(raw, reply)
        _say("/mutate", reply)
        review = _review(raw, namespace, dry_run=dry_run)
    refused = False
    for path in ("/validate", "/capacity"):
        reply = server.post(path, review)
        _say(path, reply)
        refused = refused or not reply.get("allowed")
    return EXIT_REFUSED if refused else 0


def _say(path: str, reply: Mapping[str, object]) -> None:
    patch = reply.get("patch")
    if not reply.get("allowed"):
        word, colour = "refused", "red"
    else:
        word, colour = ("changed", "yellow") if patch else ("allowed", "green")
    click.echo(f"  {path:<10}" + click.style(word, fg=colour))
    status = reply.get("status")
    message = status.get("message") if isinstance(status, dict) and not reply.get("allowed") else ""
    for line in str(message or "").splitlines():
        click.echo(f"    {line}")
    warnings = reply.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        click.echo(f"    warning: {warning}")
    for operation in _operations(patch):
        click.echo(f"    {operation['op']} {operation['path']}: {json.dumps(operation.get('value'))}")


def _operations(patch: object) -> list[dict[str, object]]:
    operations: list[dict[str, object]] = json.loads(base64.b64decode(patch)) if isinstance(patch, str) else []
    return operations


def _patched(raw: JsonMap, reply: Mapping[str, object]) -> JsonMap:
    operations = _operations(reply.get("patch"))
    patched = apply_patch(raw, operations) if operations else raw
    return patched if isinstance(patched, dict) else raw


def _review(raw: JsonMap, namespace: str, *, dry_run: bool) -> JsonMap:
    """Return a CREATE review of ``raw`` with what an API server fills in: namespace, uid, requests from limits."""
    metadata = raw.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    where = own.get("namespace") or namespace
    kind = str(raw["kind"])
    group = str(raw.get("apiVersion", "v1")).rpartition("/")[0]
    stored = {**raw, "metadata": {**own, "namespace": where, "uid": str(uuid.uuid4())}}
    resource = f"{kind.lower()}s"
    is_known = (group, kind) in STANDARD_KINDS or (group, kind) == ("", "Pod")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": "v1", "kind": kind},
            "resource": {"group": group, "version": "v1", "resource": resource if is_known else kind.lower()},
            "name": own.get("name") or "",
            "namespace": where,
            "operation": "CREATE",
            "userInfo": {"username": "numa-admission-ask"},
            "object": stored,
            "oldObject": None,
            "dryRun": dry_run,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def _host_and_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 443
    except ValueError:  # a port that is no number, a bracket that does not close
        host, port, parts = None, 0, urlsplit("")
    if parts.scheme != "https" or not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise click.BadParameter(f"{url!r} is not of the form https://HOST:PORT.", param_hint="--url")
    return host, port


class _Server:
    """One server over HTTPS."""

    def __init__(self, url: str, ca_file: str) -> None:
        self._host, self._port = _host_and_port(url)
        try:
            self._context = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise NoAnswerError(f"The authority's file {ca_file} cannot be read: {ended(str(error))}") from error

    def post(self, path: str, review: JsonMap) -> Mapping[str, object]:
        """Return the ``response`` of the review that the server answers."""
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_SECONDS, context=self._context)
        try:
            body = json.dumps(review)
            connection.request("POST", f"{path}?timeout={TIMEOUT_SECONDS}s", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"https://{self._host}:{self._port} does not answer: {ended(str(error))}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise NoAnswerError(f"{path} answered {answer.status}: {content.decode(errors='replace').strip()}")
        response: Mapping[str, object] = json.loads(content)["response"]
        return response
