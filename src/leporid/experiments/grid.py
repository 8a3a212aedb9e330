"""The grid runner: resumable, shareable, and honest about failures.

Every worker runs the same loop over the same cells: skip what has a record, claim what has not,
run it, write the record atomically. More processes or machines on one directory need nothing else.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leporid._version import versions
from leporid.artifacts import write_json
from leporid.errors import LeporidError
from leporid.experiments.cell import Cell, run_cell
from leporid.experiments.journal import claim
from leporid.experiments.record import RunRecord
from leporid.experiments.spec import ExperimentSpec
from leporid.experiments.store import Results
from leporid.progress import ProgressLike

_ERROR, _CLAIM = ".error.json", ".claim"
"""What lies beside the place of a record while there is none."""


@dataclass(frozen=True)
class GridStatus:
    """The state of every cell, and the records of those that are done."""

    states: dict[str, str]
    """'done', 'failed' or 'waiting', by spec hash."""
    records: dict[str, RunRecord]

    def count(self, state: str) -> int:
        """How many cells are in a state."""
        return list(self.states.values()).count(state)


def grid_status(cells: list[Cell], root: str | Path) -> GridStatus:
    """Look at the directory: what is done, what failed, what is waiting."""
    results = Results(root)
    states, records = {}, {}
    for cell in cells:
        state = "failed" if results.path(cell.key, _ERROR).is_file() else "waiting"
        if record := results.get(cell.key):
            state, records[cell.spec_hash] = "done", record
        states[cell.spec_hash] = state
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
    results = Results(root)
    failures = 0
    for cell in cells:
        failed = results.path(cell.key, _ERROR)
        if results.get(cell.key) or (failed.is_file() and not retry_failed):
            continue
        with claim(results.path(cell.key, _CLAIM)) as mine:
            if not mine or results.get(cell.key):
                continue
            record = None
            try:
                _, record, table = run_cell(cell, device=device, progress=progress)
            except (LeporidError, RuntimeError, ValueError, ArithmeticError, MemoryError) as error:
                failures += 1
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(last.filename).name}:{last.lineno}"
                about = {"error": f"{type(error).__name__}: {error}", "where": where}
                write_json(failed, {"cell": cell.request, "versions": versions(), **about})
            else:
                failed.unlink(missing_ok=True)
                results.add(record, table)
            if on_done:
                on_done(cell, record)
    return failures


def run_grid(
    specs: Sequence[ExperimentSpec],
    root: str | Path,
    *,
    device: str = "auto",
    retry_failed: bool = False,
    progress: bool | ProgressLike | None = None,
) -> GridStatus:
    """Run experiments; several processes with the same `root` share the cells."""
    cells = [cell for spec in specs for cell in spec.cells()]
    work(cells, root, device=device, retry_failed=retry_failed, progress=progress)
    return grid_status(cells, root)
