"""`leporid demo`: LEPORID against a random start on real films, in a few minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table

if TYPE_CHECKING:
    from leporid.demo import DemoResult
    from leporid.progress import ProgressLike

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demo")(demo)


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the runs and the report.")
    ] = Path("demo"),
    data: Annotated[
        str, typer.Option(help="Data set name, a file, or synthetic (also used without network).")
    ] = "ml-100k",
    core: Annotated[
        int, typer.Option(help="Keep users and items with at least this many interactions.")
    ] = 10,
    steps: Annotated[
        int | None, typer.Option(help="Optimiser steps of each DLR2 run, at most [600].")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Time each DLR2 run may take; 0 always runs all steps.")
    ] = 80.0,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 123,
    json_output: JsonOption = False,
) -> None:
    """Train DLR2 from random and from LEPORID vectors, with two baselines beside it.

    Prints a table and ten recommendations, writes an HTML report, and keeps the runs, so that
    `leporid compare`, `recommend` and `inspect` have something to work on.
    """
    from leporid.demo import DemoSettings, run_demo
    from leporid.demo.page import write_page

    chosen: dict[str, Any] = {"data": data, "core": core, "seconds": seconds, "seed": seed}
    if steps is not None:
        chosen["steps"] = steps
    progress = _progress(json_output)
    try:
        result = run_demo(output, DemoSettings(**chosen), progress)
        progress.start("writing the report")
        report = write_page(result, output / "report.html").resolve()
    finally:
        progress.close()
    if json_output:
        print_json(
            {
                "source": result.source,
                "data": dict(result.stats),
                "steps": result.steps,
                "models": result.rows,
                "tests": result.tests,
                "user": result.user,
                "recommendations": result.picks,
                "report": str(report),
                "seconds": result.seconds,
            }
        )
        return
    _print(result, report, output)


def _print(result: DemoResult, report: Path, output: Path) -> None:
    from leporid.cli.app import COMMANDS

    stats, settings = result.stats, result.settings
    typer.echo(f"\nData: {result.source}")
    typer.echo(
        f"{stats['users']:,} users, {stats['items']:,} items, {stats['interactions']:,} "
        f"interactions (each user and item has at least {settings.core}); DLR2 took "
        f"{result.steps:,} steps of {settings.batch_size} examples from each start\n"
    )
    print_table("on test: all users, and the 25% least active", result.rows)
    for row in result.tests:
        typer.echo(
            f"LEPORID start against {row['LEPORID start against']}: F1@10 "
            f"{row['difference of F1@10']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}], "
            f"p = {row['p (Wilcoxon, Holm)']:.2g}"
        )
    typer.echo(f"\nUser {result.user} chose last: {'; '.join(result.history)}")
    picks = [{**row, "rank": str(row["rank"])} for row in result.picks]
    print_table(f"DLR2 from LEPORID recommends to user {result.user}", picks)
    typer.echo(f"took {result.seconds:.0f} s")
    typer.echo(f"report: {report}\n")
    typer.echo("next:")
    runs = f"{output}/random {output}/leporid"
    typer.echo(f"  leporid compare {runs}")
    typer.echo(f"  leporid recommend {output}/leporid --user 42 --items {output}/items.parquet")
    if "serve" in COMMANDS:
        typer.echo(f"  leporid serve {output}/leporid --compare {output}/random")


def _progress(json_output: bool) -> ProgressLike:
    """Bars for a person at a terminal, a line a stage in a log, nothing beside JSON."""
    from leporid.progress import NullProgress, RichProgress

    if json_output:
        return NullProgress()
    return RichProgress() if sys.stdout.isatty() else _Lines()


class _Lines:
    """One line a stage, for logs and continuous integration."""

    def start(self, description: str, total: int | None = None) -> None:
        """Name the stage."""
        typer.echo(f"... {description}")

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """Ignore."""

    def close(self) -> None:
        """Ignore."""
