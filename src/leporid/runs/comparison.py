"""Runs side by side: metrics, intervals, and whether one really differs from another.

Works on run folders (`leporid train -o RUN`) and on records of experiments alike: both keep the
hits of every user.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.bootstrap import bootstrap_means, percentile_interval
from leporid.evaluation.metric_table import combine
from leporid.evaluation.significance import correct, paired_interval, paired_test
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.run_folder import Run

__all__ = ["compare_runs", "paired_tests"]


def compare_runs(
    runs: Sequence[Run], metrics: Sequence[str], *, resamples: int = 1000, seed: int = 0
) -> list[dict[str, Any]]:
    """One row per run: `{"run", "model", "init", "seed", metric: {"mean", "low", "high", "tail"}}`.

    The interval is a bootstrap over users; it and `tail` are None where the run kept none.
    """
    rows = []
    for run in runs:
        record = run.record
        row: dict[str, Any] = {"run": run.name}
        row |= {key: getattr(record, key) for key in ("model", "init", "seed")}
        for metric in metrics:
            if metric not in record.metrics:
                raise UnknownNameError(f"metric of {run.name}:", metric, record.metrics)
            low, high = _interval(run, metric, resamples, seed)
            tail = record.tail_metrics.get(metric)
            row[metric] = {"mean": record.metrics[metric], "low": low, "high": high, "tail": tail}
        rows.append(row)
    return rows


def paired_tests(
    runs: Sequence[Run],
    metrics: Sequence[str],
    *,
    against: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Every pair of runs (or each `against` one), user by user.

    A row holds the difference of the means with its 95% bootstrap interval, and the two-sided
    Wilcoxon signed-rank p, Holm-corrected over all rows. F1 is tested by its values per user.
    """
    names = [run.name for run in runs]
    if against is not None and against not in names:
        raise UnknownNameError("run", against, names)
    if len(set(names)) < len(names):
        raise ConfigError("the same run was given twice: nothing to compare")
    _check_paired(runs)
    pairs = list(itertools.combinations(runs, 2))
    if against is not None:
        base = runs[names.index(against)]
        pairs = [(run, base) for run in runs if run is not base]
    rows: list[dict[str, Any]] = []
    tests = []
    for metric, (first, second) in itertools.product(metrics, pairs):
        a, b = _outcomes(first), _outcomes(second)
        low, high = paired_interval(
            a.ingredients(metric), b.ingredients(metric), resamples=resamples, seed=seed
        )
        difference = first.record.metrics[metric] - second.record.metrics[metric]
        row = {"metric": metric, "first": first.name, "second": second.name}
        rows.append({**row, "difference": difference, "low": low, "high": high})
        tests.append(paired_test(a.per_user(metric), b.per_user(metric)))
    return [
        {**row, "p": test.wilcoxon_p, "p_holm": test.wilcoxon_holm}
        for row, test in zip(rows, correct(tests), strict=True)
    ]


def _interval(
    run: Run, metric: str, resamples: int, seed: int
) -> tuple[float, float] | tuple[None, None]:
    if run.outcomes is None or metric.partition("@")[0] not in ("HR", "F1"):
        low, high = run.record.extra.get("confidence_95", {}).get(metric, (None, None))
        return low, high
    drawn = bootstrap_means(run.outcomes.ingredients(metric), resamples, seed)
    return percentile_interval(combine(drawn.T), 0.95)


def _outcomes(run: Run) -> UserOutcomes:
    if run.outcomes is None:
        raise DataError(
            f"{run.name} keeps no outcomes of users (record.users.parquet), so it cannot be "
            f"tested against another run: train it again, or evaluate it with --export"
        )
    return run.outcomes


def _check_paired(runs: Sequence[Run]) -> None:
    first, *others = runs
    for run in others:
        a, b = _outcomes(first), _outcomes(run)
        same = np.array_equal(a.user, b.user) and np.array_equal(a.relevant, b.relevant)
        digests = {r.record.extra.get("data_digest") for r in (first, run)} - {None}
        if not same or len(digests) > 1:
            raise DataError(
                f"{first.name} and {run.name} were not tested on the same users and items: "
                f"train both on one file with the same --core"
            )
