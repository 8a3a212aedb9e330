"""The grid runner: resumable, shareable, and honest about failures.

Every worker runs the same loop over the same cells: skip what has a record, claim what has not,
run it, write the record atomically. More processes or machines on one directory need nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leporid.artifacts import write_json
from leporid.errors import LeporidError
from leporid.progress import ProgressLike
from leporid.runs.cell import run_cell
from leporid.runs.claims import claim, claimed_by_other
from leporid.runs.record import RunRecord, record_path, versions
from leporid.runs.spec import Cell, ExperimentSpec

__all__ = ["CellState", "GridStatus", "cell_path", "grid_status", "run_grid", "work"]


def cell_path(cell: Cell, root: str | Path) -> Path:
    """Where the record of a cell lies, known before it runs."""
    return record_path(
        root, cell.dataset, cell.experiment, cell.model, cell.init, cell.seed, cell.spec_hash
    )


def _error_path(cell: Cell, root: str | Path) -> Path:
    return cell_path(cell, root).with_suffix(".error.json")


def _claim_path(cell: Cell, root: str | Path) -> Path:
    return cell_path(cell, root).with_suffix(".claim")


CellState = str
"""'done', 'failed', 'running' or 'waiting'."""


@dataclass(frozen=True)
class GridStatus:
    """The state of every cell, and the records of those that are done."""

    states: dict[str, CellState]
    """By spec hash."""
    records: dict[str, RunRecord]

    def count(self, state: CellState) -> int:
        """How many cells are in a state."""
        return sum(1 for value in self.states.values() if value == state)


def grid_status(cells: list[Cell], root: str | Path) -> GridStatus:
    """Look at the directory: what is done, failed, running, waiting."""
    states, records = {}, {}
    for cell in cells:
        path = cell_path(cell, root)
        if path.is_file():
            states[cell.spec_hash] = "done"
            records[cell.spec_hash] = RunRecord.read(path)
        elif claimed_by_other(_claim_path(cell, root)):
            states[cell.spec_hash] = "running"
        elif _error_path(cell, root).is_file():
            states[cell.spec_hash] = "failed"
        else:
            states[cell.spec_hash] = "waiting"
    return GridStatus(states, records)


def work(
    cells: list[Cell],
    root: str | Path,
    *,
    device: str = "auto",
    retry_failed: bool = False,
    progress: bool | ProgressLike | None = None,
    on_done: Callable[[Cell, RunRecord | None], None] | None = None,
) -> int:
    """Run every cell nobody else has run or is running; returns how many failed here."""
    failures = 0
    for cell in cells:
        target, failed = cell_path(cell, root), _error_path(cell, root)
        if target.is_file() or (failed.is_file() and not retry_failed):
            continue
        with claim(_claim_path(cell, root)) as mine:
            if not mine or target.is_file():
                continue
            try:
                record, outcomes = run_cell(cell, device=device, progress=progress)
            except (LeporidError, RuntimeError, ValueError, ArithmeticError, MemoryError) as error:
                failures += 1
                write_json(failed, _failure(cell, error))
                if on_done:
                    on_done(cell, None)
                continue
            failed.unlink(missing_ok=True)
            outcomes.write(target.with_suffix(".users.parquet"))
            write_json(target, record.to_dict())
            if on_done:
                on_done(cell, record)
    return failures


def _failure(cell: Cell, error: BaseException) -> dict[str, object]:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return {
        "cell": {key: value for key, value in cell.to_dict().items() if key != "source"},
        "error": f"{type(error).__name__}: {error}",
        "where": f"{Path(last.filename).name}:{last.lineno}",
        "versions": versions(),
    }


def run_grid(
    specs: Sequence[ExperimentSpec],
    root: str | Path,
    *,
    workers: int = 1,
    device: str = "auto",
    retry_failed: bool = False,
    progress: bool | ProgressLike | None = None,
    on_poll: Callable[[GridStatus], None] | None = None,
) -> GridStatus:
    """Run experiments; with several workers, as many processes share the grid.

    `device` is given to every worker: several small models on one accelerator are the point.
    """
    cells = [cell for spec in specs for cell in spec.cells()]

    def poll(*_: object) -> None:
        if on_poll:
            on_poll(grid_status(cells, root))

    if workers <= 1:
        poll()
        work(cells, root, device=device, retry_failed=retry_failed, progress=progress, on_done=poll)
        return grid_status(cells, root)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "specs.json"
        write_json(path, [spec.to_dict() for spec in specs])
        command = [sys.executable, "-m", "leporid.runs.worker", str(path)]
        command += ["--root", str(root), "--device", device]
        if retry_failed:
            command.append("--retry-failed")
        processes = [subprocess.Popen(command) for _ in range(workers)]
        try:
            while any(process.poll() is None for process in processes):
                poll()
                time.sleep(1.0)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
            for process in processes:
                process.wait()
    return grid_status(cells, root)
