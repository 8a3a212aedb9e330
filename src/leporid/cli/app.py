"""The `leporid` command: its sub-commands, and how errors reach the terminal.

Command modules import nothing heavy at the top, so `leporid --help` answers at once.
"""

import os
import sys
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Annotated

import typer
import typer.main
from typer import Option

from leporid._version import __version__
from leporid.cli import experiments
from leporid.cli.choose import choose
from leporid.cli.compare import compare
from leporid.cli.data import group as data
from leporid.cli.doctor import doctor
from leporid.cli.embed import embed
from leporid.cli.evaluate import evaluate
from leporid.cli.experiments import tune
from leporid.cli.export import export
from leporid.cli.extend import extend
from leporid.cli.inspect import inspect
from leporid.cli.options import as_command
from leporid.cli.recommend import recommend
from leporid.cli.registries import initializers, models
from leporid.cli.serve import serve
from leporid.cli.train import train
from leporid.errors import LeporidError, LeporidWarning

app = typer.Typer(
    name="leporid",
    help="Where should your embeddings start? Manifold-informed initial embeddings for "
    "recommenders, the models that use them, and the evaluation that says whether it helped.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help texts: rich would swallow words in [brackets]
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "data": data,
    "embed": embed,
    "train": train,
    "choose": choose,
    "inspect": inspect,
    "evaluate": evaluate,
    "compare": compare,
    "tune": tune,
    "run": experiments.run,
    "recommend": recommend,
    "extend": extend,
    "export": export,
    "serve": serve,
    "models": models,
    "initializers": initializers,
    "doctor": doctor,
}
"""Every command, or group of commands, by name, in the order of the help text."""

for _name, _command in COMMANDS.items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(as_command(_command))


def _version(show: bool) -> None:
    """Print the version and end."""
    if show:
        typer.echo(f"leporid {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, Option("--debug", help="Show tracebacks of errors.")
    ] = False,
) -> None:
    if debug:
        os.environ["LEPORID_DEBUG"] = "1"


def run(commands: typer.Typer = app, name: str = "leporid") -> None:
    """Run the command line; an error is one sentence on stderr and an exit code.

    1: an error with a message of ours (or a bug, in one line); 2: a misspelt command;
    130: interrupted. `--debug` (or LEPORID_DEBUG=1) shows tracebacks instead.
    """
    # Threads of OpenMP that wait soon sleep. Those that spin take a busy machine's cores from those
    # that work: 13 times fewer training steps, measured on two cores with a load of 7.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    sys.excepthook = _one_line
    warnings.showwarning = _one_line_warning
    try:
        # Not `app()`: it would put typer's own hook for uncaught errors in place of ours.
        typer.main.get_command(commands)(prog_name=name)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Report an error that nothing caught: one of ours, a bug, or a broken machine."""
    if os.environ.get("LEPORID_DEBUG"):
        sys.__excepthook__(kind, error, trace)
    elif isinstance(error, LeporidError):
        print(f"error: {error}", file=sys.stderr)
    else:
        hint = "(unexpected; `leporid --debug ...` shows where)"
        print(f"error: {kind.__name__}: {error} {hint}", file=sys.stderr)


def _one_line_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """Show our own warnings; those of other packages only with `--debug`."""
    if issubclass(category, LeporidWarning):
        print(f"warning: {message}", file=sys.stderr)
    elif os.environ.get("LEPORID_DEBUG"):
        print(f"{category.__name__}: {message}", file=sys.stderr)
