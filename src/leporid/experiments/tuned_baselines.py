"""The table of tuned classical models: one command, two records per model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leporid import models
from leporid.data import Split
from leporid.errors import MissingExtraError
from leporid.experiments.fit_and_test import FittedRun, fit_and_test
from leporid.experiments.record import RunRecord
from leporid.experiments.store import Results
from leporid.experiments.tuning import tune
from leporid.progress import ProgressLike


def classical_models() -> list[str]:
    """The registered models that take no initial vectors and stand alone, in catalogue order."""
    names = []
    for name in models.available():
        # What needs torch has embedding tables.
        with suppress(MissingExtraError):
            cls = models.get(name)
            if not (cls.takes_initial_vectors or cls.combines):
                names.append(name)
    return names


def tune_baselines(
    split: Split,
    dataset: str,
    *,
    names: Sequence[str] | None = None,
    trials: int = 20,
    metric: str = "NDCG@10",
    seed: int = 0,
    storage: str | Path | None = None,
    root: str | Path | None = None,
    experiment: str = "baselines",
    replace: bool = False,
    progress: bool | ProgressLike | None = None,
) -> list[tuple[RunRecord, RunRecord]]:
    """For each model (default: all classical ones) the run with its default settings and the tuned.

    Every model gets the same budget of trials, evaluated by `metric` on validation. With `root` the
    records are written there, the untuned ones under `<experiment>-untuned`; `replace` drops what
    these experiments hold of the same model, data set and seed.
    """
    pairs = []
    for name in classical_models() if names is None else names:
        cls = models.get(name)
        best = tune(cls, split, trials, metric, seed=seed, storage=storage, progress=progress)
        tuning = {
            "metric": metric,
            "best_value": best.best_value,
            "trials": len(best.trials),
            "seconds": sum(trial["seconds"] or 0.0 for trial in best.trials),
            "table": best.trials,
        }
        about: dict[str, Any] = {"dataset": dataset, "seed": seed}
        untuned = fit_and_test(cls(), split, experiment=f"{experiment}-untuned", **about)
        about |= {"experiment": experiment, "extra": {"tuning": tuning}}
        tuned = fit_and_test(cls(**best.best_config), split, **about)
        pairs.append((untuned.record, tuned.record))
        if root is not None:
            for run in (untuned, tuned):
                _keep(run, Results(root), replace)
    return pairs


def _keep(run: FittedRun, results: Results, replace: bool) -> None:
    """Write a run; `replace` drops the others of its experiment, data set, model and seed."""
    new = run.record
    results.add(new, run.table)
    earlier = results.records(new.dataset, [new.experiment]) if replace else []
    same = [r.key for r in earlier if (r.model, r.seed) == (new.model, new.seed)]
    results.remove(key for key in same if key != new.key)
