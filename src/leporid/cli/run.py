"""`leporid run`: an experiment grid from a TOML file."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import Device, Json
from leporid.cli.output import make_table, print_rows

if TYPE_CHECKING:
    from leporid.experiments import Cell, GridStatus


def run(
    spec: Annotated[Path, Argument(help="Experiment file (TOML).")],
    root: Annotated[Path, "Where records are kept."] = Path("results"),
    device: Device = "auto",
    retry_failed: Annotated[bool, "Run cells again that failed before."] = False,
    data: Annotated[Path | None, "Folder of the logs that the file names by path."] = None,
    json_output: Json = False,
) -> None:
    """Run an experiment grid; finished cells are skipped, interrupted ones resume.

    Several processes may run the same command: each cell is run by one of them.
    """
    from rich.console import Console
    from rich.live import Live

    from leporid.experiments import read_experiment, run_grid

    experiments = read_experiment(spec, data)
    cells = [cell for experiment in experiments for cell in experiment.cells()]
    live = not json_output and sys.stderr.isatty()
    view = Live(console=Console(stderr=True), refresh_per_second=2)
    with view if live else nullcontext():
        status = run_grid(
            experiments,
            root=root,
            device=device,
            retry_failed=retry_failed,
            on_poll=(lambda status: view.update(_live_table(cells, status))) if live else None,
        )
    done = status.count("done")
    title = f"{spec.stem}: {done} of {len(cells)} cells done"
    print_rows(title, _status_rows(cells, status), json_output)
    if done < len(cells):
        raise typer.Exit(1)


def _live_table(cells: list[Cell], status: GridStatus) -> Any:
    done, failed = status.count("done"), status.count("failed")
    seconds = [record.seconds for record in status.records.values()]
    title = f"{done}/{len(cells)} done" + (f", {failed} failed" if failed else "")
    if seconds:
        left = sum(seconds) / len(seconds) * (len(cells) - done)
        title += f", about {left / 60:.0f} min left"
    return make_table(title, _status_rows(cells, status))


def _status_rows(cells: list[Cell], status: GridStatus) -> list[dict[str, Any]]:
    """One row per cell: what it is, its state, and its main metrics."""
    rows = []
    for cell in cells:
        record = status.records.get(cell.spec_hash)
        row: dict[str, Any] = {
            "log": cell.dataset,
            "cell": cell.label,
            "state": status.states[cell.spec_hash],
        }
        for metric in ("HR@10", "F1@10"):
            row[metric] = record.metrics.get(metric, "") if record else ""
        rows.append({**row, "seconds": round(record.seconds, 1) if record else ""})
    return rows
