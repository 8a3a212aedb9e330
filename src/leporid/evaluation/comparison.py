"""Is one result better than another? `compare` two, `compare_all` of several, `holm` for a family.

`compare_groups` compares results on different users.
Whatever tells which of two results is better does so with a `Comparison` made here, in the four
words of `Comparison.outcome`.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.metric_table import MetricTable
from leporid.evaluation.metrics import linearized

Outcome: TypeAlias = Literal["better", "worse", "equivalent", "inconclusive"]
Values: TypeAlias = NDArray[np.float64]
UserValues: TypeAlias = MetricTable | Values
"""One evaluation: its table, float64[m] values per user, or float64[m, 2] precision and recall."""
UserValuesBySeed: TypeAlias = UserValues | Mapping[int, UserValues]
"""One evaluation, or several of them by their seed."""

EQUIVALENCE_MARGIN = 0.02
"""Two results are equivalent if they differ by less than this share of the second."""
_LEVEL = 0.95
_VERBS = {"better": "beats", "worse": "loses to", "equivalent": "ties with"}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result a minus result b under one metric, on the same users or on two groups of users."""

    metric: str
    name_a: str
    name_b: str
    mean_a: float
    mean_b: float
    difference: float
    """`mean_a - mean_b`."""
    low: float
    high: float
    """95% interval of the difference; without end where nothing can be tested."""
    p_value: float
    """Two-sided. `holm` replaces it by the adjusted one."""
    n_users: int
    n_seeds: tuple[int, int]
    """Runs of a and of b."""

    @property
    def outcome(self) -> Outcome:
        """The result of a as compared with b, in one of four words.

        'better' or 'worse': the p-value is at most 0.05. 'equivalent': it is not, and the whole 95%
        interval lies within 2% of b (two one-sided tests at 2.5% each, not adjusted by `holm`).
        'inconclusive': neither.
        """
        if self.p_value <= 1 - _LEVEL:
            return "better" if self.difference > 0 else "worse"
        margin = EQUIVALENCE_MARGIN * abs(self.mean_b)
        if max(-self.low, self.high) < margin:
            return "equivalent"
        return "inconclusive"

    @property
    def detectable(self) -> float:
        """The smallest difference that this comparison by itself could tell from zero.

        It is half the width of the interval. Within a family (`holm`) differences must be larger.
        """
        return (self.high - self.low) / 2

    @property
    def percent(self) -> float:
        """The difference in percent of b."""
        return 100 * self.difference / self.mean_b if self.mean_b else math.inf

    @property
    def detectable_percent(self) -> float:
        """`detectable` in percent of b."""
        return 100 * self.detectable / self.mean_b if self.mean_b else math.inf

    def interval(self) -> str:
        """Return the 95% interval as text."""
        if math.isinf(self.detectable):
            return "[no interval: too few users]"
        return f"[{self.low:+.4f}, {self.high:+.4f}]"

    def describe(self) -> str:
        """Return one sentence: the outcome, the difference and its interval."""
        numbers = f"{self.difference:+.4f} {self.interval()}"
        if verb := _VERBS.get(self.outcome):
            return f"{self.name_a} {verb} {self.name_b} in {self.metric}: {numbers}"
        return f"{self.name_a} against {self.name_b} in {self.metric} is inconclusive: {numbers}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-able values, the outcome among them; None for an end without limit."""
        known = math.isfinite(self.detectable)
        return {
            **asdict(self),
            "low": self.low if known else None,
            "high": self.high if known else None,
            "detectable": self.detectable if known else None,
            "n_seeds": list(self.n_seeds),
            "outcome": self.outcome,
        }


def compare(
    a: UserValuesBySeed,
    b: UserValuesBySeed,
    metric: str,
    *,
    name_a: str = "a",
    name_b: str = "b",
    stratum: str | None = None,
) -> Comparison:
    """Compare two results on the same users, with a 95% t interval of the difference.

    The variance is that over users (values are paired by user and averaged over seeds) plus, from
    two seeds on, that between seeds: the variance of the runs' means less what their users explain.
    The degrees of freedom are Satterthwaite's. A side with one run adds nothing for seeds, so the
    interval of two single runs is about other users only, and is the paired t-test.

    Parameters
    ----------
    a, b : one run, or a mapping from seed to run
        A run is a `MetricTable`, float64[m] values per user, or float64[m, 2] precision and recall
        per user for F1. Runs are paired by seed where both sides have the same seeds.
    metric : its name, for example 'NDCG@10'
        F1@N is a function of two means: its variance is that of its linearisation per user (delta
        method).
    name_a, name_b : what the two are called
    stratum : compare within a stratum of users or items; tables only
    """
    runs_a = a if isinstance(a, Mapping) else {0: a}
    runs_b = b if isinstance(b, Mapping) else {0: b}
    if not runs_a or not runs_b:
        raise ConfigError("a comparison needs at least one run on each side")
    _check_same_users([*runs_a.values(), *runs_b.values()], name_a, name_b)
    values_a = _stacked(runs_a, metric, stratum)
    values_b = _stacked(runs_b, metric, stratum)
    paired = runs_a.keys() == runs_b.keys()
    return _comparison(
        values_a,
        values_b,
        _t_test(values_a, values_b, paired=paired),
        metric=metric,
        name_a=name_a,
        name_b=name_b,
        n_users=values_a.shape[1],
        n_seeds=(len(values_a), len(values_b)),
    )


def compare_groups(
    a: Values,
    b: Values,
    metric: str,
    *,
    name_a: str = "a",
    name_b: str = "b",
) -> Comparison:
    """Compare the values float64[m] and float64[n] of two groups of users by Welch's t-test.

    With fewer than two users in a group, or where nothing varies, the p-value is 1 and the interval
    has no end.
    """
    test = _UNKNOWN
    if min(len(a), len(b)) > 1 and a.var() + b.var() > 0:
        welch = scipy.stats.ttest_ind(a, b, equal_var=False)
        low, high = welch.confidence_interval(_LEVEL)
        test = _Test(margin=float(high - low) / 2, p_value=float(welch.pvalue))
    return _comparison(
        a,
        b,
        test,
        metric=metric,
        name_a=name_a,
        name_b=name_b,
        n_users=len(a) + len(b),
        n_seeds=(1, 1),
    )


class _Test(NamedTuple):
    """The outcome of a t-test of a difference of means."""

    margin: float
    """Half the width of the 95% interval of the difference."""
    p_value: float


_UNKNOWN = _Test(margin=math.inf, p_value=1.0)
"""Too few users to test anything."""


def _comparison(
    a: Values,
    b: Values,
    test: _Test,
    metric: str,
    name_a: str,
    name_b: str,
    n_users: int,
    n_seeds: tuple[int, int],
) -> Comparison:
    """Return the comparison of values of which the difference of means was tested."""
    difference = float(a.mean() - b.mean())
    return Comparison(
        metric=metric,
        name_a=name_a,
        name_b=name_b,
        mean_a=float(a.mean()),
        mean_b=float(b.mean()),
        difference=difference,
        low=difference - test.margin,
        high=difference + test.margin,
        p_value=test.p_value,
        n_users=n_users,
        n_seeds=n_seeds,
    )


def compare_all(
    sides: Mapping[str, UserValuesBySeed],
    metrics: str | Sequence[str],
    *,
    against: str | None = None,
    stratum: str | None = None,
) -> list[Comparison]:
    """`compare` every pair of named results, or all others `against` one of them, under `metrics`.

    All comparisons are one family: their p-values are adjusted by Holm's method.
    """
    if len(sides) < 2:
        raise ConfigError("a comparison needs at least two results")
    if against is not None and against not in sides:
        raise UnknownNameError("run", against, sides)
    pairs = list(itertools.combinations(sides, 2))
    if against is not None:
        pairs = [(name, against) for name in sides if name != against]
    names = [metrics] if isinstance(metrics, str) else metrics
    return holm(
        compare(
            sides[a],
            sides[b],
            metric,
            name_a=a,
            name_b=b,
            stratum=stratum,
        )
        for metric, (a, b) in itertools.product(names, pairs)
    )


def holm(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return the family with p-values adjusted by Holm's step-down method, in the same order.

    The i-th smallest of c p-values is multiplied by c - i + 1, made non-decreasing in that order,
    and at most 1. Outcomes follow the adjusted p-values; intervals stay those of one comparison.
    """
    family = list(comparisons)
    p = np.array([comparison.p_value for comparison in family])
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return [
        replace(comparison, p_value=min(float(value), 1.0))
        for comparison, value in zip(family, adjusted, strict=True)
    ]


def _t_test(
    a: Values,
    b: Values,
    *,
    paired: bool,
) -> _Test:
    """Test the difference of two results float64[seeds, users] by a t-test over users and seeds."""
    n_users = a.shape[1]
    difference = float(a.mean() - b.mean())
    if n_users < 2:
        return _UNKNOWN
    difference_by_user = a.mean(axis=0) - b.mean(axis=0)
    variance = float(np.var(difference_by_user, ddof=1)) / n_users
    # Satterthwaite's denominator: each variance squared over its degrees of freedom.
    squares = variance**2 / (n_users - 1)
    for runs in [a - b] if paired else [a, b]:
        n_seeds = len(runs)
        if n_seeds == 1:
            continue
        means = runs.mean(axis=1, keepdims=True)
        between = float(np.var(means, ddof=1)) / n_seeds
        residual = runs - means - runs.mean(axis=0) + runs.mean()
        # The means of runs vary by their users too, which the first term has already.
        by_users = float(np.square(residual).sum()) / (
            (n_users - 1) * (n_seeds - 1) * n_users * n_seeds
        )
        variance += max(between - by_users, 0.0)
        squares += between**2 / (n_seeds - 1)
    freedom = variance**2 / squares if squares > 0 else n_users - 1.0
    error = math.sqrt(variance)
    if error <= 1e-12 * abs(difference):  # the same difference for all
        return _Test(margin=0.0, p_value=1.0 if difference == 0 else 0.0)
    quantile = float(scipy.stats.t.ppf((1 + _LEVEL) / 2, freedom))
    tail = float(scipy.stats.t.sf(abs(difference) / error, freedom))
    return _Test(margin=error * quantile, p_value=2 * tail)


def _stacked(
    runs: Mapping[int, UserValues],
    metric: str,
    stratum: str | None,
) -> Values:
    """Return float64[seeds, m]: one value per user and run, whose means are the metric."""
    return np.stack([_values(runs[seed], metric, stratum) for seed in sorted(runs)])


def _values(
    run: UserValues,
    metric: str,
    stratum: str | None,
) -> Values:
    """Return float64[m]: one value per user, whose mean is the metric."""
    if isinstance(run, MetricTable):
        return linearized(run.columns(metric, stratum))
    if stratum is not None:
        raise ConfigError(f"arrays have no strata: compare tables within {stratum!r}")
    return linearized(run if run.ndim == 2 else run[:, None])


def _check_same_users(
    runs: Sequence[UserValues],
    name_a: str,
    name_b: str,
) -> None:
    """Refuse runs that were not evaluated on the same users and items."""
    first = runs[0]
    for run in runs[1:]:
        is_same = len(first) == len(run)
        if isinstance(first, MetricTable) and isinstance(run, MetricTable):
            is_same = first.same_users(run)
        if not is_same:
            raise DataError(
                f"{name_a!r} and {name_b!r} were not evaluated on the same users and items: "
                f"evaluate both on one split"
            )
