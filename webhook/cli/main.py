"""``numa-admission``: the subcommands by name; a module is imported when its subcommand is asked for."""

import importlib
from types import MappingProxyType
from typing import Final

import click

from webhook.cli.output import crash_is_no_finding, whole_output

COMMANDS: Final = MappingProxyType(
    {
        "ask": ("webhook.cli.ask:ask", "Send manifests to a running server and print its answers."),
        "audit": ("webhook.cli.audit:audit", "Tell which running pods would be refused at their next restart."),
        "certs": ("webhook.cli.certs:certs", "Show, rotate, mint and keep the serving certificate."),
        "check": ("webhook.cli.check:check", "Judge manifests as the webhooks would."),
        "explain": ("webhook.cli.explain:explain", "Explain a finding's code."),
        "map": ("webhook.cli.map:map_command", "Draw the machines: NUMA nodes, CPUs, GPUs and who holds them."),
        "serve": ("webhook.cli.serve:serve", "Run the admission server."),
        "webhook-config": ("webhook.cli.webhook_config:webhook_config", "Print the webhook configurations."),
    }
)
"""Name -> (module:function, one line for ``--help``). The line stands here so that ``--help`` imports nothing."""


class _LazyGroup(click.Group):
    """A group whose commands are imported one at a time, when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Return the command ``cmd_name``, imported, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Return the context; ``--help`` and ``--version`` are printed here."""
        with whole_output():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Return what the command returns."""
        with crash_is_no_finding(), whole_output():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Write the commands with their one line each."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="numa-admission", message="%(version)s")
def main() -> None:
    """Admission webhooks and a checker for NUMA-aligned CPU and GPU pods."""
