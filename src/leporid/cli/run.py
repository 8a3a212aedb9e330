"""`leporid run`: an experiment grid from a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table, show_progress

if TYPE_CHECKING:
    from leporid.runs.cell import Cell
    from leporid.runs.grid import GridStatus
    from leporid.runs.spec import ExperimentSpec

RootOption = Annotated[Path, typer.Option("--root", help="Where records are kept.")]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Processes that share the grid (and the device).")
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
RetryOption = Annotated[
    bool, typer.Option("--retry-failed", help="Run cells again that failed before.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command("run")
    def run(
        spec: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
        root: RootOption = Path("results"),
        workers: WorkersOption = 1,
        device: DeviceOption = "auto",
        retry_failed: RetryOption = False,
        json_output: JsonOption = False,
    ) -> None:
        """Run an experiment grid; what is done already is skipped, what was killed goes on."""
        from leporid.runs.spec import ExperimentSpec

        experiment = ExperimentSpec.from_toml(spec)
        cells = experiment.cells()
        status = run_with_view([experiment], root, workers, device, retry_failed, quiet=json_output)
        rows = status_rows(cells, status)
        if json_output:
            print_json(rows)
        else:
            print_table(f"{spec.stem}: {status.count('done')} of {len(cells)} cells done", rows)
        if status.count("done") < len(cells):
            raise typer.Exit(1)


def run_with_view(
    specs: list[ExperimentSpec],
    root: Path,
    workers: int,
    device: str,
    retry_failed: bool,
    *,
    quiet: bool = False,
) -> GridStatus:
    """Run grids with a live table on a terminal."""
    from rich.console import Console
    from rich.live import Live

    from leporid.runs.grid import run_grid

    cells = [cell for spec in specs for cell in spec.cells()]
    live = show_progress(quiet)
    with Live(console=Console(stderr=True), refresh_per_second=2) if live else _Silent() as view:
        return run_grid(
            specs,
            root,
            workers=workers,
            device=device,
            retry_failed=retry_failed,
            on_poll=lambda status: view.update(_live_table(cells, status)),
        )


class _Silent:
    """Stands in for the live view where nobody watches."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def update(self, _: Any) -> None:
        """Ignore."""


def _live_table(cells: list[Cell], status: GridStatus) -> Any:
    from rich.table import Table

    done = status.count("done")
    seconds = [record.seconds for record in status.records.values()]
    running = max(status.count("running"), 1)
    left = sum(seconds) / len(seconds) * (len(cells) - done) / running if seconds else None
    title = f"{done}/{len(cells)} done, {status.count('running')} running"
    title += f", {status.count('failed')} failed" if status.count("failed") else ""
    title += f", about {left / 60:.0f} min left" if left is not None else ""
    table = Table("cell", "state", "HR@10", "F1@10", "seconds", title=title)
    for cell in cells:
        state = status.states[cell.spec_hash]
        record = status.records.get(cell.spec_hash)
        values = ["", "", ""]
        if record:
            values = [f"{record.metrics.get(m, 0):.4f}" for m in ("HR@10", "F1@10")]
            values.append(f"{record.seconds:.0f}")
        table.add_row(cell.label, state, *values)
    return table


def status_rows(cells: list[Cell], status: GridStatus) -> list[dict[str, Any]]:
    """One row a cell: what it is, its state, and its main metrics."""
    rows = []
    for cell in cells:
        record = status.records.get(cell.spec_hash)
        metrics = record.metrics if record else {}
        rows.append(
            {
                "cell": cell.label,
                "state": status.states[cell.spec_hash],
                "HR@10": metrics.get("HR@10", ""),
                "F1@10": metrics.get("F1@10", ""),
                "seconds": round(record.seconds, 1) if record else "",
            }
        )
    return rows
