"""`leporid extend`: rows for the items and users that a model does not know."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from leporid.cli.options import Json, Output, load_model, parse_list
from leporid.cli.printing import show
from leporid.errors import ConfigError


@dataclass(frozen=True)
class _NewRows:
    """What is new, and how it gets its rows."""

    items: Annotated[
        Path | None, "Table or vectors of old and new items, by item id."
    ] = None
    interactions: Annotated[Path | None, "Log with new items or new users."] = None
    columns: Annotated[
        str, "Columns of the table, such as title,year:categories [all]."
    ] = ""
    cold_item_share: Annotated[
        float | None, "How often to list cold items [1: by share]."
    ] = None
    length: Annotated[
        float | None, "Of new items' rows, in units of the old ones' median."
    ] = None
    steps: Annotated[int, "Training steps that move the new rows alone."] = 0


def extend(
    run: Annotated[Path, Argument(help="A run, or the folder of a saved model.")],
    output: Output,
    new: _NewRows,
    json_output: Json = False,
) -> None:
    """Add the items and users that RUN does not know, by content and by shared users.

    All other weights stay as they are. The extended model is written to OUTPUT/model.
    """
    if new.items is None and new.interactions is None:
        raise ConfigError("say what is new: --items FILE, --interactions FILE or both")
    model = load_model(run)
    extended = model.extend(
        new.items,
        new.interactions,
        columns=tuple(parse_list(new.columns)),
        length=new.length,
        cold_item_share=new.cold_item_share,
        steps=new.steps,
        progress=not json_output,
    )
    n_users = len(extended.users)
    n_items = len(extended.items)
    new_users = n_users - len(model.users)
    new_items = n_items - len(model.items)
    report = {
        "model": extended.name,
        "users": n_users,
        "items": n_items,
        "new_users": new_users,
        "new_items": new_items,
    }
    line = (
        f"{extended.name}: {new_items:,} items and {new_users:,} users are new, "
        f"{n_items:,} and {n_users:,} in all"
    )
    folder = extended.save(output / "model")
    show(json_output, report, line, files=[folder])
