"""`leporid data`: look at a log, split it, fetch one, make one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table, show_progress

if TYPE_CHECKING:
    from leporid.data.interactions import Interactions

__all__ = ["register"]

_data = typer.Typer(help="Look at a log, split it, fetch one or make one.", no_args_is_help=True)

Source = Annotated[
    str, typer.Argument(help="A file (CSV, TSV, ::, .inter, gzip, parquet) or a data set name.")
]
Core = Annotated[
    int, typer.Option("--core", help="Keep users and items with at least this many; 0 keeps all.")
]
User = Annotated[str | None, typer.Option("--user", help="User column; else found by name.")]
Item = Annotated[str | None, typer.Option("--item", help="Item column; else found by name.")]
Time = Annotated[str | None, typer.Option("--time", help="Time column; else found by name.")]
Rating = Annotated[str | None, typer.Option("--rating", help="Rating column; else found by name.")]
MinRating = Annotated[
    float | None, typer.Option("--min-rating", help="Keep ratings of at least this; else all.")
]
Separator = Annotated[
    str | None, typer.Option("--separator", help="Between fields of a text file; else found.")
]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="First line holds names; else found.")
]
Encoding = Annotated[str, typer.Option("--encoding", help="Of a text file.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(_data, name="data")


def _load(source: str, core: int, json_output: bool, **options: Any) -> Interactions:
    """Load, say what was guessed and left out (on stderr), and filter."""
    import warnings

    from leporid.data.loading import load
    from leporid.errors import LeporidWarning

    if options.get("separator") in ("tab", "\\t"):
        options["separator"] = "\t"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeporidWarning)  # the counts are printed below
        data = load(source, **options)
    if data.source is not None and not json_output and data.source.guessed:
        typer.echo(data.source.sentence(), err=True)
    if core:
        data = data.core(core)
    if not json_output:
        for reason, count in data.dropped.items():
            typer.echo(f"left out: {count:,} rows, {reason}", err=True)
    return data


@_data.command()
def stats(
    source: Source,
    core: Core = 0,
    user: User = None,
    item: Item = None,
    time: Time = None,
    rating: Rating = None,
    min_rating: MinRating = None,
    separator: Separator = None,
    header: Header = None,
    encoding: Encoding = "utf-8",
    json_output: JsonOption = False,
) -> None:
    """Users, items, interactions, density and the share of the tail (the paper's Table 1)."""
    data = _load(
        source,
        core,
        json_output,
        user=user,
        item=item,
        time=time,
        rating=rating,
        min_rating=min_rating,
        separator=separator,
        header=header,
        encoding=encoding,
    )
    figures = data.stats().as_dict()
    if json_output:
        read = data.source.as_dict() if data.source is not None else None
        print_json({**figures, "dropped": dict(data.dropped), "source": read})
    else:
        print_table(source, [figures])


@_data.command()
def split(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory to write.")],
    protocol: Annotated[
        str, typer.Option("--protocol", help="temporal, leave-last-out or global-time.")
    ] = "temporal",
    train: Annotated[float, typer.Option("--train", help="Share of train.")] = 0.7,
    valid: Annotated[float, typer.Option("--valid", help="Share of validation.")] = 0.1,
    core: Core = 0,
    user: User = None,
    item: Item = None,
    time: Time = None,
    rating: Rating = None,
    min_rating: MinRating = None,
    separator: Separator = None,
    header: Header = None,
    encoding: Encoding = "utf-8",
    json_output: JsonOption = False,
) -> None:
    """Cut a log into train, validation and test, and save them."""
    from leporid.data.splitting import split_by

    data = _load(
        source,
        core,
        json_output,
        user=user,
        item=item,
        time=time,
        rating=rating,
        min_rating=min_rating,
        separator=separator,
        header=header,
        encoding=encoding,
    )
    parts = split_by(data, protocol, train=train, valid=valid)
    parts.save(output)
    summary = {
        "output": str(output),
        "protocol": parts.protocol,
        "train": len(parts.train),
        "valid": len(parts.valid),
        "test": len(parts.test),
        "digest": parts.digest,
    }
    if json_output:
        print_json(summary)
    else:
        print_table(source, [summary])


@_data.command()
def synth(
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet or CSV file to write.")],
    users: Annotated[int, typer.Option("--users", help="Number of users.")] = 1000,
    items: Annotated[int, typer.Option("--items", help="Number of items.")] = 500,
    interactions: Annotated[
        int, typer.Option("--interactions", help="Number of distinct pairs.")
    ] = 50_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same log.")] = 0,
    drift: Annotated[float, typer.Option("--drift", help="Radians a user travels.")] = 2.2,
    exponent: Annotated[float, typer.Option("--exponent", help="Of item popularity.")] = 2.5,
    json_output: JsonOption = False,
) -> None:
    """Make a synthetic log with communities, power laws and drift."""
    from leporid.data.synthetic import synthesize
    from leporid.data.write import write_log

    data = synthesize(users, items, interactions, seed=seed, drift=drift, exponent=exponent)
    write_log(data, output)
    figures = data.stats().as_dict()
    if json_output:
        print_json({"output": str(output), **figures})
    else:
        print_table(str(output), [figures])


@_data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set name; see `leporid data list`.")],
    json_output: JsonOption = False,
) -> None:
    """Download a data set into the cache, or say how to get it."""
    from leporid.data.datasets import fetch as fetch_files

    files = fetch_files(name, progress=show_progress(json_output))
    found = {
        "name": name,
        "interactions": str(files.interactions),
        "items": str(files.items) if files.items else None,
    }
    if json_output:
        print_json(found)
    else:
        typer.echo(found["interactions"])


@_data.command("list")
def list_datasets(json_output: JsonOption = False) -> None:
    """The data sets that are known by name."""
    from leporid.data.datasets import DATASETS, cache_dir

    rows = [
        {"name": dataset.name, "about": dataset.about, "page": dataset.page}
        for dataset in DATASETS.values()
    ]
    if json_output:
        print_json({"cache": str(cache_dir()), "datasets": rows})
    else:
        print_table(f"data sets (kept in {cache_dir()})", rows)


@_data.command("import")
def import_events(
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet or CSV file to write.")],
    store: Annotated[
        str, typer.Option("--from-store", help="Store of `leporid serve`: a file or URL.")
    ],
    log: Annotated[str | None, typer.Argument(help="A log the events are added to.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Write the events a service has kept as a log for the next training."""
    from leporid.data.write import write_log
    from leporid.serve.export import merged_log

    data = merged_log(store, None if log is None else _load(log, 0, json_output))
    write_log(data, output)
    figures = data.stats().as_dict()
    if json_output:
        print_json({"output": str(output), **figures})
    else:
        print_table(str(output), [figures])
