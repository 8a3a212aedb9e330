"""A run on disk: the model, its record, its history, and what each user got.

RUN/model/               what `Recommender.load` reads: the final model where there is one
RUN/validated/           the model the record is about, where RUN/model is the final one
RUN/record.json          a `RunRecord`
RUN/record.users.parquet hits per user (`MetricTable.save_hits`), to compare runs
RUN/history.csv          loss and validation over the steps (neural models)
RUN/manifest.json        digests of all of these, so that a mixture of two runs is refused
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leporid.artifacts import (
    MANIFEST,
    atomic_folder,
    check_manifest,
    recovered,
    write_json,
    write_manifest,
)
from leporid.errors import DataError
from leporid.evaluation import MetricTable
from leporid.experiments.record import RunRecord
from leporid.experiments.store import Results
from leporid.models import Recommender

_RECORD = "record.json"
_PARTS = ("record.users.parquet", "history.csv", f"model/{MANIFEST}", f"validated/{MANIFEST}")
"""What belongs to a record; a model's own manifest stands for its files."""


@dataclass(frozen=True)
class Run:
    """A record and, where it was kept, what each user got."""

    name: str
    record: RunRecord
    outcomes: MetricTable | None


def write_run(
    folder: str | Path,
    model: Recommender,
    record: RunRecord,
    outcomes: MetricTable,
) -> Path:
    """Write the folder, in one step: model, record and all that belongs to them."""
    folder, history = Path(folder), getattr(model, "history", None)
    # Of an earlier run: a model without history, or one that is not the final model's any more.
    with atomic_folder(folder, without=("validated", "history.csv")) as fresh:
        model.save(fresh / "model")
        if history is not None:
            history.to_csv(fresh / "history.csv")
        outcomes.save_hits(fresh / "record.users.parquet")
        _write(fresh, record)
    return folder


def write_record(folder: str | Path, record: RunRecord, **extra: Any) -> RunRecord:
    """Write the record of a run, `extra` added to what it keeps; returns what was written."""
    record = replace(record, extra=record.extra | extra)
    with atomic_folder(folder, copy=True) as fresh:
        _write(fresh, record)
    return record


def _write(fresh: Path, record: RunRecord) -> None:
    """The record into a folder that has everything else, and what belongs to it."""
    write_json(fresh / _RECORD, record.to_dict())
    write_manifest(fresh, "run", _RECORD, *(n for n in _PARTS if (fresh / n).is_file()))


def write_final(
    folder: str | Path,
    final: Recommender,
    validated: Recommender,
    record: RunRecord,
    seconds: float,
) -> RunRecord:
    """Put the final model where the validated one was, and keep that beside it.

    At every moment the folder has both or the validated one only, with its record.
    """
    facts = {"interactions": len(final.known), "seconds": seconds}
    if final.fitting.best_step:
        facts["steps"] = final.fitting.best_step
    record = replace(record, extra=record.extra | {"final": facts})
    with atomic_folder(folder, copy=True) as fresh:
        validated.save(fresh / "validated")
        final.save(fresh / "model")
        _write(fresh, record)
    return record


def read_run(path: str | Path) -> Run:
    """A run folder, or the JSON file of a record, also of one that has been packed since."""
    path = recovered(path)
    file = path / _RECORD if path.is_dir() else path
    if path.is_dir() and file.is_file():
        # A model with a manifest was written with its run, by a version that gives both one.
        required = (path / "model" / MANIFEST).is_file()
        check_manifest(path, "run", _RECORD, required=required)
    if file.is_file():
        beside = file.with_suffix(".users.parquet")
        outcomes = MetricTable.load_hits(beside) if beside.is_file() else None
        return Run(str(path), RunRecord.read(file), outcomes)
    parts = path.absolute().with_suffix("").parts
    results, key = Results(Path(*parts[:-3])), "/".join(parts[-3:])
    record = results.get(key)
    if record is None:
        raise DataError(f"{path} is not a run: there is no {file}")
    return Run(str(path), record, results.outcomes(key))
