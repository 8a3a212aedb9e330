"""`leporid reproduce`: a table or figure of the paper by one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from leporid.cli.options import Json, parse_list
from leporid.cli.output import print_json, show_progress
from leporid.cli.run import GridOptions
from leporid.errors import ConfigError, UnknownNameError

_FIGURES = ("figure1", "figure2", "figure4a", "alpha", "neighbours", "timecost")
_ALL = (*(f"table{number}" for number in range(2, 8)), *_FIGURES, "authors")


def reproduce(
    grid: GridOptions,
    what: Annotated[str | None, Argument(help=f"{', '.join(_ALL)} or all.")] = None,
    everything: Annotated[
        bool, Option("--all", help="Render all of it from the records there are; runs nothing.")
    ] = False,
    dataset: Annotated[str, "Data set name results are filed under."] = "ml-1m",
    source: Annotated[str | None, "File to read, where the name alone is not enough."] = None,
    seeds: Annotated[str, "Seeds, separated by commas."] = "123",
    core: Annotated[int, "Minimum interactions of a user or item."] = 20,
    min_rating: Annotated[float | None, "Keep rows with at least this rating; else all."] = None,
    quick: Annotated[bool, "Short training, no tuning: minutes on a laptop."] = False,
    render_only: Annotated[bool, "Run nothing, render the records there are."] = False,
    out: Annotated[Path | None, "Output folder."] = None,
    json_output: Json = False,
) -> None:
    """Run what a table or figure needs, then write it with the paper's values beside ours."""
    from leporid.data import load
    from leporid.paper import (
        QUICK_SUFFIX,
        paper_specs,
        protocol_of,
        renumbered,
        write_outputs,
    )
    from leporid.runs import load_split

    if (what is None) is not everything:
        raise ConfigError(f"name a table or figure ({', '.join(_ALL)}), all, or --all")
    what = what or "all"
    if note := renumbered(what):
        typer.echo(note, err=True)
    if what not in (*_ALL, "all"):
        raise UnknownNameError("table or figure", what, (*_ALL, "all"))
    names = _ALL if what == "all" else (what,)
    numbers = tuple(parse_list(seeds, "--seeds"))
    log = {"core": core, "min_rating": min_rating}
    specs = paper_specs(names, dataset, source=source, seeds=numbers, quick=quick, **log)
    if specs and not render_only and not everything:
        grid.run(specs, quiet=json_output)
    stats, users = {}, None
    if {"table2", "timecost"} & set(names) and _readable(source or dataset, everything):
        if "table2" in names:
            data = load(source or dataset, min_rating=min_rating).core(core)
            stats[dataset] = data.stats().as_dict()
        if "timecost" in names:
            users = load_split(source or dataset, protocol=protocol_of(dataset), **log).train.csr()
    target = out or Path("reports") / dataset / what
    report = write_outputs(
        names,
        dataset,
        grid.root,
        target,
        suffix=QUICK_SUFFIX if quick else "",
        stats=stats,
        users=users,
        skip_missing=what == "all",
        progress=show_progress(json_output),
    )
    if json_output:
        print_json({"report": str(report), "folder": str(target)})
        return
    for name in names:
        page = target / f"{name}.md"
        if page.is_file():
            typer.echo(page.read_text(encoding="utf-8"))
    typer.echo(f"report: {report}")


def _readable(source: str, records_are_enough: bool) -> bool:
    """Whether the data is here; where records are enough, its absence is said and is no error."""
    from leporid.data import DATASETS

    if not records_are_enough or Path(source).exists() or source in DATASETS:
        return True
    shown = "the statistics of Table 2 and the time cost are those on record"
    typer.echo(f"no file {source}: {shown}; --source names the file", err=True)
    return False
