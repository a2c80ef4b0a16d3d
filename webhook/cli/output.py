"""The end of a command whose answer is not whole: it cannot be written, or the command crashed. No finding ends so."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import print_exc, walk_tb
from typing import Final

import click

NOT_WHOLE: Final = 3
"""As for what cannot be read: nobody has seen the whole answer, so it must not pass for findings, which give 1."""


@contextmanager
def whole_output() -> Iterator[None]:
    """End the command with ``NOT_WHOLE`` where ``click.echo`` in the body fails.

    A reader that has gone, as ``head``, is told nothing: it has what it wanted, and the code says the rest. Every other
    ``OSError`` goes on: it is not of the output.

    Raises:
        click.exceptions.Exit: The output cannot be written whole.
    """
    try:
        yield
    except OSError as error:
        if not any(frame.f_code is click.echo.__code__ for frame, _ in walk_tb(error.__traceback__)):
            raise
        # What is left in the buffer would be tried once more when the process ends, and end it with 120.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it lives as long as the process
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                click.echo(f"Error: The output cannot be written: {error.strerror or error}.", err=True)
        raise click.exceptions.Exit(NOT_WHOLE) from error


@contextmanager
def crash_is_no_finding() -> Iterator[None]:
    """End the command with ``NOT_WHOLE`` and a traceback where the body raises what nobody has foreseen.

    Python itself would end with 1, which a pipeline takes for findings.

    Raises:
        click.exceptions.Exit: The body has crashed.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, EOFError):
        raise
    except Exception as error:
        with suppress(OSError):
            print_exc()
        raise click.exceptions.Exit(NOT_WHOLE) from error
