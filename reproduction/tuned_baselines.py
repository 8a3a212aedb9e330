"""`python -m reproduction tune-classical`: classical models, tuned alike and tested once.

Each model gets two records: with its default settings (experiment `baselines-untuned`) and with
those that did best on validation (`baselines`), the trials among its facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leporid import models
from leporid.data import Split
from leporid.errors import MissingExtraError
from leporid.models import ModelSpec, Recommender
from leporid.runs import Run, RunRecord, RunSpec, execute, record_of, tune
from reproduction.store import PackedResults

BASELINES = "baselines"
"""The experiment of the tuned models."""


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


def tune_classical(  # noqa: PLR0913 (one branch for each command)
    split: Split,
    dataset: str,
    root: str | Path,
    *,
    names: Sequence[str] | None = None,
    trials: int = 20,
    metric: str = "NDCG@10",
    seed: int = 0,
    storage: str | Path | None = None,
    replace: bool = False,
    progress: bool = False,
) -> list[tuple[RunRecord, ...]]:
    """For each model (default: all classical ones) the run with its default settings and the tuned.

    Without trials the first alone. `replace` drops what the experiments hold of the same model,
    data set and seed.
    """
    results, found = PackedResults(root), []
    about: dict[str, Any] = {"dataset": dataset, "seed": seed}
    for name in names or classical_models():
        cls = models.get(name)
        runs = [fit_and_record(cls(), split, experiment=f"{BASELINES}-untuned", **about)]
        if trials:
            best = tune(cls, split, trials, metric, seed=seed, storage=storage, progress=progress)
            tuning = {
                "metric": metric,
                "best_value": best.best_value,
                "trials": len(best.trials),
                "seconds": sum(trial["seconds"] or 0.0 for trial in best.trials),
                "table": best.trials,
            }
            how = {"experiment": BASELINES, "extra": {"tuning": tuning}, **about}
            # The defaults take part: tuning never ends below them on validation.
            beaten = best.best_value > runs[0].validation.get(metric, 0.0)
            tuned = cls(**best.best_config) if beaten else cls()
            runs.append(fit_and_record(tuned, split, **how))
        records = [record_of(run) for run in runs]
        for record, run in zip(records, runs, strict=True):
            results.add(record, run.test)
            earlier = results.records(dataset, [record.experiment]) if replace else []
            same = [r.key for r in earlier if (r.model, r.seed) == (record.model, seed)]
            results.remove(key for key in same if key != record.key)
        found.append(tuple(records))
    return found


def fit_and_record(
    model: Recommender, split: Split, *, dataset: str, experiment: str, seed: int, extra: Any = None
) -> Run:
    """A classical model, fitted and tested once."""
    spec = RunSpec(
        ModelSpec(type(model), model.requested, seed=seed),
        dataset=dataset,
        experiment=experiment,
        extra=extra or {},
    )
    return execute(spec, split)
