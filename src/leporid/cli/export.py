"""`leporid export`: embeddings, or the tables of a trained model, in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leporid.cli.output import JsonOption, print_json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("export")(export)


def export(
    source: Annotated[Path, typer.Argument(help="Embeddings, a trained model or a run.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")],
    format: Annotated[
        str,
        typer.Option(help="safetensors, parquet, npy, csv, word2vec, recbole or implicit."),
    ] = "safetensors",
    source_format: Annotated[
        str | None, typer.Option("--from", help="Format of SOURCE, where it is not clear.")
    ] = None,
    users: Annotated[
        str | None, typer.Option(help="The model's user table, where it has several.")
    ] = None,
    items: Annotated[
        str | None, typer.Option(help="The model's item table, where it has several.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="Standardise the columns, then multiply by this.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Dataset name for RecBole's files [the folder's name].")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Write SOURCE's vectors and ids in another format."""
    from leporid.interop.formats import read_any, write_embeddings

    read = read_any(source, users, items, source_format)
    if scale is not None:
        read = read.standardized(scale)
    files = write_embeddings(read, output, format, name=name)
    if json_output:
        report = {"users": read.users.n, "items": read.items.n, "dim": read.users.dim}
        print_json({**report, "format": format, "files": [str(file) for file in files]})
        return
    typer.echo(f"{read.users.n:,} users, {read.items.n:,} items, {read.users.dim} columns")
    for file in files:
        typer.echo(f"wrote {file}")
