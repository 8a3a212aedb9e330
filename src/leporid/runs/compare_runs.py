"""Runs side by side: metrics, intervals, and whether one really differs from another.

Works on run folders (`leporid train -o RUN`) and on record files of experiments alike: both keep
the hits of every user beside the record.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.bootstrap import bootstrap_means, percentile_interval
from leporid.evaluation.significance import holm
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.record import RunRecord

__all__ = ["Run", "compare_runs", "paired_tests", "read_run"]


@dataclass(frozen=True)
class Run:
    """A record and, where it was kept, what each user got."""

    name: str
    record: RunRecord
    outcomes: UserOutcomes | None


def read_run(path: str | Path) -> Run:
    """A run folder, or the JSON file of a record."""
    path = Path(path)
    file = path / "record.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{path} is no run: there is no {file}")
    record = RunRecord.read(file)
    sidecar = file.with_suffix(".users.parquet")
    return Run(str(path), record, UserOutcomes.read(sidecar) if sidecar.is_file() else None)


def compare_runs(
    runs: Sequence[Run], metrics: Sequence[str], *, resamples: int = 1000, seed: int = 0
) -> list[dict[str, Any]]:
    """One row a run: `{"run", "model", "init", "seed", metric: {"mean", "low", "high", "tail"}}`.

    The interval is a bootstrap over users; it and `tail` are None where the run kept none.
    """
    rows = []
    for run in runs:
        record = run.record
        row: dict[str, Any] = {
            "run": run.name,
            "model": record.model,
            "init": record.init,
            "seed": record.seed,
        }
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
    from scipy.stats import wilcoxon

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
    for metric, (first, second) in itertools.product(metrics, pairs):
        a, b = _columns(first, metric), _columns(second, metric)
        drawn = bootstrap_means(np.column_stack([a, b]), resamples, seed)
        width = a.shape[1]
        gaps = _mean_of(drawn[:, :width]) - _mean_of(drawn[:, width:])
        low, high = percentile_interval(gaps, 0.95)
        per_user = _per_user(first, metric) - _per_user(second, metric)
        rows.append(
            {
                "metric": metric,
                "first": first.name,
                "second": second.name,
                "difference": first.record.metrics[metric] - second.record.metrics[metric],
                "low": low,
                "high": high,
                "p": float(wilcoxon(per_user).pvalue) if per_user.any() else 1.0,
            }
        )
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = float(corrected)
    return rows


def _interval(
    run: Run, metric: str, resamples: int, seed: int
) -> tuple[float, float] | tuple[None, None]:
    if run.outcomes is None or metric.partition("@")[0] not in ("HR", "F1"):
        low, high = run.record.extra.get("confidence_95", {}).get(metric, (None, None))
        return low, high
    drawn = bootstrap_means(_columns(run, metric), resamples, seed)
    return percentile_interval(_mean_of(drawn), 0.95)


def _columns(run: Run, metric: str) -> NDArray[np.float64]:
    """float64[m, c]: hits of every user, or for F1 precision and recall."""
    family, n = _parse(metric)
    outcomes = _known(run)
    if family == "HR":
        return outcomes.hit_rate(n)[:, None]
    hits = outcomes.f1(n) * (n + outcomes.relevant) / 2
    return np.column_stack([hits / n, hits / outcomes.relevant])


def _mean_of(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[r, c] -> float64[r]: the mean, or the harmonic mean of precision and recall."""
    if drawn.shape[1] == 1:
        return drawn[:, 0]
    total = drawn.sum(axis=1)
    product = 2 * drawn.prod(axis=1)
    return np.asarray(np.divide(product, total, out=np.zeros_like(total), where=total > 0))


def _per_user(run: Run, metric: str) -> NDArray[np.float64]:
    family, n = _parse(metric)
    outcomes = _known(run)
    return outcomes.hit_rate(n) if family == "HR" else outcomes.f1(n)


def _parse(metric: str) -> tuple[str, int]:
    family, _, n = metric.partition("@")
    if family not in ("HR", "F1") or not n.isdecimal():
        raise ConfigError(f"runs can be tested by HR@N and F1@N, not by {metric!r}")
    return family, int(n)


def _known(run: Run) -> UserOutcomes:
    if run.outcomes is None:
        raise DataError(
            f"{run.name} keeps no outcomes of users (record.users.parquet), so it cannot be "
            f"tested against another run: train it again, or evaluate it with --export"
        )
    return run.outcomes


def _check_paired(runs: Sequence[Run]) -> None:
    first, *others = runs
    for run in others:
        a, b = _known(first), _known(run)
        same = np.array_equal(a.user, b.user) and np.array_equal(a.relevant, b.relevant)
        digests = {r.record.extra.get("data_digest") for r in (first, run)} - {None}
        if not same or len(digests) > 1:
            raise DataError(
                f"{first.name} and {run.name} were not tested on the same users and items: "
                f"train both on one file with the same --core"
            )
