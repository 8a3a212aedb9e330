"""`RunRecord`: one run, everything needed to believe it and to repeat it; `Results` of grids.

A run of a grid has two files under the folder of all `Results`, named by `RunRecord.key`: its
record, and `.users.parquet` beside it. Any number of processes can write at once.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from leporid.errors import ConfigError, DataError
from leporid.evaluation import MetricTable
from leporid.foundation import (
    Config,
    JsonValue,
    canonical_hash,
    read_object,
    versions,
    write_json,
)
from leporid.models import Recommender, fit_sentence
from leporid.runs.execution import Cost, Run

_USERS = ".users.parquet"
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
    config: dict[str, JsonValue]
    """The settings of the model, all of them."""
    metrics: dict[str, float]
    """Means on test by name: `{"HR@10": 0.447, ...}`."""
    valid_metrics: dict[str, float]
    """Means on validation."""
    tail_metrics: dict[str, float]
    """Means on test over the tail users only."""
    seconds: float
    """Wall-clock time of the fit."""
    peak_memory_mb: float
    """Highest resident memory of the process during the run, in MiB."""
    device: str
    """'cpu', or the accelerator's name."""
    versions: dict[str, str] = field(default_factory=versions)
    """Python, platform and the packages that can change a number."""
    spec_hash: str = ""
    """A hash of what was asked for: dataset, experiment, model, init, recipe, seed, config."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Everything else: protocol, data digest, intervals, tuning budget, the cell of a grid, what
    the model has seen of its users when it was tested."""

    def __post_init__(self) -> None:
        """Refuse metrics that are not numbers, and compute the hash of a new record."""
        super().__post_init__()
        for metrics in (self.metrics, self.valid_metrics, self.tail_metrics):
            if not all(isinstance(value, int | float) for value in metrics.values()):
                raise ConfigError("the metrics of a run record must be numbers by name")
        if not self.spec_hash:
            request = {key: vars(self)[key] for key in _SPEC}
            object.__setattr__(self, "spec_hash", canonical_hash(request, 12))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the record that `to_dict` has made into a mapping; refuse an unknown key."""
        required = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        missing = sorted(required - values.keys())
        if missing:
            raise DataError(f"a run record needs the fields: {', '.join(missing)}")
        try:
            return super().from_dict(values)
        except ConfigError as error:
            raise DataError(f"this is not a run record: {error}") from None

    @property
    def key(self) -> str:
        """Name among all results: `<dataset>/<experiment>/<model>-<init>-<seed>-<hash>`."""
        return record_key(self)

    @property
    def variant(self) -> str | None:
        """Name of the ablation this run belongs to; None for a plain run."""
        name: str | None = self.extra.get("cell", {}).get("variant")
        return name

    @property
    def seen(self) -> str:
        """What its scores on test rest on: "train and validation", "train only" or "unknown"."""
        return str(self.extra.get("seen", "unknown"))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the record of a file."""
        values = read_object(path)
        try:
            return cls.from_dict(values)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


class Recordable(Protocol):
    """A record, or the cell of a grid that will become one."""

    @property
    def dataset(self) -> str: ...
    @property
    def experiment(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def init(self) -> str | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def spec_hash(self) -> str: ...


def record_key(run: Recordable) -> str:
    """Return the key of a record, with 'none' for no initialiser."""
    model = safe_name(run.model)
    init = safe_name(run.init or "none")
    folder = f"{safe_name(run.dataset)}/{safe_name(run.experiment)}"
    return f"{folder}/{model}-{init}-{run.seed}-{run.spec_hash}"


def safe_name(name: str) -> str:
    """Return `name` with underscores for everything that does not belong into a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "unnamed"


def record_of(run: Run) -> RunRecord:
    """Make the record of a run: the only way in which records come about."""
    spec = run.spec
    model = run.model
    test = run.test
    deployed = run.deployed
    extra: dict[str, JsonValue] = {
        "seen": "train and validation" if model.reads_history else "train only",
        **run.split.summary(),
        **test.summary(),
    }
    # Among a handful of users with something to find there may be none of the tail.
    tail = test.mean(stratum="tail-users") if test.has_users("tail-users") else {}
    extra["deployed"] = fit_sentence(deployed)
    training = model.training_summary()
    if training:
        extra["training"] = training
    if run.interruption:
        extra["interrupted"] = run.interruption
    extra |= spec.extra
    if run.check is not None:
        extra["baselines"] = run.check.to_dict()
    if run.final is not None and run.final_cost is not None:
        extra["final"] = final_facts(run.final, run.final_cost)
    return RunRecord(
        dataset=spec.dataset,
        experiment=spec.experiment,
        model=model.name,
        init=spec.model.init_name,
        recipe=spec.model.recipe,
        seed=spec.model.seed,
        device=model.device_name,
        config=model.config.to_dict(),
        metrics=test.mean(),
        valid_metrics=run.validation,
        tail_metrics=tail,
        seconds=run.cost.seconds,
        peak_memory_mb=run.cost.peak_memory_mb,
        extra=extra,
        spec_hash=spec.spec_hash or "",
    )


def final_facts(final: Recommender, cost: Cost) -> dict[str, JsonValue]:
    """Return what a record keeps of the fit on everything."""
    facts: dict[str, JsonValue] = {
        "interactions": len(final.known),
        "seconds": cost.seconds,
    }
    if final.fitting.best_step:
        facts["steps"] = final.fitting.best_step
    return facts


class Results:
    """The records and outcomes of the runs under `root`, by the key of the record."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, key: str, suffix: str = ".json") -> Path:
        """Return where the run `key` has, or would have, a file."""
        return self.root / f"{key}{suffix}"

    def add(self, record: RunRecord, outcomes: MetricTable | None = None) -> Path:
        """Write a run; the record comes last, so where it is the outcomes are."""
        if outcomes is not None:
            outcomes.save_hits(self.path(record.key, _USERS))
        write_json(self.path(record.key), record.to_dict())
        return self.path(record.key)

    def get(self, key: str) -> RunRecord | None:
        """Return the record of a run; None if there is none."""
        path = self.path(key)
        return RunRecord.read(path) if path.is_file() else None
