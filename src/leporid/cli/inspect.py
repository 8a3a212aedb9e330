"""`leporid inspect`: measures of embeddings, and how far training moved them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from leporid.cli.options import Json, SplitOptions, VectorSource, show
from leporid.errors import ConfigError


def inspect(
    source: VectorSource,
    data: Annotated[str | None, "Log, or `data split` folder: for --probe and --after."] = None,
    probe: Annotated[bool, "How well the vectors alone predict validation of --data."] = False,
    items: Annotated[str | None, "File with item titles, or a data set's name."] = None,
    item: Annotated[str | None, "Show the nearest neighbours of this item (id or title)."] = None,
    neighbours: Annotated[int, Option("-n", help="How many neighbours.")] = 10,
    after: Annotated[Path | None, "Trained model or run that was initialised with SOURCE."] = None,
    json_output: Json = False,
) -> None:
    """Show spectrum, norms, neighbours, what vectors alone predict, and movement in training."""
    from leporid.data import is_split, load_items
    from leporid.diagnostics import inspect_embeddings
    from leporid.interop import read_any

    train = split = None
    log, quiet = SplitOptions(), {"quiet": json_output}
    if data is not None and is_split(data):
        split = log.split(data, **quiet)
        train = split.train
    elif data is not None:
        train = log.load(data, **quiet)
    if probe and split is None:
        raise ConfigError(
            "--probe needs held-out items: give --data a folder of `leporid data split`, whose "
            "training part the vectors were computed from"
        )
    inspection = inspect_embeddings(
        read_any(source),
        train=train,
        split=split if probe else None,
        after=None if after is None else read_any(after),
        item=item,
        titles=None if items is None else load_items(items),
        neighbours=neighbours,
    )
    tables = {**inspection.tables("users"), **inspection.tables("items")}
    if inspection.probe is not None:
        tables["what the vectors alone predict"] = inspection.probe.rows()
    show(json_output, inspection.to_dict(), *tables.items())
