"""The `leporid` command: its sub-commands, and how errors reach the terminal.

Command modules import nothing heavy at the top, so `leporid --help` answers at once.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated

import typer

from leporid._version import __version__
from leporid.errors import LeporidError

__all__ = ["app", "run"]

app = typer.Typer(
    name="leporid",
    help="Where should your embeddings start? Manifold-informed starting vectors for "
    "recommenders, the models that use them, and the evaluation that says whether it helped.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS = ("data", "embed", "train", "evaluate", "recommend", "tune")
"""Each is a module of this package with a function `register(app)`."""

for _name in _COMMANDS:
    importlib.import_module(f"leporid.cli.{_name}").register(app)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"leporid {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    if debug:
        os.environ["LEPORID_DEBUG"] = "1"


def run() -> None:
    """Run the command line; an error is one sentence on stderr and exit code 1."""
    try:
        app()
    except LeporidError as error:
        if os.environ.get("LEPORID_DEBUG"):
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
