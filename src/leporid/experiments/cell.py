"""One run from what was asked to what came out: the only place that makes a `RunRecord`.

`judge` evaluates a fitted model; training from the command line, tuned baselines and the demo end
there. `run` does everything for one cell of a grid: load, split, initialise, train, judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from leporid import models
from leporid.config import Config, canonical_hash
from leporid.data import Split, load, split_by
from leporid.evaluation import MetricTable, evaluate
from leporid.experiments import tune
from leporid.experiments.record import Meter, RunRecord, record_key
from leporid.initializers import initial_embeddings
from leporid.models import Recommender, train
from leporid.progress import ProgressLike, make_progress

CUTS: tuple[int, ...] = (1, 5, 10)
"""The list lengths a run is judged at."""


@dataclass(frozen=True, kw_only=True)
class Cell(Config):
    """One run of a grid: everything that can change its result."""

    dataset: str
    """The name results are filed under."""
    source: str
    """What `leporid.load` reads: a data set name or a path."""
    experiment: str
    core: int
    min_rating: float | None = None
    """Keep rows with at least this rating."""
    protocol: str
    """One of `leporid.data.splitting.PROTOCOLS`."""
    model: str
    init: str | None
    """Initialiser; None for models that have no embedding tables."""
    seed: int
    recipe: str | None = None
    variant: str | None = None
    """The name of an ablation; None for the plain cell."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the model that differ from its defaults."""
    init_settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the initialiser that differ from its defaults."""
    at: tuple[int, ...] = CUTS
    metric: str = "NDCG@10"
    """What tuning and early stopping maximise on validation, unless recipe or settings say."""
    trials: int = 0
    """Tuning budget on validation; 0 uses the settings as they are."""

    @property
    def request(self) -> dict[str, Any]:
        """What was asked for. What the data is called belongs to it, not where it lies."""
        left_out = {"source", *(["min_rating"] if self.min_rating is None else [])}
        left_out |= {"metric"} if self.metric == "F1@10" else set()  # all records before 0.8
        return {key: value for key, value in self.to_dict().items() if key not in left_out}

    @property
    def spec_hash(self) -> str:
        """A hash of the request."""
        return canonical_hash(self.request, 12)

    @property
    def key(self) -> str:
        """The key of its record, known before it runs."""
        return record_key(self)

    @property
    def label(self) -> str:
        """For people: 'dlr2 / leporid / seed 1'."""
        parts = [self.model, self.init or "-", f"seed {self.seed}", self.recipe, self.variant]
        return " / ".join(part for part in parts if part)


@lru_cache(maxsize=2)
def load_split(source: str, core: int, protocol: str, min_rating: float | None = None) -> Split:
    """The split of a data set under a protocol; the last two are kept in memory."""
    data = load(source, min_rating=min_rating)
    return split_by(data.core(core) if core > 1 else data, protocol)


def run(
    cell: Cell, *, device: str = "auto", progress: bool | ProgressLike | None = None
) -> tuple[RunRecord, MetricTable]:
    """Train and judge one cell. Selection sees validation only; test is read once, here."""
    split = load_split(cell.source, cell.core, cell.protocol, cell.min_rating)
    reporter = make_progress(progress)
    settings, recipe = dict(cell.settings), cell.recipe
    cls = models.get(cell.model)
    if cls.takes_initial_vectors and "metric" not in cls.recipe_settings(recipe, split.train):
        settings = {"metric": cell.metric, **settings}
    extra: dict[str, Any] = {"cell": cell.request}
    with Meter() as meter:
        # The seed of a cell varies the training. Vectors are computed once for all seeds, except
        # random ones, which are nothing but their seed.
        seeded = {"seed": cell.seed if cell.init == "random" else 0, **cell.init_settings}
        vectors = initial_embeddings(cell.init, split.train, progress=reporter, **seeded)
        if cell.trials:
            fixed = {**cls.recipe_settings(recipe, split.train), **settings}
            asked: dict[str, Any] = {"seed": cell.seed, "init": vectors, "device": device}
            metric = fixed.pop("metric", cell.metric)
            best = tune(cls, split, cell.trials, metric, recipe=None, **asked, **fixed)
            settings, recipe = best.best_config, None
            extra["tuning"] = {"trials": cell.trials, "best_valid": best.best_value}
        shared: dict[str, Any] = {"seed": cell.seed, "device": device, "progress": reporter}
        fitted = train(cell.model, split, init=vectors, recipe=recipe, **shared, **settings)
    names = ("dataset", "experiment", "model", "init", "recipe", "seed", "spec_hash")
    spec = {name: getattr(cell, name) for name in names}
    return judge(fitted, split, meter, at=cell.at, extra=extra, **spec)


def judge(
    fitted: Recommender,
    split: Split,
    meter: Meter,
    *,
    at: tuple[int, ...] = CUTS,
    table: MetricTable | None = None,
    extra: dict[str, Any] | None = None,
    **spec: Any,
) -> tuple[RunRecord, MetricTable]:
    """Evaluate a fitted model on test, validation and tail users, and record it.

    `meter` measured the fit. `spec` is dataset, experiment, init, recipe and seed; `model` and
    `spec_hash` where they are not the model's name and the hash of those. `table` is the evaluation
    on test, where it was made before. `extra` is recorded too.
    """
    test = evaluate(fitted, split, at=at) if table is None else table
    valid = evaluate(fitted, split, at=at, part="valid").mean() if len(split.valid) else {}
    bounded = [f"{family}@{max(at)}" for family in ("NDCG", "HR", "F1")]
    facts: dict[str, Any] = {
        "protocol": split.protocol,
        "data_digest": split.digest,
        "train": split.train.stats().as_dict(),
        "seen": "train and validation" if fitted.reads_history else "train only",
        "skipped_users": test.skipped,
        "cold_users": test.cold,
        "confidence_95": {name: list(test.confidence(name)[1:]) for name in bounded},
    }
    if test.repeated:
        facts["repeated_items"] = test.repeated
    if test.cold:
        facts["cold_metrics"] = test.mean(stratum="cold-users")
    if split.protocol.startswith("cold-items"):
        for stratum in ("cold-items", "warm-items"):
            facts[f"{stratum[:4]}_item_metrics"] = test.mean(stratum=stratum)
    if split.users.core or split.items.core:
        gone = {
            f"dropped_{side}": len(getattr(split, side).dropped or ())
            for side in ("users", "items")
        }
        facts["core"] = {"k": max(split.users.core, split.items.core), **gone}
    summary = getattr(fitted, "training_summary", None)
    if callable(summary):
        facts["training"] = summary()
    fields = {
        "model": fitted.name,
        "config": fitted.config.to_dict(),
        "metrics": test.mean(),
        "valid_metrics": valid,
        # Among a handful of users with something to find there may be none of the tail.
        "tail_metrics": test.mean(stratum="tail-users") if test.has_users("tail-users") else {},
        "seconds": meter.seconds,
        "peak_memory_mb": meter.peak_memory_mb,
        "device": _device_name(fitted),
        "extra": facts | (extra or {}),
    }
    return RunRecord.make(**fields | spec), test


def _device_name(fitted: Any) -> str:
    """'cpu', or the name of the accelerator that holds the model."""
    device = getattr(fitted, "device", None)
    if device is None or device.type == "cpu":
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name(device))
