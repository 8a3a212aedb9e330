"""`leporid grow`: rows for new items and users in a trained model, without training it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from leporid.cli.options import Json, Output, load_model, parse_list
from leporid.cli.output import print_files, print_json, show_progress
from leporid.errors import ConfigError


def extend(
    run: Annotated[Path, Argument(help="A run, or the folder of a saved model.")],
    output: Output,
    items: Annotated[Path | None, "Table or vectors of old and new items, by item id."] = None,
    interactions: Annotated[Path | None, "Log with new items or new users."] = None,
    columns: Annotated[str, "Columns of the table, such as title,year:categories [all]."] = "",
    exposure: Annotated[float, "Places for new items, in units of their catalogue share."] = 1.0,
    length: Annotated[float | None, "Of new items' rows, in units of the old ones' median."] = None,
    steps: Annotated[int, "Training steps that move the new rows alone."] = 0,
    json_output: Json = False,
) -> None:
    """Add the items and users that RUN does not know, placed by content and by shared people.

    Everything the model has learnt stays as it is. The grown model is written to OUTPUT/model.
    """
    if items is None and interactions is None:
        raise ConfigError("say what is new: --items FILE, --interactions FILE or both")
    model = load_model(run)
    if not hasattr(model, "grow"):
        raise ConfigError(f"{model.name} has no embedding tables to grow: train it again instead")
    grown = model.grow(
        items,
        interactions,
        columns=tuple(parse_list(columns)),
        length=length,
        exposure=exposure,
        steps=steps,
        progress=show_progress(json_output),
    )
    new = {
        "new_users": len(grown.users) - len(model.users),
        "new_items": len(grown.items) - len(model.items),
    }
    folder = grown.save(output / "model")
    if json_output:
        counts = {"users": len(grown.users), "items": len(grown.items)}
        print_json({"model": grown.name, **counts, **new, "files": [str(folder)]})
        return
    typer.echo(
        f"{grown.name}: {new['new_items']:,} items and {new['new_users']:,} users are new, "
        f"{len(grown.items):,} and {len(grown.users):,} in all"
    )
    print_files([folder])
