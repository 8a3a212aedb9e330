"""`leporid models`: the models, what each takes and can do."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from leporid.cli.options import Json
from leporid.cli.output import print_catalogue


def models(
    name: Annotated[str | None, Argument(help="One model: also its recipes and settings.")] = None,
    json_output: Json = False,
) -> None:
    """List the models: what they are, whether they start from vectors and answer new people."""
    from leporid.models import available, describe

    print_catalogue(available() if name is None else [name], describe, json_output)
