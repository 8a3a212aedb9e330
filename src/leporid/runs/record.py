"""`RunRecord`: one run, everything needed to believe it and to repeat it; where runs are kept.

A run of `leporid train` is a folder:

RUN/model/               what `Recommender.load` reads: the final model where there is one
RUN/validated/           the model the record is about, where RUN/model is the final one
RUN/record.json          a `RunRecord`
RUN/record.users.parquet hits per user (`MetricTable.save_hits`), to compare runs
RUN/history.csv          loss and validation over the steps (neural models)
RUN/report.html          the same as a page
RUN/manifest.json        digests of all of these, so that a mixture of two runs is refused

A run of a grid has two files under the folder of all `Results`, named by `RunRecord.key`: its
record, and `.users.parquet` beside it. Any number of processes can write at once.
"""

import contextlib
import dataclasses
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import psutil

from leporid.artifacts import (
    MANIFEST,
    atomic_folder,
    check_manifest,
    read_object,
    recovered,
    write_json,
    write_manifest,
)
from leporid.config import Config, canonical_hash
from leporid.errors import ConfigError, DataError
from leporid.evaluation import MetricTable
from leporid.machine import versions
from leporid.models import Recommender

_RECORD, _USERS = "record.json", ".users.parquet"
_PARTS = (
    "record.users.parquet",
    "history.csv",
    f"model/{MANIFEST}",
    f"validated/{MANIFEST}",
)
"""What belongs to a record; a model's own manifest stands for its files."""
_SPEC = ("dataset", "experiment", "model", "init", "recipe", "seed", "config")


@dataclass(frozen=True, kw_only=True)
class RunRecord(Config):
    """One model, fitted once on one data set, and its results.

    As a file it lies at `<root>/<dataset>/<experiment>/<model>-<init>-<seed>-<hash>.json`.
    """

    dataset: str
    """Name of the data, for example 'ml-1m-r3'."""
    experiment: str
    """Name of the group of runs this one belongs to, for example 'baselines'."""
    model: str
    """Registry name."""
    init: str | None
    """Registry name of the initialiser; None for models without embeddings."""
    recipe: str | None
    """Name of the training recipe; None where a model has only one."""
    seed: int
    config: dict[str, Any]
    """The settings of the model, all of them."""
    metrics: dict[str, float]
    """On test, by name: `{"HR@10": 0.447, ...}`."""
    valid_metrics: dict[str, float]
    """On validation."""
    tail_metrics: dict[str, float]
    """On test, averaged over the tail users only."""
    seconds: float
    """Wall-clock time of the fit."""
    peak_memory_mb: float
    """Highest resident memory of the process during the run, in MiB."""
    device: str
    """'cpu', or the accelerator's name."""
    versions: dict[str, str]
    """Python, platform and the packages that can change a number."""
    spec_hash: str
    """A hash of what was asked for: dataset, experiment, model, init, recipe, seed, config."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Everything else: protocol, data digest, intervals, tuning budget, the cell of a grid, what
    the model has seen of its users when it was tested."""

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """A record whose `versions` and `spec_hash` are computed unless they are passed."""
        fields.setdefault("versions", versions())
        if "spec_hash" not in fields:
            fields["spec_hash"] = canonical_hash(
                {key: fields.get(key) for key in _SPEC}, 12
            )
        return cls.from_dict(fields)

    def validate(self) -> None:
        """Metrics must be numbers."""
        for metrics in (self.metrics, self.valid_metrics, self.tail_metrics):
            if not all(isinstance(value, int | float) for value in metrics.values()):
                raise ConfigError("the metrics of a run record must be numbers by name")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown key is an error that names it."""
        required = {f.name for f in dataclasses.fields(cls)} - {"extra"}
        if missing := sorted(required - values.keys()):
            raise DataError(f"a run record needs the fields: {', '.join(missing)}")
        try:
            return super().from_dict(values)
        except ConfigError as error:
            raise DataError(f"this is not a run record: {error}") from None

    @property
    def key(self) -> str:
        """`<dataset>/<experiment>/<model>-<init>-<seed>-<hash>`: its name among all results."""
        return record_key(self)

    @property
    def variant(self) -> str | None:
        """The name of the ablation this run belongs to; None for a plain run."""
        name: str | None = self.extra.get("cell", {}).get("variant")
        return name

    @property
    def seen(self) -> str:
        """The items its scores on test rest on: "train and validation" or "train only".

        "unknown" where nobody recorded it.
        """
        return str(self.extra.get("seen", "unknown"))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The record of a file."""
        values = read_object(path)
        try:
            return cls.from_dict(values)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def record_key(run: Any) -> str:
    """The key of a record, or of the cell that will become one: 'none' stands for no initialiser.

    Both have `dataset`, `experiment`, `model`, `init`, `seed` and `spec_hash`.
    """
    name = f"{safe_name(run.model)}-{safe_name(run.init or 'none')}-{run.seed}-{run.spec_hash}"
    return f"{safe_name(run.dataset)}/{safe_name(run.experiment)}/{name}"


def safe_name(name: str) -> str:
    """`name` with an underscore for everything that does not belong into a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "unnamed"


class Meter:
    """`with Meter() as meter: ...` measures wall-clock seconds and peak resident memory."""

    seconds: float = 0.0
    peak_memory_mb: float = 0.0

    def __enter__(self) -> Self:
        # Linux lets a process reset its high-water mark; elsewhere it covers the whole process.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.peak_memory_mb = peak_memory_mb()


def peak_memory_mb() -> float:
    """Highest resident memory of this process since it started (or since a `Meter` did), MiB.

    Linux and Windows keep that mark. Where there is none, it is what is resident now.
    """
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        if mark := re.search(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE):
            return int(mark[1]) / 1024
    memory = psutil.Process().memory_info()
    return float(getattr(memory, "peak_wset", memory.rss) / 2**20)


@dataclass(frozen=True)
class Run:
    """A record and, where it was kept, what each user got."""

    name: str
    record: RunRecord
    outcomes: MetricTable | None


def write_run(
    folder: str | Path, model: Recommender, record: RunRecord, outcomes: MetricTable
) -> Path:
    """Write the folder, in one step: model, record and all that belongs to them."""
    folder, history = Path(folder), getattr(model, "history", None)
    # Of an earlier run: a model without history, or one that is not the final model's any more.
    with atomic_folder(
        folder, without=("validated", "history.csv", "report.html")
    ) as fresh:
        model.save(fresh / "model")
        if history is not None:
            history.to_csv(fresh / "history.csv")
        outcomes.save_hits(fresh / "record.users.parquet")
        _write(fresh, record)
    return folder


def write_record(
    folder: str | Path,
    record: RunRecord,
    models: Mapping[str, Recommender] | None = None,
    **extra: Any,
) -> RunRecord:
    """Write the record of a run, `extra` added to what it keeps; returns what was written.

    `models` are written by the names of their folders.
    """
    record = replace(record, extra=record.extra | extra)
    with atomic_folder(folder, copy=True) as fresh:
        for name, model in (models or {}).items():
            model.save(fresh / name)
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
    return write_record(
        folder, record, {"validated": validated, "model": final}, final=facts
    )


def read_run(path: str | Path) -> Run:
    """A run folder, or the JSON file of a record."""
    path = recovered(path)
    file = path / _RECORD if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{path} is not a run: there is no {file}")
    if path.is_dir():
        check_manifest(path, "run", _RECORD)
    beside = file.with_suffix(_USERS)
    outcomes = MetricTable.load_hits(beside) if beside.is_file() else None
    return Run(str(path), RunRecord.read(file), outcomes)


class Results:
    """The records and outcomes of the runs under `root`, by the key of the record."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, key: str, suffix: str = ".json") -> Path:
        """Where the run `key` has, or would have, a file."""
        return self.root / f"{key}{suffix}"

    def add(self, record: RunRecord, outcomes: MetricTable | None = None) -> Path:
        """Write a run; the record comes last, so where it is the outcomes are."""
        if outcomes is not None:
            outcomes.save_hits(self.path(record.key, _USERS))
        write_json(self.path(record.key), record.to_dict())
        return self.path(record.key)

    def get(self, key: str) -> RunRecord | None:
        """The record of a run; None where there is none."""
        return RunRecord.read(self.path(key)) if self.path(key).is_file() else None
