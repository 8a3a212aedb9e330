"""Is one run better than another on the same users, or was it luck? Paired tests.

The one implementation: on arrays with one value per user (`paired_test`, `one_against_many`), and
on whole tables (`compare`). Both tests, the paired t-test and the Wilcoxon signed-rank test (zero
differences dropped), are two-sided; Holm's correction covers all tests of one call, each kind by
itself. F1@N has no value per user: its difference and interval are of F1@N itself (two means
resampled together), its p-values are those of UserF1@N.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.bootstrap import bootstrap_means, percentile_interval
from leporid.evaluation.metric_table import MetricTable, combine, ingredients

Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class PairedTest:
    """Two-sided p-values of the differences first - second, user by user."""

    difference: float
    """first - second, in the mean."""
    t_p: float
    wilcoxon_p: float
    t_holm: float
    wilcoxon_holm: float
    """p-values corrected over the family of tests; equal to the others for a test by itself."""


Test = TypeVar("Test", bound=PairedTest)


@dataclass(frozen=True, kw_only=True)
class Comparison(PairedTest):
    """One pair of runs under one metric, corrected over all comparisons of the call."""

    metric: str
    first: str
    second: str
    first_mean: float
    second_mean: float
    low: float
    high: float
    """Bootstrap interval of the difference."""


@dataclass(frozen=True)
class Significance:
    """All comparisons of one call, in the order of the metrics and the runs."""

    comparisons: tuple[Comparison, ...]
    level: float

    def __len__(self) -> int:
        return len(self.comparisons)

    def of(self, metric: str, first: str, second: str) -> Comparison:
        """The comparison of two runs under a metric, in the order they were compared."""
        for comparison in self.comparisons:
            if (comparison.metric, comparison.first, comparison.second) == (metric, first, second):
                return comparison
        known = [f"{c.metric}: {c.first} - {c.second}" for c in self.comparisons]
        raise UnknownNameError("comparison", f"{metric}: {first} - {second}", known)

    def rows(self) -> list[dict[str, Any]]:
        """Plain values, for tables and JSON."""
        return [asdict(comparison) for comparison in self.comparisons]


def holm(p_values: Sequence[float] | NDArray[Any]) -> Values:
    """Holm's step-down correction: the i-th smallest of c p-values times (c - i + 1),

    made non-decreasing in that order, at most 1. float64[c], in the order of `p_values`.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def paired_test(first: Values, second: Values) -> PairedTest:
    """Test two runs by float64[m] values of the same m users, in the same order.

    Differences that are all equal leave no variance to test against.
    """
    gap = first - second
    t_p = 1.0 if len(gap) < 2 or not gap.any() else 0.0
    if np.ptp(gap):
        t_p = float(scipy.stats.ttest_1samp(gap, 0.0).pvalue)
    wilcoxon_p = float(scipy.stats.wilcoxon(gap, zero_method="wilcox").pvalue) if gap.any() else 1.0
    return PairedTest(float(gap.mean()), t_p, wilcoxon_p, t_p, wilcoxon_p)


def correct(tests: Sequence[Test]) -> list[Test]:
    """The same tests as one family: p-values corrected by Holm's method over all of them."""
    t_holm = holm([test.t_p for test in tests])
    wilcoxon_holm = holm([test.wilcoxon_p for test in tests])
    return [
        replace(test, t_holm=float(t), wilcoxon_holm=float(w))
        for test, t, w in zip(tests, t_holm, wilcoxon_holm, strict=True)
    ]


def one_against_many(one: Values, others: Sequence[Values]) -> list[PairedTest]:
    """`paired_test` of one run, float64[m], against each of the others, corrected together."""
    return correct([paired_test(one, other) for other in others])


def paired_interval(
    first: Values, second: Values, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval (low, high) of the difference first - second, resampling users.

    Each run is float64[m, c]: one column for a metric that is a mean over users; for F1@N two,
    precision and recall per user, of whose resampled means F1 is computed.
    """
    width = first.shape[1]
    drawn = bootstrap_means(np.column_stack([first, second]), resamples, seed).T
    return percentile_interval(combine(drawn[:width]) - combine(drawn[width:]), level)


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
    pairs = list(itertools.combinations(tables, 2))
    if against is not None:
        pairs = [(name, against) for name in tables if name != against]
    comparisons = []
    wanted = [metrics] if isinstance(metrics, str) else metrics
    for metric, (first, second) in itertools.product(wanted, pairs):
        both = tables[first], tables[second]
        columns = [
            np.column_stack([table.per_user(part, stratum) for part in ingredients(metric)])
            for table in both
        ]
        a, b = (float(combine(half)) for half in np.split(np.hstack(columns).mean(axis=0), 2))
        low, high = paired_interval(*columns, level=level, resamples=resamples, seed=seed)
        tested = f"User{metric}" if metric.startswith("F1@") else metric
        test = asdict(paired_test(*(table.per_user(tested, stratum) for table in both)))
        names = {"metric": metric, "first": first, "second": second}
        numbers = {"first_mean": a, "second_mean": b, "difference": a - b, "low": low, "high": high}
        comparisons.append(Comparison(**{**test, **names, **numbers}))
    return Significance(tuple(correct(comparisons)), level)


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
                f"{first_name!r} and {name!r} were not evaluated on the same users and items: "
                f"evaluate both on one split"
            )
