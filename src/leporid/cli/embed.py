"""`leporid embed`: an interaction log in, starting vectors with ids out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table, show_progress
from leporid.cli.settings import parse_settings

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("embed")(embed)


def embed(
    data: Annotated[str, typer.Argument(help="Interaction log: a file, or a dataset's name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")],
    method: Annotated[
        str, typer.Option(help="random, svd, bpr, netmf, node2vec, graph_bert, le or leporid.")
    ] = "leporid",
    dim: Annotated[int, typer.Option(help="Number of columns.")] = 64,
    k: Annotated[
        int | None, typer.Option(help="Neighbours in the KNN graph (le, leporid, netmf) [1000].")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Popularity regularisation (leporid) [0.5].")
    ] = None,
    landmarks: Annotated[
        float | None,
        typer.Option(
            help="Fit on this many users (below 1: this share) and place the others among them "
            "(le, leporid); for millions of users."
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(help="safetensors, parquet, npy, csv, word2vec, recbole or implicit."),
    ] = "safetensors",
    core: Annotated[
        int, typer.Option(help="Keep users and items with at least this many interactions.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu or cuda, for methods that can use a GPU.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Compute on a Dask cluster: tcp://host:port (le, leporid)."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Stay within this much memory, such as 2GB: DATA streams from a parquet file or a "
            "folder of them (le, leporid)."
        ),
    ] = None,
    refresh: Annotated[
        Path | None,
        typer.Option(
            help="Vectors of an earlier run, before DATA grew: start from them and stay in their "
            "coordinates (le, leporid)."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Another setting of the method, NAME=VALUE.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Name of the user column.")] = None,
    item: Annotated[str | None, typer.Option(help="Name of the item column.")] = None,
    time: Annotated[str | None, typer.Option(help="Name of the time column.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Dataset name for RecBole's files [the folder's name].")
    ] = None,
    cache: Annotated[bool, typer.Option(help="Read and keep fitted vectors on disk.")] = True,
    json_output: JsonOption = False,
) -> None:
    """Compute starting vectors for every user and item of DATA.

    Give the training part of your data only: vectors that have seen the test part leak it.
    """
    from time import perf_counter

    from leporid import initializers
    from leporid.data.loading import load
    from leporid.errors import UnknownNameError
    from leporid.initializers.cache import cached_fit
    from leporid.interop.formats import FORMATS, write_embeddings

    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    settings = {"dim": dim, "seed": seed, **parse_settings(setting)}
    settings |= {
        key: value
        for key, value in (("k", k), ("alpha", alpha), ("device", device))
        if value is not None
    }
    if landmarks is not None:
        settings["landmarks"] = landmarks if landmarks < 1 else int(landmarks)
    initializer = initializers.get(method)(**settings)
    columns = {"user": user, "item": item, "time": time}
    progress = show_progress(json_output)
    start = perf_counter()
    if memory is not None:
        _refuse_with_memory(scheduler=scheduler, refresh=refresh)
        made = _within(memory, initializer, data, output, core, columns, progress)
    else:
        train = load(data, user=user, item=item, time=time)
        if core:
            train = train.core(core)
        _start_from(initializer, refresh)
        start = perf_counter()
        with _on_cluster(initializer, scheduler):
            made = cached_fit(
                initializer, train, use_cache=cache and refresh is None, progress=progress
            )
    seconds = perf_counter() - start
    files = write_embeddings(made, output, format, name=name)

    rows = [
        _describe(side, embedding)
        for side, embedding in (("users", made.users), ("items", made.items))
    ]
    if json_output:
        report: dict[str, Any] = {"method": method, "settings": initializer.config.to_dict()}
        report |= {"seconds": seconds, "sides": rows, "format": format}
        report["files"] = [str(file) for file in files]
        print_json(report)
        return
    print_table(f"{method}, {seconds:.2f} s", _shown(rows))
    for file in files:
        typer.echo(f"wrote {file}")
    if format == "recbole":
        from leporid.interop.recbole import CONFIG_LINES

        typer.echo("\nAdd to RecBole's configuration (also in recbole.yaml):\n")
        typer.echo(CONFIG_LINES)


@contextmanager
def _on_cluster(initializer: Any, scheduler: str | None) -> Iterator[None]:
    """Let the initialiser use the Dask cluster of this scheduler, if one is named."""
    from leporid.errors import ConfigError

    if scheduler is None:
        yield
        return
    if not hasattr(initializer, "client"):
        raise ConfigError(f"--scheduler is for le and leporid: {initializer.name} runs here")
    from leporid.distributed.cluster import connect

    with connect(scheduler) as client:
        initializer.client = client
        try:
            yield
        finally:
            initializer.client = None


def _refuse_with_memory(**others: Any) -> None:
    from leporid.errors import ConfigError

    given = [f"--{name}" for name, value in others.items() if value is not None]
    if given:
        raise ConfigError(f"--memory and {given[0]} do not go together: leave one out")


def _within(
    memory: str,
    initializer: Any,
    data: str,
    output: Path,
    core: int,
    columns: dict[str, str | None],
    progress: bool,
) -> Any:
    """Out of core, with the files it needs meanwhile beside the output."""
    from leporid.errors import DataError
    from leporid.initializers.out_of_core import embed_stored

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"could not write {output}: {error.strerror or error}") from error
    return embed_stored(
        initializer,
        data,
        memory,
        scratch=output.parent,
        core=core,
        progress=progress,
        user=columns["user"],
        item=columns["item"],
        time=columns["time"],
    )


def _start_from(initializer: Any, folder: Path | None) -> None:
    """Give a spectral initialiser the vectors of an earlier run."""
    if folder is None:
        return
    from leporid.errors import ConfigError
    from leporid.initializers.spectral_sides import SpectralInitializer
    from leporid.interop.formats import read_embeddings

    if not isinstance(initializer, SpectralInitializer):
        raise ConfigError(f"--refresh works with le and leporid, not {initializer.name}")
    initializer.previous = read_embeddings(folder)


def _describe(side: str, embedding: Any) -> dict[str, Any]:
    known = embedding.provenance
    residual = known.get("residual")
    zero = int((~embedding.vectors.any(axis=1)).sum())
    return {
        "side": side,
        "rows": embedding.n,
        "dim": embedding.dim,
        "isolated": int(known.get("isolated", zero)),
        "landmarks": known.get("landmarks"),
        "largest residual": None if residual is None else float(f"{residual:.3g}"),
    }


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For people: columns that say something, "-" where a side has nothing to say."""
    told = [key for key in rows[0] if any(row[key] is not None for row in rows)]
    return [{key: "-" if row[key] is None else row[key] for key in told} for row in rows]
