"""`leporid export`: embeddings or a model's tables as files, or a model into another system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from leporid.cli.options import FormatOptions, Json, Output, VectorSource, load_model
from leporid.cli.output import print_files, print_json
from leporid.errors import ConfigError


def export(
    source: VectorSource,
    output: Output,
    format: FormatOptions,
    to: Annotated[str | None, "A system: faiss, onnx, parquet, pgvector, qdrant."] = None,
    approximate: Annotated[bool, "--to faiss: an HNSW graph, not an exact index."] = False,
    address: Annotated[str | None, "--to qdrant, pgvector: a server to load as well."] = None,
    check: Annotated[int, "--to: compare the lists of this many users; 0: none."] = 1000,
    source_format: Annotated[
        str | None, Option("--from", help="Format of SOURCE, if unclear.")
    ] = None,
    users: Annotated[str | None, "The model's user table, where it has several."] = None,
    items: Annotated[str | None, "The model's item table, where it has several."] = None,
    scale: Annotated[float | None, "Standardise the columns, then multiply by this."] = None,
    json_output: Json = False,
) -> None:
    """Write SOURCE's vectors and ids in another format, or with --to a model into a system."""
    if to is not None:
        if (users, items, scale, source_format) != (None,) * 4 or format.format != "safetensors":
            raise ConfigError(
                "--to writes the vectors a model ranks by: leave out --format, --from, --users, "
                "--items and --scale"
            )
        how = {"approximate": approximate, "address": address, "name": format.name}
        _export_model(source, output, to, check, json_output, **how)
        return
    from leporid.interop import read_any, write_embeddings

    vectors = read_any(source, users, items, source_format)
    if scale is not None:
        vectors = vectors.standardized(scale)
    files = write_embeddings(vectors, output, **vars(format))
    n_users, n_items, dim = vectors.users.n, vectors.items.n, vectors.users.dim
    if json_output:
        report = {"users": n_users, "items": n_items, "dim": dim, "format": format.format}
        print_json({**report, "files": [str(file) for file in files]})
        return
    typer.echo(f"{n_users:,} users, {n_items:,} items, {dim} columns")
    print_files(files)


def _export_model(
    source: Path, output: Path, to: str, check: int, json_output: bool, **how: bool | str | None
) -> None:
    from leporid.artifacts import read_json
    from leporid.interop import export_model

    given = {name: value for name, value in how.items() if value}
    parity = export_model(load_model(source), output, to, check=check, **given)  # type: ignore[arg-type]
    about = read_json(output / "export.json")
    files = sorted(output.iterdir())
    if json_output:
        print_json({**about, "files": [str(file) for file in files]})
        return
    typer.echo(f"{about['users']:,} users, {about['items']:,} items, {about['width']} columns")
    if about["product_ranks"] == "first stage":
        typer.echo("these vectors retrieve candidates, which the model itself then ranks")
    if about["users_without_history"]:
        typer.echo(f"{about['users_without_history']:,} users have no history and were not checked")
    typer.echo(str(parity) if parity else "lists not compared with the model's own")
    print_files(files)
