"""`leporid run`: an experiment grid from a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import Device, Json, print_rows


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
    from leporid.experiments import read_experiment, run_grid

    experiments = read_experiment(spec, data)
    how: dict[str, Any] = {"retry_failed": retry_failed, "progress": not json_output}
    status = run_grid(experiments, root, device=device, **how)
    rows: list[dict[str, Any]] = []
    for cell in (cell for experiment in experiments for cell in experiment.cells()):
        record, state = status.records.get(cell.spec_hash), status.states[cell.spec_hash]
        row: dict[str, Any] = {"log": cell.dataset, "cell": cell.label, "state": state}
        for metric in ("HR@10", "F1@10"):
            row[metric] = record.metrics.get(metric, "") if record else ""
        rows.append({**row, "seconds": round(record.seconds, 1) if record else ""})
    done = status.count("done")
    print_rows(f"{spec.stem}: {done} of {len(rows)} cells done", rows, json_output)
    if done < len(rows):
        raise typer.Exit(1)
