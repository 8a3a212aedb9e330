"""A run on disk: the model, its record, its history, and what each user got.

RUN/model/               what `Recommender.load` reads
RUN/record.json          a `RunRecord`
RUN/record.users.parquet `UserOutcomes`, for paired tests between runs
RUN/history.csv          loss and validation over the steps (neural models)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
    """Write the folder; the record comes last, so where it is the rest is."""
    folder = Path(folder)
    model.save(folder / "model")
    history = getattr(model, "history", None)
    if history is not None:
        history.to_csv(folder / "history.csv")
        if tensorboard:
            history.to_tensorboard(folder / "tensorboard")
    outcomes.write(folder / "record.users.parquet")
    write_json(folder / "record.json", record.to_dict())
    return folder


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
