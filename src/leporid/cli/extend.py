"""`leporid extend`: rows for new items and users in a trained model, without training it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from leporid.cli.options import Json, Output, load_model, parse_list, print_report
from leporid.errors import ConfigError


def extend(
    run: Annotated[Path, Argument(help="A run, or the folder of a saved model.")],
    output: Output,
    items: Annotated[Path | None, "Table or vectors of old and new items, by item id."] = None,
    interactions: Annotated[Path | None, "Log with new items or new users."] = None,
    columns: Annotated[str, "Columns of the table, such as title,year:categories [all]."] = "",
    cold_item_share: Annotated[
        float, "How often cold items are listed, in units of their share of all items."
    ] = 1.0,
    length: Annotated[float | None, "Of new items' rows, in units of the old ones' median."] = None,
    steps: Annotated[int, "Training steps that move the new rows alone."] = 0,
    json_output: Json = False,
) -> None:
    """Add the items and users that RUN does not know, by content and by shared users.

    All other weights stay as they are. The extended model is written to OUTPUT/model.
    """
    if items is None and interactions is None:
        raise ConfigError("say what is new: --items FILE, --interactions FILE or both")
    model = load_model(run)
    if not model.takes_initial_vectors:
        raise ConfigError(f"{model.name} has no embedding tables to extend: train it again instead")
    extended = model.extend(  # type: ignore[attr-defined]
        items,
        interactions,
        columns=tuple(parse_list(columns)),
        length=length,
        cold_item_share=cold_item_share,
        steps=steps,
        progress=not json_output,
    )
    report = {"model": extended.name, "users": len(extended.users), "items": len(extended.items)}
    report["new_users"] = len(extended.users) - len(model.users)
    report["new_items"] = len(extended.items) - len(model.items)
    line = (
        "{model}: {new_items:,} items and {new_users:,} users are new, "
        "{items:,} and {users:,} in all"
    )
    folder = extended.save(output / "model")
    print_report(json_output, report, [line.format_map(report)], [folder])
