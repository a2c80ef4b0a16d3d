"""``numa-admission explain``: the page of a finding's code."""

import difflib
from collections.abc import Mapping
from importlib.resources import files

import click

from webhook.core.file_reasons import FILE_REASONS
from webhook.core.ledger.reasons import LEDGER_REASONS
from webhook.core.reasons import REASONS, Reason
from webhook.core.softened import SOFTENED
from webhook.core.spelling import one_of


def all_reasons() -> Mapping[str, Reason]:
    """Return every reason by its code."""
    return {**REASONS, **FILE_REASONS, **LEDGER_REASONS}


def page_of(code: str) -> str:
    """Return the page of ``code``, Markdown."""
    return files("webhook.pages").joinpath(f"{code}.md").read_text(encoding="utf-8")


@click.command("explain", short_help="Explain a finding's code.")
@click.argument("code", required=False)
@click.pass_context
def explain(context: click.Context, code: str | None) -> None:
    """Print what CODE means, why it matters and how to fix it; without CODE list all codes."""
    reasons = all_reasons()
    if code is None:
        width = max(map(len, reasons))
        for name, reason in reasons.items():
            click.echo(f"{name:<{width}}  {_weight(reason):<16}  {reason.summary}")
        return
    wanted = code.strip("[]").upper()
    if wanted in reasons:
        click.echo(page_of(wanted), nl=False)
        return
    near = difflib.get_close_matches(wanted, reasons, n=3)
    hint = f" Did you mean {one_of(near)}?" if near else " Run numa-admission explain for the list."
    click.echo(f"There is no code {code!r}.{hint}", err=True)
    context.exit(2)


def _weight(reason: Reason) -> str:
    return "error or warning" if reason.code in SOFTENED else reason.severity.value
