"""`leporid inspect`: what an embedding holds, and what training did to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leporid.cli.output import JsonOption, print_json, print_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("inspect")(inspect)


def inspect(
    source: Annotated[Path, typer.Argument(help="Embeddings, a trained model or a run.")],
    data: Annotated[
        str | None, typer.Option(help="The training log: adds everything about degrees.")
    ] = None,
    items: Annotated[
        str | None, typer.Option(help="File with item titles, or a dataset's name.")
    ] = None,
    item: Annotated[
        str | None, typer.Option(help="Show the nearest neighbours of this item (id or title).")
    ] = None,
    neighbours: Annotated[int, typer.Option("-n", help="How many neighbours.")] = 10,
    after: Annotated[
        Path | None, typer.Option(help="Trained model or run that started from SOURCE.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="Scale the model gave the start [the one that fits].")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for pictures and index.html.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Show spectrum, norms, isolated rows, neighbours, a map, and movement in training."""
    from leporid.diagnostics.inspection import inspect_embeddings
    from leporid.interop.formats import read_any

    titles = None
    if items is not None:
        from leporid.data.item_titles import load_items

        titles = load_items(items)
    train = None
    if data is not None:
        from leporid.data.loading import load

        train = load(data)
    found = inspect_embeddings(
        read_any(source),
        train=train,
        after=None if after is None else read_any(after),
        scale=scale,
        item=item,
        titles=titles,
        neighbours=neighbours,
    )
    files = [] if output is None else found.write(output, f"Embeddings of {source.name}")
    if json_output:
        print_json({**found.to_dict(), "files": [str(file) for file in files]})
        return
    for side in ("users", "items"):
        for table in found.tables(side):
            print_table(side, table)
    for file in files:
        typer.echo(f"wrote {file}")
