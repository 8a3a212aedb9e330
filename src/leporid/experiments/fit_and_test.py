"""`record_run`: test a fitted model once. Every caller that makes a record ends there.

`train_to_folder` also compares with baselines (`against_baselines`): TopPop, ItemKNN, EASE (and
Frequency with `include_seen`) as they come, fitted on the same split and evaluated alike.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leporid import models
from leporid.data import Split
from leporid.errors import ConfigError, DataError
from leporid.evaluation import Comparison, MetricTable, compare, evaluate
from leporid.experiments.record import Meter, RunRecord, write_final, write_record, write_run
from leporid.experiments.report import write_train_report
from leporid.initializers import InitialEmbeddings
from leporid.models import Recommender
from leporid.progress import ProgressLike, make_progress

CUTOFFS: tuple[int, ...] = (1, 5, 10)
"""The list lengths a run is tested at."""
BASELINES = ("toppop", "itemknn", "ease")
MAX_EASE_ITEMS = 10_000
"""EASE inverts a dense matrix: with more items it would take minutes."""
METRIC = "NDCG@10"
"""What a model and its baselines are compared by."""


class FittedRun(NamedTuple):
    """A fitted model, its record, and the metrics of each user on test."""

    model: Recommender
    record: RunRecord
    table: MetricTable


def record_run(
    fitted: Recommender,
    split: Split,
    meter: Meter,
    *,
    init: str | InitialEmbeddings | None,
    at: tuple[int, ...] = CUTOFFS,
    table: MetricTable | None = None,
    extra: dict[str, Any] | None = None,
    **spec: Any,
) -> FittedRun:
    """Evaluate a fitted model on test, validation and tail users, and record it.

    `meter` measured the fit. `spec` is dataset, experiment, recipe and seed; `model` and
    `spec_hash` where they are not the model's name and the hash of those. `table` is the evaluation
    on test, where it was made before. `extra` is recorded too.
    """
    test = evaluate(fitted, split, at=at) if table is None else table
    valid = evaluate(fitted, split, at=at, part="valid").mean() if len(split.valid.goals) else {}
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
    if split.protocol.startswith("cold-items"):
        for stratum in ("cold-items", "warm-items"):
            facts[f"{stratum[:4]}_item_metrics"] = test.mean(stratum=stratum)
    users, items = split.users, split.items
    if users.core or items.core:
        facts["core"] = {
            "k": max(users.core, items.core),
            "dropped_users": len(users.dropped or ()),
            "dropped_items": len(items.dropped or ()),
        }
    optional = {
        "include_seen": split.include_seen,
        "repeated_items": test.repeated,
        "cold_metrics": test.mean(stratum="cold-users") if test.cold else {},
        "training": fitted.training_summary() if hasattr(fitted, "training_summary") else {},
    }
    facts |= {name: value for name, value in optional.items() if value}
    device = getattr(fitted, "device", None)
    if device is not None and device.type == "cuda":
        import torch

        device = torch.cuda.get_device_name(device)
    if isinstance(init, InitialEmbeddings):
        init = str(init.items.provenance["method"])
    fields = {
        "model": fitted.name,
        "init": None if init == "none" else init,
        "config": fitted.config.to_dict(),
        "metrics": test.mean(),
        "valid_metrics": valid,
        # Among a handful of users with something to find there may be none of the tail.
        "tail_metrics": test.mean(stratum="tail-users") if test.has_users("tail-users") else {},
        "seconds": meter.seconds,
        "peak_memory_mb": meter.peak_memory_mb,
        "device": str(device or "cpu"),
        "extra": facts | (extra or {}),
    }
    return FittedRun(fitted, RunRecord.make(**fields | spec), test)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A simple model on the same split, and the trained model compared with it."""

    model: str
    name: str
    """As it is written: ItemKNN."""
    settings: dict[str, Any]
    """Its defaults, all of them."""
    metrics: dict[str, float]
    """On test."""
    seconds: float
    """Wall-clock time of the fit."""
    comparison: Comparison
    """The trained model (a) with this baseline (b)."""


@dataclass(frozen=True)
class BaselineCheck:
    """The baselines that were fitted, and what follows for the trained model."""

    baselines: tuple[Baseline, ...]
    left_out: str = ""
    """Which baseline was left out and why, one sentence; empty where none was."""

    @property
    def best(self) -> Baseline:
        """The baseline with the highest metric."""
        return max(self.baselines, key=lambda baseline: baseline.comparison.mean_b)

    def verdict(self) -> str:
        """The trained model against the best baseline, in one sentence."""
        comparison = self.best.comparison
        advice = "; do not deploy it" if comparison.outcome == "below" else ""
        return comparison.describe() + advice

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values, as `RunRecord.extra["baselines"]` holds them."""
        each = {
            baseline.model: {**asdict(baseline), "comparison": baseline.comparison.to_dict()}
            for baseline in self.baselines
        }
        return {"models": each, "verdict": self.verdict(), "left_out": self.left_out}


def against_baselines(
    outcome: MetricTable,
    split: Split,
    *,
    fitted: Recommender | None = None,
    progress: bool | ProgressLike | None = None,
) -> BaselineCheck:
    """Fit the baselines on `split` and compare a model's test outcome with theirs by NDCG@10.

    `outcome` is what `evaluate(model, split)` returned. `fitted` is that model, so that
    a baseline is not compared with itself.
    """
    if METRIC not in outcome.names:
        raise ConfigError(f"baselines are compared by {METRIC}: evaluate with at=(1, 5, 10)")
    own = fitted.name if fitted is not None else "the model"
    reporter = make_progress(progress)
    rows, left_out = [], ""
    names = (*BASELINES, *(["frequency"] if split.include_seen else []))
    for model in (models.get(name)() for name in names):
        if model.name == "ease" and split.n_items > MAX_EASE_ITEMS:
            left_out = f"EASE is left out: {split.n_items:,} items are more than {MAX_EASE_ITEMS:,}"
            continue
        if fitted is not None and (fitted.name, fitted.asked) == (model.name, model.asked):
            continue
        name = type(model).__name__
        reporter.start(f"baseline {name}")
        with Meter() as meter:
            model.fit(split)
        table = evaluate(model, split)
        about: dict[str, Any] = {"model": model.name, "name": name}
        about |= {"settings": model.config.to_dict(), "metrics": table.mean()}
        found = compare(outcome, table, METRIC, name_a=own, name_b=name)
        rows.append(Baseline(**about, seconds=meter.seconds, comparison=found))
    if reporter is not progress:
        reporter.close()
    return BaselineCheck(tuple(rows), left_out)


def _train_once(*of: Any, checkpoint: Path, **how: Any) -> Recommender:
    """`train`; a run that the folder holds finished, by its checkpoint, is not trained again."""
    if (checkpoint.parent / "record.json").is_file():
        with contextlib.suppress(ConfigError, DataError):  # the checkpoint is of another run
            return models.train(*of, checkpoint=checkpoint, **{**how, "resume": True})
    return models.train(*of, checkpoint=checkpoint, **how)


def train_to_folder(
    folder: Path,
    model: str,
    split: Split,
    init: str | InitialEmbeddings | None,
    *,
    dataset: str,
    seed: int = 123,
    recipe: str | None = None,
    device: str = "auto",
    final: bool = False,
    baselines: bool = True,
    resume: bool = False,
    progress: bool | ProgressLike | None = None,
    settings: Mapping[str, Any] | None = None,
    init_settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[FittedRun, BaselineCheck | None]:
    """Fit and test a model, compare it with baselines, and keep everything in a run folder.

    `init` is the name of an initialiser, whose result is cached, or initial embeddings. `more`
    goes to `leporid.train`. The model that comes back is the final one where `final` asks for it.
    """
    reporter, checkpoint = make_progress(progress), folder / "checkpoint"
    if isinstance(init, str) and init != "none":
        init_settings = {"cache": True, **(init_settings or {})}
    spec: dict[str, Any] = {"seed": seed, "recipe": recipe}
    how: dict[str, Any] = {"progress": reporter, "device": device, "resume": resume}
    args = {**spec, **how, **more, "init_settings": init_settings, **(settings or {})}
    train: Callable[..., Recommender] = models.train
    if final and not resume:
        train = _train_once
    check = None
    try:
        with Meter() as meter:
            fitted = train(model, split, init, checkpoint=checkpoint, **args)
        if (history := getattr(fitted, "history", None)) and history.rows:
            # With those before a checkpoint that the training went on from.
            meter.seconds = max(meter.seconds, history.rows[-1]["seconds"])
        spec |= {"dataset": dataset, "experiment": "train", "init": init}
        _, record, table = record_run(fitted, split, meter, **spec)
        write_run(folder, fitted, record, table)
        if baselines:
            check = against_baselines(table, split, fitted=fitted, progress=reporter)
            record = write_record(folder, record, baselines=check.to_dict())
        deployed = fitted
        if final:
            if fitted.takes_initial_vectors:
                how["checkpoint"] = checkpoint / "final"
            else:
                how = {"progress": reporter}
            with Meter() as meter:
                deployed = fitted.refit(split, **how)
            record = write_final(folder, deployed, fitted, record, meter.seconds)
        write_train_report(folder, fitted, deployed, record, table)
    finally:
        if reporter is not progress:
            reporter.close()
    return FittedRun(deployed, record, table), check
