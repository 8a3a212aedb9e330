"""Is one run better than another on the same users, or was it luck? Paired tests.

Per comparison and metric: the paired t-test and the Wilcoxon signed-rank test (zero differences
dropped) on the users' values, both two-sided, and a paired bootstrap interval of the difference
of the means. Holm's correction runs over all comparisons and metrics of one call, for each test
by itself. F1@N has no value per user: its difference and interval are of F1@N itself (two means
resampled together), its two p-values are those of UserF1@N.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.bootstrap import bootstrap_means, percentile_interval
from leporid.evaluation.metric_table import MetricTable, combine

__all__ = ["Comparison", "Significance", "compare", "holm"]


@dataclass(frozen=True)
class Comparison:
    """One pair of runs under one metric."""

    metric: str
    first: str
    second: str
    first_mean: float
    second_mean: float
    difference: float
    """first - second."""
    low: float
    high: float
    """Bootstrap interval of the difference."""
    t_p: float
    wilcoxon_p: float
    t_holm: float
    wilcoxon_holm: float
    """p-values corrected over all comparisons of the call."""


@dataclass(frozen=True)
class Significance:
    """All comparisons of one call, in the order of the metrics and the runs."""

    comparisons: tuple[Comparison, ...]
    level: float

    def __len__(self) -> int:
        return len(self.comparisons)

    def of(self, metric: str, first: str, second: str) -> Comparison:
        """The comparison of two runs under a metric, in the order they were compared."""
        for found in self.comparisons:
            if (found.metric, found.first, found.second) == (metric, first, second):
                return found
        known = [f"{c.metric}: {c.first} - {c.second}" for c in self.comparisons]
        raise UnknownNameError("comparison", f"{metric}: {first} - {second}", known)

    def rows(self) -> list[dict[str, Any]]:
        """Plain values, for tables and JSON."""
        return [
            {field.name: getattr(c, field.name) for field in fields(c)} for c in self.comparisons
        ]


def compare(
    tables: Mapping[str, MetricTable],
    metrics: str | Sequence[str],
    *,
    against: str | None = None,
    stratum: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Significance:
    """Compare runs pairwise, or all `against` one of them, on the same users.

    `tables` maps a run's name to its table. Tables over different users, parts of the split or
    numbers of test items are refused: such values are not paired.
    """
    if len(tables) < 2:
        raise ConfigError("a comparison needs at least two tables")
    if against is not None and against not in tables:
        raise UnknownNameError("run", against, tables)
    _check_paired(tables)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    pairs = list(itertools.combinations(tables, 2))
    if against is not None:
        pairs = [(name, against) for name in tables if name != against]
    drafts: list[dict[str, Any]] = []
    for metric in names:
        for first, second in pairs:
            draft = _compare_one(
                tables[first], tables[second], metric, stratum, level, resamples, seed
            )
            drafts.append({"metric": metric, "first": first, "second": second, **draft})
    t_holm = holm([d["t_p"] for d in drafts])
    wilcoxon_holm = holm([d["wilcoxon_p"] for d in drafts])
    return Significance(
        tuple(
            Comparison(**draft, t_holm=float(t), wilcoxon_holm=float(w))
            for draft, t, w in zip(drafts, t_holm, wilcoxon_holm, strict=True)
        ),
        level,
    )


def holm(p_values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Holm's step-down correction: the i-th smallest of c p-values times (c - i + 1),

    made non-decreasing in that order, at most 1. float64[c], in the order given.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty_like(p)
    out[order] = np.minimum(stepped, 1.0)
    return out


def _compare_one(
    first: MetricTable,
    second: MetricTable,
    metric: str,
    stratum: str | None,
    level: float,
    resamples: int,
    seed: int,
) -> dict[str, float]:
    family, _, n = metric.partition("@")
    parts = [f"Precision@{n}", f"Recall@{n}"] if family == "F1" else [metric]
    columns = np.column_stack([t.per_user(p, stratum) for t in (first, second) for p in parts])
    width = len(parts)
    means = columns.mean(axis=0)
    drawn = bootstrap_means(columns, resamples, seed).T
    difference = combine(drawn[:width]) - combine(drawn[width:])
    low, high = percentile_interval(difference, level)
    tested = f"UserF1@{n}" if family == "F1" else metric
    paired = first.per_user(tested, stratum) - second.per_user(tested, stratum)
    before, after = float(combine(means[:width])), float(combine(means[width:]))
    return {
        "first_mean": before,
        "second_mean": after,
        "difference": before - after,
        "low": low,
        "high": high,
        "t_p": _t_test(paired),
        "wilcoxon_p": _wilcoxon(paired),
    }


def _t_test(differences: NDArray[np.float64]) -> float:
    """Two-sided p; differences that are all equal leave no variance to test against."""
    if np.ptp(differences) == 0:
        return 1.0 if differences[0] == 0 or len(differences) < 2 else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: NDArray[np.float64]) -> float:
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="wilcox").pvalue)


def _check_paired(tables: Mapping[str, MetricTable]) -> None:
    (first_name, first), *others = tables.items()
    for name, table in others:
        same = (
            table.part == first.part
            and table.users == first.users
            and np.array_equal(table.user, first.user)
            and np.array_equal(table.relevant, first.relevant)
        )
        if not same:
            raise DataError(
                f"{first_name!r} and {name!r} were not evaluated on the same users and items to "
                f"find: evaluate both on one split"
            )
