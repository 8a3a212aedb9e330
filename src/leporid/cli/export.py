"""`leporid export`: embeddings, or the tables of a trained model, in another format."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from leporid.cli.options import FormatOptions, Json, Output, VectorSource
from leporid.cli.output import print_files, print_json


def export(
    source: VectorSource,
    output: Output,
    format: FormatOptions,
    source_format: Annotated[
        str | None, Option("--from", help="Format of SOURCE, if unclear.")
    ] = None,
    users: Annotated[str | None, "The model's user table, where it has several."] = None,
    items: Annotated[str | None, "The model's item table, where it has several."] = None,
    scale: Annotated[float | None, "Standardise the columns, then multiply by this."] = None,
    json_output: Json = False,
) -> None:
    """Write SOURCE's vectors and ids in another format."""
    from leporid.interop import read_any

    vectors = read_any(source, users, items, source_format)
    if scale is not None:
        vectors = vectors.standardized(scale)
    files = format.write(vectors, output)
    n_users, n_items, dim = vectors.users.n, vectors.items.n, vectors.users.dim
    if json_output:
        report = {"users": n_users, "items": n_items, "dim": dim, "format": format.format}
        print_json({**report, "files": [str(file) for file in files]})
        return
    typer.echo(f"{n_users:,} users, {n_items:,} items, {dim} columns")
    print_files(files)
