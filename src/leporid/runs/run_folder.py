"""A run on disk: the model, its record, its history, and what each user got.

RUN/model/               what `Recommender.load` reads: the final model where there is one
RUN/validated/           the model the record is about, where RUN/model is the final one
RUN/record.json          a `RunRecord`
RUN/record.users.parquet `UserOutcomes`, for paired tests between runs
RUN/history.csv          loss and validation over the steps (neural models)
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leporid.artifacts import write_json
from leporid.errors import DataError
from leporid.models import Recommender
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.record import RunRecord
from leporid.runs.store import Results


@dataclass(frozen=True)
class Run:
    """A record and, where it was kept, what each user got."""

    name: str
    record: RunRecord
    outcomes: UserOutcomes | None


def write_run(
    folder: str | Path,
    model: Recommender,
    record: RunRecord,
    outcomes: UserOutcomes,
    *,
    tensorboard: bool = False,
) -> Path:
    """Write the folder; the record comes after all that belongs to it."""
    folder = Path(folder)
    # Of an earlier final fit. Without it the final model beside it is not evaluated by anybody.
    shutil.rmtree(folder / "validated", ignore_errors=True)
    model.save(folder / "model")
    history = getattr(model, "history", None)
    if history is not None:
        history.to_csv(folder / "history.csv")
    outcomes.write(folder / "record.users.parquet")
    write_record(folder, record)
    if tensorboard and history is not None:
        history.to_tensorboard(folder / "tensorboard")
    return folder


def write_record(folder: str | Path, record: RunRecord, **extra: Any) -> RunRecord:
    """Write the record of a run, `extra` added to what it keeps; returns what was written."""
    record = replace(record, extra=record.extra | extra)
    write_json(Path(folder) / "record.json", record.to_dict())
    return record


def write_final(
    folder: str | Path,
    final: Recommender,
    validated: Recommender,
    record: RunRecord,
    seconds: float,
) -> RunRecord:
    """Put the final model where the validated one was, and keep that beside it.

    At every moment `model` is one of the two, whole, and says itself which.
    """
    folder = Path(folder)
    validated.save(folder / "validated")
    final.save(folder / "model")
    facts = {"interactions": len(final.known), "seconds": seconds}
    if final.fitting.best_step:
        facts["steps"] = final.fitting.best_step
    return write_record(folder, record, final=facts)


def read_run(path: str | Path) -> Run:
    """A run folder, or the JSON file of a record, also of one that has been packed since."""
    path = Path(path)
    file = path / "record.json" if path.is_dir() else path
    if file.is_file():
        beside = file.with_suffix(".users.parquet")
        outcomes = UserOutcomes.read(beside) if beside.is_file() else None
        return Run(str(path), RunRecord.read(file), outcomes)
    parts = path.absolute().with_suffix("").parts
    results, key = Results(Path(*parts[:-3])), "/".join(parts[-3:])
    record = results.get(key)
    if record is None:
        raise DataError(f"{path} is not a run: there is no {file}")
    return Run(str(path), record, results.outcomes(key))
