"""`leporid initializers`: the initialisers with their settings."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from leporid.cli.options import Json
from leporid.cli.output import print_catalogue


def initializers(
    name: Annotated[str | None, Argument(help="One initialiser: also its settings.")] = None,
    json_output: Json = False,
) -> None:
    """List the initialisers: what they are, and whether models z-score their vectors."""
    from leporid.initializers import available, describe

    print_catalogue(available() if name is None else [name], describe, json_output)
