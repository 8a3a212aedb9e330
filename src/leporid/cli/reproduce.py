"""`leporid reproduce`: a table or figure of the paper by one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from leporid.cli.options import Json, parse_list
from leporid.cli.output import print_json, show_progress
from leporid.cli.run import GridOptions
from leporid.errors import UnknownNameError

_TABLES = ("table1", "table2", "table3", "table4", "table5", "table6")
_FIGURES = ("figure1", "figure2", "alpha", "neighbours", "timecost")
_ALL = (*_TABLES, *_FIGURES)


def reproduce(
    what: Annotated[str, Argument(help=f"{', '.join(_ALL)} or all.")],
    grid: GridOptions,
    dataset: Annotated[str, "Data set name results are filed under."] = "ml-1m",
    source: Annotated[str | None, "File to read, where the name alone is not enough."] = None,
    seeds: Annotated[str, "Seeds, separated by commas."] = "123",
    core: Annotated[int, "Minimum interactions of a user or item."] = 20,
    quick: Annotated[bool, "Short training, no tuning: minutes on a laptop."] = False,
    render_only: Annotated[bool, "Run nothing, render the records there are."] = False,
    out: Annotated[Path | None, "Output folder."] = None,
    json_output: Json = False,
) -> None:
    """Run what a table or figure needs, then write it with the paper's values beside ours."""
    from leporid.data import load
    from leporid.paper import QUICK_SUFFIX, paper_specs, write_outputs
    from leporid.runs import load_split

    if what not in (*_ALL, "all"):
        raise UnknownNameError("table or figure", what, (*_ALL, "all"))
    names = _ALL if what == "all" else (what,)
    numbers = tuple(parse_list(seeds, "--seeds"))
    specs = paper_specs(names, dataset, source=source, seeds=numbers, core=core, quick=quick)
    if specs and not render_only:
        grid.run(specs, quiet=json_output)
    stats, users = {}, None
    if "table1" in names:
        stats[dataset] = load(source or dataset).core(core).stats().as_dict()
    if "timecost" in names:
        users = load_split(source or dataset, core, "temporal").train.csr()
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
