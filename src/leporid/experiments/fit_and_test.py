"""`fit_and_test`: fit a model, test it once, record it. Every caller that makes a record ends here.

The command line, the cells of a grid, tuned baselines, `choose` and the demonstration share it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from leporid import models
from leporid.data import Split
from leporid.evaluation import MetricTable, evaluate
from leporid.experiments.baselines import BaselineCheck, against_baselines
from leporid.experiments.record import Meter, RunRecord
from leporid.experiments.run_folder import write_final, write_record, write_run
from leporid.initializers import InitialEmbeddings
from leporid.models import Recommender
from leporid.progress import ProgressLike, make_progress

CUTOFFS: tuple[int, ...] = (1, 5, 10)
"""The list lengths a run is tested at."""


class FittedRun(NamedTuple):
    """A fitted model, its record, and the metrics of each user on test."""

    model: Recommender
    record: RunRecord
    table: MetricTable


def fit(
    model: str | type[Recommender] | Recommender,
    split: Split,
    init: str | InitialEmbeddings | None = None,
    *,
    seed: int,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    init_settings: Mapping[str, Any] | None = None,
    **how: Any,
) -> Recommender:
    """Fit a model by name or class, or an instance as it is.

    `init` is the name of an initialiser, whose result is cached, or initial embeddings. `how` goes
    to `leporid.train` (device, progress, checkpoint, resume).
    """
    if isinstance(model, Recommender):
        return model.fit(split, seed=seed, **how)
    if isinstance(init, str) and init != "none":
        init_settings = {"cache": True, **(init_settings or {})}
    how["init_settings"] = init_settings
    return models.train(model, split, init, seed=seed, recipe=recipe, **how, **(settings or {}))


def fit_and_test(
    model: str | type[Recommender] | Recommender,
    split: Split,
    init: str | InitialEmbeddings | None = None,
    *,
    dataset: str,
    experiment: str,
    seed: int,
    recipe: str | None = None,
    extra: dict[str, Any] | None = None,
    **how: Any,
) -> FittedRun:
    """Fit a model (`fit` says how), test it once, and record it."""
    with Meter() as meter:
        fitted = fit(model, split, init, seed=seed, recipe=recipe, **how)
    spec: dict[str, Any] = {"seed": seed, "recipe": recipe, "init": _init_name(init)}
    spec |= {"dataset": dataset, "experiment": experiment}
    return record_run(fitted, split, meter, extra=extra, **spec)


def _init_name(init: str | InitialEmbeddings | None) -> str | None:
    if isinstance(init, InitialEmbeddings):
        return str(init.items.provenance["method"])
    return None if init == "none" else init


def record_run(
    fitted: Recommender,
    split: Split,
    meter: Meter,
    *,
    at: tuple[int, ...] = CUTOFFS,
    table: MetricTable | None = None,
    extra: dict[str, Any] | None = None,
    **spec: Any,
) -> FittedRun:
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
        facts["core"] = {
            "k": max(split.users.core, split.items.core),
            "dropped_users": len(split.users.dropped or ()),
            "dropped_items": len(split.items.dropped or ()),
        }
    if hasattr(fitted, "training_summary"):
        facts["training"] = fitted.training_summary()
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
    return FittedRun(fitted, RunRecord.make(**fields | spec), test)


def _device_name(fitted: Any) -> str:
    """'cpu', or the name of the accelerator that holds the model."""
    device = getattr(fitted, "device", None)
    if device is None or device.type == "cpu":
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name(device))


def train_to_folder(
    folder: Path,
    model: str,
    split: Split,
    init: str | InitialEmbeddings | None,
    *,
    dataset: str,
    experiment: str = "train",
    seed: int = 123,
    recipe: str | None = None,
    device: str = "auto",
    final: bool = False,
    baselines: bool = True,
    resume: bool = False,
    tensorboard: bool = False,
    progress: bool | ProgressLike | None = None,
    **settings: Any,
) -> tuple[FittedRun, BaselineCheck | None] | None:
    """Fit and test a model, compare it with baselines, and keep everything in a run folder.

    `settings` are `settings` and `init_settings` of `fit`. Of several processes (torchrun) all
    train, the first one tests and writes; the others get None. The model that comes back is the
    final one where `final` asks for it.
    """
    first = not int(os.environ.get("RANK", "0"))
    reporter, checkpoint = make_progress(progress), folder / "checkpoint"
    how: dict[str, Any] = {"progress": reporter, "device": device, "resume": resume}
    check = None
    try:
        with Meter() as meter:
            about: dict[str, Any] = {"seed": seed, "recipe": recipe, "checkpoint": checkpoint}
            fitted = fit(model, split, init, **about, **how, **settings)
        if first:
            spec: dict[str, Any] = {"seed": seed, "recipe": recipe, "init": _init_name(init)}
            spec |= {"dataset": dataset, "experiment": experiment}
            _, record, table = record_run(fitted, split, meter, **spec)
            write_run(folder, fitted, record, table, tensorboard=tensorboard)
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
            if first:
                record = write_final(folder, deployed, fitted, record, meter.seconds)
    finally:
        if reporter is not progress:
            reporter.close()
    return (FittedRun(deployed, record, table), check) if first else None
