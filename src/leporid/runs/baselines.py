"""The table of tuned classical baselines: one command, one record a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid import models
from leporid.data.interactions import Sequences
from leporid.data.split import Split
from leporid.evaluation.evaluator import evaluate
from leporid.models.shared.base import Recommender
from leporid.progress import ProgressLike
from leporid.runs.record import Meter, RunRecord
from leporid.tuning.study import TuningResult, tune

__all__ = ["CLASSICAL", "record_run", "tune_baselines"]

CLASSICAL = ("toppop", "userknn", "itemknn", "slim", "ease", "p3alpha", "rp3beta", "ials")
"""Models without training loop or initial vectors, in catalogue order."""


def tune_baselines(
    split: Split,
    dataset: str,
    *,
    names: Sequence[str] = CLASSICAL,
    trials: int = 20,
    metric: str = "F1@10",
    seed: int = 0,
    storage: str | Path | None = None,
    root: str | Path | None = None,
    experiment: str = "baselines",
    progress: bool | ProgressLike | None = None,
) -> list[tuple[RunRecord, RunRecord]]:
    """For each model the run with its default settings and the run with those tuned.

    Every model gets the same budget, judged by `metric` on validation. With `root` the records
    are written there, the untuned ones under `<experiment>-untuned`.
    """
    pairs = []
    for name in names:
        cls = models.get(name)
        result = tune(cls, split, trials, metric, seed=seed, storage=storage, progress=progress)
        untuned = record_run(cls(), split, dataset, f"{experiment}-untuned", seed)
        tuned = record_run(cls(**result.best_config), split, dataset, experiment, seed, result)
        if root is not None:
            untuned.write(root)
            tuned.write(root)
        pairs.append((untuned, tuned))
    return pairs


def record_run(
    model: Recommender,
    split: Split,
    dataset: str,
    experiment: str,
    seed: int,
    tuning: TuningResult | None = None,
) -> RunRecord:
    """Fit a classical model once, judge it on both parts, and keep everything in a record."""
    with Meter() as meter:
        model.fit(split, seed=seed)
    test = evaluate(model, split)
    extra: dict[str, Any] = {
        "protocol": split.protocol,
        "data": split.digest,
        "profile": "train",
        "metrics_from_train_and_validation_profiles": evaluate(_refreshed(model), split).mean(),
    }
    if tuning is not None:
        extra["tuning"] = {
            "metric": tuning.metric,
            "best_value": tuning.best_value,
            "trials": len(tuning.trials),
            "seconds": sum(trial["seconds"] or 0.0 for trial in tuning.trials),
            "table": tuning.trials,
        }
    return RunRecord.make(
        dataset=dataset,
        experiment=experiment,
        model=model.name,
        init=None,
        recipe=None,
        seed=seed,
        config=model.config.to_dict(),
        metrics=test.mean(),
        valid_metrics=evaluate(model, split, part="valid").mean(),
        tail_metrics=test.mean(stratum="tail-users"),
        seconds=meter.seconds,
        peak_memory_mb=meter.peak_memory_mb,
        device="cpu",
        extra=extra,
    )


def _refreshed(model: Recommender) -> Any:
    """The same fitted weights, read with everything known of a user at that moment.

    Sequential models read train and validation when tested; this says what the classical ones
    gain from the same.
    """

    def score(users: NDArray[np.int32], history: Sequences) -> NDArray[np.float32]:
        return model.score_histories([history.of(int(user)) for user in users])

    return score
