"""How commands end that Ctrl-C or SIGTERM interrupts: with a sentence, and 130 or 143."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator

import typer

from leporid.errors import TrainingInterruptedError
from leporid.foundation import signal_of, sigterm_interrupts


@contextlib.contextmanager
def stoppable(kept: Callable[[], str]) -> Iterator[None]:
    """End the command in order when it is interrupted; `kept` says what there is then."""
    try:
        with sigterm_interrupts():
            yield
    except KeyboardInterrupt as error:
        raise interrupted(kept(), signal_of(error)) from None
    except TrainingInterruptedError as error:
        raise interrupted(str(error), error.by) from None


def interrupted(sentence: str, by: signal.Signals) -> typer.Exit:
    """Print why a command ends, and return its end: 130 after Ctrl-C, 143 after SIGTERM."""
    typer.echo(f"interrupted: {sentence}", err=True)
    return typer.Exit(128 + by)


def typed_again(*further: str) -> str:
    """Return the command as it was typed, with further options."""
    options = [option for option in further if option not in sys.argv]
    return shlex.join(["leporid", *sys.argv[1:], *options])
