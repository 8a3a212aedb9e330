"""Runs side by side: metrics, intervals, and whether one really differs from another.

Works on run folders (`leporid train -o RUN`) and on records of experiments alike: both keep the
hits of every user. `initialisation_gains` compares two starts of each model over several seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import (
    bootstrap_means,
    combine,
    correct,
    paired_interval,
    paired_test,
    percentile_interval,
)
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.record import RunRecord
from leporid.runs.run_folder import Run
from leporid.runs.store import Results

_RESAMPLES = 2000
"""Of the users, for the interval of a gain."""


def compare_runs(
    runs: Sequence[Run], metrics: Sequence[str], *, resamples: int = 1000, seed: int = 0
) -> list[dict[str, Any]]:
    """One row per run: `{"run", "model", "init", "seed", "seen", metric: {"mean", "low", ...}}`.

    A metric has its `mean`, an interval from `low` to `high`, and the mean of tail users (`tail`).
    The interval is a bootstrap over users; it and `tail` are None where the run kept none.
    """
    rows = []
    for run in runs:
        record = run.record
        row: dict[str, Any] = {"run": run.name}
        row |= {key: getattr(record, key) for key in ("model", "init", "seed", "seen")}
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
    outcomes = _paired_outcomes(runs)
    pairs = list(itertools.combinations(runs, 2))
    if against is not None:
        base = runs[names.index(against)]
        pairs = [(run, base) for run in runs if run is not base]
    rows: list[dict[str, Any]] = []
    tests = []
    for metric, (first, second) in itertools.product(metrics, pairs):
        a, b = outcomes[first.name], outcomes[second.name]
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


@dataclass(frozen=True)
class Gain:
    """HR@10 of one group of runs against another's, on the same users."""

    first: NDArray[np.float64]
    """float64[seeds]: its mean over users."""
    second: NDArray[np.float64]
    low: float
    """The 95% interval of the difference begins here."""
    high: float

    @property
    def difference(self) -> float:
        """Of the two means over seeds."""
        return float(self.first.mean() - self.second.mean())

    @property
    def percent(self) -> float:
        """The difference in percent of the second."""
        base = float(self.second.mean())
        return 100 * self.difference / base if base else math.inf

    @property
    def reading(self) -> str:
        """`above`, `below`, or `level` where the interval holds zero."""
        return "above" if self.low > 0 else "below" if self.high < 0 else "level"


def paired_gains(
    pairs: Sequence[tuple[Sequence[RunRecord], Sequence[RunRecord]]], root: str | Path
) -> list[Gain | None]:
    """How far the first runs of each pair are above the second; None where outcomes are missing.

    A user's value is the mean over the seeds. The 95% interval speaks of other users (a percentile
    bootstrap of the paired difference) and of other seeds (1.96 standard errors of the two means
    over seeds): both half-widths are added in squares.
    """
    rates = [[_hit_rates(side, root) for side in pair] for pair in pairs]
    gaps = {
        place: a.mean(axis=0) - b.mean(axis=0)
        for place, (a, b) in enumerate(rates)
        if a.size and b.size
    }
    gains: list[Gain | None] = [None] * len(pairs)
    # Pairs about as many users share their draws, which are most of the work.
    for users in {len(gap) for gap in gaps.values()}:
        places = [place for place, gap in gaps.items() if len(gap) == users]
        drawn = bootstrap_means(np.column_stack([gaps[i] for i in places]), _RESAMPLES, seed=0)
        for place, means in zip(places, drawn.T, strict=True):
            first, second = (rate.mean(axis=1) for rate in rates[place])
            gain = float(first.mean() - second.mean())
            low, high = percentile_interval(means, 0.95)
            seeds = 1.96 * math.hypot(_seed_error(first), _seed_error(second))
            low, high = gain - math.hypot(gain - low, seeds), gain + math.hypot(high - gain, seeds)
            gains[place] = Gain(first, second, low, high)
    return gains


def initialisation_gains(records: Sequence[RunRecord], root: str | Path) -> list[dict[str, Any]]:
    """One row per model and recipe run from LEPORID and random vectors: HR@10, and the difference.

    The interval is that of `paired_gains`. The last columns are what the model has seen of its
    users when it was tested, and the HR@10 of tail users.
    """
    init, base = "leporid", "random"
    groups: dict[tuple[str, str | None], dict[str, list[RunRecord]]] = {}
    for record in records:
        if record.init in (init, base) and not record.variant:
            key = (record.model, record.recipe)
            groups.setdefault(key, {}).setdefault(record.init, []).append(record)
    pairs = [(runs.get(init, ()), runs.get(base, ())) for runs in groups.values()]
    gains = paired_gains(pairs, root)
    rows = []
    for ((model, recipe), runs), gain in zip(groups.items(), gains, strict=True):
        if gain is None:
            continue
        row: dict[str, Any] = {"model": model, "recipe": recipe or "-"}
        for name, by_seed in ((init, gain.first), (base, gain.second)):
            row[f"{name} HR@10"] = float(by_seed.mean())
            row[f"{name} seeds"] = f"{by_seed.min():.4f} to {by_seed.max():.4f}"
        row |= {"gain": gain.difference, "low": gain.low, "high": gain.high}
        row["has seen"] = have_seen([*runs[init], *runs[base]])
        for name in (init, base):
            tails = [record.tail_metrics.get("HR@10", np.nan) for record in runs[name]]
            row[f"{name} tail"] = float(np.mean(tails))
        rows.append(row)
    return rows


def _seed_error(by_seed: NDArray[np.float64]) -> float:
    """The standard error of a mean over seeds; one seed does not say."""
    return float(by_seed.std(ddof=1) / math.sqrt(len(by_seed))) if len(by_seed) > 1 else 0.0


def have_seen(records: Sequence[RunRecord]) -> str:
    """What the runs of one row of a table have seen of their users; "-" for a row without runs."""
    return " / ".join(sorted({record.seen for record in records})) or "-"


def _interval(
    run: Run, metric: str, resamples: int, seed: int
) -> tuple[float, float] | tuple[None, None]:
    if run.outcomes is None or metric.partition("@")[0] not in ("HR", "F1"):
        low, high = run.record.extra.get("confidence_95", {}).get(metric, (None, None))
        return low, high
    drawn = bootstrap_means(run.outcomes.ingredients(metric), resamples, seed)
    return percentile_interval(combine(drawn.T), 0.95)


def _paired_outcomes(runs: Sequence[Run]) -> dict[str, UserOutcomes]:
    """The outcomes of each run by its name, if all were tested on the same users and items."""
    outcomes: dict[str, UserOutcomes] = {}
    for run in runs:
        if run.outcomes is None:
            raise DataError(
                f"{run.name} keeps no outcomes of users (record.users.parquet), so it cannot be "
                f"tested against another run: train it again, or evaluate it with --export"
            )
        outcomes[run.name] = own = run.outcomes
        first = outcomes[runs[0].name]
        same = np.array_equal(own.user, first.user) and np.array_equal(own.relevant, first.relevant)
        digests = {r.record.extra.get("data_digest") for r in (runs[0], run)} - {None}
        if not same or len(digests) > 1:
            raise DataError(
                f"{runs[0].name} and {run.name} were not tested on the same users and items: "
                f"train both on one file with the same --core"
            )
    return outcomes


def _hit_rates(records: Sequence[RunRecord], root: str | Path) -> NDArray[np.float64]:
    """float64[seeds, users]: HR@10; empty where a run kept no outcomes of users."""
    kept = [Results(root).outcomes(record.key) for record in records]
    rates = [outcomes.hit_rate(10) for outcomes in kept if outcomes is not None]
    return np.stack(rates) if rates and len(rates) == len(records) else np.empty((0, 0))
