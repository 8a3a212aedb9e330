"""`leporid data`: describe a log, split it, fetch one, make one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from leporid.cli.options import (
    Json,
    LogOptions,
    Name,
    Output,
    OutputFile,
    Source,
    SplitOptions,
    as_command,
)
from leporid.cli.printing import show
from leporid.errors import LeporidWarning, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions


group = typer.Typer(
    help="Describe a log, split it, fetch one or make one.", no_args_is_help=True
)

_COMMON_REPEATS = 0.05
"""Share of repeats from which `data stats` advises to show items again."""
LogFile = Annotated[Path, OutputFile("Parquet or CSV file to write.")]


def _load(source: str, log: LogOptions, json_output: bool) -> Interactions:
    """Load the log, and print to stderr how many rows were left out and why."""
    with warnings.catch_warnings():  # missing values are counted below
        warnings.filterwarnings("ignore", ".* missing values", LeporidWarning)
        data = log.load(source, quiet=json_output)
    if not json_output:
        for reason, count in data.dropped.items():
            typer.echo(f"left out: {count:,} rows, {reason}", err=True)
    return data


def _write(data: Interactions, output: Path, json_output: bool) -> None:
    """Write a log, and print its figures."""
    from leporid.data import write_log

    write_log(data, output)
    figures = data.stats().as_dict()
    show(json_output, {"output": str(output), **figures}, (str(output), [figures]))


@group.command()
@as_command
def stats(source: Source, log: LogOptions, json_output: Json = False) -> None:
    """Users, items, interactions, density, share of the tail (the paper's Table 2), and repeats."""
    data = _load(source, log, json_output)
    figures = data.stats().as_dict()
    repeats, n_events = _count_repeats(source, log, data)
    report = {
        **figures,
        "repeats": repeats,
        "dropped": dict(data.dropped),
        "source": None if data.source is None else data.source.as_dict(),
    }
    share = repeats / max(n_events, 1)
    lines = [f"repeats: {repeats:,} of {n_events:,} interactions ({share:.1%})"]
    if repeats >= _COMMON_REPEATS * n_events > 0:
        lines.append(
            "users want again what they had: train, tune and choose with --include-seen, "
            "which keeps repeats (--duplicates all) and lets lists show them"
        )
    show(json_output, report, (source, [figures]), *lines)


def _count_repeats(source: str, log: LogOptions, data: Interactions) -> tuple[int, int]:
    """Count the events whose user had the item before, and all events."""
    if log.target_events:  # an item that is viewed again is no repeat
        everything = replace(log, duplicates="all").load(source, quiet=True)
        return everything.repeats, len(everything.target_events)
    left_out = sum(
        count
        for reason, count in data.dropped.items()
        if reason.startswith("duplicate pair")
    )
    return data.repeats + left_out, len(data) + left_out


@group.command()
@as_command
def split(
    source: Source,
    output: Output,
    log: SplitOptions,
    train: Annotated[float, "Share of train."] = 0.7,
    valid: Annotated[float, "Share of validation."] = 0.1,
    format: Annotated[
        str | None, "recbole: write RecBole's benchmark files as well."
    ] = None,
    name: Name = None,
    json_output: Json = False,
) -> None:
    """Cut a log into train, validation and test, and save them.

    The folder can be given to `embed` (which embeds its training part), `train`, `tune` and
    `evaluate` in place of a log.
    """
    from leporid.data import split_by
    from leporid.interop import BENCHMARK_LINES, write_benchmark

    if format not in (None, "recbole"):
        raise UnknownNameError("format", format, ["recbole"])
    data = _load(source, log, json_output)
    parts = split_by(data, log.protocol, train=train, valid=valid, seed=log.split_seed)
    parts = parts.including_seen(log.include_seen)
    parts.save(output)
    summary = {
        "output": str(output),
        "protocol": parts.protocol,
        "train": len(parts.train),
        "valid": len(parts.valid),
        "test": len(parts.test),
        "digest": parts.digest,
    }
    lines: list[str] = []
    files: list[Path] = []
    if format == "recbole":
        files = write_benchmark(parts, output, name)
        lines.append(
            f"\nAdd to RecBole's configuration (also in benchmark.yaml):\n\n{BENCHMARK_LINES}"
        )
    show(json_output, summary, (source, [summary]), *lines, files=files)


@group.command()
@as_command
def synth(
    output: LogFile,
    users: Annotated[int, "Number of users."] = 1000,
    items: Annotated[int, "Number of items."] = 500,
    interactions: Annotated[int, "Number of distinct pairs."] = 50_000,
    seed: Annotated[int, "The same seed gives the same log."] = 0,
    json_output: Json = False,
) -> None:
    """Make a synthetic log with communities, power laws and drift."""
    from leporid.data import synthesize

    _write(synthesize(users, items, interactions, seed=seed), output, json_output)


@group.command()
@as_command
def fetch(
    name: Annotated[str, Argument(help="A data set name; see `leporid data list`.")],
    json_output: Json = False,
) -> None:
    """Download a data set into the cache, or say how to get it."""
    from leporid.data import fetch as fetch_files

    files = fetch_files(name, progress=not json_output)
    log = str(files.interactions)
    titles = None if files.items is None else str(files.items)
    show(json_output, {"name": name, "interactions": log, "items": titles}, log)


@group.command("list")
@as_command
def list_datasets(json_output: Json = False) -> None:
    """The data sets that are known by name."""
    from leporid.data import DATASETS, cache_dir

    folder = str(cache_dir())
    rows = [
        {"name": dataset.name, "about": dataset.about, "page": dataset.page}
        for dataset in DATASETS.values()
    ]
    lines = ["\n    ".join(row.values()) for row in rows]
    document = {"cache": folder, "datasets": rows}
    show(json_output, document, *lines, f"kept in {folder}")


@group.command("import")
@as_command
def import_events(
    output: LogFile,
    store: Annotated[
        str, Option("--from-store", help="Store of `leporid serve`: a file or URL.")
    ],
    log: LogOptions,
    source: Annotated[
        str | None, Argument(metavar="[LOG]", help="A log to add them to.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Write the events that a service has stored as a log for the next training."""
    from leporid.serve import merged_log

    before = None if source is None else _load(source, log, json_output)
    data = merged_log(store, before, log.duplicates)  # type: ignore[arg-type]
    _write(data, output, json_output)
