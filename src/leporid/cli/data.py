"""`leporid data`: describe a log, split it, fetch one, make one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    show,
)
from leporid.errors import LeporidWarning, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions


group = typer.Typer(
    help="Describe a log, split it, fetch one or make one.", no_args_is_help=True
)

_COMMON_REPEATS = 0.05
"""From this share of the interactions on, `data stats` advises to show items again."""
LogFile = Annotated[Path, OutputFile("Parquet or CSV file to write.")]


def _load(source: str, log: LogOptions, json_output: bool) -> Interactions:
    """Load the log, and say on stderr how many rows were left out and why."""
    with warnings.catch_warnings():  # missing values are counted below
        warnings.filterwarnings("ignore", ".* missing values", LeporidWarning)
        data = log.load(source, quiet=json_output)
    if not json_output:
        for reason, count in data.dropped.items():
            typer.echo(f"left out: {count:,} rows, {reason}", err=True)
    return data


def _write(data: Interactions, output: Path, json_output: bool) -> None:
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
    read = data.source.as_dict() if data.source is not None else None
    left_out = sum(
        n for why, n in data.dropped.items() if why.startswith("duplicate pair")
    )
    repeats, rows = data.repeats + left_out, len(data) + left_out
    if log.goal:  # an item that is viewed again is no repeat
        every = replace(log, duplicates="all").load(source, quiet=True)
        repeats, rows = every.repeats, len(every.goals)
    report = {
        **figures,
        "repeats": repeats,
        "dropped": dict(data.dropped),
        "source": read,
    }
    lines = [
        f"repeats: {repeats:,} of {rows:,} interactions ({repeats / max(rows, 1):.1%})"
    ]
    if repeats >= _COMMON_REPEATS * rows > 0:
        advice = (
            "users want again what they had: train, tune and choose with --include-seen"
        )
        lines.append(
            f"{advice}, which keeps repeats (--duplicates all) and lets lists show them"
        )
    show(json_output, report, (source, [figures]), *lines)


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
    files = [] if format is None else write_benchmark(parts, output, name)
    summary: dict[str, Any] = {"output": str(output), "protocol": parts.protocol}
    summary |= {part: len(getattr(parts, part)) for part in ("train", "valid", "test")}
    summary["digest"] = parts.digest
    said = f"\nAdd to RecBole's configuration (also in benchmark.yaml):\n\n{BENCHMARK_LINES}"
    show(
        json_output,
        summary,
        (source, [summary]),
        *([said] if files else []),
        files=files,
    )


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
    log, titles = str(files.interactions), str(files.items) if files.items else None
    show(json_output, {"name": name, "interactions": log, "items": titles}, log)


@group.command("list")
@as_command
def list_datasets(json_output: Json = False) -> None:
    """The data sets that are known by name."""
    from leporid.data import DATASETS, cache_dir

    rows = [
        {"name": d.name, "about": d.about, "page": d.page} for d in DATASETS.values()
    ]
    lines = ["\n    ".join(row.values()) for row in rows]
    value = {"cache": str(cache_dir()), "datasets": rows}
    show(json_output, value, *lines, f"kept in {cache_dir()}")


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
