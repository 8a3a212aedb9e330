"""`make demo`: what initial embeddings do, on real films, in three minutes."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from leporid.cli.app import run
from leporid.cli.options import Json, Seed, as_command, show
from leporid.foundation import make_progress


def demo(
    output: Annotated[Path, "Folder for the runs and the report."] = Path("demo"),
    data: Annotated[str, "Data set, file, or synthetic (also used without network)."] = "ml-100k",
    core: Annotated[int, "Keep users and items with at least this many interactions."] = 10,
    steps: Annotated[int, "Optimiser steps of DLR2; the two-tower model takes twice these."] = 400,
    seed: Seed = 123,
    json_output: Json = False,
) -> None:
    """Initial embeddings in a model of your own, the default model beside baselines, a list.

    Writes an HTML report and keeps the runs, so that `leporid compare`, `recommend` and `serve`
    have something to work on. About three minutes on two cores.
    """
    from examples.demo.page import headline, sentences, write_page
    from examples.demo.stages import run_demo

    progress = make_progress(not json_output)
    try:
        result = run_demo(output, progress, data=data, core=core, steps=steps, seed=seed)
        progress.start("writing the report")
        report = write_page(result, output / "report.html").resolve()
    finally:
        progress.close()
    tables: tuple[list[dict[str, Any]], ...]
    tables = ([], [], result.rows, result.picks, result.paper_rows)
    parts: list[str | tuple[str, Any]] = []
    for (head, text), rows in zip(sentences(result).items(), tables, strict=True):
        parts += [f"\n{head}\n{text}", ("", rows)]
    named = ("dlr2", "items.parquet", "paper-random", "paper-leporid")
    dlr2, items, *paper = (shlex.quote(str(output / name)) for name in named)
    parts.append(
        f"\n{headline(result)}\ntook {result.seconds:.0f} s\nreport: {report}\n\nnext:\n"
        f"  {program_name()} compare {' '.join(paper)}\n"
        f"  {program_name()} recommend {dlr2} --user {shlex.quote(result.user)} --items {items}\n"
        f"  {program_name()} serve {dlr2}"
    )
    show(json_output, {**asdict(result), "report": str(report)}, *parts)


def program_name() -> str:
    """What to type to run this program again."""
    return "leporid" if shutil.which("leporid") else f"{shlex.quote(sys.executable)} -m leporid"


app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(as_command(demo))

if __name__ == "__main__":
    run(app, "python -m examples.demo")
