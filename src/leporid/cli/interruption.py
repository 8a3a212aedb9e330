"""How commands end that Ctrl-C or SIGTERM interrupts: with a sentence, and 130 or 143."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator

import typer

from leporid.errors import TrainingInterruptedError
from leporid.interruption import signal_of, sigterm_interrupts


@contextlib.contextmanager
def stoppable(kept: Callable[[], str]) -> Iterator[None]:
    """End the command in order when it is interrupted; `kept` says what there is then."""
    try:
        with sigterm_interrupts():
            yield
    except KeyboardInterrupt as error:
        typer.echo(f"interrupted: {kept()}", err=True)
        raise exit_of(signal_of(error)) from None
    except TrainingInterruptedError as error:
        typer.echo(f"interrupted: {error}", err=True)
        raise exit_of(error.by) from None


def exit_of(by: signal.Signals) -> typer.Exit:
    """Return the end of a command that a signal interrupted: 130 for Ctrl-C, 143 for SIGTERM."""
    return typer.Exit(128 + by)


def typed_again(*further: str) -> str:
    """Return the command as it was typed, with further options."""
    options = [option for option in further if option not in sys.argv]
    return shlex.join(["leporid", *sys.argv[1:], *options])
