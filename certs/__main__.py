"""``python -m certs mint|show|rotate DIRECTORY``: certificates for development, without a cluster."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from certs.directory import DirectoryStore
from certs.holdings import OUR_KEYS, holdings_of
from certs.mint import lifetime_of, mint_into
from certs.moments import in_words, utc_now
from certs.names import Names, names_of, service_names
from certs.plan import Asked
from certs.policy import Policy
from certs.rotate import Rotator
from certs.show import shown
from certs.steps import Outcome
from certs.store import NoConfigurations

GOOD, FAULTY, USAGE, BROKEN = 0, 1, 2, 3  # the exit codes of the whole suite


def main(argv: Sequence[str] | None = None, program: str = "python -m certs") -> int:
    """Run one command; return its exit code: 0 good, 1 a certificate has a fault, 2 usage, 3 cannot read or write.

    ``program`` is what the user has called, for the usage.
    """
    parser = _parser(program)
    options = parser.parse_args(argv)
    try:
        code: int = options.run(options)
    except ValueError as error:
        _say(f"certs: {error}")
        return USAGE
    except OSError as error:
        _say(f"certs: {error.filename or options.directory}: {error.strerror}")
        return BROKEN
    return code


def _mint(options: argparse.Namespace) -> int:
    files = mint_into(options.directory, _names(options), lifetime_of(options.days), utc_now())
    for path in (files.ca_file, files.cert_file, files.key_file):
        sys.stdout.write(f"{path}\n")
    return GOOD


def _show(options: argparse.Namespace) -> int:
    data = {}
    for name in sorted(OUR_KEYS):
        path = options.directory / name
        if path.exists():
            data[name] = path.read_bytes()
    result = shown(holdings_of(data), utc_now(), _names(options))
    sys.stdout.write("\n".join(result.lines) + "\n")
    if not data:
        return BROKEN
    return FAULTY if result.faults else GOOD


def _rotate(options: argparse.Namespace) -> int:
    policy = Policy(
        names=_names(options),
        leaf_lifetime=lifetime_of(options.days),
        authority_lifetime=lifetime_of(options.authority_days),
    )
    rotator = Rotator(DirectoryStore(options.directory), NoConfigurations(), policy)
    step = rotator.step(utc_now(), Asked(options.ask))
    sys.stdout.write(f"{step.action.value}: {step.reason} Look again at {in_words(step.look_at)}.\n")
    if step.outcome is not Outcome.DONE:
        _say(f"certs: {step.error}")
        return BROKEN
    return GOOD


def _names(options: argparse.Namespace) -> Names:
    own = service_names(options.service, options.namespace) if options.service else Names()
    return names_of((*own.dns, *options.dns), (*own.ip, *options.ip))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Certificates in files, without a cluster.")
    commands = parser.add_subparsers(required=True, metavar="mint|show|rotate")
    mint = commands.add_parser("mint", help="write a new authority and leaf: ca.crt, tls.crt, tls.key")
    mint.set_defaults(run=_mint)
    mint.add_argument("--days", type=float, default=30, help="lifetime of both, in days (30)")
    show = commands.add_parser("show", help="print what the files hold and what is wrong with it")
    show.set_defaults(run=_show)
    rotate = commands.add_parser("rotate", help="do one step of the rotation")
    rotate.set_defaults(run=_rotate)
    rotate.add_argument("--days", type=float, default=90, help="lifetime of a leaf, in days (90)")
    rotate.add_argument("--authority-days", type=float, default=1825, help="lifetime of an authority, in days (1825)")
    rotate.add_argument("--ask", choices=[asked.value for asked in Asked], default="nothing", help="ahead of its time")
    for command in (mint, show, rotate):
        command.add_argument("directory", type=Path)
        command.add_argument("--service", default="", help="name of the Service whose names are wanted")
        command.add_argument("--namespace", default="default", help="namespace of the Service (default)")
        command.add_argument("--dns", action="append", default=[], help="one more DNS name; may be repeated")
        command.add_argument("--ip", action="append", default=[], help="one more IP address; may be repeated")
    return parser


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
