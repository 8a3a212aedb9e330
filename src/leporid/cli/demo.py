"""`leporid demo`: LEPORID against random initial embeddings on real films, in a few minutes."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leporid.cli.options import Json, Seed, print_json, print_table
from leporid.progress import make_progress

if TYPE_CHECKING:
    from leporid.demo import DemoResult


def demo(
    output: Annotated[Path, "Folder for the runs and the report."] = Path("demo"),
    data: Annotated[str, "Data set, file, or synthetic (also used without network)."] = "ml-100k",
    core: Annotated[int, "Keep users and items with at least this many interactions."] = 10,
    steps: Annotated[int, "Optimiser steps of each DLR2 run, at most."] = 1500,
    seconds: Annotated[float, "Time each DLR2 run may take; 0 always runs all steps."] = 80.0,
    seed: Seed = 123,
    json_output: Json = False,
) -> None:
    """Train DLR2 from random and from LEPORID embeddings, beside two baselines.

    Prints a table and ten recommendations, writes an HTML report, and keeps the runs, so that
    `leporid compare`, `recommend` and `inspect` have something to work on.
    """
    from leporid.demo import DemoSettings, run_demo, write_page

    progress = make_progress(not json_output)
    settings = DemoSettings(data=data, core=core, steps=steps, seconds=seconds, seed=seed)
    try:
        result = run_demo(output, settings, progress)
        progress.start("writing the report")
        report = write_page(result, output / "report.html").resolve()
    finally:
        progress.close()
    if json_output:
        summary = {"source": result.source, "data": dict(result.stats), "steps": result.steps}
        summary |= {"models": result.rows, "tests": result.tests, "user": result.user}
        summary |= {"recommendations": result.picks, "report": str(report)}
        print_json({**summary, "seconds": result.seconds})
    else:
        _print(result, report, output)


def _print(result: DemoResult, report: Path, output: Path) -> None:
    stats, settings = result.stats, result.settings
    typer.echo(f"\nData: {result.source}")
    typer.echo(
        f"{stats['users']:,} users, {stats['items']:,} items, {stats['interactions']:,} "
        f"interactions (each user and item has at least {settings.core}); DLR2 took "
        f"{result.steps:,} steps of {settings.batch_size} examples with each initialisation\n"
    )
    print_table("on test: all users, and the 25% least active", result.rows)
    for row in result.tests:
        typer.echo(
            f"LEPORID against {row['LEPORID against']}: F1@10 "
            f"{row['difference of F1@10']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}], "
            f"p = {row['p (t-test, Holm)']:.2g}"
        )
    typer.echo(f"\nUser {result.user} chose last: {'; '.join(result.history)}")
    picks = [{**row, "rank": str(row["rank"])} for row in result.picks]
    print_table(f"DLR2 from LEPORID recommends to user {result.user}", picks)
    program = program_name()
    random, leporid, items = (
        shlex.quote(str(output / name)) for name in ("random", "leporid", "items.parquet")
    )
    typer.echo(
        f"took {result.seconds:.0f} s\n"
        f"report: {report}\n\n"
        f"next:\n"
        f"  {program} compare {random} {leporid}\n"
        f"  {program} recommend {leporid} --user {shlex.quote(result.user)} --items {items}\n"
        f"  {program} serve {leporid} --compare {random}"
    )


def program_name() -> str:
    """What to type to run this program again."""
    return "leporid" if shutil.which("leporid") else f"{shlex.quote(sys.executable)} -m leporid"
